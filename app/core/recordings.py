"""Recordings and pictures, and the forms in which they are sent (multipart/form-data). Pure.

Whoever is sent one is told a name of ours for it, by the kind that its first bytes show.
"""

import secrets
import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

FORM = "multipart/form-data"
FILE = "file"
_MARK_BYTES = 16
_MP4_MARK_AT = 4
_SYNC, _LAYER_BITS = 0xE0, 0x06
"""Of the two bytes that begin a frame of MPEG sound; AAC has no layer."""
RATE_HZ = 16_000
"""Of what the microphone is recorded with: what speech models take."""
_SILENT_S = 0.25


class MicrophoneExit(IntEnum):
    """Why the program that records ended without anything."""

    NO_LIBRARY = 3
    NO_DEVICE = 4


class SoundFile(NamedTuple):
    """The bytes of a recording."""

    content: bytes | memoryview

    @property
    def kind(self) -> str:
        """Its file's usual ending, by its first bytes; "bin" if they say nothing."""
        return _kind_of(bytes(self.content[:_MARK_BYTES]))


class FormContent(NamedTuple):
    """A form as it is sent."""

    body: bytes
    content_type: str


class FormFile(NamedTuple):
    """A file of a form, in the field of that name; `file_name` is a name of ours."""

    field: str
    file_name: str
    media_type: str
    content: bytes | memoryview


def write_form(fields: Iterable[tuple[str, str]], sound_file: SoundFile) -> FormContent:
    """Return a form with these fields and the recording."""
    kind = sound_file.kind
    return write_upload(fields, [FormFile(FILE, f"recording.{kind}", _TYPES[kind], sound_file.content)])


def picture_file(field: str, content: bytes | memoryview) -> FormFile:
    """Return a picture as a form's file, of the kind that its first bytes show."""
    first = bytes(content[:_MARK_BYTES])
    kind = next((kind for mark, kind in _PICTURE_MARKS.items() if first.startswith(mark)), "")
    if first[:4] == b"RIFF" and first[8:12] == b"WEBP":
        kind = "webp"
    return FormFile(field, f"picture.{kind or 'bin'}", f"image/{kind}" if kind else _TYPES["bin"], content)


def write_upload(fields: Iterable[tuple[str, str]], files: Iterable[FormFile]) -> FormContent:
    """Return a form with these fields and files."""
    boundary = f"roundhouse-{secrets.token_hex(16)}"
    begin = f'--{boundary}\r\nContent-Disposition: form-data; name="'
    pieces: list[bytes | memoryview] = [
        f'{begin}{_quote(name)}"\r\n\r\n{value}\r\n'.encode("utf-8", "surrogatepass") for name, value in fields
    ]
    for file in files:
        head = f'{begin}{_quote(file.field)}"; filename="{file.file_name}"\r\nContent-Type: {file.media_type}\r\n\r\n'
        pieces += [head.encode("utf-8", "surrogatepass"), file.content, b"\r\n"]
    return FormContent(b"".join((*pieces, f"--{boundary}--\r\n".encode())), f"{FORM}; boundary={boundary}")


def _quote(name: str) -> str:
    """Return a field's name as it stands between quotes: as browsers write it."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


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


_PICTURE_MARKS = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}


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


SILENCE = wav_of(bytes(2 * int(RATE_HZ * _SILENT_S)), RATE_HZ)
"""A quarter of a second: OpenAI refuses less than a tenth."""
