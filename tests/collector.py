"""A collector of traces that a test plays: it takes OTLP over HTTP, and reads protobuf by its wire format.

What it reads are the fields of `opentelemetry/proto/trace/v1/trace.proto` by their numbers, without the library.
"""

import asyncio
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.patience import until


@dataclass
class TakenSpan:
    """One span as the collector read it."""

    trace_id: str
    span_id: str
    parent_id: str
    state: str
    name: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    events: dict[str, dict[str, Any]]
    is_error: bool
    flags: int
    resource: dict[str, Any]


@dataclass
class Collector:
    """What came, and how it answers."""

    url: str = ""
    spans: list[TakenSpan] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    status: int = 200
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.headers.append(dict(request.headers))
        self.bodies.append(body)
        await self.may_answer.wait()
        if self.status == 200:
            self.spans += read_spans(body)
        return web.Response(status=self.status)

    async def wait_for(self, count: int) -> list[TakenSpan]:
        """Return the spans once there are so many."""
        await until(lambda: len(self.spans) >= count)
        return self.spans


@asynccontextmanager
async def playing_collector(port: int = 0) -> AsyncIterator[Collector]:
    """Run a collector that answers at once."""
    collector = Collector()
    collector.may_answer.set()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield collector
    finally:
        await runner.cleanup()


Field = tuple[int, Any]


def read_fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a message: numbers, and bytes or figures. Raises for what is no message."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _read_varint(data, at)
            yield number, value
        elif kind == 2:
            length, at = _read_varint(data, at)
            assert at + length <= len(data)
            yield number, data[at : at + length]
            at += length
        else:
            code, size = {1: ("<Q", 8), 5: ("<I", 4)}[kind]
            yield number, struct.unpack(code, data[at : at + size])[0]
            at += size


def read_spans(body: bytes) -> list[TakenSpan]:
    """Return the spans of an ExportTraceServiceRequest."""
    spans = []
    for resource_spans in _all(body, 1):
        resource = _read_attributes(_first(resource_spans, 1), 1)
        for scope_spans in _all(resource_spans, 2):
            spans += [_read_span(span, resource) for span in _all(scope_spans, 2)]
    return spans


def _read_span(data: bytes, resource: dict[str, Any]) -> TakenSpan:
    by_number = dict(read_fields(data))
    status = dict(read_fields(by_number.get(15, b"")))
    events = {_first(event, 2).decode(): _read_attributes(event, 3) for event in _all(data, 11)}
    return TakenSpan(
        trace_id=by_number[1].hex(),
        span_id=by_number[2].hex(),
        parent_id=by_number.get(4, b"").hex(),
        state=by_number.get(3, b"").decode(),
        name=by_number[5].decode(),
        kind=by_number[6],
        start_ns=by_number[7],
        end_ns=by_number[8],
        attributes=_read_attributes(data, 9),
        events=events,
        is_error=status.get(3) == 2,
        flags=by_number[16],
        resource=resource,
    )


def _read_attributes(data: bytes, number: int) -> dict[str, Any]:
    return {_first(pair, 1).decode(): _read_value(_first(pair, 2)) for pair in _all(data, number)}


def _read_value(data: bytes) -> Any:  # noqa: ANN401 -- an AnyValue
    ((number, value),) = read_fields(data)
    if number == 1:
        return value.decode()
    if number == 2:
        return bool(value)
    if number == 4:
        return struct.unpack("<d", struct.pack("<Q", value))[0]
    return value if number == 3 else [_read_value(item) for item in _all(value, 1)]


def _all(data: bytes, number: int) -> list[bytes]:
    return [value for each, value in read_fields(data) if each == number]


def _first(data: bytes, number: int) -> bytes:
    return _all(data, number)[0]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
        shift += 7


@contextmanager
def collector_in_thread() -> Iterator[Collector]:
    """Run a collector beside a test that has no event loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    context = playing_collector()
    try:
        yield asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result()
        asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
