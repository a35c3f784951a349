"""The pieces a download is made of: who fetches which chunk, and what is known of a part file after anything."""

import os
import shutil
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import StorageFault
from app.hub.download import chunk_map
from app.hub.download.cache import RepositoryCache
from app.hub.download.chunk_map import ChunkMap, PartContent, bytes_written
from app.hub.download.program import present_bytes
from app.hub.download.transfer import Regions
from app.hub.repositories.repository import RepoFile

CONTENT = PartContent(size=1050, chunk_bytes=100, etag="e")


def test_a_file_is_there_once_all_of_it_is(tmp_path: Path) -> None:
    cache, file = RepositoryCache(tmp_path, "org/model"), RepoFile(path="m.gguf", size=4, sha256="e")
    assert not cache.has_file("c", file)
    place = cache.snapshot_path("c", file.path)
    place.parent.mkdir(parents=True)
    for content, is_whole in ((b"123", False), (b"1234", True), (b"12345", False)):
        place.write_bytes(content)
        assert cache.has_file("c", file) is is_whole


@given(missing_chunks=st.sets(st.integers(0, 60)), streams=st.integers(1, 6), data=st.data())
def test_every_chunk_is_given_out_once_and_breaks_lose_none(
    missing_chunks: set[int], streams: int, data: st.DataObject
) -> None:
    regions, at, done_chunks = Regions(missing_chunks), dict[int, int](), list[int]()
    for _step in range(2000):
        stream = data.draw(st.integers(0, streams - 1)) if len(done_chunks) < 30 else _step % streams
        if stream not in at:
            run = regions.take_run()
            if run is None:
                if not at:
                    break
                continue
            assert run.start not in at.values()
            at[stream] = run.start
        elif len(done_chunks) < 30 and data.draw(st.booleans()) and data.draw(st.booleans()):
            regions.give_back(at.pop(stream))
        else:
            index = at.pop(stream)
            done_chunks.append(index)
            if regions.go_on(index):
                at[stream] = index + 1
    assert sorted(done_chunks) == sorted(missing_chunks)


def test_a_late_stream_takes_the_second_half_of_what_another_reads() -> None:
    regions = Regions(range(10))
    assert regions.take_run() == range(10)
    assert regions.take_run() == range(5, 10)
    assert regions.take_run() in (range(3, 5), range(8, 10))
    assert regions.go_on(0)


def mark_chunks(folder: Path, *indexes: int, count: int = CONTENT.chunk_count) -> list[int]:
    """Open the map of a part file, mark chunks, and return what is missing then."""
    with closing(ChunkMap(folder / "blob.part", CONTENT)) as chunks, (folder / "blob.part").open("r+b") as out:
        for index in indexes:
            chunks.mark_chunk(index, out.fileno())
        assert chunks.content.chunk_count == count
        return chunks.chunks_to_fetch


def test_marks_outlive_the_process(tmp_path: Path) -> None:
    mark_chunks(tmp_path, 3, 10)
    assert bytes_written(tmp_path / "blob.part") == 150
    assert mark_chunks(tmp_path) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_what_was_not_on_disk_when_the_power_went_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_map, "SYNC_S", 0.0)
    mark_chunks(tmp_path, 1)
    monkeypatch.setattr(chunk_map, "SYNC_S", 1e9)
    mark_chunks(tmp_path, 2)
    before = psutil.boot_time() - 3600
    os.utime(tmp_path / "blob.map", (before, before))
    assert {1, 2} & set(mark_chunks(tmp_path)) == {2}


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff" * 50, b'{"size":1050}\n' + b"\1" * 11])
def test_a_damaged_map_counts_for_nothing(tmp_path: Path, damage: bytes) -> None:
    mark_chunks(tmp_path, 1)
    (tmp_path / "blob.map").write_bytes(damage)
    assert len(mark_chunks(tmp_path)) == 11


def test_a_map_without_its_part_counts_for_nothing(tmp_path: Path) -> None:
    mark_chunks(tmp_path, 1)
    (tmp_path / "blob.part").unlink()
    assert bytes_written(tmp_path / "blob.part") == 0
    assert len(mark_chunks(tmp_path)) == 11


def test_what_the_system_was_handed_after_its_last_start_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_map, "SYNC_S", 1e9)
    mark_chunks(tmp_path, 2)
    for offset_s, is_believed in ((-30.0, True), (30.0, True), (-90.0, False)):
        at = psutil.boot_time() + offset_s
        os.utime(tmp_path / "blob.map", (at, at))
        assert (2 not in mark_chunks(tmp_path)) == is_believed, "clocks are put right for a minute after a start"
        mark_chunks(tmp_path, 2)


@pytest.mark.parametrize("marks", [b"\1" * 10, b"\1" * 12, b"\3" + b"\1" * 10, b""])
def test_marks_of_another_count_or_kind_count_for_nothing(tmp_path: Path, marks: bytes) -> None:
    mark_chunks(tmp_path, 1)
    file = tmp_path / "blob.map"
    file.write_bytes(file.read_bytes().partition(b"\n")[0] + b"\n" + marks)
    assert len(mark_chunks(tmp_path)) == 11
    assert len(mark_chunks(tmp_path)) == 11


def test_a_part_of_another_size_counts_for_nothing(tmp_path: Path) -> None:
    mark_chunks(tmp_path, 1)
    with (tmp_path / "blob.part").open("r+b") as part:
        part.truncate(7)
    assert len(mark_chunks(tmp_path)) == 11
    assert (tmp_path / "blob.part").stat().st_size == CONTENT.size


def test_what_was_wrong_is_forgotten_also_by_the_next_process(tmp_path: Path) -> None:
    with closing(ChunkMap(tmp_path / "blob.part", CONTENT)) as chunks, (tmp_path / "blob.part").open("r+b") as out:
        chunks.mark_chunk(4, out.fileno())
        assert chunks.has_chunk(4)
        chunks.clear_chunks(chunks.all_chunks)
        assert not chunks.has_chunk(4)
        assert [len(chunks.chunk_span(index)) for index in (0, 9, 10)] == [100, 100, 50]
    assert len(mark_chunks(tmp_path)) == 11
    with closing(ChunkMap(tmp_path / "blob.part", CONTENT)) as chunks:
        chunks.delete_map()
        chunks.delete_map()
    assert not (tmp_path / "blob.map").exists()


def test_what_need_not_be_fetched_is_a_whole_file_a_blob_or_the_chunks_of_a_part(tmp_path: Path) -> None:
    cache, file = RepositoryCache(tmp_path, "org/model"), RepoFile(path="a/m.gguf", size=1050, sha256="e")
    assert present_bytes(cache, "c", file) == 0
    cache.part_path(file).parent.mkdir(parents=True)
    part = cache.part_path(file)
    with closing(ChunkMap(part, CONTENT)) as chunks, part.open("r+b") as out:
        for index in (0, 10):
            chunks.mark_chunk(index, out.fileno())
    assert present_bytes(cache, "c", file) == 150
    cache.blob_path(file).write_bytes(b"x" * 1050)
    assert present_bytes(cache, "c", file) == 1050
    cache.link_file("c", file)
    assert cache.has_file("c", file)
    cache.blob_path(file).unlink()
    cache.snapshot_path("c", file.path).unlink()
    cache.snapshot_path("c", file.path).write_bytes(b"x" * 1050)
    assert present_bytes(cache, "c", file) == 1050


def test_a_branch_points_to_its_commit_whatever_its_name(tmp_path: Path) -> None:
    cache = RepositoryCache(tmp_path / "new" / "cache", "org/model")
    cache.remember_revision("refs/pr/1", "abc")
    assert (cache.folder / "refs/refs/pr/1").read_text() == "abc"
    cache.remember_revision("def", "def")
    assert not (cache.folder / "refs/def").exists(), "a commit needs no name"


def test_a_full_disk_is_told_how_much_more_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gib = 1 << 30
    monkeypatch.setattr(shutil, "disk_usage", lambda _place: SimpleNamespace(free=5 * gib))
    cache = RepositoryCache(tmp_path / "new" / "cache", "org/model")
    cache.check_room(4 * gib)
    with pytest.raises(StorageFault) as refusal:
        cache.check_room(6 * gib)
    assert str(refusal.value).endswith("needs 6.0 GiB, and 5.0 GiB are free on its disk.")
    assert refusal.value.hint.startswith("Free 2.0 GiB,")
    with pytest.raises(StorageFault) as error:
        cache.check_room(3 * gib, reserved_bytes=2 * gib)
    assert "3.0 GiB are free on its disk beside the 2.0 GiB that other downloads still take" in str(error.value)
    assert error.value.hint.startswith("Free 1.0 GiB,")
