"""Two gateways with networks of their own and a cable between them, and what is asked of them there."""

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.config.programs import module_command
from tests.patience import wait_until

log = logging.getLogger(__name__)

LAP_ADDRESS, DESK_ADDRESS = "10.77.0.1", "10.77.0.2"
PORT = 11643
NOTICED_S = 10.0
"""What is promised; without the heartbeat no error comes at all."""
ASK = """
import http.client, json, sys, time
port = int(sys.argv[1])
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
body = {"model": sys.argv[3], "stream": True, "max_tokens": int(sys.argv[2]), "temperature": 0, "ignore_eos": True,
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
        result = self.run(*arguments, "--json")
        answer: Mapping[str, Any] = json.loads(result.stdout or "{}")
        return answer

    def chat(self, tokens: int, model: str = "spread") -> "subprocess.Popen[str]":
        port = self.json("status")["status"]["url"].rpartition(":")[2]
        command = [*self.enter, sys.executable, "-c", ASK, port, str(tokens), model]
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


def introduce(lap: Machine, desk: Machine) -> None:
    """Pair the two by a code; memory is lent once somebody says so."""
    code = desk.json("machines", "code")["pairing_code"]["code"]
    result = lap.run("machines", "pair", f"{DESK_ADDRESS}:{PORT}", code)
    assert result.returncode == 0, result.stderr
    assert "does not lend" in lender(lap)["problem"]
    assert "does not lend" in lap.run("plan", "spread", "--across", "desk").stderr
    assert desk.run("machines", "lend", "lap").returncode == 0


def lender(lap: Machine, *options: str) -> Mapping[str, Any]:
    (memory,) = lap.json("machines", "memory", *options)["machine_memory"]
    machine_memory: Mapping[str, Any] = memory
    return machine_memory


def await_answer(chat: "subprocess.Popen[str]") -> None:
    """Return once it has begun."""
    assert chat.stdout is not None
    while '"content":"' not in chat.stdout.readline().replace(" ", "").replace('"content":""', ""):
        assert chat.poll() is None


def read_chat(chat: "subprocess.Popen[str]") -> list[tuple[float, str]]:
    output, _ = chat.communicate(timeout=120)
    lines = (line.partition(" ") for line in output.splitlines())
    return [(float(at), text) for at, _, text in lines if text]


def words_of(lines: list[tuple[float, str]]) -> str:
    """Return what an answer says."""
    chunks = [json.loads(text.removeprefix("data: ")) for _, text in lines if text.startswith("data: {")]
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])


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


def measure_speed(lap: Machine, tokens: int = 64, model: str = "spread") -> float:
    """Return tokens per second of one answer, from the first to the last."""
    times = [at for at, text in read_chat(lap.chat(tokens, model)) if '"content":"' in text.replace(" ", "")]
    return (len(times) - 1) / (times[-1] - times[0])
