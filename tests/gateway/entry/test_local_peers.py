"""On loopback every account may ask, and this one alone may change what models there are."""

import asyncio
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.gateway.entry import access, local_peers
from app.gateway.entry.local_peers import account_of
from tests.gateway.played import Gateway

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux's table of sockets is read")
STRANGER = 65_534
"""nobody"""


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6])
def pair(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    host = "127.0.0.1" if request.param == socket.AF_INET else "::1"
    try:
        listener = socket.create_server((host, 0), family=request.param)
    except OSError:
        pytest.skip("this machine has no such address")
    with listener, socket.create_connection(listener.getsockname()[:2]) as peer:
        yield peer


@linux
def test_the_account_of_a_connection_is_known(pair: socket.socket) -> None:
    assert account_of(pair.getsockname()[:2], pair.getpeername()[:2]) == Path("/proc/self").stat().st_uid


@linux
def test_where_there_is_no_such_connection_nobody_can_tell(pair: socket.socket) -> None:
    host, port = pair.getsockname()[:2]
    assert account_of((host, port), (host, 1)) is None


@linux
def test_the_table_is_read_where_the_kernel_is_not_asked(pair: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    host, port = pair.getsockname()[:2]
    monkeypatch.setattr(local_peers, "_ask_kernel", refuse)
    assert account_of((host, port), pair.getpeername()[:2]) == Path("/proc/self").stat().st_uid
    assert account_of((host, port), (host, 1)) is None


@linux
def test_the_table_of_all_sockets_is_left_alone_where_the_kernel_answers(
    pair: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, peer = pair.getsockname()[:2], pair.getpeername()[:2]
    try:
        local_peers._ask_kernel(own, peer)
    except OSError:
        pytest.skip("this kernel is not asked for single sockets")
    monkeypatch.setattr(local_peers, "_TABLES", {})
    assert account_of(own, peer) == Path("/proc/self").stat().st_uid


CHANGES = [
    ("DELETE", "/api/delete", {"model": "guide"}),
    ("POST", "/api/pull", {"model": "org/model"}),
    ("POST", "/api/create", {"model": "mine", "from": "guide"}),
    ("POST", "/api/copy", {"source": "guide", "destination": "mine"}),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_another_account_changes_nothing(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: dict[str, str]
) -> None:
    monkeypatch.setattr(access, "account_of", lambda _peer, _own: STRANGER)
    async with gateway.http.request(method, gateway.url + path, json=body) as reply:
        assert reply.status == 403
        assert "Another account" in await reply.text()


async def test_another_account_may_ask(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "account_of", lambda _peer, _own: STRANGER)
    async with gateway.http.get(f"{gateway.url}/api/tags") as reply:
        assert reply.status == 200


@linux
@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root may act as another account")
async def test_a_real_other_account_is_refused(gateway: Gateway) -> None:
    program = (
        "import encodings.idna, json, os, sys, urllib.error, urllib.request\n"
        f"os.setuid({STRANGER})\n"
        "body = json.dumps({'source': 'guide', 'destination': 'mine'}).encode()\n"
        "try:\n"
        "    urllib.request.urlopen(urllib.request.Request(sys.argv[1], body, {'Content-Type': 'application/json'}))\n"
        "except urllib.error.HTTPError as error:\n"
        "    print(error.code, error.read().decode())\n"
    )
    url = f"{gateway.url}/api/copy"

    def ask() -> str:
        argv = [sys.executable, "-I", "-c", program, url]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    assert (await asyncio.to_thread(ask)).startswith("403")
