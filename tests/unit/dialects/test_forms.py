"""Forms with recordings: what is written is read again, and nothing but a sentence comes of what is no form."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadRequest
from app.core.recordings import SILENCE, SoundFile, write_form
from app.gateway.entry.forms import read_form

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NAMES = st.text("abcdefghijklmnop_[]", min_size=1, max_size=12).filter(lambda name: name != "file")
HEADS = st.sampled_from([b"--x", b"--x--", b"\r\n", b"\r\n\r\n", b"Content-Disposition: form-data; ", b'name="file"'])


@given(st.lists(st.tuples(NAMES, TEXTS), max_size=6), st.binary(min_size=1, max_size=300))
def test_a_form_is_read_as_it_was_written(fields: list[tuple[str, str]], sound: bytes) -> None:
    body, content_type = write_form(fields, SoundFile(sound))
    form = read_form(body, content_type)
    assert form.fields == fields
    assert bytes(form.recording.content) == sound


@given(st.lists(HEADS | st.binary(max_size=20), max_size=30).map(b"".join))
def test_whatever_comes_is_a_form_or_refused_in_a_sentence(body: bytes) -> None:
    with suppress(BadRequest):
        read_form(body, "multipart/form-data; boundary=x")


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (SILENCE, "wav"),
        (b"ID3\x04rest", "mp3"),
        (b"\xff\xfb\x90\x00", "mp3"),
        (b"\xff\xf1\x50\x80", "aac"),
        (b"fLaC", "flac"),
        (b"OggS", "ogg"),
        (b"\x1aE\xdf\xa3", "webm"),
        (b"\0\0\0\x20ftypM4A ", "m4a"),
        (b"%PDF", "bin"),
        (b"\xff", "bin"),
    ],
)
def test_the_kind_is_what_the_bytes_show(first: bytes, kind: str) -> None:
    assert SoundFile(first).kind == kind


def test_a_name_in_a_files_name_is_no_name() -> None:
    body = b'--x\r\nContent-Disposition: form-data; filename="a; name=model"; name="file"\r\n\r\nsound\r\n--x--'
    assert bytes(read_form(body, 'multipart/form-data; boundary="x"').recording.content) == b"sound"
