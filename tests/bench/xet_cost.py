"""What it costs that files come from Xet: memory, time beside plain HTTP from the same hub, and what a kill loses.

The hub is the tests' own, written for right answers and not for speed: the ratio says how the two ways compare, and
the speed of neither.
"""

import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from app.hub.download.cache import RepositoryCache
from app.hub.download.chunk_map import bytes_written
from app.hub.download.job import DownloadDone, DownloadJob, DownloadMessage, DownloadNote
from app.hub.download.transfer import CHUNK_BYTES, STREAMS
from app.hub.repositories.repository import Repository, read_repository
from tests.bench.downloading import cut_off, download_reports, file_hash, run_download
from tests.bench.figures import BenchFigure, at_least, at_most
from tests.bench.programs import HOST, start_program, wait_for
from tests.ports import free_port

MEMORY = "memory of a download of 4 files from Xet"
SPEED = "download from Xet / over plain HTTP"
KILLS_HASH = "downloads from Xet whose hash is right after kills"
KILLS_LOST = "bytes a kill loses from Xet / one chunk per stream"
MEBIBYTES, ROUNDS, KILLS = 64, 3, 30
LIMIT_MB = 150.0
_MB = 1e6
_LOOK_S = 0.005
_SAID: msgspec.json.Decoder[DownloadMessage] = msgspec.json.Decoder(DownloadMessage)


class _XetFixture(NamedTuple):
    """A repository at a hub, and a folder to fetch it into."""

    url: str
    repository: Repository
    folder: Path

    def make_job(self, *, xet: bool, files: int | None = None) -> DownloadJob:
        return DownloadJob(
            endpoint=self.url,
            repository=self.repository.name,
            revision=self.repository.commit,
            commit=self.repository.commit,
            files=self.repository.files[:files],
            cache=str(self.folder / "hub"),
            xet=xet,
        )


def measure() -> Sequence[BenchFigure]:
    """Return memory, the ratio of times, and what kills cost."""
    port = free_port()
    with (
        start_program("tests.bench.xet_hub", str(port), str(MEBIBYTES)) as hub,
        tempfile.TemporaryDirectory() as folder,
    ):
        wait_for(port, hub)
        url = f"http://{HOST}:{port}"
        ground = _XetFixture(url, read_repository(url, "bench/model"), Path(folder))
        memory = at_most(MEMORY, _memory(ground) / _MB, LIMIT_MB, "MB")
        ratios = [_download_once(ground, xet=False) / _download_once(ground, xet=True) for _round in range(ROUNDS)]
        return [memory, at_least(SPEED, statistics.median(ratios), 0.5), *_measure_kills(ground)]


def _download_once(ground: _XetFixture, *, xet: bool) -> float:
    """Return the seconds of one download."""
    began = time.perf_counter()
    _check(download_reports(ground.make_job(xet=xet)))
    took = time.perf_counter() - began
    shutil.rmtree(ground.folder / "hub")
    return took


def _memory(ground: _XetFixture) -> float:
    """Return the most a download took, in bytes."""
    most = 0.0
    with run_download(ground.make_job(xet=True)) as child:
        reports: list[DownloadMessage] = []
        reader = threading.Thread(target=lambda: reports.extend(map(_SAID.decode, child.stdout)))
        reader.start()
        while child.poll() is None:
            try:
                most = max(most, psutil.Process(child.pid).memory_info().rss)
            except psutil.NoSuchProcess:
                break
            time.sleep(_LOOK_S)
        reader.join()
    _check(reports)
    shutil.rmtree(ground.folder / "hub")
    return most


def _measure_kills(ground: _XetFixture) -> list[BenchFigure]:
    """Kill downloads at random points until one is whole, again and again."""
    luck, kills, whole, right, lost_bytes = random.Random(11), 0, 0, 0, 0  # noqa: S311 -- when to kill
    job, file = ground.make_job(xet=True, files=1), ground.repository.files[0]
    cache = RepositoryCache(Path(job.cache), job.repository)
    while kills < KILLS:
        while kills < KILLS and (moved_bytes := cut_off(job, luck.uniform(0.2, 1.0))) is not None:
            kills += 1
            lost_bytes = max(lost_bytes, moved_bytes - bytes_written(cache.part_path(file)))
        _check(download_reports(job))
        whole += 1
        right += file_hash(cache.blob_path(file)) == file.sha256
        shutil.rmtree(ground.folder / "hub")
    share = BenchFigure(
        name=KILLS_HASH, measurement=f"{right} of {whole}, {kills} kills", target="all", ok=right == whole
    )
    return [share, at_most(KILLS_LOST, lost_bytes / (STREAMS * CHUNK_BYTES), 1.0)]


def _check(reports: list[DownloadMessage]) -> None:
    """See that it went well, and all of it by the way that was asked for."""
    assert isinstance(reports[-1], DownloadDone), reports[-1]
    assert not [report for report in reports if isinstance(report, DownloadNote)], reports
