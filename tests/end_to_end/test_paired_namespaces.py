"""Paired computers in networks of their own: one that asks and three that answer, of which one is killed, one is slow
and one sleeps until a packet wakes it; a stranger who takes an address or stands in between; and a pairing revoked.
"""

import json
import logging
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.gguf_files import TinyLlama
from tests.known_bandwidth import write_bandwidth
from tests.known_machine import machine_environment
from tests.namespaces import NetworkedMachine, make_network, slow_down
from tests.patience import wait_until

log = logging.getLogger(__name__)
pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's"),
]
REQUESTS, AT_ONCE = 1000, 8
PORT, MACHINE_PORT = "7439", 11643
ASKS, ANSWERS = "lap", ("desk", "box", "den")
WITHIN_S = 240.0
"""For what takes several looks, on a computer that is busy with other things."""

CALLS = """
import json, sys, msgspec
from app.client.discovery import find_running_gateway
from app.client.http import GatewayClient
from app.config.paths import default_paths
from app.core.errors import RoundhouseError
for line in sys.stdin:
    method, path, *body = json.loads(line)
    try:
        running = find_running_gateway(default_paths())
        call = getattr(GatewayClient(running, timeout_s=120), method)
        reply = call(path, *body) if method == "delete" else call(path, *body, object)
    except RoundhouseError as error:
        reply = {"error": error.code, "sentence": str(error)}
    except AttributeError:
        reply = {"error": "not running"}
    print(json.dumps(reply), flush=True)
"""
"""Makes calls of the API from inside a namespace, one a line."""

ASK = """
import http.client, json, sys
from concurrent.futures import ThreadPoolExecutor
port, model, count, at_once = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def ask(number):
    streams = number % 2 == 1
    body = {"model": model, "stream": streams, "messages": [{"role": "user", "content": f"request {number}"}]}
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=240)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        text = reply.read().decode()
    except OSError as error:
        return number, 0, repr(error)
    if reply.status != 200:
        return number, reply.status, text
    if not streams:
        choices = json.loads(text)["choices"]
        return number, len(choices), choices[0]["message"]["content"]
    data = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    pieces = [json.loads(piece) for piece in data if piece != "[DONE]"]
    if errors := [piece["error"] for piece in pieces if "error" in piece]:
        return number, -1, str(errors)
    deltas = [piece["choices"][0]["delta"].get("content") or "" for piece in pieces if piece["choices"]]
    return number, data.count("[DONE]"), "".join(deltas)
with ThreadPoolExecutor(at_once) as pool:
    for result in pool.map(ask, range(count)):
        print(json.dumps(result), flush=True)
"""
"""Asks a model, every other time as a stream; says for each request how many answers came, and the last one's words.

-1 stands for a stream that ended with an error."""

WAIT_FOR_PACKET = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
    receiver.bind(("", 9))
    print("ready", flush=True)
    print(receiver.recvfrom(2048)[0].hex(), flush=True)
"""

TAKE_CONNECTIONS = """
import pathlib, socket, ssl, sys, tempfile
from app.machines.identity import make_identity_pem
file = pathlib.Path(tempfile.mkdtemp()) / "stranger.pem"
file.write_bytes(make_identity_pem("word"))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(file, password="word")
server = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
while True:
    raw, _ = server.accept()
    raw.settimeout(10)
    try:
        with context.wrap_socket(raw, server_side=True) as tls:
            print(len(tls.recv(4096)), flush=True)
    except OSError:
        print(0, flush=True)
"""
"""Serves TLS with a certificate of its own, and says how many bytes each caller entrusts to it."""

STAND_BETWEEN = """
import base64, http.client, http.server, json, pathlib, ssl, sys, tempfile
from app.machines.identity import load_identity
from app.network.pinned_tls import make_stranger_context
identity = load_identity(pathlib.Path(tempfile.mkdtemp()) / "stranger.pem")
def with_own_certificate(body):
    message = json.loads(body)
    if "card" in message:
        message["card"]["certificate"] = base64.b64encode(identity.certificate).decode()
    return json.dumps(message).encode()
class Between(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = with_own_certificate(self.rfile.read(int(self.headers["Content-Length"])))
        there = http.client.HTTPSConnection(sys.argv[1], int(sys.argv[2]), context=make_stranger_context(), timeout=20)
        there.request("POST", self.path, body)
        reply = there.getresponse()
        answer = with_own_certificate(reply.read())
        self.send_response(reply.status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
server = http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[2])), Between)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(identity.file, password=identity.passphrase)
server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready", flush=True)
server.serve_forever()
"""
"""Passes pairing on in both directions, with the stranger's own certificate in place of each card's."""


class Computer:
    """A gateway with a home, in a network of its own."""

    def __init__(self, machine: NetworkedMachine, home: Path) -> None:
        self.machine, self.home = machine, home
        self.environ = {
            "ROUNDHOUSE_HOME": str(home),
            "ROUNDHOUSE_GATEWAY_PORT": PORT,
            "ROUNDHOUSE_MACHINES_ENABLED": "true",
            "ROUNDHOUSE_MACHINES_NAME": machine.name,
            "ROUNDHOUSE_MODELS_OTHER_PROGRAMS": "false",
            "HF_ENDPOINT": "http://127.0.0.1:1",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
            "HOME": str(home / "person"),
            **machine_environment(),
        }
        (home / "data" / "models").mkdir(parents=True)
        write_bandwidth(home / "data")
        if machine.name in ANSWERS:
            for model in ("shared", f"only-{machine.name}"):
                TinyLlama().write(home / "data" / "models" / f"{model}.gguf")
        self.start()

    def start(self) -> None:
        module = "tests.gateway.machines.machine_gateway"
        self.process = self.machine.start(sys.executable, "-m", module, environ=self.environ, gives_text=False)
        self._caller = self.machine.start(sys.executable, "-u", "-c", CALLS, environ=self.environ, takes_text=True)
        wait_until(lambda: "error" not in self.call("get", "/status"), within_s=WITHIN_S)

    def call(self, *call: object) -> Any:  # noqa: ANN401 -- JSON
        """Make a call of the API there: method, path and perhaps a body."""
        assert self._caller.stdin is not None
        assert self._caller.stdout is not None
        self._caller.stdin.write(json.dumps(call) + "\n")
        self._caller.stdin.flush()
        return json.loads(self._caller.stdout.readline())

    def ask(self, model: str, count: int = 1, at_once: int = 1) -> Iterator[tuple[int, int, str]]:
        """Yield the number of each request, how many answers came to it, and the last one's words."""
        with self.machine.run_script(ASK, PORT, model, str(count), str(at_once)) as lines:
            for line in lines:
                number, answers, words = json.loads(line)
                yield number, answers, words

    def ask_once(self, model: str) -> tuple[int, str]:
        ((_, answers, words),) = self.ask(model)
        return answers, words

    def pair_with(self, other: "Computer", *, at: str = "") -> Mapping[str, Any]:
        code = other.call("post", "/machines/code", None)["code"]
        body = {"host": at or other.machine.address, "code": code}
        reply: Mapping[str, Any] = self.call("post", "/machines", body)
        return reply

    def reaches(self, name: str) -> bool:
        return any(entry["name"] == name and entry["is_reachable"] for entry in self.list_paired())

    def list_paired(self) -> list[dict[str, Any]]:
        machines: list[dict[str, Any]] = self.call("get", "/machines")["machines"]
        return machines

    def fall_asleep(self) -> None:
        """Stop it where it is; its network goes on, as a sleeping computer's card does."""
        psutil.Process(self.process.pid).suspend()

    def wake_up(self) -> None:
        """Have it go on."""
        psutil.Process(self.process.pid).resume()

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        with self._caller:  # closes what it is told and says
            self._caller.kill()
        if self.process.poll() is None:
            self.wake_up()
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
            self.process.kill()
            self.process.wait()


class Hall:
    """All of them."""

    def __init__(self, machines: Mapping[str, NetworkedMachine], computers: Mapping[str, Computer]) -> None:
        self.stranger, self.computers = machines["stranger"], computers
        self.lap, self.desk, self.box, self.den = (computers[name] for name in (ASKS, *ANSWERS))
        self.slowdown = slow_down(self.box.machine)

    def await_all(self) -> None:
        """Wait until the one that asks reaches the others."""
        wait_until(lambda: all(self.lap.reaches(name) for name in ANSWERS), within_s=WITHIN_S)


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    with make_network([ASKS, *ANSWERS, "stranger"]) as machines, ExitStack() as stack:
        computers = {
            name: stack.enter_context(closing(Computer(machines[name], tmp_path_factory.mktemp(name))))
            for name in (ASKS, *ANSWERS)
        }
        for name in ANSWERS:
            assert computers[ASKS].pair_with(computers[name])["name"] == name
        there = Hall(machines, computers)
        there.await_all()
        yield there


def judge(number: int, answers: int, words: str) -> str:
    """Return "right", "told" for a stream that had begun and ended with an error, or what is wrong."""
    if answers == -1 and any(code in words for code in ("engine_broke_off", "unreachable")):
        return "told"
    return "right" if answers == 1 and words.split() == ["request", str(number)] else f"{answers} answers: {words}"


def test_a_thousand_requests_while_one_is_killed_one_is_slow_and_one_falls_asleep(hall: Hall) -> None:
    results, began_s = list[str](), time.monotonic()
    try:
        for number, answers, words in hall.lap.ask("shared", REQUESTS, AT_ONCE):
            results.append(judge(number, answers, words))
            if number == REQUESTS // 4:
                hall.desk.kill()
            if number == REQUESTS // 2:
                hall.den.fall_asleep()
    finally:
        hall.den.wake_up()
        if hall.desk.process.poll() is not None:
            hall.desk.start()
    took_s, slowed_host = time.monotonic() - began_s, hall.slowdown or "nothing"
    counts = Counter(results)
    log.info(
        "%d requests in %.0f s, one network slowed by %s: %s", REQUESTS, took_s, slowed_host, counts.most_common(3)
    )
    assert counts["right"] + counts["told"] == REQUESTS, counts.most_common(4)
    assert counts["told"] <= AT_ONCE  # those that the computer was answering when it fell asleep
    hall.await_all()


def test_a_request_wakes_the_sleeping_computer_by_a_packet_that_comes(hall: Hall) -> None:
    hall.await_all()
    lap, den = hall.lap, hall.den
    lap.call("patch", "/settings", {"machines.wake": True})
    with den.machine.run_script(WAIT_FOR_PACKET) as heard_packet, ThreadPoolExecutor(1) as pool:
        assert heard_packet.readline() == "ready\n"
        den.fall_asleep()
        try:
            wait_until(lambda: not lap.reaches("den"), within_s=WITHIN_S)
            question = pool.submit(lap.ask_once, "only-den@den")
            packet = heard_packet.readline().strip()
        finally:
            den.wake_up()
            lap.call("patch", "/settings", {"machines.wake": False})
        answers, words = question.result()
    assert packet == "ff" * 6 + den.machine.mac.replace(":", "") * 16
    assert (answers, bool(words)) == (1, True), words
    hall.await_all()


def test_a_stranger_at_the_address_of_a_paired_computer_is_told_nothing(hall: Hall) -> None:
    hall.await_all()
    desk, address = hall.desk.machine, hall.desk.machine.address
    desk.run("ip", "address", "del", f"{address}/24", "dev", "cable")
    hall.stranger.run("ip", "address", "add", f"{address}/24", "dev", "cable")
    try:
        with hall.stranger.run_script(TAKE_CONNECTIONS, str(MACHINE_PORT)) as received_bytes:
            assert received_bytes.readline() == "ready\n"
            hall.lap.machine.run("ip", "neigh", "flush", "all")
            wait_until(lambda: not hall.lap.reaches("desk"), within_s=WITHIN_S)
            status, _words = hall.lap.ask_once("only-desk@desk")
            assert status >= 400
            assert [received_bytes.readline() for _ in range(3)] == ["0\n"] * 3
    finally:
        hall.stranger.run("ip", "address", "del", f"{address}/24", "dev", "cable")
        desk.run("ip", "address", "add", f"{address}/24", "dev", "cable")
        desk.run("ip", "route", "replace", "default", "dev", "cable")
        hall.lap.machine.run("ip", "neigh", "flush", "all")
    hall.await_all()


def test_a_stranger_between_two_that_pair_pairs_with_neither(hall: Hall) -> None:
    hall.await_all()
    before = hall.lap.list_paired(), hall.desk.list_paired()
    with hall.stranger.run_script(STAND_BETWEEN, hall.desk.machine.address, str(MACHINE_PORT)) as between:
        assert between.readline() == "ready\n"
        reply = hall.lap.pair_with(hall.desk, at=hall.stranger.address)
    assert reply["error"] == "pairing_refused", reply
    after = hall.lap.list_paired(), hall.desk.list_paired()
    for earlier, later in zip(before, after, strict=True):
        assert [entry["fingerprint"] for entry in earlier] == [entry["fingerprint"] for entry in later]


def test_one_that_was_revoked_is_asked_nothing_more_and_the_others_go_on(hall: Hall) -> None:
    hall.await_all()
    try:
        assert hall.desk.call("delete", "/machines/lap") is None
        status, words = hall.lap.ask_once("only-desk@desk")
        assert (status >= 400, "request" in words) == (True, False)
        results = [judge(*result) for result in hall.lap.ask("shared", 20, 4)]
        assert Counter(results) == {"right": 20}
        wait_until(lambda: not hall.lap.reaches("desk"), within_s=WITHIN_S)
        (entry,) = [entry for entry in hall.lap.list_paired() if entry["name"] == "desk"]
        assert "does not trust" in entry["problem"]
    finally:
        hall.lap.call("delete", "/machines/desk")
        hall.lap.pair_with(hall.desk)
    hall.await_all()
