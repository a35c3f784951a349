"""A library for the server's tests: it writes what it is told to, a step when it is allowed to."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import aiohttp
import pytest

from engines import worker_base
from engines.serving.backend import (
    BackendAbility,
    BackendFinish,
    Decoder,
    LoadResult,
    ProgressCallback,
    StepOutcome,
    Token,
    WorkItem,
)
from engines.serving.refusals import invalid_request
from engines.serving.server import _Server
from engines.serving.text import BytesDecoder
from tests.patience import PATIENCE_S

KEY = "launch-key"
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


class Scripted:
    """`engines.serving.backend.WorkerBackend`: a token is a byte, and each request is answered with `says`."""

    def __init__(self, says: str = "héllo 🚂", *, slots: int = 2) -> None:
        self.says = says.encode()
        self.slots = slots
        self.may_load = threading.Event()
        self.may_load.set()
        self.may_step = True
        self.at_once = 1
        """Tokens of an answer that a step writes."""
        self.pauses_at = self.breaks_at = -1
        """After so many tokens of an answer it waits for ever, or fails."""
        self.load_error = ""
        self.active_work: dict[int, tuple[WorkItem, int]] = {}
        self.works: list[WorkItem] = []
        self.cancelled_ids: list[int] = []

    def load(self, config: Mapping[str, object], tell: ProgressCallback) -> LoadResult:
        tell("Reading weights", 0.5)
        self.may_load.wait(PATIENCE_S)
        if self.load_error:
            raise RuntimeError(self.load_error)
        return LoadResult(
            context=int(str(config["context"])),
            device="CPU",
            device_name="test",
            abilities=frozenset(BackendAbility),
            slots=self.slots,
            chat_template=TEMPLATE,
        )

    def encode(self, text: str, *, adds_special: bool) -> list[int]:
        return [0] * adds_special + list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(tokens).decode("utf-8", "replace")

    def make_decoder(self) -> Decoder:
        return BytesDecoder(lambda token: bytes([token]))

    def start(self, work: WorkItem) -> None:
        if work.schema is not None and "nonsense" in work.schema:
            raise invalid_request("no such schema", "response_format")
        self.works.append(work)
        self.active_work[work.id] = (work, 0)

    def step(self) -> Iterator[StepOutcome]:
        time.sleep(0.001)
        for number, (work, token_count) in list(self.active_work.items()) if self.may_step else ():
            if token_count == self.pauses_at:
                continue
            if token_count == self.breaks_at:
                raise RuntimeError("the device is gone")
            outcomes = [self._outcome(work, at) for at in range(token_count, token_count + self.at_once)]
            self.active_work[number] = (work, token_count + self.at_once)
            yield outcomes[0]._replace(
                tokens=[token for outcome in outcomes for token in outcome.tokens], finish=outcomes[-1].finish
            )

    def cancel(self, work: int) -> None:
        if self.active_work.pop(work, None) is not None:
            self.cancelled_ids.append(work)

    def cache_use(self) -> float | None:
        return 0.25

    def _outcome(self, work: WorkItem, position: int) -> StepOutcome:
        if not work.ignores_end and position >= len(self.says):
            return StepOutcome(work.id, (), BackendFinish.STOP)
        byte = self.says[position % len(self.says)]
        token = Token(byte, -0.5, [(byte, -0.5), (120, -2.0)]) if work.logprobs is not None else Token(byte)
        finish = BackendFinish.LENGTH if position + 1 == work.max_tokens else None
        return StepOutcome(work.id, (token,), finish, cached=2 if not position else None)


class Running(NamedTuple):
    """A server that runs in this very process."""

    url: str
    port: int
    http: aiohttp.ClientSession
    task: "asyncio.Task[None]"
    events: list[dict[str, Any]]

    async def ask(self, path: str, body: object = None, *, status: int = 200) -> Any:  # noqa: ANN401 -- any JSON
        method = "GET" if body is None else "POST"
        async with self.http.request(method, self.url + path, json=body) as reply:
            assert reply.status == status, await reply.text()
            return await reply.json(content_type=None) if "json" in reply.content_type else await reply.text()

    async def metric(self, name: str) -> float:
        page = await self.ask("/metrics")
        rows = (line.split() for line in page.splitlines() if line.startswith(f"roundhouse_worker_{name} "))
        return float(next(rows)[1])


@asynccontextmanager
async def serve_scripted(
    backend: Scripted, monkeypatch: pytest.MonkeyPatch, *, context: int = 64, waits: bool = True
) -> AsyncIterator[Running]:
    all_events: list[dict[str, Any]] = []
    listen_event = asyncio.Event()

    def emit(event: str, **fields: object) -> None:
        all_events.append({"event": event, **fields})
        if event == "listening":
            listen_event.set()

    monkeypatch.setattr(worker_base, "emit", emit)
    config: dict[str, object] = {"host": "127.0.0.1", "port": 0, "alias": "tiny", "context": context}
    task = asyncio.create_task(_Server(worker_base.WorkerLaunch(config, KEY)).run(backend))
    await listen_event.wait()
    port = int(all_events[0]["port"])
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as http:
        server = Running(f"http://127.0.0.1:{port}", port, http, task, all_events)
        if waits:
            await until_ready(server)
        yield server
    task.cancel()
    with suppress(asyncio.CancelledError, RuntimeError):
        await task


async def until_ready(server: Running) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            async with server.http.get(server.url + "/health") as reply:
                if reply.status == 200:
                    return
            await asyncio.sleep(0.005)


def events(stream: bytes) -> Iterable[str]:
    return [part.removeprefix("data: ") for part in stream.decode().split("\n\n") if part]
