"""A program that plays an inference engine: OpenAI's shapes, paced tokens, and every fault of `Behaviour`.

    FAKE_ENGINE_BEHAVIOUR='{...}' FAKE_ENGINE_KEY=... python -m tests.fake_engine.server PORT MODEL

Standard library only, one event loop: sixteen paced streams cost next to nothing.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fake_engine.behaviour import KEY_VARIABLE, VARIABLE, Behaviour
from tests.fake_engine.wire import Reply, Request, serve

PIECE = 3
"""Characters at a time of what is to be written."""
EXIT_BY_ITSELF = 3
EXIT_PORT_TAKEN = 1
LAST_LINE = "ending as asked"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN);"
    "print(flush=True); time.sleep(600)"
)


def log(text: str) -> None:
    """Write one line to standard error."""
    print(text, file=sys.stderr, flush=True)


class Engine:
    """The server. `stats` is what GET /fake/stats tells."""

    def __init__(self, behaviour: Behaviour, key: str, model: str) -> None:
        self.behaviour = behaviour
        self.key = key
        self.model = model
        self.ready_at = time.monotonic() + behaviour.load_s
        self.stats = {"begun": 0, "finished": 0, "cancelled": 0, "tokens": 0}
        self.end = asyncio.Event()

    async def handle(self, request: Request, reply: Reply) -> None:
        """Answer one request."""
        if request.path == "/health":
            await self._health(reply)
        elif request.headers.get("authorization") != f"Bearer {self.key}":
            await reply.whole(401, {"error": {"message": "Invalid API key", "type": "authentication_error"}})
        elif request.path == "/v1/models":
            await reply.whole(200, {"object": "list", "data": self._models()})
        elif request.path == "/fake/stats":
            await reply.whole(200, self.stats)
        elif request.path == "/shutdown":
            await reply.whole(202, {})
            self.end.set()
        else:
            await self._work(request, reply)

    def _is_loading(self) -> bool:
        return time.monotonic() < self.ready_at

    def _models(self) -> list[dict[str, object]]:
        return [] if self._is_loading() else [{"id": self.model, "object": "model", "owned_by": "fake"}]

    async def _health(self, reply: Reply) -> None:
        if self._is_loading() and not self.behaviour.lies:
            await reply.whole(503, {"error": {"message": "Loading model", "code": 503}})
        else:
            await reply.whole(200, {"status": "ok"})

    async def _work(self, request: Request, reply: Reply) -> None:
        if self.behaviour.lies or self._is_loading():
            await reply.whole(500, {"error": {"message": "no model is loaded", "type": "server_error"}})
            return
        for line in range(self.behaviour.flood):
            log(f"flood {line}")
        self.stats["begun"] += 1
        try:
            await self._answer(request, reply)
            self.stats["finished"] += 1
        except (asyncio.CancelledError, OSError):
            self.stats["cancelled"] += 1
            raise

    async def _answer(self, request: Request, reply: Reply) -> None:
        body = request.json()
        if self.behaviour.never_answers:
            await asyncio.Event().wait()
        await asyncio.sleep(self.behaviour.first_byte_s)
        if request.path == "/v1/embeddings":
            await reply.whole(200, self._embeddings(body))
        elif request.path not in {"/v1/chat/completions", "/v1/completions"}:
            await reply.whole(404, {"error": {"message": f"no route {request.path}", "type": "not_found_error"}})
        elif body.get("stream"):
            await self._stream(Shape(self.model, is_chat="chat" in request.path), self._words(body), reply)
        else:
            await self._whole(Shape(self.model, is_chat="chat" in request.path), self._words(body), reply)

    def _words(self, body: dict[str, object]) -> list[str]:
        if text := self.behaviour.writes:
            return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
        words = last_said(body).split() if self.behaviour.echoes else [self.behaviour.token] * self.behaviour.tokens
        limit = body.get("max_tokens") or body.get("max_completion_tokens")
        return words[:limit] if isinstance(limit, int) else words

    def _embeddings(self, body: dict[str, object]) -> dict[str, object]:
        texts = body.get("input")
        count = len(texts) if isinstance(texts, list) else 1
        data = [{"object": "embedding", "index": i, "embedding": [0.0, 0.6, 0.8]} for i in range(count)]
        usage = {"prompt_tokens": count, "total_tokens": count}
        return {"object": "list", "model": self.model, "data": data, "usage": usage}

    async def _whole(self, shape: "Shape", words: Sequence[str], reply: Reply) -> None:
        pieces = [await self._token(number, word) for number, word in enumerate(words)]
        await reply.whole(200, shape.whole("".join(pieces), len(pieces)))

    async def _stream(self, shape: "Shape", words: Sequence[str], reply: Reply) -> None:
        await reply.begin_stream()
        for number, word in enumerate(words):
            await self._send(reply, shape.piece(await self._token(number, word)))
        await self._send(reply, shape.last())
        await reply.piece(b"data: [DONE]\n\n")
        await reply.end_stream()

    async def _send(self, reply: Reply, body: dict[str, object]) -> None:
        data = f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()
        for piece in [data[i : i + 1] for i in range(len(data))] if self.behaviour.splits_emoji else [data]:
            await reply.piece(piece)

    async def _token(self, number: int, word: str) -> str:
        if number == self.behaviour.dies_after:
            die(self.behaviour.dies_by)
        if self.behaviour.tokens_per_s:
            await asyncio.sleep(1 / self.behaviour.tokens_per_s)
        self.stats["tokens"] += 1
        return word if self.behaviour.writes else f"{word} "


def last_said(body: dict[str, object]) -> str:
    """Return the text of the last message, or the prompt."""
    messages = body.get("messages")
    content = messages[-1].get("content") if isinstance(messages, list) else body.get("prompt")
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    return content if isinstance(content, str) else ""


class Shape:
    """OpenAI's objects, for chat or for plain completions."""

    def __init__(self, model: str, *, is_chat: bool) -> None:
        self._model = model
        self._is_chat = is_chat

    def _head(self, kind: str) -> dict[str, object]:
        name = f"chat.completion{kind}" if self._is_chat else "text_completion"
        return {"id": "fake-1", "object": name, "created": 1_700_000_000, "model": self._model}

    def piece(self, text: str) -> dict[str, object]:
        """Return one event of a stream."""
        choice = {"delta": {"content": text}} if self._is_chat else {"text": text}
        return {**self._head(".chunk"), "choices": [{"index": 0, **choice, "finish_reason": None}]}

    def last(self) -> dict[str, object]:
        """Return the event that says why it ended."""
        choice: dict[str, object] = {"delta": {}} if self._is_chat else {"text": ""}
        return {**self._head(".chunk"), "choices": [{"index": 0, **choice, "finish_reason": "stop"}]}

    def whole(self, text: str, count: int) -> dict[str, object]:
        """Return a reply in one piece."""
        fields: dict[str, object] = (
            {"message": {"role": "assistant", "content": text}} if self._is_chat else {"text": text}
        )
        usage = {"prompt_tokens": 3, "completion_tokens": count, "total_tokens": 3 + count}
        return {**self._head(""), "choices": [{"index": 0, **fields, "finish_reason": "stop"}], "usage": usage}


def die(how: str) -> None:
    """End the way crashes do: no clean-up, no farewell."""
    if how == "kill" and sys.platform != "win32":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "abort":
        os.abort()
    os._exit(EXIT_BY_ITSELF)


def count_starts(file: str) -> int:
    """Return how many starts there were before this one."""
    path = Path(file)
    before = len(path.read_bytes()) if path.exists() else 0
    path.write_bytes(b"." * (before + 1))
    return before


def misbehave_at_start(behaviour: Behaviour, key: str, port: int) -> None:
    """Do what goes wrong before an engine serves."""
    for line in behaviour.says:
        log(line)
    if behaviour.says_key:
        log(f"listening with api_key={key}")
    starts = count_starts(behaviour.state_file) if behaviour.state_file else 0
    if starts < behaviour.port_tries:
        log(f"couldn't bind HTTP server socket, hostname: 127.0.0.1, port: {port}")
        sys.exit(EXIT_PORT_TAKEN)
    if starts < behaviour.crashes:
        die("abort")
    if behaviour.exit_code is not None:
        sys.exit(behaviour.exit_code)


def hold_lifeline(end: "asyncio.Event", loop: asyncio.AbstractEventLoop) -> None:
    """End when standard input does. Standard input that was never open is no lifeline."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            os.read(0, 1)
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(end.set)

    threading.Thread(target=watch, daemon=True).start()


async def load(behaviour: Behaviour) -> None:
    """Spend the loading time the way it was told to."""
    end = time.monotonic() + behaviour.load_s
    for step in range(behaviour.progress):
        print(json.dumps({"progress": (step + 1) / behaviour.progress}), flush=True)
        await asyncio.sleep(behaviour.load_s / behaviour.progress)
    while behaviour.busy and time.monotonic() < end:
        sum(range(20_000))
        await asyncio.sleep(0.001)
    if behaviour.progress:
        print(json.dumps({"context": 4096, "slots": 2}), flush=True)
    if behaviour.progress and behaviour.names_buffers:
        print(json.dumps({"buffer": 1_000_000, "device": "CPU"}), flush=True)
        print(json.dumps({"buffer": 234_567, "device": "CPU"}), flush=True)


async def main(port: int, model: str, behaviour: Behaviour, key: str) -> None:
    """Serve until told to end."""
    engine = Engine(behaviour, key, model)
    loop = asyncio.get_running_loop()
    if not behaviour.refuses_to_end:
        if os.environ.get("FAKE_ENGINE_LIFELINE"):
            hold_lifeline(engine.end, loop)
        with contextlib.suppress(NotImplementedError):  # Windows has no signals to handle
            loop.add_signal_handler(signal.SIGTERM, engine.end.set)
            loop.add_signal_handler(signal.SIGINT, engine.end.set)
    server = await serve(engine.handle, port)
    load_task = asyncio.create_task(load(behaviour))
    await engine.end.wait()
    print(LAST_LINE, flush=True)
    load_task.cancel()
    server.close()


def start_stubborn_child() -> None:
    """Start a process that will not end, and return when it is deaf."""
    child = subprocess.Popen([sys.executable, "-c", STUBBORN], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    if child.stdout is not None:
        child.stdout.readline()


def run() -> None:
    """Read the orders and follow them."""
    behaviour = Behaviour.from_json(os.environ.pop(VARIABLE))
    key = os.environ.pop(KEY_VARIABLE, "")
    port, model = int(sys.argv[1]), sys.argv[2]
    if behaviour.refuses_to_end:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if behaviour.child:
        start_stubborn_child()
    misbehave_at_start(behaviour, key, port)
    if behaviour.is_silent:
        while True:
            time.sleep(3600)
    asyncio.run(main(port, model, behaviour, key))


if __name__ == "__main__":
    run()
