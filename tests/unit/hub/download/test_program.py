"""The download as a process: told by one line, killed at any moment, gone on with, and found by other programs."""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from huggingface_hub import hf_hub_download, scan_cache_dir

from app.config.programs import module_command
from app.hub.download.chunk_map import bytes_written
from app.hub.download.job import (
    DownloadDone,
    DownloadFailed,
    DownloadJob,
    DownloadMessage,
    DownloadProgress,
    DownloadStarted,
)
from app.hub.download.transfer import CHUNK_BYTES, STREAMS
from app.hub.repositories.repository import read_repository
from tests.fake_hub import faults
from tests.fake_hub.hub import FakeHub
from tests.patience import PATIENCE_S
from tests.unit.hub.download.conftest import FILE, NAME, Arena, content_of

Make = Callable[..., Arena]
KILLS = 12


def job_for(there: Arena, **more: object) -> DownloadJob:
    repository = read_repository(there.hub.url, NAME)
    return DownloadJob(
        endpoint=there.hub.url,
        repository=NAME,
        revision="main",
        commit=repository.commit,
        files=repository.files,
        cache=str(there.cache.root),
        **more,  # type: ignore[arg-type]
    )


@contextmanager
def start_program(job: DownloadJob) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        module_command("app.hub.download.program"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        child.stdin.write(msgspec.json.encode(job) + b"\n")
        child.stdin.flush()
        try:
            yield child
        finally:
            child.kill()


def run(job: DownloadJob) -> list[DownloadMessage]:
    with start_program(job) as child:
        assert child.stdout is not None
        messages = [msgspec.json.decode(line, type=DownloadMessage) for line in child.stdout]
        child.wait(PATIENCE_S)
    return messages


def test_every_file_is_brought_and_huggingfaces_own_client_finds_it(arena: Make) -> None:
    there = arena()
    messages = run(job_for(there))
    assert messages[0] == DownloadStarted(total_bytes=len(there.content) + 2, present_bytes=0)
    assert isinstance(messages[-1], DownloadDone)
    assert (Path(messages[-1].folder) / FILE).read_bytes() == there.content
    count = len(there.hub.requests)
    path = hf_hub_download(NAME, FILE, cache_dir=there.cache.root, endpoint=there.hub.url, local_files_only=True)
    assert Path(path).read_bytes() == there.content
    assert len(there.hub.requests) == count
    (kept_repository,) = scan_cache_dir(there.cache.root).repos
    assert (kept_repository.repo_id, kept_repository.nb_files, set(kept_repository.refs)) == (NAME, 2, {"main"})
    assert run(job_for(there))[-1] == messages[-1]
    assert len([request for request in there.hub.requests if "/resolve/" in request[1]]) == len(
        [request for request in there.hub.requests[:count] if "/resolve/" in request[1]]
    )


@pytest.mark.slow
def test_what_huggingfaces_own_client_has_fetched_is_not_fetched_again(arena: Make) -> None:
    there = arena()
    hf_hub_download(NAME, FILE, cache_dir=there.cache.root, endpoint=there.hub.url)
    before = there.hub.sent_bytes
    assert isinstance(run(job_for(there))[-1], DownloadDone)
    assert there.hub.sent_bytes - before < 5000


def test_why_it_failed_is_its_last_line(arena: Make) -> None:
    there = arena()
    there.hub.faults[FILE] = faults.status(403)
    last = run(job_for(there))[-1]
    assert isinstance(last, DownloadFailed)
    assert last.error.code == "hub_forbidden"


def test_it_ends_with_whoever_started_it(arena: Make) -> None:
    there = arena(16 << 20)
    with start_program(job_for(there, bytes_per_s=1 << 20)) as child:
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(PATIENCE_S) == 81


def test_the_token_is_shown_to_the_hub_only(hub: FakeHub, arena: Make) -> None:
    there = arena()
    hub.repositories[NAME].gated = "manual"
    assert isinstance(run(job_for(there))[-1], DownloadFailed)
    hub.repositories[NAME].readers.add("hf_secret")
    assert isinstance(run(job_for(there, token="hf_secret"))[-1], DownloadDone)
    assert set(hub.tokens_at_storage) == {None}


@pytest.mark.slow
def test_a_killed_download_goes_on_and_loses_a_chunk_per_stream_at_most(arena: Make) -> None:
    there = arena(48 << 20)
    job = job_for(there)
    luck = random.Random(7)  # noqa: S311 -- when to kill
    refetched_bytes = 0
    for _kill in range(KILLS):
        kept_bytes = bytes_written(there.part)
        with start_program(job) as child:
            assert child.stdout is not None
            first = msgspec.json.decode(child.stdout.readline(), type=DownloadMessage)
            assert isinstance(first, DownloadStarted)
            assert first.present_bytes >= kept_bytes
            time.sleep(luck.uniform(0, 0.05))
        assert (
            not there.cache.blob_path(there.file).exists()
            or there.cache.blob_path(there.file).read_bytes() == there.content
        )
        refetched_bytes = max(refetched_bytes, kept_bytes - bytes_written(there.part))
    progress_messages = [message for message in run(job) if isinstance(message, DownloadProgress)]
    assert there.cache.blob_path(there.file).read_bytes() == there.content
    assert progress_messages[-1].present_bytes == len(there.content) + 2
    assert refetched_bytes <= 0, "a map that was kept is never shorter the next time"


@pytest.mark.slow
def test_the_sent_bytes_of_killed_downloads_are_bounded(arena: Make) -> None:
    there = arena(0)
    content = content_of(6 * CHUNK_BYTES)
    there.hub.repositories[NAME].branches["main"][FILE] = content
    with start_program(job_for(there, bytes_per_s=CHUNK_BYTES * 4)) as child:
        assert child.stdout is not None
        while (text := msgspec.json.decode(child.stdout.readline(), type=DownloadMessage)) and not (
            isinstance(text, DownloadProgress) and text.present_bytes > 3 * CHUNK_BYTES
        ):
            pass
    lost_bytes = text.present_bytes - bytes_written(there.part)
    assert lost_bytes <= STREAMS * CHUNK_BYTES
    assert (Path(run(job_for(there))[-1].folder) / FILE).read_bytes() == content  # type: ignore[union-attr]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there that most people do not have")
def test_links_are_relative_so_that_the_cache_can_be_moved(arena: Make, tmp_path: Path) -> None:
    there = arena()
    run(job_for(there))
    there.cache.root.rename(tmp_path / "moved")
    (file,) = (tmp_path / "moved").glob(f"models--*/snapshots/*/{FILE}")
    assert file.read_bytes() == there.content
