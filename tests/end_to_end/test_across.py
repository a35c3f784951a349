"""A model over two paired machines for real: gateways in network namespaces, llama.cpp's RPC in a tunnel.

They are paired by a code. What the machine that lends memory holds is killed, cut off without a word, taken back, and
revoked, while an answer is being written.
"""

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.config.programs import module_command
from tests.gguf_files import TinyLlama
from tests.patience import wait_until

log = logging.getLogger(__name__)

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's"),
]
LAP_ADDRESS, DESK_ADDRESS = "10.77.0.1", "10.77.0.2"
PORT = 11643
COMPILING_S = 1800
LAYERS = 8
CONTEXT = "16384"
"""Long enough that an answer is still being written when something happens."""
MODEL = TinyLlama(layers=LAYERS, width=256, heads=4, head_width=64, inner=1024, values={"llama.context_length": 32768})
NOTICED_S = 10.0
"""What is promised; without the heartbeat no error comes at all."""
ASK = """
import http.client, json, sys, time
port = int(sys.argv[1])
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
body = {"model": "spread", "stream": True, "max_tokens": int(sys.argv[2]), "temperature": 0, "ignore_eos": True,
        "messages": [{"role": "user", "content": "What is VRAM?"}]}
connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
reply = connection.getresponse()
for line in reply:
    sys.stdout.write(f"{time.time()} {line.decode()}"); sys.stdout.flush()
"""
"""A chat from inside a namespace: each line with the time at which it came."""


class Machine:
    """A gateway with a home and a network of its own. `enter` is the command that goes there."""

    def __init__(self, home: Path, enter: Sequence[str], address: str) -> None:
        self.home, self.enter, self.address = home, list(enter), address
        self.environ = {
            **os.environ,
            "ROUNDHOUSE_HOME": str(home),
            "HF_ENDPOINT": "http://127.0.0.1:1",
            "ROUNDHOUSE_MODELS_OTHER_PROGRAMS": "false",
            "ROUNDHOUSE_MACHINES_ENABLED": "true",
            "ROUNDHOUSE_MACHINES_HOST": address,
            "ROUNDHOUSE_MACHINES_PORT": str(PORT),
            "ROUNDHOUSE_MACHINES_NAME": home.name.rstrip("0123456789"),
            "PYTHONUTF8": "1",
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen([*self.enter, *module_command("app.gateway")], env=self.environ)
        wait_until(lambda: self.run("status").returncode == 0)

    def run(self, *arguments: str, within_s: float = 300, outside: bool = False) -> "subprocess.CompletedProcess[str]":
        command = [*([] if outside else self.enter), *module_command("app.cli", *arguments)]
        return subprocess.run(command, env=self.environ, capture_output=True, text=True, timeout=within_s, check=False)

    def json(self, *arguments: str) -> Mapping[str, Any]:
        done = self.run(*arguments, "--json")
        answer: Mapping[str, Any] = json.loads(done.stdout or "{}")
        return answer

    def chat(self, tokens: int) -> "subprocess.Popen[str]":
        port = self.json("status")["status"]["url"].rpartition(":")[2]
        command = [*self.enter, sys.executable, "-c", ASK, port, str(tokens)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self.environ)

    def kill(self) -> None:
        """End it as a power cut would: every process of it at once."""
        if self.process is None:
            return
        with suppress(psutil.NoSuchProcess):
            leader = psutil.Process(self.process.pid)
            for process in (*leader.children(recursive=True), leader):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self.process.wait()


def enter(pid: int) -> list[str]:
    return ["nsenter", "--target", str(pid), "--user", "--net", "--preserve-credentials"]


def sleep_in(*command: str) -> "subprocess.Popen[bytes]":
    """Hold a namespace open; its process is not the one that makes it, so wait until it sleeps there."""
    process = subprocess.Popen([*command, "sleep", "infinity"])
    wait_until(lambda: psutil.Process(process.pid).name() == "sleep")
    return process


@pytest.fixture(scope="module")
def networks() -> Iterator[tuple[list[str], list[str]]]:
    """Two network namespaces with a cable between them. Skips where this machine allows none."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rn", "true"], check=False).returncode:
        pytest.skip("network namespaces cannot be made here")
    here = sleep_in("unshare", "-rn")
    there = sleep_in(*enter(here.pid), "unshare", "-n")
    try:
        both = enter(here.pid), enter(there.pid)
        cable = ["ip", "link", "add", "name", "cable0", "type", "veth", "peer", "name", "cable1"]
        subprocess.run([*both[0], *cable, "netns", str(there.pid)], check=True)
        for command, device, address in zip(both, ("cable0", "cable1"), (LAP_ADDRESS, DESK_ADDRESS), strict=True):
            subprocess.run([*command, "ip", "address", "add", f"{address}/24", "dev", device], check=True)
            for each in ("lo", device):
                subprocess.run([*command, "ip", "link", "set", each, "up"], check=True)
        yield both
    finally:
        for process in (there, here):
            process.kill()
            process.wait()


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
    done = lap.run("engines", "install", "llama.cpp", "--variant", "rpc", within_s=COMPILING_S, outside=True)
    assert done.returncode == 0, done.stderr
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


def introduce(lap: Machine, desk: Machine) -> None:
    """Pair the two by a code; memory is lent once somebody says so."""
    code = desk.json("machines", "code")["pairing_code"]["code"]
    done = lap.run("machines", "pair", f"{DESK_ADDRESS}:{PORT}", code)
    assert done.returncode == 0, done.stderr
    assert "does not lend" in lender(lap)["problem"]
    assert "does not lend" in lap.run("plan", "spread", "--across", "desk").stderr
    assert desk.run("machines", "lend", "lap").returncode == 0


def lender(lap: Machine) -> Mapping[str, Any]:
    (memory,) = lap.json("machines", "memory")["machine_memory"]
    known: Mapping[str, Any] = memory
    return known


def await_answer(chat: "subprocess.Popen[str]") -> None:
    """Return once it has begun."""
    assert chat.stdout is not None
    while '"content":"' not in chat.stdout.readline().replace(" ", "").replace('"content":""', ""):
        assert chat.poll() is None


def read_chat(chat: "subprocess.Popen[str]") -> list[tuple[float, str]]:
    output, _ = chat.communicate(timeout=120)
    lines = (line.partition(" ") for line in output.splitlines())
    return [(float(at), text) for at, _, text in lines if text]


def load_over_both(lap: Machine) -> None:
    done = lap.run("load", "spread", "--across", "desk", "--context", CONTEXT)
    assert done.returncode == 0, done.stderr


def answers(lap: Machine) -> bool:
    return [text for _, text in read_chat(lap.chat(8))][-1] == "data: [DONE]"


def read_loss(chat: "subprocess.Popen[str]", since: float) -> str:
    """Return the error that ends an answer, which is not long in coming."""
    lines = read_chat(chat)
    (loss,) = (text for _, text in lines[-2:] if '"error"' in text)
    took_s = lines[-1][0] - since
    log.info("noticed after %.1f s: %s", took_s, loss)
    assert took_s < NOTICED_S
    return loss


def measure_speed(lap: Machine, tokens: int = 64) -> float:
    """Return tokens per second of one answer, from the first to the last."""
    times = [at for at, text in read_chat(lap.chat(tokens)) if '"content":"' in text.replace(" ", "")]
    return (len(times) - 1) / (times[-1] - times[0])


def test_a_model_is_planned_loaded_and_answers_over_two(machines: tuple[Machine, Machine]) -> None:
    lap, desk = machines
    assert lender(lap)["latency_ms"] > 0
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
    assert f"desk ({DESK_ADDRESS}:{PORT})" in read_loss(chat, killed_at)
    assert "went away" in lap.run("ps").stdout
    again = lap.run("load", "spread")
    assert again.returncode != 0
    assert DESK_ADDRESS in again.stderr

    desk.start()
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
    assert "lent no longer" in read_loss(chat, taken_at)
    assert "does not lend" in lap.run("load", "spread").stderr
    wait_until(lambda: "layers" not in desk.run("ps").stdout)
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
