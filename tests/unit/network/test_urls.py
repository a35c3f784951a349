"""urllib through the door: every connection, redirects' too, with what came over it; offline none is tried."""

import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from app.core.connections import ConnectionReason, Purpose
from app.core.errors import Offline
from app.network.egress import EgressGate
from app.network.urls import build_opener

LOOK = Purpose(why=ConnectionReason.MODEL)
BODY = b"x" * 100_000


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.paths.append(self.path)  # type: ignore[attr-defined]
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/whole")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        if self.path == "/begun":
            self.wfile.write(b"begun")
            self.server.may_end.wait(60)  # type: ignore[attr-defined]
            return
        self.wfile.write(BODY)

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.paths = []  # type: ignore[attr-defined]
        server.may_end = threading.Event()  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def url(server: ThreadingHTTPServer, path: str) -> str:
    return f"http://127.0.0.1:{server.server_port}{path}"


def test_a_connection_is_noted_with_what_came_over_it(own_door: EgressGate, server: ThreadingHTTPServer) -> None:
    with build_opener(LOOK).open(url(server, "/whole?secret=1"), timeout=30) as answer:
        assert answer.read() == BODY
    (connection,) = own_door.take_connections()
    assert (connection.host, connection.port, connection.count, connection.failed) == (
        "127.0.0.1",
        server.server_port,
        1,
        0,
    )
    assert len(BODY) < connection.received_bytes < len(BODY) + 1000, "the body and its head"
    assert "secret" not in repr(connection)


def test_what_is_left_unread_is_not_counted(own_door: EgressGate, server: ThreadingHTTPServer) -> None:
    with build_opener(LOOK).open(url(server, "/whole"), timeout=30) as answer:
        assert answer.read(10) == BODY[:10]
    assert own_door.take_connections()[0].received_bytes < len(BODY)


def test_a_redirect_is_a_connection_of_its_own(own_door: EgressGate, server: ThreadingHTTPServer) -> None:
    build_opener(LOOK).open(url(server, "/moved"), timeout=30).close()
    assert own_door.take_connections()[0].count == 2


def test_nobody_there_is_a_failure(own_door: EgressGate, unused_port: int) -> None:
    with pytest.raises(urllib.error.URLError):
        build_opener(LOOK).open(f"http://127.0.0.1:{unused_port}/", timeout=30)
    (connection,) = own_door.take_connections()
    assert (connection.count, connection.failed, connection.received_bytes) == (1, 1, 0)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_offline_nothing_is_tried(own_door: EgressGate, server: ThreadingHTTPServer, scheme: str) -> None:
    with own_door.apply_policy(is_closed=lambda: True, news=lambda: None), pytest.raises(Offline):
        build_opener(LOOK).open(url(server, "/whole").replace("http", scheme, 1), timeout=30)
    assert server.paths == []  # type: ignore[attr-defined]
    assert own_door.take_connections()[0].refused


def test_closing_the_door_breaks_off_what_is_read(own_door: EgressGate, server: ThreadingHTTPServer) -> None:
    with build_opener(LOOK).open(url(server, "/begun"), timeout=30) as answer:
        assert answer.read(5) == b"begun"
        closer = threading.Timer(0.1, own_door.cut_connections)
        closer.start()
        assert answer.read(1) == b"", "which waits, and is not answered any more"
        closer.join()
    server.may_end.set()  # type: ignore[attr-defined]


def test_behind_a_proxy_the_host_that_is_meant_counts(
    own_door: EgressGate, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{unused_port}")
    with pytest.raises(urllib.error.URLError):
        build_opener(LOOK).open("https://hub.example/x", timeout=30)
    (connection,) = own_door.take_connections()
    assert (connection.host, connection.port, connection.failed) == ("hub.example", 443, 1)
