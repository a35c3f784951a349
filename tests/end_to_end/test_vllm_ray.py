"""One model over two machines with vLLM on Ray for real: the commands of `engines plan`, in network namespaces.

A person runs those commands and attaches the endpoint. Nobody notices when a machine of it goes: the answer stands
still for two minutes and more, which is why `load --across` starts the processes without Ray.
"""

import json
import logging
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.config.paths import RESOURCES
from tests.end_to_end.gateways_apart import (
    DESK_ADDRESS,
    LAP_ADDRESS,
    Machine,
    measure_speed,
    networks,
    read_chat,
    words_of,
)
from tests.end_to_end.served_guide import BEGINS
from tests.patience import wait_until
from tests.real_engines.ray_on_cpu import write_platform
from tests.real_engines.vllm_on_cpu import vllm_program

__all__ = ["networks"]

log = logging.getLogger(__name__)

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's"),
]
TEAM = "team"
KEY = "sk-over-ray"
STARTS_WITHIN_S = 1200
ON_PROCESSORS = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}
DEVICES = {LAP_ADDRESS: "cable0", DESK_ADDRESS: "cable1"}
"""Gloo has to be told of them where a computer's own name leads to 127.0.0.1, as in a namespace."""
A_CARD = "--num-gpus=1"
"""What each machine's Ray counts its processor as."""


@pytest.fixture(scope="module")
def lap(networks: tuple[list[str], list[str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A gateway on the first machine, with vLLM on its PATH and the model."""
    program = vllm_program()
    machine = Machine(tmp_path_factory.mktemp("lap"), networks[0], LAP_ADDRESS)
    machine.environ["PATH"] = f"{os.environ['PATH']}{os.pathsep}{program.parent}"
    shutil.copytree(RESOURCES / "guide" / "hf", machine.home / "data" / "models" / "spread", dirs_exist_ok=True)
    try:
        machine.start()
        options = ("--engine", "vllm", "--context", "2048", "--slots", "2", "--gpu-memory-fraction", "0.1")
        result = machine.run("tune", "spread", *options)
        assert result.returncode == 0, result.stdout + result.stderr
        yield machine
    finally:
        machine.run("down")
        machine.kill()


@contextmanager
def run_step(step: Mapping[str, Any], enter: list[str], environ: Mapping[str, str], output: Path) -> Iterator[None]:
    """Run one of the commands where it belongs; it and all that came of it is killed in the end."""
    command = shlex.split(step["command"])
    if step["role"] == "ray":
        command.append(A_CARD)
    with output.open("wb") as sink:
        env = {**environ, **step["env"], "GLOO_SOCKET_IFNAME": DEVICES[step["machine"]]}
        process = subprocess.Popen([*enter, *command], env=env, stdout=sink, stderr=sink)
    try:
        yield
    finally:
        kill_all(process.pid)
        process.wait()


def kill_all(pid: int) -> None:
    """End a process and its children at once, as a power cut would."""
    with suppress(psutil.NoSuchProcess):
        leader = psutil.Process(pid)
        for each in (*leader.children(recursive=True), leader):
            with suppress(psutil.NoSuchProcess):
                each.kill()


def test_the_planned_commands_serve_a_model(
    lap: Machine, networks: tuple[list[str], list[str]], tmp_path: Path
) -> None:
    nodes = ("--node", LAP_ADDRESS, "--node", DESK_ADDRESS)
    plan = lap.json("engines", "plan", "spread", "--engine", "vllm", *nodes)["engine_plan"]
    assert [(step["machine"], step["role"]) for step in plan["steps"]] == [
        (LAP_ADDRESS, "ray"),
        (DESK_ADDRESS, "ray"),
        (LAP_ADDRESS, "server"),
    ]
    write_platform(tmp_path / "platform")
    environ = {**lap.environ, **ON_PROCESSORS, "PYTHONPATH": str(tmp_path / "platform"), "VLLM_API_KEY": KEY}
    environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"  # or below `uv run` it starts its workers by the same command
    enters = dict(zip((LAP_ADDRESS, DESK_ADDRESS), networks, strict=True))
    with ExitStack() as stack:
        start_s = time.monotonic()
        for number, step in enumerate(plan["steps"]):
            output = tmp_path / f"{number}-{step['role']}.log"
            stack.enter_context(run_step(step, enters[step["machine"]], environ, output))
            wait_for_ray(lap, plan, environ, number)
        wait_until(lambda: attach(lap, plan["base_url"], output), within_s=STARTS_WITHIN_S)
        log.info("ready after %.0f s", time.monotonic() - start_s)
        assert words_of(read_chat(lap.chat(24, TEAM))).startswith(BEGINS[:20])
        log.info("%s tok/s", [measure_speed(lap, model=TEAM) for _ in range(3)])


def wait_for_ray(lap: Machine, plan: Mapping[str, Any], environ: Mapping[str, str], number: int) -> None:
    """Return when the Ray that was started counts, which `ray status` says."""
    if plan["steps"][number]["role"] != "ray":
        return
    command = [*lap.enter, shlex.split(plan["steps"][0]["command"])[0], "status", f"--address={LAP_ADDRESS}:6379"]

    def counts() -> bool:
        result = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        return f"/{number + 1}.0 GPU" in result.stdout

    wait_until(counts, within_s=300)


def attach(lap: Machine, url: str, output: Path) -> bool:
    """Attach the endpoint, if it answers. Fails at once where its process ended."""
    text = output.read_text(errors="replace")
    assert "Traceback" not in text, text[-6000:]
    command = [*lap.enter, sys.executable, "-m", "app.cli", "attach", url, "--name", TEAM, "--key-stdin", "--json"]
    result = subprocess.run(command, env=lap.environ, input=KEY, capture_output=True, text=True, check=False)
    return result.returncode == 0 and bool(json.loads(result.stdout)["attached"])
