"""How fast files come compared with curl in the same run, what a pull costs besides, what a kill does, and memory."""

import contextlib
import hashlib
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from app.config.programs import module_command
from app.hub.download.cache import RepositoryCache
from app.hub.download.chunk_map import bytes_written
from app.hub.download.job import DownloadDone, DownloadJob, DownloadMessage, DownloadProgress
from app.hub.download.transfer import CHUNK_BYTES, STREAMS
from app.hub.repositories.repository import RepoFile
from tests.bench.commands import lend_commands
from tests.bench.figures import BenchFigure, at_least, at_most, not_measured
from tests.bench.programs import HOST, start_program, wait_for
from tests.ports import free_port

SPEED = "download of 1 GB with its hash / curl"
KILLS_HASH = "downloads whose hash is right after kills"
KILLS_LOST = "bytes a kill loses / one chunk per stream"
MEMORY = "memory of 4 downloads at once"
FIXED = "roundhouse pull of 200 MB, beyond curl's time"
PULLED, PULLS, FIXED_S = 200_000_000, 5, 0.7
SIZE, ROUNDS = 1_000_000_000, 3
SMALL, KILLS = 160 << 20, 100
LIMIT_MB = 150.0
_MB = 1e6
_SAID: msgspec.json.Decoder[DownloadMessage] = msgspec.json.Decoder(DownloadMessage)
_NAME, _COMMIT = "bench/model", "0" * 40


class ServedFile(NamedTuple):
    """A file behind a hub's address."""

    url: str
    file: RepoFile
    folder: Path

    def make_job(self, cache: Path, **more: float) -> DownloadJob:
        """Return what fetches it into `cache`."""
        return DownloadJob(
            endpoint=self.url,
            repository=_NAME,
            revision=_COMMIT,
            commit=_COMMIT,
            files=[self.file],
            cache=str(cache),
            bytes_per_s=more.get("bytes_per_s", 0.0),
        )


def measure() -> Sequence[BenchFigure]:
    """Return speed, what kills cost, and memory."""
    if not hasattr(os, "sendfile"):
        return [not_measured(SPEED, ">= 0.9", "needs Linux or macOS")]
    with _serve_file(SMALL) as small:
        killed_downloads = _measure_kills(small)
        memory = _memory(small)
    return [_speed(), *measure_pull(), *killed_downloads, at_most(MEMORY, memory / _MB, LIMIT_MB, "MB")]


def _speed() -> BenchFigure:
    curl = shutil.which("curl")
    if curl is None:
        return not_measured(SPEED, ">= 0.9", "curl is not installed")
    with _serve_file(SIZE) as served_file:
        _download_once(served_file)
        ratios = [
            _time_curl(curl, f"{served_file.url}/file", served_file.folder) / _download_once(served_file)
            for _round in range(ROUNDS)
        ]
    return at_least(SPEED, statistics.median(ratios), 0.9)


def measure_pull(size: int = PULLED, pulls: int = PULLS) -> Sequence[BenchFigure]:
    """Return what the whole command takes beyond what curl takes for the file, a gateway being there."""
    curl = shutil.which("curl")
    if curl is None:
        return [not_measured(FIXED, f"<= {FIXED_S:g} s", "curl is not installed")]
    port = free_port()
    url = f"http://{HOST}:{port}"
    with (
        start_program("tests.bench.model_hub", str(port), str(size)) as hub,
        lend_commands({"HF_ENDPOINT": url}) as roundhouse,
    ):
        wait_for(port, hub)
        roundhouse.start_service()
        beyond = []
        for _ in range(pulls + 1):
            took = roundhouse.run("pull", f"{_NAME}:Q4_K_M")
            beyond.append(took - _time_curl(curl, f"{url}/{_NAME}/resolve/main/model-Q4_K_M.gguf", roundhouse.folder))
            roundhouse.run("downloads", "remove", f"{_NAME}:Q4_K_M")
            roundhouse.run("rm", f"{_NAME}:Q4_K_M", "--yes")
    return [at_most(FIXED, statistics.median(beyond[1:]), FIXED_S, "s")]


def _download_once(served_file: ServedFile) -> float:
    """Return the seconds of one download."""
    cache = served_file.folder / "cache"
    began = time.perf_counter()
    *_, last = download_reports(served_file.make_job(cache))
    took = time.perf_counter() - began
    assert isinstance(last, DownloadDone), last
    shutil.rmtree(cache)
    return took


def _time_curl(curl: str, url: str, folder: Path) -> float:
    """Return the seconds that curl takes to write what is at an address to a file."""
    target = folder / "curl"
    began = time.perf_counter()
    subprocess.run([curl, "-sL", "-o", str(target), url], check=True)
    took = time.perf_counter() - began
    target.unlink()
    return took


def _measure_kills(served_file: ServedFile) -> list[BenchFigure]:
    """Kill downloads at random points until one is whole, again and again."""
    luck, kills, right, lost_bytes, whole = random.Random(11), 0, 0, 0.0, 0  # noqa: S311 -- when to kill
    while kills < KILLS:
        cache = served_file.folder / "cache"
        part = RepositoryCache(cache, _NAME).part_path(served_file.file)
        slow = served_file.make_job(cache, bytes_per_s=SMALL / 2)
        while kills < KILLS and (moved_bytes := cut_off(slow, luck.uniform(0.05, 0.5))) is not None:
            kills += 1
            lost_bytes = max(lost_bytes, moved_bytes - bytes_written(part))
        *_, last = download_reports(served_file.make_job(cache))
        whole += 1
        blob = RepositoryCache(cache, _NAME).blob_path(served_file.file)
        right += isinstance(last, DownloadDone) and file_hash(blob) == served_file.file.sha256
        shutil.rmtree(cache)
    share = BenchFigure(
        name=KILLS_HASH, measurement=f"{right} of {whole}, {kills} kills", target="all", ok=right == whole
    )
    return [share, at_most(KILLS_LOST, lost_bytes / (STREAMS * CHUNK_BYTES), 1.0)]


def cut_off(job: DownloadJob, after_s: float) -> int | None:
    """Run a download and kill it after a while; return how far it had said to be, None if it was done before."""
    moved_bytes = 0
    with run_download(job) as child:
        kill_timer = threading.Timer(after_s, child.kill)
        kill_timer.start()
        try:
            for line in child.stdout:
                report = _decode_report(line)
                if isinstance(report, DownloadDone):
                    return None
                moved_bytes = (
                    max(moved_bytes, report.present_bytes) if isinstance(report, DownloadProgress) else moved_bytes
                )
        finally:
            kill_timer.cancel()
    return moved_bytes


def _decode_report(line: bytes) -> DownloadMessage | None:
    try:
        return _SAID.decode(line)
    except msgspec.DecodeError:  # the kill came in the middle of a line
        return None


def _memory(served_file: ServedFile) -> float:
    """Return the most that four downloads took together, in bytes."""
    most = 0.0
    with contextlib.ExitStack() as stack:
        jobs = [
            served_file.make_job(served_file.folder / f"cache{number}", bytes_per_s=SMALL / 2) for number in range(4)
        ]
        children = [psutil.Process(stack.enter_context(run_download(job)).pid) for job in jobs]
        ends_at = time.monotonic() + 1.5
        while time.monotonic() < ends_at:
            most = max(most, sum(child.memory_info().rss for child in children))
            time.sleep(0.05)
    return most


def download_reports(job: DownloadJob) -> list[DownloadMessage]:
    """Run a download to its end and return what it said."""
    with run_download(job) as child:
        return [msgspec.json.decode(line, type=DownloadMessage) for line in child.stdout]


@contextlib.contextmanager
def run_download(job: DownloadJob) -> Iterator[psutil.Popen]:
    """Start a download; killed at exit."""
    child = psutil.Popen(module_command("app.hub.download.program"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdin.write(msgspec.json.encode(job) + b"\n")
    child.stdin.flush()
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        child.stdin.close()
        child.stdout.close()


@contextlib.contextmanager
def _serve_file(size: int) -> Iterator[ServedFile]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        content = Path(folder) / "file"
        with content.open("wb") as out:
            piece = random.Random(size).randbytes(1 << 20)  # noqa: S311 -- bytes to send
            for start in range(0, size, len(piece)):
                out.write((start.to_bytes(8, "big") + piece[8:])[: size - start])
        port = free_port()
        wait_for(port, stack.enter_context(start_program("tests.bench.file_server", str(port), str(content))))
        yield ServedFile(
            f"http://{HOST}:{port}", RepoFile(path="model.gguf", size=size, sha256=file_hash(content)), Path(folder)
        )


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
