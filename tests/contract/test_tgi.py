"""TGI's container: the command that starts it, and the whole of its life with stand-ins for docker and the launcher.

The shell that ends it with us is the real one; what docker does with its standard input is not tried anywhere here.
"""

import asyncio
import os
import signal
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.supervisor.readiness import EngineEndpoint, is_ready
from engines.api import (
    Draft,
    EngineInstallation,
    Failure,
    FailureKind,
    LaunchOptions,
    ListenOptions,
    LoadProgress,
    ModelFormat,
    ModelSource,
    NodePlace,
)
from engines.flags import WORDS
from engines.tgi import launch
from engines.tgi.descriptor import IMAGE
from engines.tgi.launch import ADAPTER, TABLE
from tests.end_to_end.worker import KEY, Engine, Worker
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it runs under Linux only")
ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden"
PLAYED = ROOT / "tests" / "fake_servers"
LOGS = ROOT / "tests" / "fixtures" / "engine_logs"
ENDS = tomllib.loads((LOGS / "cases.toml").read_text(encoding="utf-8"))["tgi"]
NET = ListenOptions(host="127.0.0.1", port=50_001, key="secret")
MODEL = ModelSource(name="served", path=Path("/models/m"), format=ModelFormat.SAFETENSORS)
RICH: dict[str, Any] = {
    "context": 8192,
    "slots": 4,
    "device_ids": ("0", "1"),
    "tensor_parallel": 2,
    "gpu_memory_fraction": 0.8,
    "kv_type": "fp8",
    "draft": Draft(kind="ngram", tokens=3),
    "max_batch_tokens": 2048,
    "trust_remote_code": True,
    "extra_args": ("--quantize", "awq"),
}


def tgi_installation(program: str = "docker", at: Path | None = None) -> EngineInstallation:
    where = at or Path("/usr/bin") / program
    return EngineInstallation(engine="tgi", version="3.3.7", backend="cuda", executable=where, package=program)


@pytest.mark.parametrize("program", ["docker", "podman"])
@pytest.mark.parametrize("kind", ["plain", "rich"])
def test_the_container_s_command_is_as_it_was_reviewed(program: str, kind: str) -> None:
    plan = ADAPTER.plan(MODEL, LaunchOptions(**RICH if kind == "rich" else {}), NET, tgi_installation(program))
    (server,) = plan.processes
    env = sorted(f"{name}={value}" for name, value in server.env.items())
    golden = GOLDEN / f"tgi-{program}-{kind}.txt"
    assert "\n".join([*server.argv, *env]) + "\n" == golden.read_text(encoding="utf-8")
    assert server.secrets == {"API_KEY": "secret"}


def test_what_it_has_no_setting_for_is_refused_with_a_sentence() -> None:
    values: dict[str, Any] = {
        "gpu_layers": 3,
        "cpu_moe_layers": 2,
        "flash_attention": True,
        "split_ratio": (1.0, 2.0),
        "threads": 2,
        "projector": Path("/p"),
        "device_bytes": (1 << 30,),
        "rpc_servers": ("127.0.0.1:6001",),
        "node": NodePlace(rank=1, addresses=("10.96.0.1", "10.96.0.2"), layers=(1, 2), descriptor=9),
        "traces_url": "http://127.0.0.1:4318/v1/traces",
        "pipeline_parallel": 2,
        "lora": (Path("/l"),),
        "chat_template": "{{ x }}",
        "prefix_cache": False,
        "tool_parser": "hermes",
        "reasoning_parser": "qwen3",
    }
    for option in WORDS.keys() - {flag.option for flag in TABLE.flags}:
        with pytest.raises(ValueError, match=r"has no setting for .*\.$"):
            ADAPTER.plan(MODEL, LaunchOptions(**{option: values[option]}), NET, tgi_installation())


@pytest.mark.parametrize(
    "wish",
    [
        {"draft": Draft(path=Path("/models/d"))},
        {"kv_type": "q4_0"},
        {"task": "embed"},
        {"extra_args": ("--api-key", "x")},
        {"extra_args": ("--otlp-endpoint=http://x",)},
        {"extra_args": ("-p8000",)},
        {"extra_env": {"API_KEY": "x"}},
    ],
    ids=str,
)
def test_what_it_cannot_honour_or_may_not_be_told_is_refused(wish: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        ADAPTER.plan(MODEL, LaunchOptions(**wish), NET, tgi_installation())


def program_in(folder: Path, name: str, script: str) -> Path:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_it_is_here_where_its_image_is(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = "a" * 64 if name == "podman" else "sha256:" + "a" * 64
    program_in(tmp_path, name, f'[ "$5" = "{IMAGE}" ] && echo {identity}')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    here = ADAPTER.probe()
    assert isinstance(here, EngineInstallation), here
    assert (here.package, here.executable) == (name, (tmp_path / name))


@pytest.mark.parametrize("script", ["", "echo 'Error: No such image' >&2; exit 1"], ids=["not a program", "no image"])
def test_else_it_says_how_it_would_be_and_fetches_nothing(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if script:
        program_in(tmp_path, "docker", script)
    failure = ADAPTER.probe()
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.NOT_INSTALLED
    assert IMAGE in failure.hint
    assert "roundhouse attach" in failure.hint


Start = Callable[..., Worker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    workers: list[Worker] = []
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    docker = program_in(bin_, "docker", f'exec "{sys.executable}" "{PLAYED / "tgi" / "container_program.py"}" "$@"')
    program_in(bin_, "text-generation-launcher", f'exec "{sys.executable}" "{PLAYED / "tgi" / "launcher.py"}" "$@"')

    def run(**more: str) -> Worker:
        path = os.pathsep.join([str(bin_), os.environ["PATH"]])
        env = {"PATH": path, "PYTHONPATH": str(PLAYED), "PLAYED_GO": str(tmp_path / "go"), **more}
        options = LaunchOptions(context=512, extra_env=env)
        workers.append(
            Worker(Path("/models/m"), options, engine=Engine(ADAPTER, tgi_installation(at=docker)), is_confined=False)
        )
        return workers[-1]

    yield run
    for worker in workers:
        assert worker.process.stdin is not None
        worker.process.stdin.close()  # there is no container whose end would end all in it
        worker.process.wait(PATIENCE_S)
        worker.close()


def ready(worker: Worker, key: str = KEY) -> bool:
    endpoint = EngineEndpoint(base_url=worker.plan.base_url, key=key, served_name=worker.plan.served_name)
    return asyncio.run(is_ready(endpoint, worker.plan.readiness))


def is_loading(worker: Worker) -> bool:
    return LoadProgress(stage="Reading weights") in worker.events()


def test_it_is_ready_when_its_port_opens_and_not_before(start: Start, tmp_path: Path) -> None:
    worker = start()
    wait_until(lambda: is_loading(worker))
    assert not ready(worker)
    (tmp_path / "go").touch()
    wait_until(lambda: ready(worker))
    assert worker.status("/v1/chat/completions", key="another") == 401
    assert worker.status("/v1/chat/completions") == 404, "the stand-in writes no text"


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("case", ENDS, ids=lambda case: str(case["case"]))
def test_it_ends_as_it_ends_and_the_cause_is_named(case: dict[str, Any], start: Start) -> None:
    worker = start(PLAYED_END=str(LOGS / "tgi" / f"{case['case']}.log"), PLAYED_CODE=str(case["code"]))
    assert worker.expect_end().kind == case["kind"]
    assert worker.process.returncode == case["code"]


def has_no_server(worker: Worker) -> bool:
    return worker.status("/health") == 0


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("when", ["loading", "serving"])
@pytest.mark.parametrize("how", ["lifeline", "signal"])
def test_it_ends_with_its_lifeline_and_when_it_is_told(when: str, how: str, start: Start, tmp_path: Path) -> None:
    worker = start()
    wait_until(lambda: is_loading(worker))
    if when == "serving":
        (tmp_path / "go").touch()
        wait_until(lambda: ready(worker))
    if how == "lifeline":
        assert worker.process.stdin is not None
        worker.process.stdin.close()
    else:
        worker.process.send_signal(signal.SIGTERM)
    wait_until(lambda: worker.process.poll() is not None)
    wait_until(lambda: has_no_server(worker))


def test_nothing_of_the_container_is_fetched_or_left() -> None:
    command = launch.container_command(MODEL, LaunchOptions(), NET, tgi_installation(), {})
    assert command[command.index("--pull") + 1] == "never"
    assert "--rm" in command
    assert "127.0.0.1:50001:80" in command
    assert "/models/m:/model:ro" in command
