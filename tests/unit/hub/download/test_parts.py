"""The pieces a download is made of: who fetches which chunk, and what is known of a part file after anything."""

import os
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.hub.download import chunk_map
from app.hub.download.cache import RepositoryCache
from app.hub.download.chunk_map import ChunkMap, PartContent, bytes_written
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


@given(missing=st.sets(st.integers(0, 60)), streams=st.integers(1, 6), data=st.data())
def test_every_chunk_is_given_out_once_and_breaks_lose_none(
    missing: set[int], streams: int, data: st.DataObject
) -> None:
    regions, at, done = Regions(missing), dict[int, int](), list[int]()
    for _step in range(2000):
        stream = data.draw(st.integers(0, streams - 1)) if len(done) < 30 else _step % streams
        if stream not in at:
            run = regions.take_run()
            if run is None:
                if not at:
                    break
                continue
            assert run.start not in at.values()
            at[stream] = run.start
        elif len(done) < 30 and data.draw(st.booleans()) and data.draw(st.booleans()):
            regions.give_back(at.pop(stream))
        else:
            index = at.pop(stream)
            done.append(index)
            if regions.go_on(index):
                at[stream] = index + 1
    assert sorted(done) == sorted(missing)


def test_a_late_stream_takes_the_second_half_of_what_another_reads() -> None:
    regions = Regions(range(10))
    assert regions.take_run() == range(10)
    assert regions.take_run() == range(5, 10)
    assert regions.take_run() in (range(3, 5), range(8, 10))
    assert regions.go_on(0)


def marked(folder: Path, *indexes: int, count: int = CONTENT.chunk_count) -> list[int]:
    """Open the map of a part file, mark chunks, and return what is missing then."""
    with closing(ChunkMap(folder / "blob.part", CONTENT)) as chunks, (folder / "blob.part").open("r+b") as out:
        for index in indexes:
            chunks.mark_chunk(index, out.fileno())
        assert chunks.content.chunk_count == count
        return chunks.chunks_to_fetch


def test_marks_outlive_the_process(tmp_path: Path) -> None:
    marked(tmp_path, 3, 10)
    assert bytes_written(tmp_path / "blob.part") == 150
    assert marked(tmp_path) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_what_was_not_on_disk_when_the_power_went_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_map, "SYNC_S", 0.0)
    marked(tmp_path, 1)
    monkeypatch.setattr(chunk_map, "SYNC_S", 1e9)
    marked(tmp_path, 2)
    before = psutil.boot_time() - 3600
    os.utime(tmp_path / "blob.map", (before, before))
    assert {1, 2} & set(marked(tmp_path)) == {2}


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff" * 50, b'{"size":1050}\n' + b"\1" * 11])
def test_a_damaged_map_counts_for_nothing(tmp_path: Path, damage: bytes) -> None:
    marked(tmp_path, 1)
    (tmp_path / "blob.map").write_bytes(damage)
    assert len(marked(tmp_path)) == 11


def test_a_map_without_its_part_counts_for_nothing(tmp_path: Path) -> None:
    marked(tmp_path, 1)
    (tmp_path / "blob.part").unlink()
    assert bytes_written(tmp_path / "blob.part") == 0
    assert len(marked(tmp_path)) == 11
