"""Sounds as models hear them: one channel of 16,000 samples a second, which is what their encoders take.

WAV, MP3, FLAC and Ogg Vorbis by miniaudio, a library in C that decodes from memory and opens nothing.
"""

import io
import wave
from types import ModuleType
from typing import Final

from app.core.attachments import LONGEST_SOUND_S, AttachmentKind, Extraction
from app.extraction.plain_text import unknown_problem
from app.extraction.problems import damage_problem

SAMPLE_RATE: Final = 16_000
_SAMPLE_BYTES = 2
_OPUS_WITHIN = 512
"""Bytes in which an Ogg file says what is in it."""
_LEAST_FRAMES = SAMPLE_RATE // 50
"""A fiftieth of a second: less is no sound, and encoders stumble over it."""
_PIECE = SAMPLE_RATE * 10
_OGG, _PAGE_HEAD, _WHOLE_SEGMENT = b"OggS", 27, 255
"""A page's mark, the bytes before its table of segments, and the size of a segment after which a packet goes on."""
_COMMENTS, _NUMBER_BYTES = b"\x03vorbis", 4
_TYPES = ((b"RIFF", "audio/wav"), (b"fLaC", "audio/flac"), (b"OggS", "audio/ogg"))


def is_sound(content: bytes) -> bool:
    """Tell whether a file begins as one that is read here."""
    return content.startswith((b"ID3", b"fLaC", b"OggS", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"\xff\xfa")) or (
        content[:4] == b"RIFF" and content[8:12] == b"WAVE"
    )


def read_sound(content: bytes) -> Extraction:
    """Return a sound as models hear it, cut where it is too long. Raises UnreadableFile."""
    if content.startswith(b"OggS") and b"OpusHead" in content[:_OPUS_WITHIN]:
        raise unknown_problem("Sounds in Opus are not read: save it as WAV, MP3, FLAC or Ogg Vorbis.")
    try:
        import miniaudio  # type: ignore[import-untyped]  # noqa: PLC0415 -- it has no wheel for every processor
    except ImportError:
        raise unknown_problem("Sounds are not read on this kind of processor.") from None
    try:
        samples, is_cut = _decode(miniaudio, content)
    except (miniaudio.MiniaudioError, ValueError, OverflowError) as error:
        raise damage_problem("sound") from error
    if len(samples) < _LEAST_FRAMES * _SAMPLE_BYTES:
        raise damage_problem("sound")
    media_type = next((name for mark, name in _TYPES if content.startswith(mark)), "audio/mpeg")
    return Extraction(
        kind=AttachmentKind.SOUND,
        media_type=media_type,
        sound=_as_wave(samples),
        seconds=len(samples) / _SAMPLE_BYTES / SAMPLE_RATE,
        is_cut=is_cut,
    )


def _decode(miniaudio: ModuleType, content: bytes) -> tuple[bytes, bool]:
    """Return the samples, and whether there were more than are kept. It is decoded in pieces, up to where it is cut."""
    if content.startswith(_OGG):
        _check_comments(_read_second_packet(content))
    most = LONGEST_SOUND_S * SAMPLE_RATE * _SAMPLE_BYTES
    samples = bytearray()
    pieces = miniaudio.stream_memory(
        content,
        output_format=miniaudio.SampleFormat.SIGNED16,
        nchannels=1,
        sample_rate=SAMPLE_RATE,
        frames_to_read=_PIECE,
    )
    for piece in pieces:
        samples += piece.tobytes()
        if len(samples) > most:
            return bytes(samples[:most]), True
    return bytes(samples), False


def _read_second_packet(content: bytes) -> bytes:
    """Return the second packet of an Ogg file, which in Vorbis has the comments. Raises ValueError if it has none."""
    at, number, packet = 0, 0, bytearray()
    while content.startswith(_OGG, at) and at + _PAGE_HEAD < len(content):
        sizes = content[at + _PAGE_HEAD : at + _PAGE_HEAD + content[at + _PAGE_HEAD - 1]]
        at += _PAGE_HEAD + len(sizes)
        for size in sizes:
            if number:
                packet += content[at : at + size]
            at += size
            number += size < _WHOLE_SEGMENT
            if number > 1:
                return bytes(packet)
    raise ValueError


def _check_comments(packet: bytes) -> None:
    """Raise ValueError for comments that are longer than their packet.

    miniaudio's decoder believes their number and lengths, and where memory does not suffice it frees what it never had.
    """
    at = len(_COMMENTS)
    if not packet.startswith(_COMMENTS):
        raise ValueError
    at += _NUMBER_BYTES + int.from_bytes(packet[at : at + _NUMBER_BYTES], "little")  # after the maker's name
    texts = int.from_bytes(packet[at : at + _NUMBER_BYTES], "little")
    at += _NUMBER_BYTES
    if at + texts * _NUMBER_BYTES > len(packet):
        raise ValueError
    for _ in range(texts):
        at += _NUMBER_BYTES + int.from_bytes(packet[at : at + _NUMBER_BYTES], "little")
        if at > len(packet):
            raise ValueError


def _as_wave(samples: bytes) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(_SAMPLE_BYTES)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(samples)
    return stream.getvalue()
