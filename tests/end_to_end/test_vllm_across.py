"""One model over two paired machines with vLLM for real: a process on each, on processors, in networks of their own.

What the processes say to each other goes through the tunnel between two gateways in network namespaces. The other
machine is killed, and its memory taken back, while an answer is being written.
"""

import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from app.config.paths import RESOURCES
from tests.end_to_end.gateways_apart import (
    DESK_ADDRESS,
    LAP_ADDRESS,
    PORT,
    Machine,
    answers,
    await_answer,
    introduce,
    lender,
    measure_speed,
    networks,
    read_chat,
    read_loss,
    words_of,
)
from tests.end_to_end.served_guide import BEGINS
from tests.patience import wait_until
from tests.real_engines.vllm_on_cpu import vllm_program

__all__ = ["networks"]

log = logging.getLogger(__name__)

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's"),
]
CONTEXT = "2048"
LONG = 1900
"""Tokens of an answer that is still being written when something happens."""
LOADS_WITHIN_S = 1200


@pytest.fixture(scope="module")
def machines(
    networks: tuple[list[str], list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Machine, Machine]]:
    """Two machines on whose PATH vLLM is; the model is on the first."""
    program = vllm_program()
    pair = [
        Machine(tmp_path_factory.mktemp(name), command, address)
        for name, command, address in zip(("lap", "desk"), networks, (LAP_ADDRESS, DESK_ADDRESS), strict=True)
    ]
    lap, desk = pair
    try:
        for machine in pair:
            machine.environ["PATH"] = f"{os.environ['PATH']}{os.pathsep}{program.parent}"
        give_model(lap)
        for machine in pair:
            machine.start()
        result = lap.run("tune", "spread", "--engine", "vllm", "--context", CONTEXT, "--slots", "2")
        assert result.returncode == 0, result.stdout + result.stderr
        introduce(lap, desk)
        yield lap, desk
    finally:
        for machine in pair:
            machine.run("down")
            machine.kill()


def give_model(machine: Machine) -> None:
    """Put the Guide's weights among a machine's models."""
    shutil.copytree(RESOURCES / "guide" / "hf", machine.home / "data" / "models" / "spread", dirs_exist_ok=True)


def prepare_lender(lap: Machine, desk: Machine) -> None:
    """Have the other machine lend its memory and have the model, whatever an earlier test left."""
    give_model(desk)
    assert desk.run("machines", "lend", "lap").returncode == 0
    wait_until(lambda: not lender(lap, "--for", "spread").get("problem"))


def load_over_both(lap: Machine, desk: Machine) -> None:
    prepare_lender(lap, desk)
    result = lap.run("load", "spread", "--across", "desk", within_s=LOADS_WITHIN_S)
    assert result.returncode == 0, result.stdout + result.stderr + lap.run("logs", "spread").stdout[-6000:]


def engine_processes(machine: Machine) -> list[psutil.Process]:
    """Return what runs of vLLM below a gateway, the process beside it that ends it included."""
    assert machine.process is not None
    children = psutil.Process(machine.process.pid).children(recursive=True)
    return [process for process in children if "vllm" in command_of(process)]


def command_of(process: psutil.Process) -> str:
    """Return its command line; nothing of one that has ended."""
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline()).lower()
    return ""


def test_the_model_has_to_be_on_both_and_the_same(machines: tuple[Machine, Machine]) -> None:
    lap, desk = machines
    lap.run("unload", "spread")
    assert desk.run("machines", "lend", "lap").returncode == 0
    shutil.rmtree(desk.home / "data" / "models" / "spread", ignore_errors=True)
    assert "not there" in lender(lap, "--for", "spread")["problem"]
    assert "not there" in lap.run("load", "spread", "--across", "desk").stderr
    give_model(desk)
    configuration = desk.home / "data" / "models" / "spread" / "config.json"
    whole = configuration.read_text()
    configuration.write_text(whole.replace("{", "{ ", 1))
    wait_until(lambda: "another one" in lender(lap, "--for", "spread")["problem"])
    configuration.write_text(whole)
    wait_until(lambda: not lender(lap, "--for", "spread").get("problem"))
    memory = lender(lap, "--for", "spread")
    assert memory["version"].startswith("0.")
    assert memory["backend"] == "cpu"


def test_a_model_is_planned_loaded_and_answers_over_two(machines: tuple[Machine, Machine]) -> None:
    lap, desk = machines
    prepare_lender(lap, desk)
    plan = lap.json("plan", "spread", "--across", "desk", "--context", CONTEXT)["across"]
    assert plan["fits"]
    assert plan["engine"] == "vllm"
    start_s = time.monotonic()
    load_over_both(lap, desk)
    log.info("loaded in %.0f s", time.monotonic() - start_s)
    assert "on desk" in lap.run("ps").stdout
    assert "layers" in desk.run("ps").stdout
    assert listens_on_neither(lap, desk), "nothing of it can be reached from either network"
    assert words_of(read_chat(lap.chat(24))).startswith(BEGINS[:20])
    speeds = [measure_speed(lap) for _ in range(3)]
    log.info("%s; predicted %.0f tok/s, measured %s", lender(lap, "--for", "spread"), plan["tokens_per_second"], speeds)


def listens_on_neither(*pair: Machine) -> bool:
    """Tell whether there is no socket that listens on another address than loopback but the gateways' own."""
    for machine in pair:
        command = [*machine.enter, "cat", "/proc/net/tcp"]
        rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
        local_addresses = {row.split()[1] for row in rows if row.split()[3] == "0A"}
        if any(not address.startswith("0100007F") and int(address[-4:], 16) != PORT for address in local_addresses):
            return False
    return True


def test_a_member_killed_while_answering_is_noticed_and_the_next_load_says_why(
    machines: tuple[Machine, Machine],
) -> None:
    lap, desk = machines
    load_over_both(lap, desk)
    chat = lap.chat(LONG)
    await_answer(chat)
    killed_at = time.time()
    desk.kill()
    try:
        assert f"desk ({DESK_ADDRESS}:{PORT})" in read_loss(chat, killed_at)
        assert "went away" in lap.run("ps").stdout
        again = lap.run("load", "spread")
        assert again.returncode != 0
        assert DESK_ADDRESS in again.stderr
        wait_until(lambda: not engine_processes(lap))
    finally:
        desk.start()
    wait_until(lambda: not lender(lap, "--for", "spread").get("problem"))
    result = lap.run("load", "spread", within_s=LOADS_WITHIN_S)
    assert result.returncode == 0, result.stderr
    assert answers(lap)


def test_memory_that_is_taken_back_ends_the_answer_and_says_so(machines: tuple[Machine, Machine]) -> None:
    lap, desk = machines
    load_over_both(lap, desk)
    chat = lap.chat(LONG)
    await_answer(chat)
    taken_at = time.time()
    assert desk.run("machines", "lend", "lap", "--off").returncode == 0
    assert "lent no longer" in read_loss(chat, taken_at)
    assert "does not lend" in lap.run("load", "spread").stderr
    wait_until(lambda: not engine_processes(lap) and not engine_processes(desk))


def test_unloading_ends_the_processes_on_both(machines: tuple[Machine, Machine]) -> None:
    lap, desk = machines
    load_over_both(lap, desk)
    assert engine_processes(desk)
    assert lap.run("unload", "spread").returncode == 0
    wait_until(lambda: "layers" not in desk.run("ps").stdout)
    wait_until(lambda: not engine_processes(lap) and not engine_processes(desk))
