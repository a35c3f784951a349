"""Two gateways as programs, paired by a code: each asks the other's models, until one of them is revoked."""

import http.client
import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from app.core.api import SettingInfo
from app.core.errors import BadRequest, RoundhouseError
from app.core.machines import MachineCode, MachineList, MachineStanding, PairMachine
from app.core.models import ModelInfo
from app.core.requests import RequestInfo
from app.machines.pairing import LONGEST_MESSAGE
from app.network.pinned_tls import make_stranger_context
from tests.collector import collector_in_thread
from tests.gateway.admin.real_gateway import RealGateway, run_gateway
from tests.patience import PATIENCE_S
from tests.ports import free_port


class Pair(NamedTuple):
    """Both gateways."""

    desk: RealGateway
    lap: RealGateway


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(*(stack.enter_context(start(tmp_path_factory.mktemp(name), name)) for name in ("desk", "lap")))


def start(home: Path, name: str, *, hub: str = "http://127.0.0.1:1") -> AbstractContextManager[RealGateway]:
    config = home / "config"
    config.mkdir()
    settings = f'[machines]\nenabled = true\nhost = "127.0.0.1"\nname = "{name}"\nport = {free_port()}\n'
    (config / "settings.toml").write_text(settings)
    program = [sys.executable, "-m", "tests.gateway.machines.machine_gateway"]
    return run_gateway(home, free_port(), argv=program, hub=hub)


def list_machines(gateway: RealGateway) -> MachineList:
    return gateway.client.get("/machines", MachineList)


def list_names(gateway: RealGateway) -> set[str]:
    return {model.name for model in gateway.client.get("/models", list[ModelInfo])}


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)  # nobody tells a test what another program's list came to


def pair_up(pair: Pair) -> MachineStanding:
    code = pair.desk.client.post("/machines/code", None, MachineCode).code
    request = PairMachine(host=f"127.0.0.1:{list_machines(pair.desk).port}", code=code)
    return pair.lap.client.post("/machines", request, MachineStanding)


def chat(gateway: RealGateway, model: str, **headers: str) -> tuple[int, bytes]:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hello"}]})
    with closing(http.client.HTTPConnection(gateway.port_file.url.partition("//")[2], timeout=PATIENCE_S)) as client:
        client.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json", **headers})
        reply = client.getresponse()
        return reply.status, reply.read()


def ask_as_stranger(gateway: RealGateway, method: str, path: str, body: bytes = b"") -> int:
    context = make_stranger_context()
    with (
        socket.create_connection(("127.0.0.1", list_machines(gateway).port), timeout=PATIENCE_S) as raw,
        context.wrap_socket(raw, server_hostname="desk") as tls,
    ):
        head = f"{method} {path} HTTP/1.1\r\nHost: desk\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        tls.sendall(head.encode() + body)
        return int(tls.recv(4096).split()[1])


def test_each_uses_the_others_models_until_it_is_revoked(pair: Pair) -> None:
    machine = pair_up(pair)
    assert (machine.name, machine.fingerprint) == ("desk", list_machines(pair.desk).fingerprint)
    wait_until(lambda: "quick@desk" in list_names(pair.lap))
    wait_until(lambda: "quick@lap" in list_names(pair.desk))
    assert "guide@desk" not in list_names(pair.lap)
    for gateway, model in ((pair.lap, "quick@desk"), (pair.desk, "quick@lap")):
        status, answer = chat(gateway, model)
        assert (status, b"word" in answer) == (200, True)

    pair.desk.client.delete("/machines/lap")
    assert "quick@lap" not in list_names(pair.desk)
    status, answer = chat(pair.lap, "quick@desk")
    assert status >= http.HTTPStatus.BAD_REQUEST
    assert b"word" not in answer
    wait_until(lambda: list_machines(pair.lap).machines[0].is_reachable is False)
    pair.lap.client.delete("/machines/desk")
    assert list_machines(pair.lap).machines == []


def test_a_request_for_the_other_s_model_is_one_trace_over_both(pair: Pair) -> None:
    trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    pair_up(pair)
    wait_until(lambda: "quick@desk" in list_names(pair.lap))
    with collector_in_thread() as collector:
        for gateway in pair:
            gateway.client.patch("/settings", {"traces.endpoint": collector.url}, list[SettingInfo])
        status, _ = chat(pair.lap, "quick@desk", traceparent=f"00-{trace}-{parent}-01", tracestate="a=1")
        assert status == 200
        wait_until(lambda: len(collector.spans) >= 4)
        for gateway in pair:
            gateway.client.patch("/settings", {"traces.endpoint": None}, list[SettingInfo])
    by_parent = {span.parent_id: span for span in collector.spans}
    assert {span.trace_id for span in collector.spans} == {trace}
    here = by_parent[parent]
    call = by_parent[here.span_id]
    there = by_parent[call.span_id]
    engine = by_parent[there.span_id]
    names = [(span.resource["host.name"], span.kind) for span in (here, call, there, engine)]
    assert names == [("lap", 2), ("lap", 3), ("desk", 2), ("desk", 3)]
    assert (engine.attributes["gen_ai.provider.name"], engine.state) == ("fake", "a=1")
    requests = [gateway.client.get("/requests?limit=1", list[RequestInfo])[0] for gateway in pair]
    assert [request.trace_id for request in requests] == [trace, trace]
    pair.desk.client.delete("/machines/lap")
    pair.lap.client.delete("/machines/desk")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/machine/state"),
        ("GET", "/v1/models"),
        ("POST", "/v1/chat/completions"),
        ("GET", "/roundhouse/v1/status"),
        ("GET", "/health"),
        ("POST", "/pair/../v1/chat/completions"),
    ],
)
def test_a_stranger_reaches_nothing(pair: Pair, method: str, path: str) -> None:
    assert ask_as_stranger(pair.desk, method, path) in {401, 404}


def test_a_message_without_end_is_not_read(pair: Pair) -> None:
    pair.desk.client.post("/machines/code", None, MachineCode)
    assert ask_as_stranger(pair.desk, "POST", "/pair/open", b"[" * (LONGEST_MESSAGE + 1)) == 413
    assert ask_as_stranger(pair.desk, "POST", "/pair/open", b"[" * 1000) == 400


def test_plain_http_is_no_way_in(pair: Pair) -> None:
    client = http.client.HTTPConnection("127.0.0.1", list_machines(pair.desk).port, timeout=PATIENCE_S)
    with closing(client):
        client.request("GET", "/v1/models")
        with pytest.raises((OSError, http.client.HTTPException)):
            client.getresponse()


def test_a_client_that_shows_an_unknown_certificate_is_refused_in_the_handshake(pair: Pair, tmp_path: Path) -> None:
    from app.machines.identity import make_identity_pem  # noqa: PLC0415 -- only here

    file = tmp_path / "stranger.pem"
    file.write_bytes(make_identity_pem("word"))
    context = make_stranger_context()
    context.load_cert_chain(file, password="word")
    port = list_machines(pair.desk).port
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as raw,
        context.wrap_socket(raw, server_hostname="desk") as tls,
        suppress(OSError),
    ):  # in TLS 1.3 the server's verdict comes where its first answer would
        tls.sendall(b"GET /v1/models HTTP/1.1\r\nHost: desk\r\n\r\n")
        assert not tls.recv(1)


def test_a_wrong_code_and_a_wrong_place_are_said(pair: Pair) -> None:
    port = list_machines(pair.desk).port
    pair.desk.client.delete("/machines/code")
    for host, code in (
        (f"127.0.0.1:{port}", "1234-5678"),
        ("127.0.0.1:1", "1234-5678"),
        ("a b", "1"),
        ("127.0.0.1", "x"),
    ):
        with pytest.raises(RoundhouseError):
            pair.lap.client.post("/machines", PairMachine(host=host, code=code), MachineStanding)
    code = pair.desk.client.post("/machines/code", None, MachineCode).code
    own = PairMachine(host=f"127.0.0.1:{port}", code=code)
    with pytest.raises(BadRequest):
        pair.desk.client.post("/machines", own, MachineStanding)
