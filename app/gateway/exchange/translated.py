"""The hot path of dialects that no engine speaks: hold a lease, ask the engine, and hand on what it says as events.

As in `proxy`, a request whose engine had gone is sent once more, nothing ends silently, and a caller that is cancelled
or closes the events drops the engine's connection, which ends its work.
"""

import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import aiohttp
import msgspec
from aiohttp import hdrs, web

from app.core.errors import BadRequest
from app.gateway.canonical.events import (
    Event,
    Failed,
    Finish,
    Finished,
    Started,
    TextDelta,
    Timings,
    ToolCallDelta,
    failed,
)
from app.gateway.canonical.families.answer import AnswerReader
from app.gateway.entry.middleware import ARRIVED
from app.gateway.exchange.bounds import LineBound
from app.gateway.exchange.capability_fallback import Counter
from app.gateway.exchange.engine.refusals import refused
from app.gateway.exchange.engine.stream import StreamReader
from app.gateway.exchange.proxy import Ask, EngineLost, broke_off, read_whole, sent, why_broken
from app.gateway.services import SERVICES
from app.gateway.watching.watch import Outcome, Stopped, Watch
from app.supervisor.lease import Lease

log = logging.getLogger(__name__)

Batches = AsyncGenerator[Sequence[Event], None]
READY_S = web.RequestKey("ready_s", float)
"""Seconds from a request's arrival until it had an engine."""
_ERROR_STATUS = 400


def asked(request: web.Request, ask: Ask, watch: Watch) -> Batches:
    """Return what the engine says, a network chunk's worth of events at a time.

    Raises what loading raises, or the engine's refusal, before the first event; later troubles are a `Failed` event.
    Close it, or be cancelled, to stop the engine's work.
    """
    must_call = ask.plan is not None and ask.plan.reading is not None and ask.plan.reading.must_call
    return (_insisted if must_call else _once)(request, ask, watch)


async def _once(request: web.Request, ask: Ask, watch: Watch) -> Batches:
    reading = ask.plan.reading if ask.plan is not None else None
    async with _Call(request, ask) as (lease, upstream):
        if upstream.status >= _ERROR_STATUS:
            raise refused(await read_whole(upstream, lease), upstream.status, retry_after=_retry_after(upstream))
        yield [Started(load_s=lease.load_s, context=lease.context)]
        heard = _heard(upstream, lease, watch)
        if reading is not None:
            heard = _read(heard, AnswerReader(reading), Counter(request.app[SERVICES], lease, ask))
        async with aclosing(heard):
            async for batch in heard:
                yield [_timed(event, request, lease, watch) for event in batch]
                _note_end(request, batch, lease, watch)


async def _read(heard: Batches, reader: AnswerReader, counter: Counter) -> Batches:
    """Yield what an engine's events mean; the reader may end the answer before the engine does."""
    written: list[str] = []
    async with aclosing(heard):
        async for batch in heard:
            written += [event.text for event in batch if isinstance(event, TextDelta)]
            told = reader.take(batch)
            if told and isinstance(end := told[-1], Finished):
                told[-1] = await counter.counted(end, "".join(written))
            if told:
                yield told
            if reader.is_over:
                return


async def _insisted(request: web.Request, ask: Ask, watch: Watch) -> Batches:
    """Yield an answer that calls a tool, once it is whole: the second, if the first calls none.

    Raises BadRequest (tool_not_called) if neither does.
    """
    bodies = [ask.body, *([ask.plan.again] if ask.plan is not None and ask.plan.again is not None else [])]
    for body in bodies:
        async with aclosing(_once(request, msgspec.structs.replace(ask, body=body), watch)) as batches:
            answer = [batch async for batch in batches]
        events = [event for batch in answer for event in batch]
        if any(isinstance(event, ToolCallDelta | Failed) for event in events):
            for batch in answer:
                yield batch
            return
        if any(isinstance(event, Finished) and event.reason is Finish.LENGTH for event in events):
            raise _not_called(hint="Its answer reached the limit of tokens first: allow more.")
    raise _not_called(hint="Let it choose whether to, or use a model made for calling tools.")


def _not_called(*, hint: str) -> BadRequest:
    return BadRequest("The model was to call a tool, and did not.", hint=hint, code="tool_not_called")


async def asked_whole(request: web.Request, ask: Ask, watch: Watch) -> tuple[bytes, Lease]:
    """Return an answer that comes in one piece. Raises as `asked` does, and EngineFailed if it breaks off."""
    async with _Call(request, ask) as (lease, upstream):
        body = await read_whole(upstream, lease)
        if upstream.status >= _ERROR_STATUS:
            raise refused(body, upstream.status, retry_after=_retry_after(upstream))
        watch.whole(body)
        watch.outcome = Outcome.OK
        return body, lease


def _retry_after(upstream: aiohttp.ClientResponse) -> str:
    return upstream.headers.get(hdrs.RETRY_AFTER, "")


class _Call:
    """A lease, and the engine's answer to what was sent over it, for as long as the block runs.

    Not made of exit stacks, which would cost every request as much as understanding it.
    """

    __slots__ = ("_ask", "_leasing", "_request", "_upstream")

    def __init__(self, request: web.Request, ask: Ask) -> None:
        self._request, self._ask = request, ask

    async def __aenter__(self) -> tuple[Lease, aiohttp.ClientResponse]:
        try:
            return await self._tried()
        except EngineLost as lost:
            if not lost.may_repeat:
                raise broke_off(lost.cause) from lost
            log.info("Repeating a request whose engine had gone", extra={"model": self._ask.model})
        try:
            return await self._tried()
        except EngineLost as lost:
            raise broke_off(lost.cause) from lost

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._upstream.__aexit__(None, None, None)
        finally:
            await self._leasing.__aexit__(*error)

    async def _tried(self) -> tuple[Lease, aiohttp.ClientResponse]:
        services = self._request.app[SERVICES]
        leasing = services.supervisor.lease(self._ask.load, self._ask.terms)
        lease = await leasing.__aenter__()
        try:
            self._request[READY_S] = time.perf_counter() - self._request[ARRIVED]
            self._upstream = await sent(services, self._request, self._ask, lease)
        except BaseException:
            await leasing.__aexit__(None, None, None)
            raise
        self._leasing = leasing
        return lease, self._upstream


async def _heard(upstream: aiohttp.ClientResponse, lease: Lease, watch: Watch) -> Batches:
    """Yield the engine's events; the last one is an end, its own or the one it owes."""
    reader, content, bound = StreamReader(), upstream.content, LineBound()
    with contextlib.suppress(aiohttp.ClientError, ConnectionError):
        while chunk := await content.readany():
            bound.saw(chunk)
            watch.saw(chunk)
            batch = reader.feed(chunk)
            if batch:
                yield batch
    if not reader.is_over:
        yield reader.end() or [failed(await why_broken(lease))]


def _timed(event: Event, request: web.Request, lease: Lease, watch: Watch) -> Event:
    """Fill in what only the gateway knows about time; the engine's own clock goes before ours."""
    if not isinstance(event, Finished):
        return event
    now, said = time.perf_counter(), event.timings
    first = watch.first or now
    prefill_s = said.prefill_s or max(0.0, first - request[ARRIVED] - lease.load_s)
    timings = Timings(
        load_s=lease.load_s,
        ready_s=request[READY_S],
        prefill_s=prefill_s,
        decode_s=said.decode_s or watch.last - first,
        total_s=now - request[ARRIVED],
    )
    return msgspec.structs.replace(event, timings=timings)


def _note_end(request: web.Request, batch: Sequence[Event], lease: Lease, watch: Watch) -> None:
    last = batch[-1]
    if isinstance(last, Finished):
        watch.outcome = Outcome.OK
        request.app[SERVICES].measuring.heard(lease.status, watch.timings())
    elif isinstance(last, Failed):
        watch.outcome = Outcome.ENGINE_FAILED
        watch.error = last.error.sentence
        if last.error.code != Stopped.default_code:
            log.error(last.error.sentence, extra={"code": last.error.code, "model": lease.status.model})
