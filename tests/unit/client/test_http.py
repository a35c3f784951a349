"""The client: typed replies, the gateway's own errors, and event streams, however they are cut into pieces."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.client.endpoint import AnswerStream, EndpointMessage
from app.client.http import GatewayClient, error_from, event_data, quote_segment
from app.core.api import PREFIX, PortFile, Status
from app.core.errors import Bug, EngineFailed, GatewayGone, NotFound, RoundhouseError
from app.core.events import Event, ModelsChanged, SettingChanged

STATUS = {"version": "1", "api_version": 1, "pid": 5, "url": "http://127.0.0.1:1", "started_at": 0.0}
Reply = tuple[int, str, bytes]


class Recorder(BaseHTTPRequestHandler):
    replies: ClassVar[dict[str, Reply]] = {}
    requests: ClassVar[list[tuple[str, str, str | None, bytes]]] = []

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.requests.append((self.command, self.path, self.headers.get("Authorization"), body))
        status, kind, data = self.replies.get(self.path, (404, "application/json", b"{}"))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 -- the base class's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
        """Say nothing."""


@pytest.fixture
def serve() -> Iterator[Callable[[dict[str, Reply]], PortFile]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    Recorder.requests.clear()

    def start(replies: dict[str, Reply]) -> PortFile:
        Recorder.replies = replies
        url = f"http://127.0.0.1:{server.server_address[1]}"
        return PortFile(pid=1, created_at=0.0, url=url, token="secret", version="1")

    yield start
    server.shutdown()
    thread.join()
    server.server_close()


Serve = Callable[[dict[str, Reply]], PortFile]


def test_a_call_carries_the_token_and_decodes_the_reply(serve: Serve) -> None:
    client = GatewayClient(serve({f"{PREFIX}/status": (200, "application/json", json.dumps(STATUS).encode())}))
    assert client.get("/status", Status).pid == 5
    assert Recorder.requests == [("GET", f"{PREFIX}/status", "Bearer secret", b"")]


def test_the_gateways_error_is_raised_as_the_same_error(serve: Serve) -> None:
    body = b'{"code":"model_not_found","sentence":"No such model.","hint":"guide is there."}'
    client = GatewayClient(serve({f"{PREFIX}/load": (404, "application/json", body)}))
    with pytest.raises(NotFound, match="No such model") as error:
        client.post("/load", {"model": "x"}, object)
    assert (error.value.code, error.value.hint) == ("model_not_found", "guide is there.")


def test_a_reply_that_is_none_of_ours_is_a_bug_with_its_text() -> None:
    error = error_from(502, b"<html>proxy</html>")
    assert isinstance(error, Bug)
    assert "proxy" in error.body.detail


def test_nobody_there_is_said_plainly() -> None:
    gateway = PortFile(pid=1, created_at=0.0, url="http://127.0.0.1:9", token="t", version="1")
    with pytest.raises(GatewayGone, match="did not answer"):
        GatewayClient(gateway, timeout_s=1).get("/status", Status)


def test_a_stream_yields_decoded_events(serve: Serve) -> None:
    data = b': hello\n\nevent: models\ndata: {"type":"models"}\n\ndata: {"type":"setting","name":"a"}\n\n'
    client = GatewayClient(serve({f"{PREFIX}/events": (200, "text/event-stream", data)}))
    assert list(client.stream_events("/events", Event)) == [ModelsChanged(), SettingChanged(name="a")]


def test_names_with_slashes_and_colons_are_one_segment() -> None:
    assert quote_segment("hf.co/a/b:Q4") == "hf.co%2Fa%2Fb%3AQ4"


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1)))
def test_event_data_is_what_was_sent(texts: list[str]) -> None:
    lines = [line for text in texts for line in (f"data: {text}\n".encode(), b"\n")]
    assert [data.decode() for data in event_data(iter(lines))] == texts


def sse(*chunks: object) -> Reply:
    lines = "".join(f"data: {c if isinstance(c, str) else json.dumps(c)}\n\n" for c in chunks)
    return 200, "text/event-stream", lines.encode()


def delta(text: str) -> dict[str, object]:
    return {"choices": [{"delta": {"content": text}}]}


def test_an_answer_is_its_text_and_its_cost(serve: Serve) -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    gateway = serve({"/v1/chat/completions": sse(delta("Grüß "), delta("dich 🙂"), usage, "[DONE]")})
    answer = AnswerStream(gateway, "guide", [EndpointMessage("user", "hi")])
    assert "".join(answer) == "Grüß dich 🙂"
    assert (answer.timings.prompt_tokens, answer.timings.completion_tokens) == (7, 2)
    assert answer.timings.ttft_s is not None


def test_the_engines_own_clock_is_believed(serve: Serve) -> None:
    end = {"choices": [], "timings": {"predicted_per_second": 38.5, "prompt_per_second": 900.0}}
    gateway = serve({"/v1/chat/completions": sse(delta("a"), end, "[DONE]")})
    answer = AnswerStream(gateway, "guide", [EndpointMessage("user", "hi")])
    assert "".join(answer) == "a"
    assert (answer.timings.decode_tokens_per_s, answer.timings.prefill_tokens_per_s) == (38.5, 900.0)


@pytest.mark.parametrize(
    "reply",
    [
        sse(delta("half"), {"error": {"message": "The engine died."}}),
        (404, "application/json", b'{"error":{"message":"The engine died."}}'),
    ],
)
def test_an_error_in_or_before_the_stream_is_raised(serve: Serve, reply: Reply) -> None:
    gateway = serve({"/v1/chat/completions": reply})
    with pytest.raises(EngineFailed, match="The engine died"):
        list(AnswerStream(gateway, "guide", [EndpointMessage("user", "hi")]))


def test_an_answer_that_just_stops_is_not_taken_for_whole(serve: Serve) -> None:
    gateway = serve({"/v1/chat/completions": sse(delta("half an ans"))})
    answer = iter(AnswerStream(gateway, "guide", [EndpointMessage("user", "hi")]))
    assert next(answer) == "half an ans"
    with pytest.raises(GatewayGone, match="cut off"):
        next(answer)


def test_errors_of_the_tree_are_caught_as_one() -> None:
    assert issubclass(GatewayGone, RoundhouseError)
