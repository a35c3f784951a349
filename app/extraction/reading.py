"""What kind of file it is, by how it begins; its name decides between kinds of text only. Then who reads it."""

import mimetypes
from pathlib import PurePath

from app.core.attachments import AttachmentKind, Extraction
from app.extraction.plain_text import decode_text, read_notebook, read_page, read_rich_text, unknown_problem
from app.extraction.problems import UnreadableFile, password_problem
from app.extraction.sounds import is_sound, read_sound

_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*")
_PICTURE_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1", b"avif", b"avis"})
_FILM_MARKS = (b"\x1a\x45\xdf\xa3", b"FLV", b"\0\0\x01\xba", b"\0\0\x01\xb3")
_COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""Of Microsoft's compound files: Office before 2007, and documents with a password since."""
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
_PDF_WITHIN = 1024
"""Bytes before which a PDF must have begun."""
_ARCHIVES = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"7z\xbc\xaf\x27\x1c", b"Rar!", b"\x28\xb5\x2f\xfd", b"ustar")
_TEXT_TYPES = {
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".json": "application/json",
    ".ipynb": "application/x-ipynb+json",
}
"""Which some systems do not know, or name otherwise."""
_PAGES = frozenset({".html", ".htm", ".xhtml"})
_PAGE_MARKS = ("<!doctype html", "<html")
_HEAD_CHARACTERS = max(map(len, _PAGE_MARKS))


def read_file(name: str, content: bytes) -> Extraction:
    """Return what a file gives. Raises UnreadableFile."""
    if _is_picture(content):
        from app.extraction.pictures import read_picture  # noqa: PLC0415 -- each reader brings libraries of its own

        return read_picture(content)
    if b"%PDF-" in content[:_PDF_WITHIN]:
        from app.extraction.pdf import read_pdf  # noqa: PLC0415 -- as above

        return read_pdf(content)
    if content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        from app.extraction.packages import read_package  # noqa: PLC0415 -- as above

        return read_package(content)
    if is_sound(content):
        return read_sound(content)
    if content.startswith(b"{\\rtf"):
        return Extraction(kind=AttachmentKind.DOCUMENT, media_type="application/rtf", text=read_rich_text(content))
    _refuse_known(content)
    return _read_text(name, content)


def read_plain_text(name: str, content: bytes) -> Extraction | None:
    """Return what a file of plain text gives; None for all that takes a parser, or gives nothing."""
    takes_parser = (
        _is_picture(content)
        or b"%PDF-" in content[:_PDF_WITHIN]
        or content.startswith((b"PK\x03\x04", b"PK\x05\x06", b"{\\rtf"))
        or is_sound(content)
        or PurePath(name).suffix.casefold() in {".ipynb", *_PAGES}
    )
    if takes_parser or not content.strip():
        return None
    try:
        _refuse_known(content)
        text = decode_text(content)
    except UnreadableFile:
        return None
    if _is_page(text):
        return None
    return Extraction(kind=AttachmentKind.TEXT, media_type=_type_of_text(name), text=text)


def _is_picture(content: bytes) -> bool:
    if content[4:8] == b"ftyp":
        return content[8:12] in _PICTURE_BRANDS
    return content.startswith(_PICTURES) or (content[:4] == b"RIFF" and content[8:12] == b"WEBP")


def _refuse_known(content: bytes) -> None:
    """Raise UnreadableFile that says what to do with a file of a kind that is known and not read."""
    if content.startswith(_COMPOUND):
        if _ENCRYPTED_PACKAGE in content:
            raise password_problem("document")
        raise unknown_problem("It may be of Office before 2007: save it as .docx, .xlsx or .pptx, and attach that.")
    if content.startswith((b"FORM", b"#!AMR", b"MThd")):
        raise unknown_problem("It is a sound of a kind that is not read: save it as MP3 or WAV, and attach that.")
    if content.startswith(_FILM_MARKS) or content[4:8] == b"ftyp" or content[8:12] == b"AVI ":
        raise unknown_problem("It is a film or a sound: attach single pictures of it.")
    if content.startswith(_ARCHIVES):
        raise unknown_problem("It is an archive: attach the files in it.")
    if content.startswith(b"GGUF"):
        raise unknown_problem("It is a model: add it on the page Models.")


def _read_text(name: str, content: bytes) -> Extraction:
    suffix = PurePath(name).suffix.casefold()
    text = decode_text(content)
    media_type = _type_of_text(name)
    if suffix == ".ipynb":
        return Extraction(kind=AttachmentKind.DOCUMENT, media_type=media_type, text=read_notebook(text.encode()))
    if suffix in _PAGES or _is_page(text):
        return Extraction(kind=AttachmentKind.DOCUMENT, media_type="text/html", text=read_page(text))
    return Extraction(kind=AttachmentKind.TEXT, media_type=media_type, text=text)


def _type_of_text(name: str) -> str:
    suffix = PurePath(name).suffix.casefold()
    return _TEXT_TYPES.get(suffix) or mimetypes.guess_type(f"x{suffix}")[0] or "text/plain"


def _is_page(text: str) -> bool:
    return text.lstrip()[:_HEAD_CHARACTERS].casefold().startswith(_PAGE_MARKS)
