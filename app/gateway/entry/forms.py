"""Forms with a recording in them (multipart/form-data): read as untrusted bytes, and written anew for an engine.

What a client calls its file is never looked at: engines are told a name of ours, by the kind that the recording's first
bytes show. The recording itself is not copied while a form is read. Pure.
"""

import re
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from app.core.errors import BadRequest, quote_value

_BOUNDARY = re.compile(r'boundary=(?:"([^"\r\n]{1,70})"|([^\s;,"]{1,70}))', re.IGNORECASE)
_DISPOSITION = re.compile(rb"^content-disposition:[ \t]*form-data[ \t]*(;.*)$", re.IGNORECASE | re.MULTILINE)
_PARAMETER = re.compile(rb';\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s"]*))')
_MOST_PARTS = 64
_LONGEST_HEAD = 8 * 1024
LONGEST_FIELD = 64 * 1024
"""Bytes of a field beside the recording: a prompt of Whisper's has a thousand characters."""
_MARK_BYTES = 16
_MP4_MARK_AT = 4
_SYNC, _LAYER_BITS = 0xE0, 0x06
"""Of the two bytes that begin a frame of MPEG sound; AAC has no layer."""
_RATE_HZ, _SILENT_S = 16_000, 0.25

FORM = "multipart/form-data"
FILE = "file"


class Recording(NamedTuple):
    """The bytes of a recording."""

    content: bytes | memoryview

    @property
    def kind(self) -> str:
        """Its file's usual ending, by its first bytes; "bin" if they say nothing."""
        return _kind_of(bytes(self.content[:_MARK_BYTES]))


class RecordingForm(NamedTuple):
    """A form understood: its fields of text, in their order, and its recording."""

    fields: list[tuple[str, str]]
    recording: Recording

    def find(self, name: str) -> str | None:
        """Return the last value of a field."""
        return dict(self.fields).get(name)


class FormContent(NamedTuple):
    """A form as it is sent."""

    body: bytes
    content_type: str


def read_form(body: bytes, content_type: str) -> RecordingForm:
    """Return what a form holds. Raises BadRequest that says what is wrong with it."""
    boundary = _BOUNDARY.search(content_type)
    if not content_type.strip().lower().startswith(FORM) or boundary is None:
        raise _form_error(f"A recording is sent as a form ({FORM} with a boundary).")
    fields, recordings = list[tuple[str, str]](), list[Recording]()
    for name, content in _iter_parts(body, (boundary[1] or boundary[2]).encode("utf-8", "surrogateescape")):
        if name == FILE:
            recordings.append(Recording(content))
        else:
            fields.append((name, _text_of(name, content)))
    if len(recordings) != 1:
        reason = "holds no recording: its field `file` is missing" if not recordings else "holds several recordings"
        raise _form_error(f"The form {reason}.")
    if not recordings[0].content:
        raise _form_error("The recording in the form's field `file` is empty.")
    return RecordingForm(fields, recordings[0])


def write_form(fields: Iterable[tuple[str, str]], recording: Recording, boundary: str) -> FormContent:
    """Return a form with these fields and the recording."""
    begin, kind = f'--{boundary}\r\nContent-Disposition: form-data; name="', recording.kind
    head = "".join(f'{begin}{_quote(name)}"\r\n\r\n{value}\r\n' for name, value in fields)
    head += f'{begin}{FILE}"; filename="recording.{kind}"\r\nContent-Type: {_TYPES[kind]}\r\n\r\n'
    body = b"".join((head.encode("utf-8", "surrogatepass"), recording.content, f"\r\n--{boundary}--\r\n".encode()))
    return FormContent(body, f"{FORM}; boundary={boundary}")


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


def _quote(name: str) -> str:
    """Return a field's name as it stands between quotes: as browsers write it."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _form_error(sentence: str) -> BadRequest:
    return BadRequest(
        sentence, hint="Send the recording in the field `file`, and the model's name in `model`.", code="invalid_form"
    )


_TYPES = {
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "webm": "audio/webm",
    "m4a": "audio/mp4",
    "aac": "audio/aac",
    "bin": "application/octet-stream",
}
_MARKS = {b"ID3": "mp3", b"fLaC": "flac", b"OggS": "ogg", b"\x1aE\xdf\xa3": "webm"}


def _kind_of(first: bytes) -> str:
    if first[:4] == b"RIFF" and first[8:12] == b"WAVE":
        return "wav"
    if first[_MP4_MARK_AT : _MP4_MARK_AT + 4] == b"ftyp":
        return "m4a"
    if len(first) > 1 and first[0] == 0xFF and first[1] & _SYNC == _SYNC:  # noqa: PLR2004 -- the first byte of a frame
        return "mp3" if first[1] & _LAYER_BITS else "aac"
    return next((kind for mark, kind in _MARKS.items() if first.startswith(mark)), "bin")


def wav_of(samples: bytes, rate_hz: int) -> bytes:
    """Return samples (16 bits, one channel) as a WAV file."""
    form = struct.pack("<HHIIHH", 1, 1, rate_hz, rate_hz * 2, 2, 16)
    chunks = b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


SILENCE = wav_of(bytes(2 * int(_RATE_HZ * _SILENT_S)), _RATE_HZ)
"""A quarter of a second: OpenAI refuses less than a tenth."""
PROBE_BOUNDARY = "roundhouse-probe"
