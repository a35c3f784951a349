"""Engines that cannot run here, played by programs in their place: each started as planned, behind the key, asked
whether it is ready as its adapter has it, and ended as it ends (`tests/fake_servers`)."""

import asyncio
import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.supervisor.readiness import EngineEndpoint, is_ready
from engines.api import BufferAllocated, ContextSet, EngineInstallation, LaunchOptions, LoadProgress
from engines.lmdeploy.launch import ADAPTER as LMDEPLOY
from engines.mlc_llm.launch import ADAPTER as MLC_LLM
from engines.server_adapter import ServerAdapter
from engines.sglang.launch import ADAPTER as SGLANG
from engines.tensorrt_llm.launch import ADAPTER as TENSORRT_LLM
from engines.vllm.launch import ADAPTER as VLLM
from tests.depth import sample
from tests.end_to_end.worker import KEY, Engine, Worker
from tests.patience import wait_until

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "tests" / "fixtures" / "engine_logs"
ALL = {adapter.descriptor.id: adapter for adapter in (VLLM, SGLANG, LMDEPLOY, TENSORRT_LLM, MLC_LLM)}
EACH = pytest.mark.parametrize("adapter", ALL.values(), ids=list(ALL))
ENDS = [
    pytest.param(ALL[engine], case, id=f"{engine}-{case['case']}")
    for engine, cases in tomllib.loads((LOGS / "cases.toml").read_text(encoding="utf-8")).items()
    for case in cases
    if engine in ALL and 0 <= case["code"] <= 255
]


def start_server(adapter: ServerAdapter, go: Path, **more: str) -> Worker:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "fake_servers")])
    env = {"PYTHONPATH": path, "PLAYED_GO": str(go), **more}
    installation = EngineInstallation(
        engine=adapter.descriptor.id, version="99.0", backend="cuda", python=Path(sys.executable)
    )
    options = LaunchOptions(context=512, extra_env=env)
    return Worker(Path("/models/m"), options, engine=Engine(adapter, installation), is_confined=False)


def ready(worker: Worker, key: str = KEY) -> bool:
    endpoint = EngineEndpoint(base_url=worker.plan.base_url, key=key, served_name=worker.plan.served_name)
    return asyncio.run(is_ready(endpoint, worker.plan.readiness))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[ServerAdapter], Worker]]:
    workers: list[Worker] = []

    def run(adapter: ServerAdapter) -> Worker:
        workers.append(start_server(adapter, tmp_path / "go"))
        return workers[-1]

    yield run
    for worker in workers:
        worker.close()


def has_said(worker: Worker, *kinds: type) -> bool:
    return {type(event) for event in worker.events()} >= set(kinds)


@EACH
def test_it_is_ready_when_it_is_and_not_before(
    adapter: ServerAdapter, start: Callable[[ServerAdapter], Worker], tmp_path: Path
) -> None:
    worker = start(adapter)
    wait_until(lambda: has_said(worker, LoadProgress))
    assert not ready(worker)
    (tmp_path / "go").touch()
    wait_until(lambda: ready(worker))
    assert not ready(worker, key="another")
    for path in ("/health", "/v1/models", "/metrics", "/v1/chat/completions"):
        assert worker.status(path, key="another") == 401


@pytest.mark.slow(cases=2)
@EACH
def test_a_load_is_told_as_it_goes_on(adapter: ServerAdapter, start: Callable[[ServerAdapter], Worker]) -> None:
    worker = start(adapter)
    if adapter is not MLC_LLM:  # it says no more than that it compiles
        wait_until(lambda: any(isinstance(event, LoadProgress) and event.fraction == 0.5 for event in worker.events()))
    if adapter in {VLLM, TENSORRT_LLM}:
        wait_until(lambda: has_said(worker, BufferAllocated))
    if adapter in {VLLM, SGLANG}:
        wait_until(lambda: ContextSet(tokens=512) in worker.events())


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize(("adapter", "case"), sample(ENDS, 20))  # `test_failures` reads the logs of all of them
def test_it_ends_as_it_ends_and_the_cause_is_named(
    adapter: ServerAdapter, case: dict[str, Any], tmp_path: Path
) -> None:
    log = LOGS / adapter.descriptor.id / f"{case['case']}.log"
    worker = start_server(adapter, tmp_path / "go", PLAYED_END=str(log), PLAYED_CODE=str(case["code"]))
    with closing(worker):
        assert worker.expect_end().kind == case["kind"]


def test_it_ends_with_its_lifeline(start: Callable[[ServerAdapter], Worker]) -> None:
    worker = start(VLLM)
    wait_until(lambda: has_said(worker, LoadProgress))
    assert worker.process.stdin is not None
    worker.process.stdin.close()
    wait_until(lambda: worker.process.poll() is not None)
