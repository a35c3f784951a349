"""Two replicas of vLLM on the processor behind each router, started by Roundhouse: one is killed, one drained.

Chats go on all the while: each is answered once, or ends with an error.
"""

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import Self

import psutil
import pytest

from app.client.discovery import ensure_gateway
from app.client.http import GatewayClient
from app.config.paths import RESOURCES, Paths
from app.core.engines import EngineStatus
from app.core.fleets import Fleet, FleetReplica, ReplicaState, StartFleet
from app.core.models import ModelInfo
from tests.end_to_end.conftest import Roundhouse
from tests.end_to_end.served_guide import CONTEXT, MODEL, WITHIN_S
from tests.end_to_end.test_fleet import Outcome, http, install, outcome_of
from tests.patience import wait_until
from tests.real_engines.vllm_on_cpu import vllm_program

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(sys.platform != "linux", reason="the routers have wheels for Linux alone"),
]
AT_ONCE = 8
LEAST = 100
"""Chats that end between two events."""
PAUSE_S = 4.0
"""Between two chats while a replica starts, which has to share the processor with the other's answers."""
STARTS_WITHIN_S = 900.0
"""Two at once on two cores that others use, too."""


@pytest.fixture(scope="module", autouse=True)
def shared_http_client() -> Iterator[None]:
    """Make it before threads do, and close it."""
    with http():
        yield
    http.cache_clear()


@pytest.fixture(scope="module")
def client(home: Paths, roundhouse: Roundhouse) -> Iterator[GatewayClient]:
    """A gateway on whose PATH vLLM is, with the Guide as a folder for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{vllm_program().parent}")
        gateway = GatewayClient(ensure_gateway(home), timeout_s=WITHIN_S)
        shutil.copytree(RESOURCES / "guide" / "hf", home.models / MODEL, dirs_exist_ok=True)
        options = ("--engine", "vllm", "--context", str(CONTEXT), "--slots", "4", "--gpu-memory-fraction", "0.1")
        result = roundhouse("tune", MODEL, *options, within_s=WITHIN_S)
        assert not result.returncode, result.stdout + result.stderr
        yield gateway


def list_replicas(client: GatewayClient) -> dict[str, FleetReplica]:
    (fleet,) = client.get("/fleets", list[Fleet])
    return {replica.name: replica for replica in fleet.replicas}


def is_in_state(client: GatewayClient, state: ReplicaState, *names: str) -> bool:
    replicas = list_replicas(client)
    return all(replicas[name].state is state for name in names)


def kill_replica(client: GatewayClient, name: str) -> None:
    """Kill one engine, and wait until it is seen to be gone."""
    statuses = client.get("/running", list[EngineStatus])
    (pid,) = (status.pid for status in statuses if status.model == f"team#{name}")
    assert pid is not None
    psutil.Process(pid).kill()
    wait_until(lambda: not is_in_state(client, ReplicaState.READY, name))


def drain_replica(client: GatewayClient, name: str) -> None:
    """Give one nothing new, and wait until its engine has answered what it had and ended."""
    client.post(f"/fleets/team/replicas/{name}/drain", None, Fleet)
    wait_until(partial(is_in_state, client, ReplicaState.DRAINED, name), within_s=STARTS_WITHIN_S)


class Chats:
    """Chats that go on until the `with` block ends."""

    def __init__(self, client: GatewayClient) -> None:
        self._client, self._over, self._pause_s = client, Event(), 0.0
        self.outcomes: list[Outcome] = []

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._futures = [self._pool.submit(self._chat_on, number) for number in range(AT_ONCE)]
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        for future in self._futures:
            future.result()
        self._pool.shutdown()

    def _chat_on(self, number: int) -> None:
        while not self._over.is_set():
            self.outcomes.append(outcome_of(self._client, number))
            number += AT_ONCE
            self._over.wait(self._pause_s)

    @contextmanager
    def slow_down(self) -> Iterator[None]:
        self._pause_s = PAUSE_S
        yield
        self._pause_s = 0.0

    def await_more(self) -> None:
        """Wait until so many more have ended."""
        target = len(self.outcomes) + LEAST
        wait_until(lambda: len(self.outcomes) >= target, within_s=STARTS_WITHIN_S)


@pytest.mark.parametrize("router", ["smg", "vllm-router"])
def test_chats_go_on_while_one_is_killed_and_one_is_drained(
    client: GatewayClient, roundhouse: Roundhouse, router: str
) -> None:
    install(roundhouse, router)
    text = f'model = "team"\nserves = "{MODEL}"\nrouter = "{router}"\nengine = "vllm"\nreplicas = 2\n'
    began = time.monotonic()
    assert client.post("/fleets", StartFleet(text=text), ModelInfo).router == router
    wait_until(partial(is_in_state, client, ReplicaState.READY, "1", "2"), within_s=STARTS_WITHIN_S)
    ready_s = time.monotonic() - began
    assert {replica.engine for replica in list_replicas(client).values()} == {"vllm"}
    with Chats(client) as chats:
        chats.await_more()
        kill_replica(client, "1")
        with chats.slow_down():
            wait_until(partial(is_in_state, client, ReplicaState.READY, "1"), within_s=STARTS_WITHIN_S)
        chats.await_more()
        drain_replica(client, "2")
        chats.await_more()
    words = Counter(outcome.word for outcome in chats.outcomes)
    slowest = max(outcome.seconds for outcome in chats.outcomes)
    took_s = time.monotonic() - began - ready_s
    sys.stdout.write(f"{router}: ready in {ready_s:.0f} s; {dict(words)} in {took_s:.0f} s, slowest {slowest:.1f} s\n")
    assert words["lost"] == words["twice"] == 0
    errors = Counter(outcome.error for outcome in chats.outcomes if outcome.error)
    assert words["error"] <= AT_ONCE, errors.most_common(3)  # what the killed replica was writing
    assert words["answered"] >= 3 * LEAST - AT_ONCE
    assert roundhouse("fleet", "stop", "team").returncode == 0
