"""Sounds as models hear them: one channel, 16,000 samples a second, whatever they came as."""

import io
import itertools
import math
import struct
import wave
from pathlib import Path

import pytest

from app.core.attachments import LONGEST_SOUND_S, AttachmentKind, Extraction, ExtractionProblem
from app.extraction.program import extract
from tests.file_corpus import flac_of, mp3_of, wav_of

TONE = Path(__file__).parents[2] / "data" / "tone.ogg"
"""Half a second of 440 Hz, made with libsndfile 1.2.2."""
COMMENTS = TONE.read_bytes().find(b"\x03vorbis") + 7
pytest.importorskip("miniaudio", reason="it has no wheel for this processor")


def read(name: str, content: bytes) -> Extraction:
    extraction = extract(name, content)
    assert isinstance(extraction, Extraction), extraction
    return extraction


def samples_of(extraction: Extraction) -> tuple[int, ...]:
    with wave.open(io.BytesIO(extraction.sound)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 16_000)
        content = file.readframes(file.getnframes())
    return struct.unpack(f"<{len(content) // 2}h", content)


def crossings(samples: tuple[int, ...]) -> int:
    return sum((low < 0) != (high < 0) for low, high in itertools.pairwise(samples))


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_tone_stays_that_tone(rate: int, channels: int) -> None:
    extraction = read("a.wav", wav_of(2.0, rate=rate, channels=channels))
    assert (extraction.kind, extraction.media_type, extraction.is_cut) == (AttachmentKind.SOUND, "audio/wav", False)
    assert extraction.seconds == pytest.approx(2.0, abs=0.01)
    samples = samples_of(extraction)
    assert crossings(samples) == pytest.approx(2 * 2 * 440, abs=8), "440 Hz for two seconds"
    assert max(samples) == pytest.approx(16_000, rel=0.05)


def test_flac_is_read() -> None:
    extraction = read("a.flac", flac_of())
    assert extraction.media_type == "audio/flac"
    assert extraction.seconds == pytest.approx(4096 / 16_000, abs=0.01)
    assert set(samples_of(extraction)) == {1000}


def test_mp3_is_read() -> None:
    extraction = read("a.mp3", mp3_of())
    assert extraction.media_type == "audio/mpeg"
    assert extraction.seconds == pytest.approx(40 * 1152 / 44_100, abs=0.1)


def test_ogg_vorbis_is_read() -> None:
    extraction = read("a.ogg", TONE.read_bytes())
    assert (extraction.media_type, extraction.seconds) == ("audio/ogg", 0.5)
    assert crossings(samples_of(extraction)) == pytest.approx(440, abs=8), "440 Hz for half a second"


@pytest.mark.parametrize("size", [30, 58, 80, 166, 170, 190, 900])
def test_ogg_that_breaks_off_in_its_heads_is_damaged(size: int) -> None:
    problem = extract("a.ogg", TONE.read_bytes()[:size])
    assert isinstance(problem, ExtractionProblem)
    assert problem.code == "file_broken"


@pytest.mark.parametrize("at", range(COMMENTS, COMMENTS + 50))
def test_no_number_in_the_comments_of_ogg_is_believed(at: int) -> None:
    """The decoder ended the process where it found no memory for as many as a file claims."""
    content = bytearray(TONE.read_bytes())
    content[at] = 0xFF
    extraction = extract("a.ogg", bytes(content))
    assert isinstance(extraction, Extraction) or extraction.code == "file_broken"


@pytest.mark.slow
def test_a_long_sound_is_cut() -> None:
    extraction = read("long.wav", wav_of(LONGEST_SOUND_S + 5.0, rate=8_000))
    assert extraction.is_cut
    assert extraction.seconds == LONGEST_SOUND_S
    assert math.isclose(len(extraction.sound), LONGEST_SOUND_S * 32_000, rel_tol=0.001)


@pytest.mark.parametrize(
    ("name", "content", "code", "words"),
    [
        ("a.wav", wav_of(0.001), "file_broken", "damaged"),
        ("a.mp3", b"ID3\x04\0\0" + bytes(300), "file_broken", "damaged"),
        ("a.flac", b"fLaC" + bytes(300), "file_broken", "damaged"),
        ("a.ogg", b"OggS\0\2" + bytes(22) + b"\1\x13OpusHead" + bytes(90), "file_unknown", "Opus"),
    ],
)
def test_what_is_no_sound_is_a_sentence(name: str, content: bytes, code: str, words: str) -> None:
    problem = extract(name, content)
    assert isinstance(problem, ExtractionProblem)
    assert problem.code == code
    assert words in f"{problem.sentence} {problem.hint}"
