"""Have an engine answer, and hand on what it says as events: for dialects that it does not speak, and for ourselves.

Nothing ends silently: every answer has one end, `Finished` or `Failed`. The end is not handed on but returned, so that
what it lacks (times, counts) and what must come before it is seen to by the one who asked.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec
from aiohttp import web

from app.core.errors import BadRequest, RoundhouseError, UserError
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
from app.gateway.canonical.families.answer import AnswerReader, Reading
from app.gateway.canonical.overflow import ContextOverflow
from app.gateway.canonical.request import Generate
from app.gateway.canonical.trimming import shortened
from app.gateway.exchange.capability_fallback import Counter
from app.gateway.exchange.client_stream import SSE_HEADERS, ClientStream, KeepAlive
from app.gateway.exchange.connections import Flow
from app.gateway.exchange.engine.refusals import refused
from app.gateway.exchange.engine.stream import StreamReader
from app.gateway.exchange.observer import Observation, Stopped
from app.gateway.exchange.passing import LineBound
from app.gateway.exchange.upstream import EngineAccess, EngineAnswer, UpstreamRequest
from app.supervisor.lease import Lease

log = logging.getLogger(__name__)

End = Finished | Failed


class Receiver(Protocol):
    """Who takes an answer's events."""

    async def open(self) -> None:
        """Note that the engine has begun to answer."""

    def take(self, events: Sequence[Event]) -> Flow:
        """Take what a piece of the answer says. Returns PAUSE where they come faster than they are taken."""

    async def drain(self) -> None:
        """Wait until there is room for more."""


class Collected:
    """Keeps an answer's events until all are there."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    async def open(self) -> None:
        """Begin."""

    def take(self, events: Sequence[Event]) -> Flow:
        """Keep them."""
        self.events += events
        return Flow.MORE

    async def drain(self) -> None:
        """Go on."""


class Trimming(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation too long is answered all the same: `prepare` makes a request of a shorter one.

    Only for clients that asked for that; `dropped` is told how many messages were left out.
    """

    work: Generate
    prepare: Callable[[Generate], Awaitable[UpstreamRequest]]
    dropped: Callable[[int], None]


async def translate(
    engines: EngineAccess,
    upstream: UpstreamRequest,
    observed: Observation,
    receiver: Receiver,
    trimming: Trimming | None = None,
) -> End:
    """Hand on what an engine answers, and return how it ended.

    Raises what loading raises, or the engine's refusal, before the first event; later troubles are a `Failed` end. Be
    cancelled to stop the engine's work.
    """
    must_call = upstream.plan is not None and upstream.plan.reading is not None and upstream.plan.reading.must_call
    once = _retry_until_tool_call if must_call else _translate
    if trimming is None:
        return await once(engines, upstream, observed, receiver)
    work, dropped = trimming.work, 0
    while True:
        try:
            return await once(engines, upstream, observed, receiver)
        except ContextOverflow as error:
            trim = shortened(work, prompt_tokens=error.prompt_tokens or 0, context=error.context or 0)
            if trim is None:
                raise
        work, dropped = trim.request, dropped + trim.dropped
        log.info("%d messages did not fit and are left out", dropped, extra={"model": upstream.model})
        trimming.dropped(dropped)
        upstream = await trimming.prepare(work)


async def translate_whole(
    engines: EngineAccess, upstream: UpstreamRequest, observed: Observation, trimming: Trimming | None = None
) -> list[Event]:
    """Return all events of an answer, its end last. Raises as `translate` does."""
    collected = Collected()
    end = await translate(engines, upstream, observed, collected, trimming)
    return [*collected.events, end]


async def fetch(engines: EngineAccess, upstream: UpstreamRequest, observed: Observation) -> bytes:
    """Return an answer that comes in one piece. Raises as `translate` does, and EngineFailed if it breaks off."""
    async with EngineAnswer(engines, upstream, observed) as answer:
        body = await answer.read()
        if answer.is_refusal:
            raise _refusal(answer, body)
        observed.saw_whole(body)
        observed.answered(answer.lease)
        return body


def _refusal(answer: EngineAnswer, body: bytes) -> RoundhouseError:
    return refused(body, answer.head.status, retry_after=answer.head.headers.get("retry-after", ""))


async def _translate(
    engines: EngineAccess, upstream: UpstreamRequest, observed: Observation, receiver: Receiver
) -> End:
    async with EngineAnswer(engines, upstream, observed) as answer:
        if answer.is_refusal:
            raise _refusal(answer, await answer.read())
        await receiver.open()
        receiver.take([Started(load_s=answer.lease.load_s, context=answer.lease.context)])
        reading = upstream.plan.reading if upstream.plan is not None else None
        events = _Events(receiver, observed, reading)
        try:
            await answer.hand_on(events.feed, receiver.drain)
            end = events.finish() or failed(await answer.why_broken())
        except RoundhouseError as error:
            end = failed(error)
        if isinstance(end, Failed):
            observed.failed_in_stream(end.error.sentence, end.error.code)
            return end
        if reading is not None:
            end = await Counter(engines, answer.lease, upstream).counted(end, events.written)
        observed.answered(answer.lease)
        return _timed(end, observed, answer.lease)


class _Events:
    """Reads an engine's stream, and what a model wrote in it where the engine does not."""

    __slots__ = ("_bound", "_observed", "_reader", "_receiver", "_splitter", "_written", "end")

    def __init__(self, receiver: Receiver, observed: Observation, reading: Reading | None) -> None:
        self._receiver, self._observed = receiver, observed
        self._bound, self._reader = LineBound(), StreamReader()
        self._splitter = None if reading is None else AnswerReader(reading)
        self._written: list[str] = []
        self.end: End | None = None

    @property
    def written(self) -> str:
        """All the text that the model wrote, marks and reasoning with it, where it is read here."""
        return "".join(self._written)

    def feed(self, piece: bytes) -> Flow:
        """Take a piece of the stream. An answer may be ended here before the engine ends it."""
        self._bound.check(piece)
        flow = self._hand_on(self._reader.feed(piece))
        self._observed.saw(piece)  # after it was sent on: who is told of the first piece keeps no client waiting
        return flow if self.end is None else Flow.END

    def finish(self) -> End | None:
        """Return how the answer ended, None if the engine hung up before it did."""
        if self.end is None:
            self._hand_on(self._reader.end())
        return self.end

    def _hand_on(self, events: list[Event]) -> Flow:
        if self._splitter is not None and events:
            self._written += [event.text for event in events if isinstance(event, TextDelta)]
            events = self._splitter.take(events)
        if events and isinstance(events[-1], Finished | Failed):
            self.end = events.pop()  # type: ignore[assignment] # as was just seen
        return self._receiver.take(events) if events else Flow.MORE


async def _retry_until_tool_call(
    engines: EngineAccess, upstream: UpstreamRequest, observed: Observation, receiver: Receiver
) -> End:
    """Hand on an answer that calls a tool, once it is whole: the second, if the first calls none.

    Raises BadRequest (tool_not_called) if neither does.
    """
    again = upstream.plan.again if upstream.plan is not None else None
    for body in (upstream.body, *([] if again is None else [again])):
        collected = Collected()
        end = await _translate(engines, msgspec.structs.replace(upstream, body=body), observed, collected)
        if isinstance(end, Failed) or any(isinstance(event, ToolCallDelta) for event in collected.events):
            await receiver.open()
            receiver.take(collected.events)
            return end
        if end.reason is Finish.LENGTH:
            raise _not_called(hint="The answer reached the token limit first: allow more.")
    raise _not_called(hint="Let the model decide whether to call one, or use a model made for tool calls.")


def _not_called(*, hint: str) -> BadRequest:
    return BadRequest("The model was required to call a tool, but did not.", hint=hint, code="tool_not_called")


def _timed(end: Finished, observed: Observation, lease: Lease) -> Finished:
    """Fill in what only the gateway knows about time; the engine's own clock goes before ours."""
    now, first = time.perf_counter(), observed.first_at
    started, clock = observed.started_at, end.timings
    first = now if first is None else first
    timings = Timings(
        load_s=lease.load_s,
        ready_s=(now if observed.leased_at is None else observed.leased_at) - started,
        prefill_s=clock.prefill_s or max(0.0, first - started - lease.load_s),
        decode_s=clock.decode_s or observed.last_at - first,
        total_s=now - started,
    )
    return msgspec.structs.replace(end, timings=timings)


class Encoder(Protocol):
    """One dialect's way to put a stream."""

    def begin(self) -> bytes:
        """Return what comes before everything else."""

    def feed(self, events: Sequence[Event]) -> bytes:
        """Return what some events are; nothing after the last."""


class Part(NamedTuple):
    """One answer in a stream, and what puts it. Nearly always a stream has one part."""

    upstream: UpstreamRequest
    encoder: Encoder


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream is put beyond its events."""

    keep_alive: KeepAlive
    headers: Mapping[str, str] = MappingProxyType(SSE_HEADERS)
    trimming: Trimming | None = None
    before_end: Callable[[End], Awaitable[None]] | None = None
    """Awaited when an answer's end has been encoded, and before it is sent."""
    last: Callable[[], bytes] | None = None
    """What follows when all parts have ended well."""
    has_begun: bool = False
    """Whether the stream begins whatever comes: then a refusal is said in it too."""


class _EncodingReceiver:
    """Writes events to a client as a dialect has them."""

    __slots__ = ("_client", "_encoder", "_owes_beginning", "drain")

    def __init__(self, client: ClientStream, encoder: Encoder, *, is_first: bool) -> None:
        self._client, self._encoder = client, encoder
        self._owes_beginning = not is_first  # of the first part it comes with the head
        self.drain = client.drain

    async def open(self) -> None:
        await self._client.open()
        if self._owes_beginning:
            self._client.write(self._encoder.begin())

    def take(self, events: Sequence[Event]) -> Flow:
        return self._client.write(self._encoder.feed(events))


async def stream(
    request: web.Request, engines: EngineAccess, parts: Sequence[Part], observed: Observation, course: Course
) -> web.StreamResponse:
    """Return an answer streamed in a dialect. Raises as `translate` does as long as no head has been sent."""
    client, encoder = ClientStream(request, course.headers, course.keep_alive), parts[0].encoder
    try:
        for number, part in enumerate(parts):
            encoder = part.encoder
            receiver = _EncodingReceiver(client, encoder, is_first=number == 0)
            end = await translate(engines, part.upstream, observed, receiver, course.trimming)
            ending = encoder.feed([end])
            if course.before_end is not None:
                await course.before_end(end)
            if number == len(parts) - 1 or isinstance(end, Failed):
                rest = course.last() if course.last is not None and isinstance(end, Finished) else b""
                return await client.close(ending + rest)
            client.write(ending)
    except asyncio.CancelledError:
        if not client.is_open or not observed.take_back_cancellation():
            raise
        return await _say(Stopped(), client, encoder, course)
    except RoundhouseError as error:
        if not await client.settle() and not course.has_begun:
            raise
        observed.failed_in_stream(str(error), error.code, is_engines=not isinstance(error, UserError))
        return await _say(error, client, encoder, course)
    finally:
        client.cancel()
    raise AssertionError("a stream has a part")


async def _say(error: RoundhouseError, client: ClientStream, encoder: Encoder, course: Course) -> web.StreamResponse:
    await client.open()
    end = failed(error)
    ending = encoder.feed([end])
    if course.before_end is not None:
        await course.before_end(end)
    return await client.close(ending)
