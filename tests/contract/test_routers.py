"""What smg and vllm-router are told, what their logs mean, and that none of them is reached without the key."""

import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest

from engines.api import (
    EngineInstallation,
    Exit,
    FailureKind,
    LaunchOptions,
    ListenOptions,
    LoadProgress,
    ModelFormat,
    ModelSource,
    RemoteEndpoint,
    Suspicion,
)
from engines.registry import ADAPTERS
from engines.vllm_router import worker
from engines.worker_base import KEY_VARIABLE, WorkerLaunch

ROUTERS = ("smg", "vllm-router")
NET = ListenOptions(host="127.0.0.1", port=50_001, key="sk-secret")


def source(policy: str = "") -> ModelSource:
    remote = RemoteEndpoint(
        url="http://a:1/v1", served_as="m", key_file=Path("k"), replicas=("http://a:1", "http://b:1"), policy=policy
    )
    return ModelSource(name="team", path=Path("r"), format=ModelFormat.REMOTE, remote=remote)


@pytest.mark.parametrize("engine", ROUTERS)
def test_a_router_is_started_without_a_key_in_sight(engine: str) -> None:
    here = EngineInstallation(engine=engine, version="1", backend="cpu", python=Path(sys.executable))
    (process,) = ADAPTERS[engine].plan(source(), LaunchOptions(), NET, here).processes
    assert NET.key not in " ".join((*process.argv, *process.env.values()))
    assert process.secrets[KEY_VARIABLE] == NET.key
    with pytest.raises(ValueError, match="no policy 'best'"):
        ADAPTERS[engine].plan(source("best"), LaunchOptions(), NET, here)


def test_what_vllm_routers_log_means() -> None:
    adapter = ADAPTERS["vllm-router"]
    line = "INFO vllm_router_rs::routers::http::router: Waiting for 2 unique hosts (representing 2 workers) to become"
    (event,) = adapter.read_log(line)
    assert isinstance(event, LoadProgress)
    assert event.stage == "Looking for replicas"
    last = "worker: RuntimeError: none of the replicas answers"
    suspicions = [suspicion for suspicion in adapter.read_log(last) if isinstance(suspicion, Suspicion)]
    end = Exit(code=84, suspicions=suspicions, tail=(last,), was_ready=False)
    failure = adapter.classify_exit(end)
    assert failure.kind is FailureKind.STALLED
    assert "fleet list" in failure.hint


class Replica(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


@pytest.fixture
def replica_url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Replica) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def launch_of(*replicas: str) -> WorkerLaunch:
    return WorkerLaunch(
        config={"host": "127.0.0.1", "port": 1, "policy": "random", "replicas": list(replicas)}, key="k"
    )


def test_vllm_router_begins_with_those_replicas_that_answer(replica_url: str) -> None:
    arguments = worker.build_arguments(launch_of("http://127.0.0.1:9", replica_url))
    assert arguments["worker_urls"] == [replica_url]
    assert arguments["prometheus_host"] == "127.0.0.1"
    with pytest.raises(RuntimeError, match="none of the replicas answers"):
        worker.build_arguments(launch_of("http://127.0.0.1:9"))


@pytest.mark.parametrize(("authorization", "status"), [("Bearer k", 200), ("Bearer x", 401), ("", 401)])
def test_the_judge_lets_in_who_shows_the_key(authorization: str, status: int) -> None:
    with HTTPServer(("127.0.0.1", 0), type("Judge", (worker.KeyJudge,), {"key": "k"})) as judge:
        Thread(target=judge.serve_forever, daemon=True).start()
        reply = httpx.get(f"http://127.0.0.1:{judge.server_port}/", headers={"Authorization": authorization})
        assert reply.status_code == status
        judge.shutdown()
