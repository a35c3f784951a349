"""Engines with a process on each of several computers: what each is started with, and the network that they are in."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from app.confinement.policy import LaunchFacts, MachineFacts, confine_engine
from app.confinement.rules import PortRange
from engines.api import (
    EngineInstallation,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    ModelFormat,
    ModelSource,
    NodePlace,
    ReadyWhen,
    SpanKind,
)
from engines.foreign_worker import ANSWERS_NOBODY
from engines.registry import ADAPTERS
from engines.server_adapter import ServerAdapter

MODEL = ModelSource(name="m", path=Path("/models/m"), format=ModelFormat.SAFETENSORS)
NET = ListenOptions(host="127.0.0.1", port=5005, key="k")
FIRST = NodePlace(rank=0, addresses=("10.96.0.1", "10.96.0.2"), layers=(3, 5), descriptor=7)
SECOND = replace(FIRST, rank=1)
ENGINES = ("vllm", "sglang")


def adapter_of(engine: str) -> ServerAdapter:
    adapter = ADAPTERS[engine]
    assert isinstance(adapter, ServerAdapter)
    return adapter


def plan(engine: str, place: NodePlace | None, **more: object) -> LaunchPlan:
    options = LaunchOptions(context=512, pipeline_parallel=2, node=place)
    build = EngineInstallation(engine=engine, version="0.40", backend="cpu", python=Path("/venv/bin/python"))
    return adapter_of(engine).plan(MODEL, replace(options, **more), NET, build)


def words_after(launch_plan: LaunchPlan, flag: str) -> str:
    (process,) = launch_plan.processes
    return process.argv[process.argv.index(flag) + 1]


def test_vllm_s_processes_find_each_other_and_only_the_first_answers() -> None:
    first, second = plan("vllm", FIRST), plan("vllm", SECOND)
    for launch_plan, rank in ((first, "0"), (second, "1")):
        flags = ("--nnodes", "--node-rank", "--master-addr", "--distributed-executor-backend")
        assert [words_after(launch_plan, flag) for flag in flags] == ["2", rank, "10.96.0.1", "mp"]
        assert words_after(launch_plan, "--pipeline-parallel-size") == "2"
        assert launch_plan.processes[0].env["VLLM_PP_LAYER_PARTITION"] == "3,5"
        assert "--enforce-eager" not in launch_plan.processes[0].argv, "with it pipelines fail on the first request"
    assert ("--headless" in first.processes[0].argv, "--headless" in second.processes[0].argv) == (False, True)
    assert second.processes[0].env["VLLM_HOST_IP"] == "10.96.0.2"


def test_sglang_s_processes_find_each_other() -> None:
    second = plan("sglang", SECOND)
    flags = ("--nnodes", "--node-rank", "--dist-init-addr", "--pp-size")
    assert [words_after(second, flag) for flag in flags] == ["2", "1", "10.96.0.1:29500", "2"]
    assert second.processes[0].env["SGLANG_PP_LAYER_PARTITION"] == "3,5"


@pytest.mark.parametrize("engine", ENGINES)
def test_each_is_in_a_network_of_its_own_and_uses_no_other(engine: str) -> None:
    first, second = plan(engine, FIRST), plan(engine, SECOND)
    assert plan(engine, None, pipeline_parallel=1).network is None
    assert first.network is not None
    assert second.network is not None
    assert (first.network.address, second.network.address) == ("10.96.0.1", "10.96.0.2")
    assert (first.network.host, first.network.port, first.network.descriptor) == ("127.0.0.1", 5005, 7)
    for launch_plan in (first, second):
        env = launch_plan.processes[0].env
        assert {env["GLOO_SOCKET_IFNAME"], env["NCCL_SOCKET_IFNAME"]} == {first.network.device}
        assert env["NCCL_IB_DISABLE"] == "1"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_part_is_ready_when_it_was_started(engine: str) -> None:
    first, second = plan(engine, FIRST), plan(engine, SECOND)
    assert (first.readiness.when, second.readiness.when) == (ReadyWhen.HTTP_OK, ReadyWhen.CONNECTS)
    assert ANSWERS_NOBODY not in first.processes[0].env
    assert second.processes[0].env[ANSWERS_NOBODY]


@pytest.mark.parametrize("engine", ENGINES)
def test_it_is_confined_to_that_network(engine: str) -> None:
    about = adapter_of(engine).descriptor
    facts = LaunchFacts(
        about=about,
        options=LaunchOptions(node=SECOND, pipeline_parallel=2),
        backend="cpu",
        models=(),
        programs=(),
        scratch="/s",
        home="/h",
        short="/t",
        port=5005,
    )
    rules = confine_engine(facts, MachineFacts(cores=2, home="/home/me", passing_ports=PortRange(32768, 60999)))
    assert rules is not None
    assert rules.has_own_network
    assert rules.connect == ()


def test_every_engine_that_spans_computers_says_how_and_what_was_tried() -> None:
    spans = {engine: adapter.descriptor.span for engine, adapter in ADAPTERS.items() if adapter.descriptor.span}
    kinds = {engine: span.kind for engine, span in spans.items()}
    assert kinds == {
        "llama.cpp": SpanKind.LAYERS,
        "vllm": SpanKind.NODES,
        "sglang": SpanKind.NODES,
        "mlx-lm": SpanKind.NODES,
    }
    assert all(span.tried.endswith(".") for span in spans.values())
    assert [engine for engine, span in spans.items() if not span.is_started] == ["mlx-lm"]
