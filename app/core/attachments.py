"""Files in a conversation: what is known of one, and what comes of reading it.

A file is kept as it came, under its SHA-256; what models are sent of it, text or a picture, is made once, when it is
uploaded, by a program of its own (`app.extraction`).
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from app.core.capabilities import Capability


class AttachmentKind(StrEnum):
    """As what a model is given a file."""

    TEXT = "text"
    """Text as it is: notes, code, tables, web pages."""
    DOCUMENT = "document"
    """Text that was taken out of a file of another kind."""
    PICTURE = "picture"
    PAGES = "pages"
    """Pictures of pages: a PDF that was scanned and has no text."""
    SOUND = "sound"


SENSES: Mapping[AttachmentKind, Capability] = MappingProxyType(
    {
        AttachmentKind.PICTURE: Capability.VISION,
        AttachmentKind.PAGES: Capability.VISION,
        AttachmentKind.SOUND: Capability.AUDIO,
    }
)
"""What a model needs for files that are no text."""


class AttachmentPart(StrEnum):
    """What is kept of a file, each under the file's hash."""

    ORIGINAL = "original"
    TEXT = "text"
    """What models read, UTF-8."""
    PICTURE = "picture"
    """What models see: turned upright, no larger than they take."""
    PAGES = "pages"
    """What models see of a scanned document: a list of pictures in MessagePack."""
    SOUND = "sound"
    """What models hear: WAV, one channel of 16,000 samples of 16 bits a second."""
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
    seconds: float | None = None
    """How long a sound is."""
    excerpt: str = ""
    """How the text begins."""
    is_cut: bool = False
    """Whether the text was too long, and its end is left out."""


class Extraction(msgspec.Struct, frozen=True, kw_only=True, tag="extraction", omit_defaults=True):
    """What was read of a file: text, a picture or pages with a thumbnail (all PNG or JPEG), or a sound (WAV)."""

    kind: AttachmentKind
    media_type: str
    text: str = ""
    picture: bytes = b""
    thumbnail: bytes = b""
    page_pictures: tuple[bytes, ...] = ()
    page_sizes: tuple[tuple[int, int], ...] = ()
    sound: bytes = b""
    seconds: float | None = None
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


def describe_pages(attachment: Attachment, count: int) -> str:
    """Return what stands before the pictures of a scanned document's pages in a prompt."""
    name = attachment.name.replace('"', "'")
    rest = f" It has {attachment.pages}; the rest is left out." if attachment.is_cut else ""
    return f'[Pictures of the pages of "{name}" follow: {count}.{rest}]'


def name_long_file(attachment: Attachment) -> str:
    """Return what stands in a prompt for a file that is too long to be given whole."""
    name = attachment.name.replace('"', "'")
    return f'[The file "{name}" is too long to be given whole. Passages are chosen from it for each question.]'


def decode_pages(content: bytes) -> list[bytes]:
    """Return the pictures of `AttachmentPart.PAGES`."""
    return msgspec.msgpack.decode(content, type=list[bytes])


_END = re.compile(r"</(?=attachment\b)", re.IGNORECASE)

_PNG_MARK = b"\x89PNG"


def picture_type(content: bytes) -> str:
    """Return the media type of a picture as models are sent it."""
    return "image/png" if content.startswith(_PNG_MARK) else "image/jpeg"


LONGEST_TEXT = 2_000_000
"""Characters that are kept of a file's text: half a million tokens, more than the context of nearly every model."""
LONGEST_EXCERPT = 400
LONGEST_SOUND_S = 600
"""Of a sound that is kept: 15,000 tokens for models that take many, 19 MB in WAV."""
MOST_PAGE_PICTURES = 20
"""Of a scanned document: each is about 1,600 tokens."""
MOST_ATTACHMENTS = 50
"""Of one question."""
