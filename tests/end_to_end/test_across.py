"""A model over two paired machines for real: gateways in network namespaces, llama.cpp's RPC in a tunnel.

They are paired by a code. What the machine that lends memory holds is killed, cut off without a word, taken back, and
revoked, while an answer is being written.
"""

import logging
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

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
    read_loss,
)
from tests.gguf_files import TinyLlama
from tests.patience import wait_until

__all__ = ["networks"]

log = logging.getLogger(__name__)

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's"),
]
COMPILING_S = 1800
LAYERS = 8
CONTEXT = "16384"
"""Long enough that an answer is still being written when something happens."""
MODEL = TinyLlama(layers=LAYERS, width=256, heads=4, head_width=64, inner=1024, values={"llama.context_length": 32768})


@pytest.fixture(scope="module")
def machines(
    networks: tuple[list[str], list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Machine, Machine]]:
    """Two machines with llama.cpp's rpc build, which is compiled once, and a model on the first."""
    addresses = (LAP_ADDRESS, DESK_ADDRESS)
    pair = [
        Machine(tmp_path_factory.mktemp(name), command, address)
        for name, command, address in zip(("lap", "desk"), networks, addresses, strict=True)
    ]
    lap, desk = pair
    result = lap.run("engines", "install", "llama.cpp", "--variant", "rpc", within_s=COMPILING_S, outside=True)
    assert result.returncode == 0, result.stderr
    lap.run("down", outside=True)
    for machine in pair:
        machine.start()
    assert lap.run("import", str(MODEL.write(lap.home / "spread.gguf"))).returncode == 0
    assert "desk" in lap.run("plan", "spread", "--across", "desk").stderr
    introduce(lap, desk)
    assert "--variant rpc" in lender(lap)["problem"], "the engine that comes with it holds layers for nobody"
    assert "--variant rpc" in lap.run("load", "spread", "--across", "desk").stderr
    copy_engine(lap, desk)
    wait_until(lambda: lender(lap).get("problem", "") == "")
    yield lap, desk
    for machine in pair:
        machine.run("down")
        machine.kill()


def copy_engine(lap: Machine, desk: Machine) -> None:
    """Give the other machine the same build: compiling takes minutes."""
    desk.run("down")
    desk.kill()
    shutil.copytree(lap.home / "data" / "engines", desk.home / "data" / "engines", symlinks=True, dirs_exist_ok=True)
    desk.start()


def load_over_both(lap: Machine) -> None:
    """Load the model over both, whatever an earlier test left."""
    wait_until(lambda: not lender(lap).get("problem"))
    result = lap.run("load", "spread", "--across", "desk", "--context", CONTEXT)
    assert result.returncode == 0, result.stderr


def test_a_model_is_planned_loaded_and_answers_over_two(machines: tuple[Machine, Machine]) -> None:
    lap, desk = machines
    wait_until(lambda: (lender(lap).get("latency_ms") or 0) > 0)
    assert lender(lap)["link_mb_s"] > 0

    plan = lap.json("plan", "spread", "--across", "desk", "--context", CONTEXT)["across"]
    assert plan["fits"]
    assert sum(share["layers"] for share in plan["shares"]) == LAYERS

    load_over_both(lap)
    assert "layers" in desk.run("ps").stdout
    assert "on desk" in lap.run("ps").stdout
    speeds = [measure_speed(lap) for _ in range(3)]
    log.info("%s; predicted %.0f tok/s, measured %s", lender(lap), plan["tokens_per_second"], speeds)
    assert min(speeds) > 0


def test_a_member_killed_while_answering_is_noticed_and_the_next_load_says_why(
    machines: tuple[Machine, Machine],
) -> None:
    lap, desk = machines
    load_over_both(lap)
    chat = lap.chat(100_000)
    await_answer(chat)
    killed_at = time.time()
    desk.kill()
    try:
        assert f"desk ({DESK_ADDRESS}:{PORT})" in read_loss(chat, killed_at)
        assert "went away" in lap.run("ps").stdout
        again = lap.run("load", "spread")
    finally:
        desk.start()
    assert again.returncode != 0
    assert DESK_ADDRESS in again.stderr

    wait_until(lambda: not lender(lap).get("problem"))
    assert lap.run("load", "spread").returncode == 0
    assert answers(lap)


def test_a_member_that_falls_silent_while_answering_is_noticed(machines: tuple[Machine, Machine]) -> None:
    lap, desk = machines
    load_over_both(lap)
    chat = lap.chat(100_000)
    await_answer(chat)
    subprocess.run([*desk.enter, "ip", "link", "set", "cable1", "down"], check=True)
    cut_at = time.time()
    try:
        assert "desk" in read_loss(chat, cut_at)
    finally:
        subprocess.run([*desk.enter, "ip", "link", "set", "cable1", "up"], check=True)
    wait_until(lambda: not lender(lap).get("problem"))


def test_memory_that_is_taken_back_ends_the_answer_and_says_so(machines: tuple[Machine, Machine]) -> None:
    lap, desk = machines
    load_over_both(lap)
    chat = lap.chat(100_000)
    await_answer(chat)
    taken_at = time.time()
    assert desk.run("machines", "lend", "lap", "--off").returncode == 0
    try:
        assert "lent no longer" in read_loss(chat, taken_at)
        assert "does not lend" in lap.run("load", "spread").stderr
        wait_until(lambda: "layers" not in desk.run("ps").stdout)
    finally:
        assert desk.run("machines", "lend", "lap").returncode == 0


def test_a_machine_that_is_revoked_is_cut_off_at_once_and_let_in_no_more(machines: tuple[Machine, Machine]) -> None:
    lap, desk = machines
    load_over_both(lap)
    chat = lap.chat(100_000)
    await_answer(chat)
    revoked_at = time.time()
    assert desk.run("machines", "revoke", "lap").returncode == 0
    assert "desk" in read_loss(chat, revoked_at)
    assert "paired" in lap.run("load", "spread").stderr
    assert lap.run("load", "spread", "--across", "here").returncode == 0
    assert answers(lap), "on this computer alone it needs nobody"
    introduce(lap, desk)
