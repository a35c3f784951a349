"""Read forms with a recording or pictures in them (multipart/form-data) as untrusted bytes.

What a client calls its file is never looked at, and the file itself is not copied. Pure.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from app.core.errors import BadRequest, quote_value
from app.core.recordings import FILE, FORM, FormFile, SoundFile, picture_file

_BOUNDARY = re.compile(r'boundary=(?:"([^"\r\n]{1,70})"|([^\s;,"]{1,70}))', re.IGNORECASE)
_DISPOSITION = re.compile(rb"^content-disposition:[ \t]*form-data[ \t]*(;.*)$", re.IGNORECASE | re.MULTILINE)
_PARAMETER = re.compile(rb';\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s"]*))')
_MOST_PARTS = 64
_LONGEST_HEAD = 8 * 1024
LONGEST_FIELD = 64 * 1024
"""Bytes of a field beside the recording: a prompt of Whisper's has a thousand characters."""


class UploadForm(NamedTuple):
    """A form understood: its fields of text, in their order, and its recording."""

    fields: list[tuple[str, str]]
    recording: SoundFile

    def find(self, name: str) -> str | None:
        """Return the last value of a field."""
        return dict(self.fields).get(name)


class PictureForm(NamedTuple):
    """The same of a form with pictures, of which one at least is an `image`."""

    fields: list[tuple[str, str]]
    files: list[FormFile]

    def find(self, name: str) -> str | None:
        """Return the last value of a field."""
        return dict(self.fields).get(name)


_PICTURE_FIELDS = re.compile(r"(image)(?:\[\d{0,3}\])?|mask|markup")
_PICTURE_HINT = "Send the picture in the field `image`, and the model's name in `model`."


def read_picture_form(body: bytes, content_type: str) -> PictureForm:
    """Return what a form with pictures holds. Raises BadRequest that says what is wrong with it."""
    fields, files, images = list[tuple[str, str]](), list[FormFile](), 0
    for name, content in _iter_parts(body, _boundary_of(content_type, "A picture", _PICTURE_HINT)):
        field = _PICTURE_FIELDS.fullmatch(name)
        if field is None:
            fields.append((name, _text_of(name, content)))
            continue
        if not content:
            raise _form_error(f"The picture in the form's field {quote_value(name)} is empty.", _PICTURE_HINT)
        images += field[1] is not None
        files.append(picture_file(name, content))
    if not images:
        raise _form_error("The form holds no picture: its field `image` is missing.", _PICTURE_HINT)
    return PictureForm(fields, files)


def read_form(body: bytes, content_type: str) -> UploadForm:
    """Return what a form holds. Raises BadRequest that says what is wrong with it."""
    fields, recordings = list[tuple[str, str]](), list[SoundFile]()
    for name, content in _iter_parts(body, _boundary_of(content_type, "A recording", _RECORDING_HINT)):
        if name == FILE:
            recordings.append(SoundFile(content))
        else:
            fields.append((name, _text_of(name, content)))
    if len(recordings) != 1:
        reason = "holds no recording: its field `file` is missing" if not recordings else "holds several recordings"
        raise _form_error(f"The form {reason}.", _RECORDING_HINT)
    if not recordings[0].content:
        raise _form_error("The recording in the form's field `file` is empty.", _RECORDING_HINT)
    return UploadForm(fields, recordings[0])


def _boundary_of(content_type: str, what: str, hint: str) -> bytes:
    boundary = _BOUNDARY.search(content_type)
    if not content_type.strip().lower().startswith(FORM) or boundary is None:
        raise _form_error(f"{what} is sent as a form ({FORM} with a boundary).", hint)
    text: str = boundary[1] or boundary[2]
    return text.encode("utf-8", "surrogateescape")


def _iter_parts(body: bytes, boundary: bytes) -> Iterator[tuple[str, memoryview]]:
    """Yield each part's name and content. What stands before the first boundary and after the last is no part."""
    mark, view = b"--" + boundary, memoryview(body)
    at = 0 if body.startswith(mark) else body.find(b"\r\n" + mark) + 2
    if at == 1:
        raise _form_error("The form's boundary is not in its body.")
    for _ in range(_MOST_PARTS):
        at += len(mark)
        if body.startswith(b"--", at):
            return
        start = body.find(b"\r\n\r\n", at, at + _LONGEST_HEAD)
        end = -1 if start < 0 else body.find(b"\r\n" + mark, start + 2)
        if end < 0:
            raise _form_error("The form breaks off, or one of its parts has no head.")
        yield _name_of(body[at : start + 2]), view[start + 4 : end]
        at = end + 2
    raise _form_error(f"The form has more than {_MOST_PARTS} parts.")


def _name_of(head: bytes) -> str:
    disposition = _DISPOSITION.search(head.replace(b"\r\n", b"\n"))
    parameters = (
        {} if disposition is None else {key.lower(): a or b for key, a, b in _PARAMETER.findall(disposition[1])}
    )
    name: bytes = parameters.get(b"name", b"")
    if not name:
        raise _form_error("A part of the form has no name.")
    return name.decode("utf-8", "replace")


def _text_of(name: str, content: memoryview) -> str:
    if len(content) > LONGEST_FIELD:
        raise _form_error(f"The form's field {quote_value(name)} is longer than {LONGEST_FIELD // 1024} KiB.")
    try:
        return str(content, "utf-8")
    except UnicodeDecodeError:
        raise _form_error(f"The form's field {quote_value(name)} is not UTF-8.") from None


_RECORDING_HINT = "Send the recording in the field `file`, and the model's name in `model`."


def _form_error(sentence: str, hint: str = "") -> BadRequest:
    return BadRequest(sentence, hint=hint, code="invalid_form")
