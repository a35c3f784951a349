"""Pictures: turned upright, scaled to what models take, without what cameras write beside them.

PNG, JPEG, WebP, GIF, BMP, TIFF and AVIF by Pillow, HEIC by libheif. What models are sent is a JPEG, or a PNG where
that is as small: then letters stay sharp.
"""

import io
from typing import Final

from PIL import Image, ImageOps, UnidentifiedImageError

from app.core.attachments import AttachmentKind, Extraction
from app.extraction.problems import damage_problem, excess_problem

LONGEST_EDGE: Final = 1568
"""In pixels. What is larger is scaled down by models themselves, and estimates of tokens count with it too."""
_THUMBNAIL_EDGE = 320
_MOST_PIXELS = 120_000_000
"""Of a picture as it comes: 360 MB when decoded. Cameras have up to 100 megapixels."""
_PHOTOGRAPHS = frozenset({"JPEG", "MPO", "HEIF"})
"""Have lost what a PNG would keep."""
_LARGEST_PNG, _SMALL_PNG = 1 << 20, 1 << 15
"""Bytes: screenshots and drawings have fewer, photographs more."""
_QUALITY = 90
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")


def read_picture(content: bytes) -> Extraction:
    """Return a picture as models are sent it, and a small one. Raises UnreadableFile."""
    formats: tuple[str, ...] = _FORMATS
    if content[4:8] == b"ftyp":
        import pi_heif  # noqa: PLC0415 -- few pictures need it

        pi_heif.register_heif_opener()
        formats = (*_FORMATS, "HEIF")
    Image.MAX_IMAGE_PIXELS = None  # the limit is ours, below
    try:
        with Image.open(io.BytesIO(content), formats=formats) as picture:
            media_type = Image.MIME.get(picture.format or "", "image/png")
            if picture.width * picture.height > _MOST_PIXELS:
                raise excess_problem()
            is_photograph = picture.format in _PHOTOGRAPHS
            upright = _upright(picture)
    except MemoryError:
        raise
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError, IndexError, RuntimeError) as error:
        raise damage_problem("picture") from error
    encoded_picture, (width, height) = (
        encode_picture(upright, most_png=0 if is_photograph else _LARGEST_PNG),
        upright.size,
    )
    return Extraction(
        kind=AttachmentKind.PICTURE,
        media_type=media_type,
        picture=encoded_picture,
        thumbnail=make_thumbnail(upright),
        width=width,
        height=height,
    )


def _upright(picture: Image.Image) -> Image.Image:
    picture.draft("RGB", (LONGEST_EDGE, LONGEST_EDGE))  # a JPEG is decoded at a fraction of its size, no smaller
    picture.load()
    picture.thumbnail((LONGEST_EDGE, LONGEST_EDGE), Image.Resampling.LANCZOS)
    upright = ImageOps.exif_transpose(picture)
    has_holes = upright.has_transparency_data
    return upright.convert("RGBA" if has_holes else "RGB")


def make_thumbnail(picture: Image.Image) -> bytes:
    """Shrink a picture and return it encoded."""
    picture.thumbnail((_THUMBNAIL_EDGE, _THUMBNAIL_EDGE))
    return encode_picture(picture, most_png=_SMALL_PNG)


def encode_picture(picture: Image.Image, *, most_png: int = _LARGEST_PNG) -> bytes:
    """Return the picture as a PNG if some of it is transparent or it then has so many bytes at most, else as JPEG."""
    stream = io.BytesIO()
    if picture.mode == "RGBA" or most_png:
        picture.save(stream, "PNG")
        if picture.mode == "RGBA" or len(stream.getvalue()) <= most_png:
            return stream.getvalue()
        stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=_QUALITY)
    return stream.getvalue()
