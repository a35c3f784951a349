"""An engine that writes as many tokens, and as fast, as the prompt says, and costs next to nothing: no framework.

python -m tests.bench.paced_engine PORT

"600 tokens at 200 per second" in a request of any dialect is what it answers with: a stream, on /v1/messages in
Anthropic's form and elsewhere in OpenAI's, or, where no stream is asked for, a whole answer of about 1 kB. A GET is
answered with its models. As llama-server does, it closes the connection after a stream, so that whoever proxies it has
to connect for every one, and keeps it after a whole answer.

The first token comes at once. When the others come does not depend on when the request did, or a proxy that hands
requests on slowly would have its streams spread out and another one bunched, which is cheaper to pass on: the streams
are spread evenly, or where the prompt goes on "in step", all write at the same moments, as an engine does that
computes a batch.
"""

import asyncio
import itertools
import json
import math
import re
import selectors
import sys
from typing import NamedTuple

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
SCRIPT = re.compile(rb"(\d+) tokens at (\d+) per second( in step)?")
STREAM = re.compile(rb'"stream" *: *true')
UNSCRIPTED = (b"5", b"50", None)
PHASES = (number * (math.sqrt(5) - 1) / 2 % 1 for number in itertools.count())
"""Shares of the time between two tokens: multiples of the golden section are evenly spread, however many there are."""


class Stream(NamedTuple):
    """The bytes of a stream, framed: what comes before the tokens, each token, and what comes after."""

    begin: bytes
    token: bytes
    end: bytes


def encode_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def token(text: str) -> bytes:
    """Return an event of the size llama-server sends."""
    chunk = {
        "choices": [{"finish_reason": None, "index": 0, "delta": {"content": text}}],
        "created": 1_763_000_000,
        "id": "chatcmpl-0123456789abcdefghijklmnopqrstuv",
        "model": "guide",
        "system_fingerprint": "b7000-0123456",
        "object": "chat.completion.chunk",
    }
    return b"data: " + encode_json(chunk) + b"\n\n"


def frame_chunk(event: bytes) -> bytes:
    return f"{len(event):x}\r\n".encode() + event + b"\r\n"


def make_event(kind: str, **fields: object) -> bytes:
    """Return an event of Anthropic's."""
    return f"event: {kind}\ndata: ".encode() + encode_json({"type": kind, **fields}) + b"\n\n"


def openai() -> Stream:
    return Stream(b"", frame_chunk(token(" word")), frame_chunk(b"data: [DONE]\n\n"))


def anthropic() -> Stream:
    counts = {"input_tokens": 9, "output_tokens": 0}
    message = {"id": "msg", "type": "message", "role": "assistant", "content": [], "model": "guide", "usage": counts}
    begin = make_event("message_start", message=message)
    begin += make_event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    end = make_event("content_block_stop", index=0)
    end += make_event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage=counts)
    end += make_event("message_stop")
    word = make_event("content_block_delta", index=0, delta={"type": "text_delta", "text": " word"})
    return Stream(frame_chunk(begin), frame_chunk(word), frame_chunk(end))


def whole() -> bytes:
    """Return an answer of about 1 kB."""
    message = {"role": "assistant", "content": "word " * 150}
    answer = {
        "id": "chatcmpl-0123456789abcdefghijklmnopqrstuv",
        "object": "chat.completion",
        "created": 1_763_000_000,
        "model": "guide",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 150, "total_tokens": 159},
    }
    return encode_json(answer)


def with_length(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


OPENAI, ANTHROPIC = openai(), anthropic()
WHOLE = with_length(whole())
MODELS = with_length(encode_json({"object": "list", "data": [{"id": "guide", "object": "model"}]}))


class ScriptedConnection(asyncio.Protocol):
    """One client's connection; nobody sends a request before the answer to the last is over."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._request = b""
        self._timer: asyncio.Handle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # of TCP, which is this one

    def data_received(self, data: bytes) -> None:
        self._request += data
        head, is_whole, body = self._request.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if not is_whole or len(body) < (int(length[1]) if length else 0):
            return
        self._request = b""
        if head.startswith(b"GET"):
            self.transport.write(MODELS)
        elif STREAM.search(body):
            self._begin(body, ANTHROPIC if head.startswith(b"POST /v1/messages ") else OPENAI)
        else:
            self.transport.write(WHOLE)

    def connection_lost(self, _error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self, body: bytes, stream: Stream) -> None:
        script = SCRIPT.search(body)
        tokens, per_second, in_step = script.groups() if script else UNSCRIPTED
        self.transport.write(HEAD + stream.begin)
        loop = asyncio.get_running_loop()
        every_s, phase = 1 / int(per_second), 0.0 if in_step else next(PHASES)
        due = (math.ceil(loop.time() / every_s) + phase) * every_s
        # On its own, after the head: those are two packets for whoever reads them, as with a real engine.
        self._timer = loop.call_soon(self._write, stream, int(tokens), every_s, due)

    def _write(self, stream: Stream, tokens_left: int, every_s: float, due: float) -> None:
        """Write a token; `due` is when the next one is."""
        self.transport.write(stream.token)
        if tokens_left > 1:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(due, self._write, stream, tokens_left - 1, every_s, due + every_s)
        else:
            self.transport.write(stream.end + b"0\r\n\r\n")
            self.transport.close()


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(ScriptedConnection, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


def finely_timed() -> asyncio.SelectorEventLoop:
    """Return a loop whose timers are exact: that of epoll rounds up to a millisecond, two tokens of a fast stream."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=finely_timed) as runner:
        runner.run(serve(int(sys.argv[1])))
