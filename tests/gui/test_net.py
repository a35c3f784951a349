"""Events out of broken packets, typed calls against a real socket, and the link that never waits."""

import itertools
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event as Flag
from threading import Thread
from types import NoneType
from typing import cast

import msgspec
import pytest
import shiboken6
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QObject, QTimer
from pytestqt.qtbot import QtBot

from app.client.discovery import NO_ROOM
from app.core.api import EXIT_ALREADY_RUNNING, EXIT_DISK_FULL, PortFile, Status
from app.core.engines import EngineState, EngineStatus
from app.core.errors import ErrorBody
from app.core.events import EngineChanged, Event, LogLine, Notice
from app.gui import main as main_module
from app.gui.main import end_gateway, finish_calls
from app.gui.net.api import GatewayApi
from app.gui.net.link import GatewayFinder, GatewayLink, LinkState
from app.gui.net.sse import SseParser
from tests.demo import data
from tests.demo.api import DemoApi
from tests.patience import PATIENCE_S

STREAM = (
    'event: engine\r\ndata: {"type":"engine","name":"é"}\r\n\r\n'
    ": keep-alive\n\n"
    "data: one\ndata: two\nid: 7\n\n"
    "data:last\n\n"
).encode()
EXPECTED = ['{"type":"engine","name":"é"}'.encode(), b"one\ntwo", b"last"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_packets_may_break_anywhere(cuts: list[int]) -> None:
    parser = SseParser()
    places = [0, *sorted(cuts), len(STREAM)]
    events = [event for start, end in itertools.pairwise(places) for event in parser.feed(STREAM[start:end])]
    assert events == EXPECTED


def test_an_unfinished_event_is_held_back() -> None:
    parser = SseParser()
    assert parser.feed(b"data: half\n") == []
    assert parser.feed(b"\n") == [b"half"]


_KEPT: list[GatewayApi] = []
"""Qt crashes when a QNetworkAccessManager is deleted soon after a request; the window keeps its one while it runs."""


def new_api() -> GatewayApi:
    _KEPT.append(GatewayApi())
    return _KEPT[-1]


class Handler(BaseHTTPRequestHandler):
    """A tiny gateway: three routes, one stream that pauses in the middle of a character."""

    protocol_version = "HTTP/1.1"
    requests: list[tuple[str, str, str, bytes]]
    may_end: Flag
    url: str

    def log_message(self, *args: object) -> None:
        pass

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.requests.append((self.command, self.path, self.headers["Authorization"], body))
        if self.path.endswith("/status"):
            self._send(200, msgspec.json.encode(data.STATUS))
        elif self.path.endswith("/events"):
            self._stream()
        elif self.path.endswith("/shutdown"):
            self._send(202, b"")
        elif self.path.endswith("/nonsense"):
            self._send(200, b'{"pid": "not a number"}')
        else:
            error = ErrorBody(code="not_found", sentence="There is no such model.", hint="Look again.")
            self._send(404, msgspec.json.encode(error))

    do_GET = do_POST = do_DELETE = do_PATCH = _answer  # noqa: N815 -- the names http.server calls

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        line = LogLine(model="é", stream="err", text="ok", at=1.0)
        payload = b"data: " + msgspec.json.encode(line) + b"\n\n" + b'data: {"type":"from the future"}\n\n'
        cut = payload.index("é".encode()) + 1
        self.wfile.write(payload[:cut])
        self.wfile.flush()
        self.wfile.write(payload[cut:])
        self.wfile.flush()
        self.may_end.wait(PATIENCE_S)
        self.close_connection = True


@pytest.fixture
def server() -> Iterator[type[Handler]]:
    handler = cast("type[Handler]", type("Served", (Handler,), {"requests": [], "may_end": Flag()}))
    http_server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    handler.url = f"http://127.0.0.1:{http_server.server_address[1]}"
    thread = Thread(target=http_server.serve_forever, daemon=True, kwargs={"poll_interval": 0.01})
    thread.start()
    yield handler
    handler.may_end.set()
    http_server.shutdown()
    http_server.server_close()
    thread.join()


@pytest.fixture
def gateway(server: type[Handler], qtbot: QtBot) -> GatewayApi:
    api = new_api()
    api.gateway = PortFile(pid=1, created_at=0.0, url=server.url, token="secret", version="0")
    return api


def test_a_reply_is_decoded_to_its_type(gateway: GatewayApi, server: type[Handler], qtbot: QtBot) -> None:
    statuses: list[Status] = []
    gateway.get("/status", Status, statuses.append)
    assert statuses == [], "never before the call returns"
    qtbot.waitUntil(lambda: bool(statuses))
    assert statuses == [data.STATUS]
    assert server.requests == [("GET", "/roundhouse/v1/status", "Bearer secret", b"")]


def test_an_error_reply_is_the_gateways_error(gateway: GatewayApi, qtbot: QtBot) -> None:
    errors: list[ErrorBody] = []
    gateway.delete("/models/x", lambda: None, errors.append)
    qtbot.waitUntil(lambda: bool(errors))
    assert errors[0] == ErrorBody(code="not_found", sentence="There is no such model.", hint="Look again.")


def test_a_reply_of_the_wrong_shape_is_an_error(gateway: GatewayApi, qtbot: QtBot) -> None:
    errors: list[ErrorBody] = []
    gateway.get("/nonsense", Status, lambda _status: None, errors.append)
    qtbot.waitUntil(lambda: bool(errors))
    assert errors[0].code == "internal"
    assert "pid" in errors[0].detail


def test_an_empty_reply_is_none(gateway: GatewayApi, server: type[Handler], qtbot: QtBot) -> None:
    answers: list[object] = []
    gateway.post("/shutdown", {"now": True}, kind=NoneType, then=answers.append)
    qtbot.waitUntil(lambda: bool(answers))
    assert answers == [None]
    assert server.requests[0][3] == b'{"now":true}'


def test_the_last_calls_are_waited_for(
    gateway: GatewayApi, server: type[Handler], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main_module, "_LAST_CALLS_MS", 20_000)  # of a busy machine
    answers: list[object] = []
    gateway.post("/shutdown", None, kind=NoneType, then=answers.append)
    finish_calls(gateway)
    assert answers == [None]
    assert gateway.under_way == 0
    finish_calls(gateway)


def test_after_closing_nobody_is_told_anything(gateway: GatewayApi, server: type[Handler], qtbot: QtBot) -> None:
    results: list[object] = []
    gateway.open_stream("/events", Event, results.append, results.append)
    gateway.get("/status", Status, results.append, results.append)
    gateway.close()
    gateway.get("/status", Status, results.append, results.append)
    gateway.open_stream("/events", Event, results.append, results.append)
    other, statuses = new_api(), list[Status]()
    other.gateway = gateway.gateway
    other.get("/status", Status, statuses.append)
    qtbot.waitUntil(lambda: bool(statuses))
    assert results == []
    assert gateway.under_way == 0


def test_nobody_there_is_said(qtbot: QtBot) -> None:
    errors: list[ErrorBody] = []
    api = new_api()
    api.get("/status", Status, lambda _status: None, errors.append)
    qtbot.waitUntil(lambda: bool(errors))
    assert errors[0].code == "gateway_gone"


def test_a_cancelled_call_says_nothing(gateway: GatewayApi, qtbot: QtBot) -> None:
    results: list[object] = []
    call = gateway.get("/status", Status, results.append, results.append)
    call.cancel()
    call.cancel()
    other: list[Status] = []
    gateway.get("/status", Status, other.append)
    qtbot.waitUntil(lambda: bool(other))
    assert results == []


def test_a_stream_gives_events_and_then_its_end(gateway: GatewayApi, server: type[Handler], qtbot: QtBot) -> None:
    events: list[object] = []
    ends: list[ErrorBody | None] = []
    gateway.open_stream("/events", Event, events.append, ends.append)
    qtbot.waitUntil(lambda: bool(events))
    assert events == [LogLine(model="é", stream="err", text="ok", at=1.0)]
    assert ends == []
    server.may_end.set()
    qtbot.waitUntil(lambda: bool(ends))
    assert ends == [None]


def test_a_stream_that_is_refused_ends_with_the_reason(gateway: GatewayApi, qtbot: QtBot) -> None:
    ends: list[ErrorBody | None] = []
    gateway.open_stream("/nothing", Event, lambda _event: None, ends.append)
    qtbot.waitUntil(lambda: bool(ends))
    assert ends[0] is not None
    assert ends[0].code == "not_found"


class Child:
    """A gateway process that may be told to have ended."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.was_told_to_end = False

    def poll(self) -> int | None:
        return self.code

    def terminate(self) -> None:
        self.was_told_to_end = True


class World:
    """A port file, processes that were started, and a link between them and the demo gateway."""

    def __init__(self) -> None:
        self.port_file: PortFile | None = None
        self.children: list[Child] = []
        self.api = DemoApi({"GET /status": lambda _body: self.status()})
        self.link = GatewayLink(self.api, GatewayFinder(self.read, self.spawn, lambda: "last words"))
        self.statuses: list[Status] = []
        self.errors: list[ErrorBody] = []
        self.link.connected.connect(self.statuses.append)
        self.link.disconnected.connect(self.errors.append)

    def read(self) -> PortFile | None:
        return self.port_file

    def spawn(self) -> Child:
        self.children.append(Child())
        return self.children[-1]

    def status(self) -> Status | ErrorBody:
        pid = self.port_file.pid if self.port_file else 0
        return msgspec.structs.replace(data.STATUS, pid=pid) if self.port_file else data.OFFLINE

    def serve(self, pid: int = 1) -> None:
        self.port_file = PortFile(pid=pid, created_at=0.0, url="http://127.0.0.1:1", token="", version="0")

    def look(self) -> None:
        self.link._look_for_gateway()
        self.api.flush()

    def stream_ends(self) -> None:
        self.api.streams["/events"][1](None)
        self.api.flush()


@pytest.fixture
def world(qtbot: QtBot) -> Iterator[World]:
    world = World()
    yield world
    world.link.close()


def test_a_running_gateway_is_used_and_not_started(world: World) -> None:
    world.serve()
    world.link.open()
    world.api.flush()
    assert world.link.state is LinkState.LINKED
    assert world.children == []
    assert not world.link.is_own_gateway


def test_a_gateway_that_the_window_before_started_is_this_one_s(world: World) -> None:
    world.link.adopt_service(7)
    world.serve(pid=1)
    world.link.open()
    world.api.flush()
    assert world.link.own_service is None, "another answers by now"
    world.serve(pid=7)
    world.stream_ends()
    assert world.link.is_own_gateway
    assert world.link.own_service == 7


def test_a_gateway_is_started_once_and_awaited(world: World) -> None:
    world.link.open()
    world.look()
    world.look()
    assert world.link.state is LinkState.STARTING
    assert len(world.children) == 1
    world.serve()
    world.look()
    assert world.statuses
    assert world.link.is_own_gateway


def test_another_process_behind_the_port_is_not_taken_for_ours(world: World) -> None:
    world.serve(pid=5)
    world.api.replies["GET /status"] = data.STATUS
    world.link.open()
    world.api.flush()
    assert world.statuses == []
    assert len(world.children) == 1


def test_a_gateway_that_ends_while_starting_is_said_with_its_last_words(world: World) -> None:
    world.link.open()
    world.children[0].code = 1
    world.look()
    assert world.link.state is LinkState.LOST
    assert world.errors[0].detail == "last words"


def test_a_gateway_that_finds_the_disk_full_is_said_without_its_last_words(world: World) -> None:
    """Its log is on that disk, and empty."""
    world.link.open()
    world.children[0].code = EXIT_DISK_FULL
    world.look()
    assert world.errors == [NO_ROOM]


def test_losing_the_race_to_another_start_is_no_failure(world: World) -> None:
    world.link.open()
    world.children[0].code = EXIT_ALREADY_RUNNING
    world.look()
    assert world.errors == []
    world.serve()
    world.look()
    assert world.link.state is LinkState.LINKED


def test_a_lost_gateway_that_comes_back_is_found(world: World) -> None:
    world.link.open()
    world.children[0].code = 1
    world.look()
    world.serve()
    world.look()
    assert world.link.state is LinkState.LINKED


def test_a_gateway_that_dies_is_started_again_but_not_for_ever(world: World) -> None:
    world.serve()
    world.link.open()
    world.api.flush()
    dead = data.OFFLINE
    for _ in range(3):
        world.api.replies["GET /status"] = dead
        world.stream_ends()
        world.api.replies["GET /status"] = lambda _body: world.status()
        world.look()
    assert len(world.children) == 3
    world.api.replies["GET /status"] = dead
    world.stream_ends()
    assert world.link.state is LinkState.LOST
    assert len(world.children) == 3


def test_a_gateway_that_was_stopped_on_purpose_stays_stopped(world: World) -> None:
    world.serve()
    world.link.open()
    world.api.flush()
    world.port_file = None
    world.stream_ends()
    assert world.errors[0].code == "gateway_stopped"
    world.look()
    assert world.children == []
    world.link.start_gateway()
    assert len(world.children) == 1


def test_a_restart_waits_for_the_old_gateway_to_be_gone(world: World) -> None:
    world.api.replies["POST /shutdown"] = None
    world.serve(pid=1)
    world.link.open()
    world.api.flush()
    world.link.restart_gateway()
    world.look()
    assert world.children == []
    assert world.api.bodies_of("POST", "/shutdown") == [None]
    world.port_file = None
    world.look()
    assert len(world.children) == 1
    world.serve(pid=2)
    world.look()
    assert world.link.state is LinkState.LINKED


def test_a_program_that_cannot_be_started_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Child:
        raise PermissionError("not executable")

    link = GatewayLink(world.api, GatewayFinder(lambda: None, refuse, lambda: ""))
    lost_errors: list[ErrorBody] = []
    link.disconnected.connect(lost_errors.append)
    link.open()
    assert lost_errors[0].detail == "not executable"
    link.close()


def test_events_are_handed_on(world: World) -> None:
    world.serve()
    world.link.open()
    world.api.flush()
    events: list[object] = []
    world.link.event_received.connect(events.append)
    event = EngineChanged(status=EngineStatus(model="m", engine="e", state=EngineState.READY))
    world.api.send_event("/events", event)
    world.api.send_event("/events", Notice(level="info", code="c", sentence="s"))
    assert events == [event, Notice(level="info", code="c", sentence="s")]


def test_looking_never_blocks(world: World, qtbot: QtBot) -> None:
    ticks: list[int] = []
    timer = QTimer(interval=5)
    timer.timeout.connect(lambda: ticks.append(1))
    timer.start()
    world.link.open()
    qtbot.waitUntil(lambda: len(ticks) > 3)
    assert world.link.state is LinkState.STARTING


def test_closing_ends_the_gateway_that_was_started_here_and_starts_no_other(world: World) -> None:
    world.api.replies["POST /shutdown"] = None
    world.link.open()
    world.serve()
    world.look()
    QTimer.singleShot(0, world.api.flush)
    end_gateway(world.link, world.api)
    assert world.api.bodies_of("POST", "/shutdown") == [None]
    world.port_file = None
    world.api.streams["/events"][1](None)
    assert len(world.children) == 1
    assert world.errors == []


def test_closing_leaves_a_gateway_alone_that_was_there_before(world: World) -> None:
    world.serve()
    world.link.open()
    world.api.flush()
    end_gateway(world.link, world.api)
    assert world.api.bodies_of("POST", "/shutdown") == []


def test_closing_leaves_a_gateway_alone_that_took_the_place_of_ours(world: World) -> None:
    world.link.open()
    world.serve(pid=1)
    world.look()
    world.serve(pid=2)
    world.stream_ends()
    assert world.link.state is LinkState.LINKED
    end_gateway(world.link, world.api)
    assert world.api.bodies_of("POST", "/shutdown") == []


def test_closing_before_the_first_answer_leaves_no_gateway_behind(world: World) -> None:
    world.link.open()
    end_gateway(world.link, world.api)
    assert world.children[0].was_told_to_end
    world.api.flush()
    assert world.statuses == []


def test_a_start_that_lost_the_race_waits_for_the_winner_and_leaves_it_alone(world: World) -> None:
    world.link.open()
    world.children[0].code = EXIT_ALREADY_RUNNING
    world.look()
    assert world.errors == []
    world.serve()
    world.look()
    assert world.link.state is LinkState.LINKED
    assert not world.link.is_own_gateway


def test_what_is_put_off_comes_after_what_has_arrived_and_not_for_who_is_gone(qtbot: QtBot) -> None:
    api, owner, leaver = GatewayApi(), QObject(), QObject()
    callers: list[str] = []
    api.defer(leaver, lambda: callers.append("leaver"))
    api.defer(owner, lambda: callers.append("owner"))
    assert callers == []
    shiboken6.delete(leaver)
    qtbot.waitUntil(lambda: bool(callers))
    assert callers == ["owner"]
