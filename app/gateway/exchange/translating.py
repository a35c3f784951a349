"""Have an engine answer, and hand on what it says as events: for dialects that it does not speak, and for ourselves.

Nothing ends silently: every answer has one end, `AnswerFinished` or `AnswerFailed`. The end is not handed on but
returned, so that what it lacks (times, counts) and what must come before it is seen to by the one who asked.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec
from aiohttp import web

from app.core.errors import BadRequest, EngineFailed, RoundhouseError, UserError
from app.gateway.canonical.events import (
    BROKE_OFF,
    AnswerFailed,
    AnswerFinished,
    AnswerStarted,
    AnswerTimings,
    ContextOverflow,
    Event,
    FinishReason,
    PromptProgress,
    TextDelta,
    ToolCallDelta,
    failure_event,
)
from app.gateway.canonical.families.answer import AnswerReader, ReadingOptions
from app.gateway.canonical.truncation import truncate_request
from app.gateway.exchange.capability_fallback import AnswerTokenCounter
from app.gateway.exchange.client_stream import SSE_HEADERS, ClientStream, KeepAlivePlan
from app.gateway.exchange.connections import ReadFlow
from app.gateway.exchange.engine.error_document import UNPARSED, error_from_refusal
from app.gateway.exchange.engine.stream import StreamReader
from app.gateway.exchange.event_receivers import CollectingReceiver, End, EventReceiver, RoundsReceiver
from app.gateway.exchange.observer import ExchangeOutcome, Observation, RequestStopped
from app.gateway.exchange.passing import LineLimit
from app.gateway.exchange.repairs import repair_answer
from app.gateway.exchange.upstream import EngineAccess, EngineAnswer, OtherMachines, TrimOptions, UpstreamRequest
from app.supervisor.lease import Lease

log = logging.getLogger(__name__)


async def translate_answer(
    engines: EngineAccess,
    upstream: UpstreamRequest,
    observation: Observation,
    receiver: EventReceiver,
    trim_options: TrimOptions | None = None,
) -> End:
    """Hand on what an engine answers, and return how it ended.

    Raises what loading raises, or the engine's refusal, before the first event; later troubles are an `AnswerFailed`
    end. A machine that goes away before it is replaced, where there is another. Be cancelled to stop the engine's work.
    """
    if upstream.plan is not None and upstream.plan.question and engines.look_up is not None:
        return await _look_up(engines.look_up(upstream.plan.question), observation, receiver)
    if engines.others is not None:
        upstream = engines.others.find_current(upstream)
    current: _CurrentRequest | None = None
    while True:
        plan = upstream.plan
        must_call = plan is not None and plan.reading is not None and plan.reading.must_call
        once = _retry_until_tool_call if must_call else _translate_once
        ask = once if plan is None or plan.repairs is None else partial(repair_answer, once)
        try:
            return await ask(engines, upstream, observation, receiver)
        except (ContextOverflow, EngineFailed) as error:
            current = current or _CurrentRequest(upstream, trim_options)
            if not await current.change_after(error, engines.others):
                raise
            upstream = current.upstream


class _CurrentRequest:
    """What an engine is asked: the whole conversation first, less if it refuses that, and another if it is lost."""

    def __init__(self, upstream: UpstreamRequest, trim_options: TrimOptions | None) -> None:
        self.upstream = self._whole = upstream
        self._trim_options = trim_options
        self._work = None if trim_options is None else trim_options.work
        self._dropped_count = 0

    async def change_after(self, error: ContextOverflow | EngineFailed, others: OtherMachines | None) -> bool:
        """Turn to what may be asked after this error; return whether there is anything."""
        if isinstance(error, ContextOverflow):
            return await self._shorten(error)
        return others is not None and await self._move(others, error)

    async def _shorten(self, error: ContextOverflow) -> bool:
        """Leave out the oldest that does not fit; return whether anything may and can be."""
        trim_options, work = self._trim_options, self._work
        if trim_options is None or work is None:
            return False
        trim = truncate_request(work, prompt_tokens=error.prompt_tokens or 0, context=error.context or 0)
        if trim is None:
            return False
        self._work = trim.request
        self._note_dropped(trim_options, self._dropped_count + trim.dropped)
        self.upstream = await trim_options.prepare(trim.request)
        return True

    async def _move(self, others: OtherMachines, error: EngineFailed) -> bool:
        """Turn to whom else may be asked after a loss, with the whole conversation; return whether there is somebody.

        A fleet's router is asked again for as much as its replicas took.
        """
        other = await others.find_other(self._whole, error)
        if other is None:
            return False
        if other.upstream is not self._whole:
            self.upstream = self._whole = other.upstream
            self._trim_anew(other.trim_options)
        return True

    def _trim_anew(self, other: TrimOptions | None) -> None:
        """Have another machine's request made shorter, which may take more or less; the same answer says how much."""
        if self._trim_options is None or other is None:
            self._trim_options = None
            return
        self._trim_options = msgspec.structs.replace(other, dropped=self._trim_options.dropped)
        self._work = other.work
        if self._dropped_count:
            self._note_dropped(self._trim_options, 0)

    def _note_dropped(self, trim_options: TrimOptions, count: int) -> None:
        self._dropped_count = count
        trim_options.dropped(count)
        log.info("%d messages did not fit and are left out", count, extra={"model": self.upstream.model})


async def translate_whole(
    engines: EngineAccess, upstream: UpstreamRequest, observation: Observation, trim_options: TrimOptions | None = None
) -> list[Event]:
    """Return all events of an answer, its end last. Raises as `translate_answer` does."""
    collector = CollectingReceiver()
    end = await translate_answer(engines, upstream, observation, collector, trim_options)
    return [*collector.events, end]


async def fetch_body(engines: EngineAccess, upstream: UpstreamRequest, observation: Observation) -> bytes:
    """Return an answer that comes in one piece. Raises as `translate_answer`, and EngineFailed if it breaks off."""
    async with EngineAnswer(engines, upstream, observation) as answer:
        body = await answer.read()
        if answer.is_refusal:
            raise _refusal_error(answer, body)
        observation.note_body(body)
        observation.note_answer(answer.lease)
        return body


async def _look_up(answer: Awaitable[str], observation: Observation, receiver: EventReceiver) -> End:
    """Hand on what the Guide found, as a model's answer would be: no engine is asked, and no token counted."""
    text = await answer
    await receiver.open()
    receiver.take_events([AnswerStarted(), TextDelta(text)])
    observation.outcome = ExchangeOutcome.OK
    return AnswerFinished(timings=AnswerTimings(total_s=time.perf_counter() - observation.started_at))


def _refusal_error(answer: EngineAnswer, body: bytes) -> RoundhouseError:
    error = error_from_refusal(body, answer.head.status, retry_after=answer.head.headers.get("retry-after", ""))
    if error.code == UNPARSED:
        answer.note_unreadable()
    return error


async def _translate_once(
    engines: EngineAccess, upstream: UpstreamRequest, observation: Observation, receiver: EventReceiver
) -> End:
    async with EngineAnswer(engines, upstream, observation) as answer:
        if answer.is_refusal:
            raise _refusal_error(answer, await answer.read())
        start = AnswerStarted(load_s=answer.lease.load_s, context=answer.lease.context)
        reading_options = upstream.plan.reading if upstream.plan is not None else None
        events = _EventPipe(receiver, observation, reading_options)
        if engines.others is None:
            await receiver.open()
            receiver.take_events([start])
        else:
            events.hold_until_content(start)
        error: RoundhouseError | None = None
        try:
            await answer.hand_on(events.feed, receiver.drain if engines.others is None else events.drain)
            if events.finish() is None:
                error = await answer.why_broken()
        except RoundhouseError as stream_error:
            error = stream_error
        if isinstance(error, EngineFailed) and not events.has_content:
            raise error
        if engines.others is not None:
            await events.release()
        end = failure_event(error) if error is not None else events.end or BROKE_OFF
        if isinstance(end, AnswerFailed):
            _note_failed_end(end, answer, observation)
            return end
        if upstream.plan is not None and upstream.plan.counts_tokens:
            end = await AnswerTokenCounter(engines, answer.lease, upstream).count_tokens(end, events.text)
        observation.note_answer(answer.lease)
        return _with_timings(end, observation, answer.lease)


def _note_failed_end(end: AnswerFailed, answer: EngineAnswer, observation: Observation) -> None:
    """Note why an answer failed, unless it is put right next."""
    is_unparsed, plan = end.error.code == UNPARSED, answer.request.plan
    if is_unparsed:
        answer.note_unreadable()
    if not is_unparsed or plan is None or plan.repairs is None:
        observation.note_stream_failure(end.error.sentence, end.error.code)


class _EventPipe:
    """Reads an engine's stream, and what a model wrote in it where the engine does not."""

    __slots__ = ("_held_events", "_line_limit", "_observation", "_reader", "_receiver", "_splitter", "_texts", "end")

    def __init__(
        self, receiver: EventReceiver, observation: Observation, reading_options: ReadingOptions | None
    ) -> None:
        self._receiver, self._observation = receiver, observation
        self._line_limit, self._reader = LineLimit(), StreamReader()
        self._splitter = None if reading_options is None else AnswerReader(reading_options)
        self._texts: list[str] = []
        self._held_events: list[Event] | None = None
        """What waits until the receiver is open; None once it is."""
        self.end: End | None = None

    @property
    def has_content(self) -> bool:
        """Whether anything came that a client can read."""
        return self._held_events is None or len(self._held_events) > 1

    def hold_until_content(self, start: AnswerStarted) -> None:
        """Open the receiver with the first content: until then somebody else may answer in the engine's place."""
        self._held_events = [start]

    async def release(self) -> None:
        """Open the receiver, unless it is open, and hand on what waits."""
        if self._held_events is None:
            return
        held_events, self._held_events = self._held_events, None
        await self._receiver.open()
        if self._receiver.take_events(held_events) is ReadFlow.PAUSE:
            await self._receiver.drain()

    async def drain(self) -> None:
        """Wait until there is room for more."""
        await (self._receiver.drain() if self._held_events is None else self.release())

    @property
    def text(self) -> str:
        """All the text that the model wrote, marks and reasoning with it, where it is read here."""
        return "".join(self._texts)

    def feed(self, piece: bytes) -> ReadFlow:
        """Take a piece of the stream. An answer may be ended here before the engine ends it."""
        if self._line_limit.is_open or not piece.endswith(b"\n"):
            self._line_limit.check_piece(piece)
        flow = self._pass_events(self._reader.feed(piece))
        if self._held_events is None or len(self._held_events) > 1:  # signs of life are none of its first token
            self._observation.note_piece(
                piece
            )  # after it was sent on: who is told of the first piece keeps no client waiting
        return flow if self.end is None else ReadFlow.END

    def finish(self) -> End | None:
        """Return how the answer ended, None if the engine hung up before it did."""
        if self.end is None:
            self._pass_events(self._reader.end_stream())
        return self.end

    def _pass_events(self, events: list[Event]) -> ReadFlow:
        if self._splitter is not None and events:
            self._texts += [event.text for event in events if isinstance(event, TextDelta)]
            events = self._splitter.take_events(events)
        if events and isinstance(events[-1], AnswerFinished | AnswerFailed):
            self.end = events.pop()  # type: ignore[assignment] # as was just seen
        if self._held_events is not None:
            content = [event for event in events if not isinstance(event, PromptProgress)]
            self._held_events += content
            return ReadFlow.PAUSE if content else ReadFlow.MORE
        return self._receiver.take_events(events) if events else ReadFlow.MORE


async def _retry_until_tool_call(
    engines: EngineAccess, upstream: UpstreamRequest, observation: Observation, receiver: EventReceiver
) -> End:
    """Hand on an answer that calls a tool, once it is whole: the second, if the first calls none.

    Raises BadRequest (tool_not_called) if neither does.
    """
    again = upstream.plan.again if upstream.plan is not None else None
    for body in (upstream.body, *([] if again is None else [again])):
        collector = CollectingReceiver()
        end = await _translate_once(engines, msgspec.structs.replace(upstream, body=body), observation, collector)
        if isinstance(end, AnswerFailed) or any(isinstance(event, ToolCallDelta) for event in collector.events):
            await receiver.open()
            receiver.take_events(collector.events)
            return end
        if end.reason is FinishReason.LENGTH:
            raise _not_called_error(hint="The answer reached the token limit first: allow more.")
    raise _not_called_error(hint="Let the model decide whether to call one, or use a model made for tool calls.")


def _not_called_error(*, hint: str) -> BadRequest:
    return BadRequest("The model was required to call a tool, but did not.", hint=hint, code="tool_not_called")


def _with_timings(end: AnswerFinished, observation: Observation, lease: Lease) -> AnswerFinished:
    """Fill in what only the gateway knows about time; the engine's own clock goes before ours."""
    now, first = time.perf_counter(), observation.first_at
    started_at, clock = observation.started_at, end.timings
    first = now if first is None else first
    timings = AnswerTimings(
        load_s=lease.load_s,
        ready_s=(now if observation.leased_at is None else observation.leased_at) - started_at,
        prefill_s=clock.prefill_s or max(0.0, first - started_at - lease.load_s),
        decode_s=clock.decode_s or observation.last_at - first,
        total_s=now - started_at,
    )
    return msgspec.structs.replace(end, timings=timings)


class EventEncoder(Protocol):
    """One dialect's way to put a stream."""

    def begin(self) -> bytes:
        """Return what comes before everything else."""

    def feed(self, events: Sequence[Event]) -> bytes:
        """Return what some events are; nothing after the last."""


class StreamPart(NamedTuple):
    """One answer in a stream, and what puts it. Nearly always a stream has one part."""

    upstream: UpstreamRequest
    encoder: EventEncoder
    answer: Callable[[RoundsReceiver], Awaitable[End]] | None = None
    """Has several answers written in the place of one."""


class StreamCourse(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream is put beyond its events."""

    keep_alive: KeepAlivePlan
    headers: Mapping[str, str] = MappingProxyType(SSE_HEADERS)
    trimming: TrimOptions | None = None
    before_end: Callable[[End], Awaitable[None]] | None = None
    """Awaited when an answer's end has been encoded, and before it is sent."""
    last: Callable[[], bytes] | None = None
    """What follows when all parts have ended well."""
    has_begun: bool = False
    """Whether the stream begins whatever comes: then a refusal is said in it too."""


class _EncodingReceiver:
    """Writes events to a client as a dialect has them."""

    __slots__ = ("_client", "_encoder", "_owes_beginning", "_pending_bytes", "drain", "keep_alive")

    def __init__(self, client: ClientStream, encoder: EventEncoder, *, is_first: bool) -> None:
        self._client, self._encoder = client, encoder
        self._owes_beginning = not is_first  # of the first part it comes with the head
        self.drain, self.keep_alive = client.drain, client.keep_alive
        self._pending_bytes = b""

    async def open(self) -> None:
        await self._client.send_head()
        if self._owes_beginning:
            self._client.write(self._encoder.begin())
        if self._pending_bytes:
            self._client.write(self._pending_bytes)
            self._pending_bytes = b""

    def write_between(self, data: bytes) -> ReadFlow:
        if self._client.is_open:
            return self._client.write(data)
        self._pending_bytes += data
        return ReadFlow.MORE

    def take_events(self, events: Sequence[Event]) -> ReadFlow:
        return self._client.write(self._encoder.feed(events))


async def stream_parts(
    request: web.Request,
    engines: EngineAccess,
    parts: Sequence[StreamPart],
    observation: Observation,
    course: StreamCourse,
) -> web.StreamResponse:
    """Return an answer streamed in a dialect. Raises as `translate_answer` does as long as no head has been sent."""
    client, encoder = ClientStream(request, course.headers, course.keep_alive), parts[0].encoder
    try:
        for number, part in enumerate(parts):
            encoder = part.encoder
            receiver = _EncodingReceiver(client, encoder, is_first=number == 0)
            if part.answer is None:
                end = await translate_answer(engines, part.upstream, observation, receiver, course.trimming)
            else:
                end = await part.answer(receiver)
            last_pieces = encoder.feed([end])
            if course.before_end is not None:
                await course.before_end(end)
            if number == len(parts) - 1 or isinstance(end, AnswerFailed):
                rest = course.last() if course.last is not None and isinstance(end, AnswerFinished) else b""
                return await client.close(last_pieces + rest)
            client.write(last_pieces)
    except asyncio.CancelledError:
        if not client.is_open or not observation.take_back_cancellation():
            raise
        return await _send_error(RequestStopped(), client, encoder, course)
    except RoundhouseError as error:
        if not await client.stop_keep_alive() and not course.has_begun:
            raise
        observation.note_stream_failure(str(error), error.code, is_engines=not isinstance(error, UserError))
        return await _send_error(error, client, encoder, course)
    finally:
        client.cancel()
    raise AssertionError("a stream has a part")


async def _send_error(
    error: RoundhouseError, client: ClientStream, encoder: EventEncoder, course: StreamCourse
) -> web.StreamResponse:
    await client.send_head()
    end = failure_event(error)
    last_pieces = encoder.feed([end])
    if course.before_end is not None:
        await course.before_end(end)
    return await client.close(last_pieces)
