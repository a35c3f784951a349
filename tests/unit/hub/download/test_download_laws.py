"""Laws of downloads: which answer is the part that was asked for, what a map counts, what a limit costs."""

import os
import shutil
import time
from email.message import Message
from http.client import HTTPResponse
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import StorageFault
from app.hub.download import chunk_map
from app.hub.download.cache import HEAD_ROOM_BYTES, RepositoryCache
from app.hub.download.chunk_map import ChunkMap, PartContent, bytes_written
from app.hub.download.wire import (
    PIECE_BYTES,
    DownloadStopped,
    FileChanged,
    HttpSource,
    NoRanges,
    StreamInterrupted,
    Throttle,
    _AnswerBody,
)

SIZE = 1000
GIB = 1024**3


class Disk(NamedTuple):
    """What the system says of a disk."""

    total: int
    used: int
    free: int


class PlayedAnswer:
    """As much of an HTTP answer as a stream looks at."""

    chunked, fp = True, None

    def __init__(self, status: int, length: int | None, pieces: tuple[bytes, ...] = ()) -> None:
        self.status, self.length, self._pieces = status, length, list(pieces)
        self.headers = Message()

    def read1(self, most: int) -> bytes:
        if not self._pieces:
            return b""
        piece = self._pieces[0][:most]
        self._pieces[0] = self._pieces[0][most:]
        if not self._pieces[0]:
            del self._pieces[0]
        return piece


def answer(status: int = 206, length: int | None = 10, where: str = "bytes 5-14/1000", etag: str = "") -> HTTPResponse:
    played_answer = PlayedAnswer(status, length)
    for name, value in (("Content-Range", where), ("ETag", etag)):
        if value:
            played_answer.headers[name] = value
    return cast("HTTPResponse", played_answer)


def source() -> HttpSource:
    return HttpSource(cast("Any", None), "https://hub/x", size=SIZE)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (answer(), None),
        (answer(length=None), None),
        (answer(length=9), StreamInterrupted),
        (answer(length=11), StreamInterrupted),
        (answer(where="bytes 5-14/1001"), FileChanged),
        (answer(where="bytes 4-14/1000"), StreamInterrupted),
        (answer(where="bytes 5-13/1000"), StreamInterrupted),
        (answer(where="bytes 5-15/1000"), StreamInterrupted),
        (answer(where=""), StreamInterrupted),
        (answer(where="bytes */1000"), StreamInterrupted),
        (answer(200, SIZE, ""), NoRanges),
    ],
)
def test_an_answer_is_the_part_that_was_asked_for_or_is_not_taken(
    reply: HTTPResponse, error: type[Exception] | None
) -> None:
    if error is None:
        source()._check_answer(reply, 5, 15)
        return
    with pytest.raises(error):
        source()._check_answer(reply, 5, 15)


@pytest.mark.parametrize(("length", "fits"), [(SIZE, True), (None, True), (SIZE - 1, False), (0, False)])
def test_a_whole_file_may_come_where_a_whole_file_was_asked_for(length: int | None, *, fits: bool) -> None:
    if fits:
        source()._check_answer(answer(200, length, ""), 0, SIZE)
    else:
        with pytest.raises(FileChanged):
            source()._check_answer(answer(200, length, ""), 0, SIZE)
    for start, end in ((1, SIZE), (0, SIZE - 1)):
        with pytest.raises(NoRanges):
            source()._check_answer(answer(200, length, ""), start, end)


def test_a_file_stays_the_one_it_was_until_its_version_is_forgotten() -> None:
    stream = source()
    for etag in ("", '"a"', "", '"a"'):
        stream._check_answer(answer(etag=etag), 5, 15)
    with pytest.raises(FileChanged):
        stream._check_answer(answer(etag='"b"'), 5, 15)
    stream.forget_version()
    stream._check_answer(answer(etag='"b"'), 5, 15)


@given(pieces=st.lists(st.binary(min_size=1, max_size=50), max_size=8), count=st.integers(1, 200))
def test_a_stream_gives_as_many_bytes_as_were_asked_for_or_breaks(pieces: list[bytes], count: int) -> None:
    whole = b"".join(pieces)
    body = _AnswerBody(cast("HTTPResponse", PlayedAnswer(206, None, tuple(pieces))))
    received_bytes = b""
    if len(whole) >= count:
        received_bytes = b"".join(bytes(piece) for piece in body.read_pieces(count, Event()))
        assert received_bytes == whole[:count]
        return
    stream = body.read_pieces(count, Event())
    while len(received_bytes) < len(whole):
        received_bytes += bytes(next(stream))
    assert received_bytes == whole
    with pytest.raises(StreamInterrupted):
        next(stream)


def test_a_stream_ends_when_somebody_wants_it_to() -> None:
    stop = Event()
    pieces = _AnswerBody(cast("HTTPResponse", PlayedAnswer(206, None, (b"a", b"b")))).read_pieces(2, stop)
    assert bytes(next(pieces)) == b"a"
    stop.set()
    with pytest.raises(DownloadStopped):
        next(pieces)
    assert PIECE_BYTES == 512 * 1024


class Pauses:
    """Notes how long somebody would have waited."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def wait(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.mark.parametrize("limit", [0.0, -1.0])
def test_without_a_limit_nobody_waits(limit: float) -> None:
    pauses = Pauses()
    Throttle(limit).wait_for_share(10**9, cast("Event", pauses))
    assert pauses.seconds == []


def test_a_limit_is_shared_by_all_and_what_was_not_used_is_not_saved_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    pauses, throttle = Pauses(), Throttle(10.0)
    for count, moment in ((20, 100.0), (10, 100.0), (10, 101.0), (10, 500.0), (5, 500.5)):
        now[0] = moment
        throttle.wait_for_share(count, cast("Event", pauses))
    assert pauses.seconds == pytest.approx([2.0, 3.0, 3.0, 1.0, 1.0])


# ----- maps


@given(size=st.integers(0, 500), chunk=st.integers(1, 120))
def test_chunks_cover_a_file_once(size: int, chunk: int) -> None:
    content = PartContent(size=size, chunk_bytes=chunk)
    assert content.chunk_count == len(range(0, size, chunk))
    assert content.version == 1


@pytest.mark.parametrize("size", [1, 9, 10, 11, 25, 30])
def test_a_map_counts_the_bytes_of_the_chunks_that_are_there(size: int, tmp_path: Path) -> None:
    part = tmp_path / "x.part"
    content = PartContent(size=size, chunk_bytes=10)
    assert bytes_written(part) == 0
    marks = ChunkMap(part, content)
    assert part.stat().st_size == size
    spans = [marks.chunk_span(index) for index in range(content.chunk_count)]
    assert [at for span in spans for at in span] == list(range(size))
    with part.open("r+b") as file:
        for index in reversed(range(content.chunk_count)):
            assert not marks.has_chunk(index)
            marks.mark_chunk(index, file.fileno())
            assert marks.has_chunk(index)
            assert bytes_written(part) == sum(len(span) for span in spans[index:])
            assert marks.chunks_to_fetch == list(range(index))
    marks.clear_chunks(marks.all_chunks)
    assert bytes_written(part) == 0
    assert marks.chunks_to_fetch == list(range(content.chunk_count))
    marks.delete_map()
    assert bytes_written(part) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["x.part"]


def test_what_was_written_is_put_on_the_disk_every_five_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, synced_counts = [100.0], list[int]()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(os, "fsync", synced_counts.append)
    part = tmp_path / "x.part"
    marks = ChunkMap(part, PartContent(size=40, chunk_bytes=10))
    states = []
    for index, moment in enumerate((104.9, 105.0, 109.9, 110.0)):
        now[0] = moment
        marks.mark_chunk(index, 77)
        states.append((len(synced_counts), part.with_suffix(".map").read_bytes().partition(b"\n")[2]))
    marks.close()
    assert chunk_map.SYNC_S == 5.0
    assert states == [
        *((0, b"\1\0\0\0"), (1, b"\2\2\0\0"), (1, b"\2\2\1\0"), (2, b"\2\2\2\2")),
    ]
    assert synced_counts == [77, 77]


# ----- room


@pytest.mark.parametrize(
    ("free", "missing_bytes", "reserved_bytes", "fits"),
    [
        (3 * GIB, 2 * GIB, 0, True),
        (3 * GIB - 1, 2 * GIB, 0, False),
        (3 * GIB, 2 * GIB, 1, False),
        (5 * GIB, 2 * GIB, 2 * GIB, True),
        (0, 0, 0, True),
        (0, 1, GIB, False),
    ],
)
def test_a_download_leaves_a_gibibyte_free_beside_what_others_still_take(  # noqa: PLR0913 -- a table and two fixtures
    free: int, missing_bytes: int, reserved_bytes: int, *, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert HEAD_ROOM_BYTES == GIB
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(0, 0, free))
    cache = RepositoryCache(tmp_path / "new" / "hub", "o/n")
    if fits:
        cache.check_room(missing_bytes, reserved_bytes)
        return
    with pytest.raises(StorageFault) as fault:
        cache.check_room(missing_bytes, reserved_bytes)
    assert fault.value.code == "disk_full"
    assert ("beside the" in str(fault.value)) == bool(reserved_bytes)
    assert "-" not in str(fault.value)


def test_a_repository_lies_where_the_hubs_own_programs_look(tmp_path: Path) -> None:
    cache = RepositoryCache(tmp_path, "owner/name")
    assert cache.folder == tmp_path / "models--owner--name"
    assert not cache.is_there
    cache.snapshot_path("c0ffee", "a/b.gguf").parent.mkdir(parents=True)
    assert cache.is_there
    assert cache.snapshot_path("c0ffee", "a/b.gguf") == cache.folder / "snapshots" / "c0ffee" / "a" / "b.gguf"
    cache.remember_revision("c0ffee", "c0ffee")
    assert not (cache.folder / "refs").exists()
    for commit in ("c0ffee", "beef"):
        cache.remember_revision("pr/1", commit)
        assert (cache.folder / "refs" / "pr" / "1").read_text(encoding="ascii") == commit
    assert [path.name for path in (cache.folder / "refs" / "pr").iterdir()] == ["1"]
