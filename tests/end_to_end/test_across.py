"""A model over two machines for real: two gateways in network namespaces, llama.cpp's RPC between them in the tunnel.

What the machine that lends memory holds is killed, or cut off without a word, while an answer is being written.
"""

import json
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

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's"),
]
HERE_ADDRESS, THERE_ADDRESS = "10.77.0.1", "10.77.0.2"
PORT = "7437"
COMPILING_S = 1800
LAYERS = 8
CONTEXT = "16384"
"""Long enough that an answer is still being written when something happens."""
MODEL = TinyLlama(layers=LAYERS, width=256, heads=4, head_width=64, inner=1024, values={"llama.context_length": 32768})
NOTICED_S = 60.0
"""Generous: 6 and 8 s were measured; without the heartbeat no error comes at all."""
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
        self.home, self.enter = home, list(enter)
        self.environ = {
            **os.environ,
            "ROUNDHOUSE_HOME": str(home),
            "HF_ENDPOINT": "http://127.0.0.1:1",
            "ROUNDHOUSE_MODELS_OTHER_PROGRAMS": "false",
            "ROUNDHOUSE_GATEWAY_LEND_ADDRESS": f"{address}:{PORT}",
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
        for command, device, address in zip(both, ("cable0", "cable1"), (HERE_ADDRESS, THERE_ADDRESS), strict=True):
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
    """Two machines that know each other, with llama.cpp's rpc build."""
    addresses = (HERE_ADDRESS, THERE_ADDRESS)
    pair = [
        Machine(tmp_path_factory.mktemp(name), command, address)
        for name, command, address in zip(("here", "there"), networks, addresses, strict=True)
    ]
    for machine in pair:
        done = machine.run("engines", "install", "llama.cpp", "--variant", "rpc", within_s=COMPILING_S, outside=True)
        assert done.returncode == 0, done.stderr
        machine.run("down", outside=True)
    here, there = pair
    for machine in pair:
        machine.start()
    assert here.run("import", str(MODEL.write(here.home / "spread.gguf"))).returncode == 0
    introduce(here, there, f"{THERE_ADDRESS}:{PORT}")
    introduce(there, here, "-")
    yield here, there
    for machine in pair:
        machine.run("down")
        machine.kill()


def introduce(machine: Machine, other: Machine, address: str) -> None:
    file = machine.home / "other.pem"
    file.write_text(other.run("tunnel", "certificate").stdout, encoding="ascii")
    done = machine.run("tunnel", "add", "other", address, str(file))
    assert done.returncode == 0, done.stderr


def await_answer(chat: "subprocess.Popen[str]") -> None:
    """Return once it has begun."""
    assert chat.stdout is not None
    while '"content":"' not in chat.stdout.readline().replace(" ", "").replace('"content":""', ""):
        assert chat.poll() is None


def read_chat(chat: "subprocess.Popen[str]") -> list[tuple[float, str]]:
    output, _ = chat.communicate(timeout=120)
    lines = (line.partition(" ") for line in output.splitlines())
    return [(float(at), text) for at, _, text in lines if text]


def test_a_model_is_planned_loaded_and_answers_over_two(machines: tuple[Machine, Machine]) -> None:
    here, there = machines
    (member,) = here.json("tunnel")["tunnel"]["members"]
    assert (member["name"], member.get("problem", "")) == ("other", "")
    assert member["latency_ms"] > 0
    assert member["link_mb_s"] > 0

    plan = here.json("plan", "spread", "--across", "other", "--context", CONTEXT)["across"]
    assert plan["fits"]
    assert sum(share["layers"] for share in plan["shares"]) == LAYERS

    loaded = here.run("load", "spread", "--across", "other", "--context", CONTEXT)
    assert loaded.returncode == 0, loaded.stderr
    assert "layers" in there.run("ps").stdout
    texts = [text for _, text in read_chat(here.chat(16))]
    assert texts[-1] == "data: [DONE]"


def test_a_member_killed_while_answering_is_noticed_and_the_next_load_says_why(
    machines: tuple[Machine, Machine],
) -> None:
    here, there = machines
    assert here.run("load", "spread", "--across", "other", "--context", CONTEXT).returncode == 0
    chat = here.chat(100_000)
    await_answer(chat)
    there.kill()
    killed_at = time.time()
    lines = read_chat(chat)
    assert '"error"' in lines[-1][1] or '"error"' in lines[-2][1]
    assert lines[-1][0] - killed_at < NOTICED_S
    again = here.run("load", "spread")
    assert again.returncode != 0
    assert "other" in again.stderr
    assert THERE_ADDRESS in again.stderr

    there.start()
    wait_until(lambda: not here.json("tunnel")["tunnel"]["members"][0].get("problem"))
    assert here.run("load", "spread").returncode == 0
    assert [text for _, text in read_chat(here.chat(8))][-1] == "data: [DONE]"


def test_a_member_that_falls_silent_while_answering_is_noticed(machines: tuple[Machine, Machine]) -> None:
    here, there = machines
    assert here.run("load", "spread", "--across", "other", "--context", CONTEXT).returncode == 0
    chat = here.chat(100_000)
    await_answer(chat)
    subprocess.run([*there.enter, "ip", "link", "set", "cable1", "down"], check=True)
    cut_at = time.time()
    try:
        lines = read_chat(chat)
    finally:
        subprocess.run([*there.enter, "ip", "link", "set", "cable1", "up"], check=True)
    assert '"error"' in lines[-1][1] or '"error"' in lines[-2][1]
    assert lines[-1][0] - cut_at < NOTICED_S


def test_a_stranger_is_not_let_in(machines: tuple[Machine, Machine]) -> None:
    here, there = machines
    assert there.run("tunnel", "remove", "other").returncode == 0
    (member,) = here.json("tunnel")["tunnel"]["members"]
    assert "does not answer" in member["problem"]
    introduce(there, here, "-")
    assert here.json("tunnel")["tunnel"]["members"][0].get("problem", "") == ""
