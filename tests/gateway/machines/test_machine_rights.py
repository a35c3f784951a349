"""What a paired machine may do at another: ask its models as itself, and nothing with what others stored there."""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest

from app.core.engines import EngineStatus
from app.core.machines import PairedMachine
from app.core.requests import Peer, RequestInfo
from app.machines.identity import load_identity
from app.network.pinned_tls import make_client_context
from tests.gateway.admin.real_gateway import RealGateway
from tests.gateway.machines.test_paired_gateways import Pair, list_machines, list_names, pair, pair_up, wait_until
from tests.patience import PATIENCE_S

__all__ = ["pair"]
BOUNDARY = "boundary"
FILE = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="note.txt"\r\n\r\nsecret\r\n'
    f"--{BOUNDARY}--\r\n"
).encode()


@pytest.fixture
def friends(pair: Pair) -> Iterator[Pair]:
    pair_up(pair)
    yield pair
    for gateway in pair:
        for machine in list_machines(gateway).machines:
            gateway.client.delete(f"/machines/{machine.name}")


def send_as_lap(friends: Pair, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    """Ask the desk with the lap's certificate, whatever the lap itself would ask."""
    machines = msgspec.json.decode(friends.lap.paths.machines_file.read_bytes(), type=list[PairedMachine])
    context = make_client_context(load_identity(friends.lap.paths.machine_identity_file), machines[0].certificate_der)
    port = list_machines(friends.desk).port
    with closing(http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_S, context=context)) as client:
        client.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        reply = client.getresponse()
        return reply.status, reply.read()


def send_at_desk(friends: Pair, path: str, body: object) -> dict[str, Any]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = f"multipart/form-data; boundary={BOUNDARY}" if isinstance(body, bytes) else "application/json"
    with closing(connect_to(friends.desk)) as client:
        client.request("POST", path, content, {"Content-Type": kind})
        reply: dict[str, Any] = json.loads(client.getresponse().read())
        return reply


def connect_to(gateway: RealGateway) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(gateway.port_file.url.partition("//")[2], timeout=PATIENCE_S)


MANAGING = (
    ("GET", "/roundhouse/v1/status"),
    ("POST", "/roundhouse/v1/unload"),
    ("GET", "/metrics"),
    ("GET", "/v1/files"),
    ("GET", "/v1/vector_stores"),
    ("GET", "/v1/responses/resp_1"),
    ("DELETE", "/api/delete"),
    ("POST", "/v1/responses/../../roundhouse/v1/unload"),
)


def test_a_paired_machine_manages_nothing(friends: Pair) -> None:
    statuses = {send_as_lap(friends, method, path, {"model": "quick"})[0] for method, path in MANAGING}
    assert statuses <= {404, 405}


def test_what_a_machine_stores_is_its_own_and_nothing_else_is(friends: Pair) -> None:
    question = {"model": "quick", "input": "hello", "store": True}
    foreign = send_at_desk(friends, "/v1/responses", question)["id"]
    own = json.loads(send_as_lap(friends, "POST", "/v1/responses", question)[1])["id"]
    assert send_as_lap(friends, "POST", "/v1/responses", question | {"previous_response_id": own})[0] == 200
    status, reply = send_as_lap(friends, "POST", "/v1/responses", question | {"previous_response_id": foreign})
    assert (status >= 400, b'"output"' in reply) == (True, False)
    assert "error" in send_at_desk(friends, "/v1/responses", question | {"previous_response_id": own})

    file = send_at_desk(friends, "/v1/files", FILE)["id"]
    part = {"role": "user", "content": [{"type": "input_file", "file_id": file}]}
    status, reply = send_as_lap(friends, "POST", "/v1/responses", question | {"input": [part]})
    assert (status >= 400, b'"output"' in reply) == (True, False)


def test_a_machine_searches_no_store_of_others(friends: Pair) -> None:
    store = send_at_desk(friends, "/v1/vector_stores", {"name": "notes"})["id"]
    tools = [{"type": "file_search", "vector_store_ids": [store]}]
    question = {"model": "quick", "input": "hello", "tools": tools}
    assert send_as_lap(friends, "POST", "/v1/responses", question)[0] == 404
    assert "output" in send_at_desk(friends, "/v1/responses", question)


def test_its_requests_carry_its_name(friends: Pair) -> None:
    assert send_as_lap(friends, "POST", "/v1/completions", {"model": "quick", "prompt": "hello"})[0] == 200
    latest = friends.desk.client.get("/requests?limit=1", list[RequestInfo])[0]
    assert (latest.client, latest.peer, latest.path) == ("lap", Peer.NETWORK, "/v1/completions")


def test_revoking_cuts_a_stream(friends: Pair) -> None:
    wait_until(lambda: "slow@desk" in list_names(friends.lap))
    body = {"model": "slow@desk", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    with closing(connect_to(friends.lap)) as client:
        client.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        reply = client.getresponse()
        assert reply.readline().startswith(b"data:")
        friends.desk.client.delete("/machines/lap")
        try:
            rest = reply.read()
        except http.client.IncompleteRead as error:
            rest = error.partial
    assert b"[DONE]" not in rest
    assert b'"finish_reason":"' not in rest
    wait_until(lambda: not any(s.in_flight for s in friends.desk.client.get("/running", list[EngineStatus])))
