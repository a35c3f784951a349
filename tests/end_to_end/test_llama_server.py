"""A `llama-server` program for real: the one named in `ROUNDHOUSE_TEST_LLAMA_SERVER`, else the one on PATH."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.config.paths import RESOURCES
from engines.api import (
    BufferAllocated,
    ContextSet,
    EngineInstallation,
    EngineLocation,
    FailureKind,
    LaunchOptions,
    LoadProgress,
)
from engines.llama_cpp.descriptor import DESCRIPTOR
from engines.llama_cpp.launch import ADAPTER
from tests.end_to_end.worker import Engine, Worker
from tests.patience import wait_until

GUIDE = RESOURCES / "guide" / "guide-q8_0.gguf"
OPTIONS = LaunchOptions(context=512, slots=2, kv_type="q8_0", threads=2)
QUESTION = [{"role": "user", "content": "What is Roundhouse?"}]
NAMED = os.environ.get("ROUNDHOUSE_TEST_LLAMA_SERVER") or shutil.which(DESCRIPTOR.program)

pytestmark = pytest.mark.skipif(not NAMED, reason="there is no llama-server here")


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> EngineInstallation:
    place = EngineLocation(
        folder=tmp_path_factory.mktemp("place"), version="", backend="cpu", executable=Path(NAMED or "")
    )
    here = ADAPTER.probe(place)
    assert isinstance(here, EngineInstallation)
    return here


@pytest.fixture(scope="module")
def worker(installation: EngineInstallation) -> Iterator[Worker]:
    with closing(Worker(GUIDE, OPTIONS, engine=Engine(ADAPTER, installation))) as worker:
        assert worker.is_ready(), worker.lines
        yield worker


def test_it_tells_its_version_and_flags(installation: EngineInstallation) -> None:
    assert installation.version
    assert {"--model", "--ctx-size", "--api-key", "--port"} <= installation.flags
    assert "--draft-max" not in installation.flags, "its help goes on naming what was removed"


def test_it_says_what_the_worker_says(worker: Worker) -> None:
    body = {"messages": QUESTION, "temperature": 0, "max_tokens": 60}
    with closing(Worker(GUIDE, OPTIONS)) as ours:
        assert ours.is_ready(), ours.lines
        theirs = ours.ask("/v1/chat/completions", body)["choices"][0]["message"]["content"]
    assert worker.ask("/v1/chat/completions", body)["choices"][0]["message"]["content"] == theirs


def test_its_load_and_its_memory_are_told(worker: Worker) -> None:
    wait_until(lambda: list_buffers(worker) >= {"model", "kv", "compute"})
    wait_until(lambda: ContextSet(tokens=512, slots=2) in worker.events())
    assert LoadProgress(stage="Reading weights", fraction=1.0) in worker.events()


def list_buffers(worker: Worker) -> set[str]:
    return {event.purpose for event in worker.events() if isinstance(event, BufferAllocated)}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/metrics", "/slots", "/props"])
def test_nobody_gets_in_without_the_key(worker: Worker, path: str) -> None:
    assert worker.status(path, key="another") == 401


def test_a_taken_port_is_named(installation: EngineInstallation) -> None:
    with socket.socket() as taken_socket:
        taken_socket.bind(("127.0.0.1", 0))
        taken_socket.listen()
        with closing(
            Worker(GUIDE, OPTIONS, port=taken_socket.getsockname()[1], engine=Engine(ADAPTER, installation))
        ) as worker:
            assert worker.expect_end().kind is FailureKind.PORT_IN_USE


def test_a_damaged_file_is_named(installation: EngineInstallation, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(GUIDE.read_bytes()[:1_000_000])
    with closing(Worker(cut, OPTIONS, engine=Engine(ADAPTER, installation))) as worker:
        assert worker.expect_end().kind is FailureKind.MODEL_CORRUPT


def test_it_ends_with_its_standard_input(installation: EngineInstallation) -> None:
    with closing(Worker(GUIDE, OPTIONS, engine=Engine(ADAPTER, installation))) as worker:
        assert worker.is_ready(), worker.lines
        assert worker.process.stdin is not None
        worker.process.stdin.close()
        wait_until(lambda: worker.process.poll() is not None)
