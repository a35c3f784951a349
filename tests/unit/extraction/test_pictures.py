import base64
import io

import pytest
from PIL import Image

from app.core.attachments import AttachmentKind, Extraction, ExtractionProblem, FileProblem
from app.extraction.program import extract
from tests.file_corpus import png_of

ORIENTATION = 0x0112


def encode(picture: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def see(content: bytes, name: str = "a") -> tuple[Extraction, Image.Image]:
    extraction = extract(name, content)
    assert isinstance(extraction, Extraction), extraction
    assert extraction.kind is AttachmentKind.PICTURE
    picture = Image.open(io.BytesIO(extraction.picture))
    assert picture.size == (extraction.width, extraction.height)
    assert picture.format in {"PNG", "JPEG"}
    return extraction, picture


HEIC = base64.b64decode(
    "AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAX1tZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAAACJpbG9j"
    "AAAAAERAAAEAAQAAAAABoQABAAAAAAAAAGoAAAAjaWluZgAAAAAAAQAAABVpbmZlAgAAAAABAABodmMxAAAAAA5waXRtAAAAAAABAAAA/Wlw"
    "cnAAAADdaXBjbwAAAHZodmNDAQNwAAAAkAAAAAAAHvAA/P34+AAADwNgAAEAGEABDAH//wNwAAADAJAAAAMAAAMAHroCQGEAAQAqQgEBA3AA"
    "AAMAkAAAAwAAAwAeoCCBBZbq5Ka5uAhoMCAAAAMDIAAAAwAhYgABAAZEAcFzwIkAAAATY29scm5jbHgAAQANAAaAAAAAFGlzcGUAAAAAAAAA"
    "QAAAAEAAAAAoY2xhcAAAAEAAAAABAAAAIAAAAAEAAAAAAAAAAv///+AAAAACAAAAEHBpeGkAAAAAAwgICAAAABhpcG1hAAAAAAAAAAEAAQWB"
    "AgMFhAAAAHJtZGF0AAAAZigBrxOA+BDhp//8TSj/+nXPD9PMiYn/+tNSR/hUO//WicPySkWzrHl9nv8H4h1KpEq3xpK+HfM2sf+d4tvFAhne"
    "Iy6JZXLEP+zlxMa+qdw77mN6fapRbf83mqG4xuGn3Gx6O58SuA=="
)
"""Red beside blue, 64 x 32, by libheif with x265: what reads here cannot write."""

HALVES = Image.new("RGB", (64, 32), "blue")
HALVES.paste("red", (0, 0, 32, 32))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"])
def test_pictures_of_all_kinds_are_seen(kind: str) -> None:
    extraction, picture = see(encode(HALVES, kind))
    red, _, blue = picture.convert("RGB").getpixel((5, 5)) or (0, 0, 0)  # type: ignore[misc]  # three channels
    assert red > 200
    assert blue < 60
    assert extraction.media_type.startswith("image/")


def test_a_camera_held_sideways_is_turned_and_what_it_wrote_is_gone() -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    exif[0x010F] = "Secret Maker"
    extraction, picture = see(encode(HALVES, "JPEG", exif=exif, quality=95))
    assert picture.size == (32, 64)
    red, _, blue = picture.getpixel((16, 5)) or (0, 0, 0)  # type: ignore[misc]  # three channels
    assert red > blue
    assert b"Secret" not in extraction.picture + extraction.thumbnail


def test_transparency_stays() -> None:
    _, picture = see(encode(Image.new("RGBA", (9, 9), (255, 0, 0, 0)), "PNG"))
    assert picture.mode == "RGBA"


@pytest.mark.parametrize("size", [(4000, 10), (10, 4000), (1568, 1568), (1, 1)])
def test_a_picture_is_no_larger_than_models_take(size: tuple[int, int]) -> None:
    extraction, picture = see(encode(Image.new("RGB", size), "PNG"))
    assert max(picture.size) == min(1568, max(size))
    with Image.open(io.BytesIO(extraction.thumbnail)) as thumbnail:
        assert max(thumbnail.size) <= 320


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded() -> None:
    problem = extract("a.png", png_of(20_000, 20_000))
    assert isinstance(problem, ExtractionProblem)
    assert problem.code == FileProblem.EXCESSIVE


def test_a_picture_of_a_phone_is_read() -> None:
    extraction, picture = see(HEIC, "IMG_0001.HEIC")
    assert picture.size == (64, 32)
    assert extraction.media_type in {"image/heic", "image/heif"}
    left, right = (picture.convert("RGB").getpixel(place) for place in ((8, 16), (56, 16)))
    assert isinstance(left, tuple)
    assert isinstance(right, tuple)
    assert left[0] > 150 > left[2]
    assert right[2] > 150 > right[0]
    problem = extract("cut.heic", HEIC[:300])
    assert isinstance(problem, ExtractionProblem)
    assert problem.code == FileProblem.BROKEN
