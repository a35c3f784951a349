"""Files arrive whole and right, or an error says why and nothing is left that looks like the file."""

import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from app.core.errors import EnvironmentFault, Forbidden, NotFound, RoundhouseError, StorageFault, Unavailable
from app.hub.download import cache as cache_module
from app.hub.download import wire as wire_module
from app.hub.download.chunk_map import ChunkMap, PartContent, bytes_written
from app.hub.download.transfer import FRUITLESS_TRIES
from app.hub.download.wire import DownloadStopped
from tests.fake_hub import faults
from tests.fake_hub.faults import Fault, first
from tests.patience import PATIENCE_S
from tests.unit.hub.download.conftest import CHUNK, FILE, Arena

Make = Callable[..., Arena]


@pytest.mark.parametrize("size", [4096, CHUNK - 1, CHUNK, CHUNK + 1, 20 * CHUNK + 1000])
def test_a_file_arrives_as_it_is(arena: Make, size: int) -> None:
    there = arena(size)
    assert there.fetch() == there.content
    assert sum(there.progress_bytes) == size
    assert not list(there.part.parent.glob("*.part"))
    assert not list(there.part.parent.glob("*.map"))


def test_small_files_are_checked_with_gits_hash(arena: Make) -> None:
    there = arena(100)
    assert there.file.sha256 == ""
    assert there.fetch() == there.content
    there.cache.blob_path(there.file).unlink()
    there.go_wrong(faults.wrong_bytes(at=10))
    with pytest.raises(EnvironmentFault, match="damaged twice"):
        there.fetch()


def test_an_empty_file_is_a_file(arena: Make) -> None:
    assert arena(0).fetch() == b""


def test_several_streams_read_long_runs_and_nothing_twice(arena: Make) -> None:
    there = arena(64 * CHUNK)
    there.fetch(streams=4)
    assert 2 <= len(there.hub.ranges_of(FILE)) < 2 * 64  # each is asked of the hub, and of where it redirects to
    assert sum(there.progress_bytes) == len(there.content)


def test_the_token_goes_to_the_hub_and_not_to_its_storage(arena: Make) -> None:
    there = arena()
    there.fetch()
    assert there.hub.tokens_at_storage
    assert set(there.hub.tokens_at_storage) == {None}


MENDED: dict[str, Fault] = {
    "resets": first(5, faults.breaks_after(CHUNK + 77)),
    "resets at once": first(5, faults.breaks_after(0)),
    "truncated": first(3, faults.truncates(1000)),
    "busy": first(2, faults.status(429, Retry_After="0")),
    "busy until a date": first(1, faults.status(503, Retry_After="Sat, 21 Nov 2026 12:00:00 GMT")),
    "server error": first(3, faults.status(503)),
    "bad gateway": first(3, faults.status(502)),
    "a different part": first(2, faults.other_part),
    "wrong byte": faults.wrong_bytes(at=9 * CHUNK + 5, times=1),
    "no ranges": faults.ignores_ranges,
    "another etag once": first(1, faults.other_etag),
}


@pytest.mark.parametrize("fault", MENDED.values(), ids=MENDED)
def test_what_another_try_mends_is_mended(arena: Make, fault: Fault) -> None:
    there = arena()
    there.go_wrong(fault)
    assert there.fetch() == there.content
    assert sum(there.progress_bytes) == len(there.content)


FATAL: dict[str, tuple[Fault, type[RoundhouseError], str]] = {
    "always wrong": (faults.wrong_bytes(at=5), EnvironmentFault, "checksum_mismatch"),
    "always busy": (faults.status(429), Unavailable, "hub_busy"),
    "busy for an hour": (faults.status(429, Retry_After="3600"), Unavailable, "hub_busy"),
    "closed for an hour": (faults.status(503, Retry_After="3600"), Unavailable, "hub_busy"),
    "limited for an hour": (faults.status(429, RateLimit='"resolvers";r=0;t=3600'), Unavailable, "hub_busy"),
    "always broken": (faults.breaks_after(0), Unavailable, "hub_unreachable"),
    "gone": (faults.status(404), NotFound, "model_not_found"),
    "forbidden": (faults.status(403), Forbidden, "hub_forbidden"),
    "not satisfiable": (faults.status(416), EnvironmentFault, "checksum_mismatch"),
    "grown": (faults.send_longer, EnvironmentFault, "checksum_mismatch"),
    "round in circles": (faults.redirects_for_ever, Unavailable, "hub_unreachable"),
}


@pytest.mark.slow(cases=5)
@pytest.mark.parametrize(("fault", "kind", "code"), FATAL.values(), ids=FATAL)
def test_what_nothing_mends_is_said_and_leaves_no_file(
    arena: Make, fault: Fault, kind: type[RoundhouseError], code: str
) -> None:
    there = arena()
    there.go_wrong(fault)
    with pytest.raises(kind) as error:
        there.fetch(first_pause_s=0.001)
    assert error.value.code == code
    assert not there.cache.blob_path(there.file).exists()


def test_bytes_that_came_before_a_break_are_not_asked_for_again(arena: Make) -> None:
    there = arena(4 * CHUNK)
    there.go_wrong(first(1, faults.breaks_after(CHUNK // 2)))
    there.fetch(streams=1)
    again = [asked_range for asked_range in there.hub.ranges_of(FILE) if not asked_range.startswith("bytes=0-")]
    assert again == [f"bytes={CHUNK // 2}-{4 * CHUNK - 1}"] * 2  # the hub, and the storage it redirects to


def test_a_slow_line_that_breaks_all_the_time_gets_there_in_the_end(arena: Make) -> None:
    there = arena(3 * CHUNK)
    there.go_wrong(faults.breaks_after(CHUNK // 8))
    assert there.fetch(streams=1, first_pause_s=0.0) == there.content
    assert len(there.hub.ranges_of(FILE)) > FRUITLESS_TRIES


def test_pauses_between_fruitless_tries_double(arena: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    class PatientEvent(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0.0)
            return False

    monkeypatch.setattr("app.hub.download.transfer.random.uniform", lambda _low, high: high)
    there = arena(CHUNK)
    there.go_wrong(first(3, faults.breaks_after(0)))
    there.fetch(streams=1, first_pause_s=0.1, stop=PatientEvent())
    assert sum(pauses) == pytest.approx(0.1 + 0.2 + 0.4)


def test_a_pause_is_by_chance_between_half_and_the_whole(arena: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds: list[tuple[float, float]] = []
    pauses: list[float] = []

    class PatientEvent(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0.0)
            return False

    def draw(low: float, high: float) -> float:
        bounds.append((low, high))
        return low

    monkeypatch.setattr("app.hub.download.transfer.random.uniform", draw)
    there = arena(CHUNK)
    there.go_wrong(first(2, faults.breaks_after(0)))
    there.fetch(streams=1, first_pause_s=0.1, stop=PatientEvent())
    assert set(bounds) == {(0.5, 1.0)}
    assert sum(pauses) == pytest.approx(0.05 + 0.1)


def test_a_stream_that_crawls_is_asked_for_anew(arena: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_module, "SLOW_AFTER_S", 0.0)
    monkeypatch.setattr(wire_module, "SLOWEST_BYTES_PER_S", 1 << 50)
    monkeypatch.setattr(wire_module, "PIECE_BYTES", 4096)
    there = arena(CHUNK)
    assert there.fetch(first_pause_s=0.0, streams=1) == there.content
    assert len(there.hub.ranges_of(FILE)) > 2  # the hub's own and the storage's first


def test_stopping_keeps_what_is_there_and_going_on_fetches_the_rest(arena: Make) -> None:
    there, stop = arena(), threading.Event()

    def note_progress(count: int) -> None:
        there.progress_bytes.append(count)
        if sum(there.progress_bytes) > 6 * CHUNK:
            stop.set()

    with pytest.raises(DownloadStopped):
        there.fetch(progress=note_progress, stop=stop)
    kept_bytes = bytes_written(there.part)
    assert 0 < kept_bytes < len(there.content)
    assert not there.cache.blob_path(there.file).exists()
    there.progress_bytes.clear()
    assert there.fetch() == there.content
    assert sum(there.progress_bytes) == len(there.content) - kept_bytes


def test_a_stalled_server_can_be_left(arena: Make) -> None:
    there, stop, stall_event = arena(), threading.Event(), threading.Event()
    there.go_wrong(faults.stalls(stall_event))
    end_errors: list[BaseException] = []

    def run() -> None:
        try:
            there.fetch(stop=stop)
        except BaseException as error:  # noqa: BLE001 -- looked at below
            end_errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    stop.set()
    stall_event.set()
    thread.join(PATIENCE_S)
    assert [type(error) for error in end_errors] == [DownloadStopped]


def test_a_limit_slows_it_down(arena: Make) -> None:
    there, throttle = arena(4 * CHUNK), wire_module.Throttle(bytes_per_s=1e9)
    assert there.fetch(throttle=throttle) == there.content
    took: list[float] = []
    stop = threading.Event()

    def wait(timeout: float | None = None) -> bool:
        took.append(timeout or 0.0)
        return False

    stop.wait = wait  # type: ignore[method-assign]
    wire_module.Throttle(bytes_per_s=1000).wait_for_share(500, stop)
    assert took == [pytest.approx(0.5, abs=0.05)]


def test_a_full_disk_is_said_before_anything_is_fetched(arena: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    there = arena()
    there.cache.check_room(1)
    with pytest.raises(StorageFault, match="other downloads"):
        there.cache.check_room(1, reserved_bytes=1 << 60)
    there.cache.check_room(0, reserved_bytes=1 << 60)
    monkeypatch.setattr(cache_module, "HEAD_ROOM_BYTES", 1 << 60)
    with pytest.raises(StorageFault) as error:
        there.cache.check_room(1)
    assert error.value.code == "disk_full"
    assert "HF_HOME" in error.value.hint


def test_a_map_for_other_content_is_not_gone_on_with(arena: Make) -> None:
    there = arena()
    there.part.parent.mkdir(parents=True)
    old = ChunkMap(there.part, PartContent(size=len(there.content), chunk_bytes=CHUNK, etag="of something else"))
    with closing(old), there.part.open("r+b") as out:
        for index in range(old.content.chunk_count):
            old.mark_chunk(index, out.fileno())
    assert there.fetch() == there.content
