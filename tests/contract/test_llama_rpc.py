"""llama.cpp over several machines: what its ends are started with, and that nothing is reached but loopback."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.confinement.policy import LaunchFacts, MachineFacts, confine_engine
from app.confinement.rules import PortRange
from engines.api import (
    EngineInstallation,
    EngineLocation,
    Exit,
    FailureKind,
    LaunchOptions,
    ListenOptions,
    ModelFormat,
    ModelSource,
    ReadyWhen,
)
from engines.llama_cpp.launch import ADAPTER, BINDING, LAYERS, RPC_FLAG
from engines.llama_cpp.log import READER
from engines.worker_base import CONFIG_VARIABLE

MODEL = ModelSource(name="m", path=Path("/models/m.gguf"), format=ModelFormat.GGUF)
NET = ListenOptions(host="127.0.0.1", port=5005, key="k")
BUILD = EngineInstallation(
    engine="llama.cpp",
    version="0.3.36",
    backend="cpu",
    python=Path("/venv/bin/python"),
    package=BINDING,
    flags=frozenset({RPC_FLAG}),
)
SPREAD = LaunchOptions(
    context=512, gpu_layers=5, split_ratio=(2.0, 3.0), rpc_servers=("127.0.0.1:6001", "127.0.0.1:6002")
)


def test_the_build_with_rpc_is_known_by_its_library(tmp_path: Path) -> None:
    library = tmp_path / "venv/lib/python3.11/site-packages/llama_cpp/lib"
    library.mkdir(parents=True)
    python = tmp_path / "venv/bin/python"
    place = EngineLocation(folder=tmp_path, version="0.3.36", backend="cpu", python=python)
    without = ADAPTER.probe(place)
    (library / "libggml-rpc.so").touch()
    with_rpc = ADAPTER.probe(place)
    assert isinstance(without, EngineInstallation)
    assert isinstance(with_rpc, EngineInstallation)
    assert (without.flags, with_rpc.flags) == (frozenset(), frozenset({RPC_FLAG}))


def test_the_worker_is_told_where_the_other_machines_layers_are() -> None:
    (worker,) = ADAPTER.plan(MODEL, SPREAD, NET, BUILD).processes
    config = json.loads(worker.env[CONFIG_VARIABLE])
    assert (config["rpc_servers"], config["split_ratio"], config["gpu_layers"]) == (list(SPREAD.rpc_servers), [2, 3], 5)


def test_a_program_is_told_by_its_flag() -> None:
    flags = frozenset({"--rpc", "--tensor-split", "--gpu-layers", "--ctx-size", "--parallel"})
    program = EngineInstallation(
        engine="llama.cpp", version="b1", backend="cpu", executable=Path("/opt/llama-server"), flags=flags
    )
    (server,) = ADAPTER.plan(MODEL, SPREAD, NET, program).processes
    assert server.argv[server.argv.index("--rpc") + 1] == "127.0.0.1:6001,127.0.0.1:6002"


@pytest.mark.parametrize("server", ["10.0.0.2:50052", "0.0.0.0:50052", "desk:50052"])
@pytest.mark.parametrize("build", [BUILD, replace(BUILD, python=None, executable=Path("/opt/llama-server"))])
def test_other_machines_are_never_reached_past_the_tunnel(server: str, build: EngineInstallation) -> None:
    with pytest.raises(ValueError, match="tunnel"):
        ADAPTER.plan(MODEL, replace(SPREAD, rpc_servers=(server,)), NET, build)


def test_a_build_without_rpc_says_which_has_it() -> None:
    for options in (SPREAD, LaunchOptions(task=LAYERS)):
        with pytest.raises(ValueError, match="rpc build"):
            ADAPTER.plan(MODEL, options, NET, replace(BUILD, flags=frozenset()))


def test_layers_are_held_on_loopback_alone() -> None:
    plan = ADAPTER.plan(MODEL, LaunchOptions(task=LAYERS, threads=2), NET, BUILD)
    (worker,) = plan.processes
    assert worker.argv[-1] == "engines.llama_cpp.rpc_worker"
    assert json.loads(worker.env[CONFIG_VARIABLE]) == {"host": "127.0.0.1", "port": 5005, "threads": 2}
    assert plan.readiness.when is ReadyWhen.CONNECTS
    with pytest.raises(ValueError, match="own address"):
        ADAPTER.plan(MODEL, LaunchOptions(task=LAYERS), replace(NET, host="0.0.0.0"), BUILD)  # noqa: S104 -- refused


def test_the_engine_may_connect_to_the_tunnels_ends_and_nowhere_else() -> None:
    launch = LaunchFacts(
        about=ADAPTER.descriptor,
        options=SPREAD,
        backend="cpu",
        models=("/models/m.gguf",),
        programs=("/venv",),
        scratch="/s",
        home="/h",
        short="/t",
        port=5005,
    )
    rules = confine_engine(launch, MachineFacts(cores=2, home="/root", passing_ports=PortRange(32768, 60999)))
    assert rules is not None
    assert (rules.connect, rules.bind) == ((PortRange(6001, 6001), PortRange(6002, 6002)), (5005,))


@pytest.mark.parametrize(
    "line",
    [
        "/src/ggml-rpc.cpp:566: Remote RPC server crashed or returned malformed response",
        "/src/ggml-rpc.cpp:547: Failed to connect to 127.0.0.1:6001",
        "RPC server version mismatch: 6.0.0",
    ],
)
def test_a_machine_that_is_gone_is_said_in_a_sentence(line: str) -> None:
    suspicion = READER.suspect(line)
    assert suspicion is not None
    failure = READER.explain(Exit(code=-6, suspicions=[suspicion], tail=[line], was_ready=True))
    assert failure.kind is FailureKind.UNREACHABLE
    assert "machine" in failure.sentence
    assert "roundhouse machines memory" in failure.hint
