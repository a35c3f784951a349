"""Files in a conversation: what is known of one, and what comes of reading it.

A file is kept as it came, under its SHA-256; what models are sent of it, text or a picture, is made once, when it is
uploaded, by a program of its own (`app.extraction`).
"""

import re
from enum import StrEnum

import msgspec


class AttachmentKind(StrEnum):
    """As what a model is given a file."""

    TEXT = "text"
    """Text as it is: notes, code, tables, web pages."""
    DOCUMENT = "document"
    """Text that was taken out of a file of another kind."""
    PICTURE = "picture"


class AttachmentPart(StrEnum):
    """What is kept of a file, each under the file's hash."""

    ORIGINAL = "original"
    TEXT = "text"
    """What models read, UTF-8."""
    PICTURE = "picture"
    """What models see: turned upright, no larger than they take."""
    THUMBNAIL = "thumbnail"
    """A small picture for lists."""


class Attachment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of a question, or one that waits for its question.

    `hash` is the SHA-256 of the file in hexadecimal digits; `size_bytes` its size.
    """

    id: str
    name: str
    kind: AttachmentKind
    media_type: str
    hash: str
    size_bytes: int
    tokens: int
    """About what it takes of a model's context."""
    width: int | None = None
    """Of the picture that models see, in pixels."""
    height: int | None = None
    pages: int | None = None
    """Pages, sheets or slides, of what has some."""
    excerpt: str = ""
    """How the text begins."""
    is_cut: bool = False
    """Whether the text was too long, and its end is left out."""


class Extraction(msgspec.Struct, frozen=True, kw_only=True, tag="extraction", omit_defaults=True):
    """What was read of a file: either text, or a picture with its thumbnail (both PNG or JPEG)."""

    kind: AttachmentKind
    media_type: str
    text: str = ""
    picture: bytes = b""
    thumbnail: bytes = b""
    width: int | None = None
    height: int | None = None
    pages: int | None = None
    is_cut: bool = False


class ExtractionProblem(msgspec.Struct, frozen=True, kw_only=True, tag="problem", omit_defaults=True):
    """Why a file cannot be read: a stable code of `FileProblem`, a sentence and a next step."""

    code: str
    sentence: str
    hint: str = ""


class FileProblem(StrEnum):
    """Codes of files that cannot be attached."""

    EMPTY = "file_empty"
    UNKNOWN = "file_unknown"
    """Of a kind that nothing here reads."""
    BROKEN = "file_broken"
    ENCRYPTED = "file_encrypted"
    NO_TEXT = "file_no_text"
    EXCESSIVE = "file_excessive"
    """It takes more time or memory to read than any honest file of its size."""


def quote_file(attachment: Attachment, text: str) -> str:
    """Return a file's text as it stands in a prompt.

    A file is quoted, so that a model can tell what a person asks from what a file says. Its text cannot end the
    quotation: marks in it that look like ours are changed. That is no protection from a model that does what a file
    tells it to.
    """
    name = attachment.name.replace('"', "'")
    rest = "\n[The rest of the file is left out: it is too long.]" if attachment.is_cut else ""
    body = _END.sub(r"<\\/", text)
    return f'<attachment name="{name}">\n{body}{rest}\n</attachment>'


_END = re.compile(r"</(?=attachment\b)", re.IGNORECASE)

_PNG_MARK = b"\x89PNG"


def picture_type(content: bytes) -> str:
    """Return the media type of a picture as models are sent it."""
    return "image/png" if content.startswith(_PNG_MARK) else "image/jpeg"


LONGEST_TEXT = 2_000_000
"""Characters that are kept of a file's text: half a million tokens, more than the context of nearly every model."""
LONGEST_EXCERPT = 400
MOST_ATTACHMENTS = 50
"""Of one question."""
