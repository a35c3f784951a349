"""Answers that cannot be used, put right before a client gets them, alike in every dialect.

An engine that could not read what its model wrote has the model go on from the same prompt without reading it, and the
text is read here, as other engines' is. A call that its tool would refuse, and an answer of nothing at all, are asked
for once more, the call with what is wrong with it. For that a call is held back until it is whole; a long one (a file
being written, of which mostly the text is long) is let go of instead, so that nobody waits for it in silence.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from app.core.errors import EngineFailed, ErrorBody, RoundhouseError
from app.gateway.canonical.events import (
    AnswerFailed,
    AnswerFinished,
    AnswerStarted,
    Event,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCallAssembler,
    ToolCallDelta,
    WholeAnswer,
    aggregate_events,
    failure_event,
)
from app.gateway.canonical.families.answer import AnswerReader, ReadingOptions
from app.gateway.canonical.families.call_check import CallVerdict, check_call
from app.gateway.canonical.request import Image, Sound, ToolCall
from app.gateway.exchange.connections import ReadFlow
from app.gateway.exchange.engine.answers import TemplateReply, decode_reply
from app.gateway.exchange.engine.error_document import UNPARSED
from app.gateway.exchange.engine.planning import AnswerRepairs, UpstreamPlan
from app.gateway.exchange.event_receivers import CollectingReceiver, End, EventReceiver
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest, with_fields
from app.supervisor.lease import Lease
from engines.api import Route

log = logging.getLogger(__name__)

_MOST_HELD = 2048
"""Characters of calls that are held back: half a minute's writing of a slow model."""
_MOST_THOUGHTS = 64 * 1024
"""Characters of reasoning that are looked through for a call."""
_OK = 200
EMPTY_ANSWER = AnswerFailed(
    error=ErrorBody(
        code="empty_answer",
        sentence="The model answered nothing, twice.",
        hint="Ask in other words, or choose another model.",
    ),
    status=502,
)

AskOnce = Callable[[EngineAccess, UpstreamRequest, Observation, EventReceiver], Awaitable[End]]


class CallGuard:
    """Stands between an engine's answer and who takes it: holds calls back, and knows what was let go of."""

    def __init__(self, receiver: EventReceiver, repairs: AnswerRepairs) -> None:
        self._receiver, self._repairs = receiver, repairs
        self._one_at_a_time = repairs.request.tool_choice.one_at_a_time
        self._calls, self._size = ToolCallAssembler(), 0
        self._lets_go = not repairs.checks_calls
        self._is_open = False
        self._thoughts: list[str] = []
        self._thought_size = 0
        self._texts: list[str] = []
        self._has_called = False
        self.drain = receiver.drain

    @property
    def text(self) -> str:
        """What was said."""
        return "".join(self._texts)

    @property
    def has_begun(self) -> bool:
        """Whether anything of an answer was let go of."""
        return bool(self._texts or self._thoughts or self._has_called)

    @property
    def has_called(self) -> bool:
        """Whether a call was let go of, which nobody can take back."""
        return self._has_called

    async def open(self) -> None:
        """Begin, once."""
        if not self._is_open:
            await self._receiver.open()

    def take_events(self, events: Sequence[Event]) -> ReadFlow:
        """Hand on what need not wait."""
        passing_events = [event for event in events if self._may_pass(event)]
        return self._receiver.take_events(passing_events) if passing_events else ReadFlow.MORE

    def find_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls that wait; if there are none and nothing was said, those that the reasoning holds."""
        calls = self._calls.all_calls()
        if calls or self._texts or self._has_called or not self._thoughts:
            return calls
        self._take_calls_of_thoughts()
        return self._calls.all_calls()

    def drop_calls(self) -> None:
        """Forget the calls that wait."""
        self._calls, self._size = ToolCallAssembler(), 0

    def release_calls(self, calls: Sequence[ToolCall]) -> None:
        """Hand calls on."""
        self.drop_calls()
        if calls:
            self._has_called = True
            self._receiver.take_events(
                [
                    ToolCallDelta(index=at, id=call.id, name=call.name, arguments=call.arguments)
                    for at, call in enumerate(calls)
                ]
            )

    def _may_pass(self, event: Event) -> bool:
        match event:
            case AnswerStarted():
                is_first, self._is_open = not self._is_open, True
                return is_first
            case TextDelta(text=text):
                self._texts.append(text)
            case ReasoningDelta(text=text) if self._thought_size < _MOST_THOUGHTS:
                self._thoughts.append(text)
                self._thought_size += len(text)
            case ToolCallDelta():
                return self._may_call(event)
        return True

    def _may_call(self, delta: ToolCallDelta) -> bool:
        if self._one_at_a_time and delta.index:
            return False
        if self._lets_go:
            self._has_called = True
            return True
        self._calls.add_delta(delta)
        self._size += len(delta.arguments)
        if self._size > _MOST_HELD:
            self._lets_go = True
            self.release_calls(self._calls.all_calls())
        return False

    def _take_calls_of_thoughts(self) -> None:
        """Find calls that a model wrote before it had ended its reasoning."""
        repairs = self._repairs
        forms = tuple(form for form in repairs.family.forms if form.looks_like is None)
        family = msgspec.structs.replace(repairs.family, forms=forms, channels=False)
        reader = AnswerReader(ReadingOptions(family=family, tools=repairs.tools, reads_thoughts=False))
        events = reader.take_events([TextDelta("".join(self._thoughts)), AnswerFinished()])
        for event in events:
            if isinstance(event, ToolCallDelta):
                self._calls.add_delta(event)


def without_checks(upstream: UpstreamRequest) -> UpstreamRequest:
    """Return the request with its calls and its empty answers left as they are, for those who ask again themselves."""
    plan = upstream.plan
    if plan is None or plan.repairs is None:
        return upstream
    plan = msgspec.structs.replace(plan, repairs=msgspec.structs.replace(plan.repairs, checks_calls=False))
    return msgspec.structs.replace(upstream, plan=plan)


async def repair_answer(
    once: AskOnce,
    engines: EngineAccess,
    upstream: UpstreamRequest,
    observation: Observation,
    receiver: EventReceiver,
) -> End:
    """Hand on an answer that can be used, by asking once or twice with `once`. Raises as that does."""
    repairs = upstream.plan.repairs if upstream.plan is not None else None
    if repairs is None:
        return await once(engines, upstream, observation, receiver)
    guard = CallGuard(receiver, repairs)
    end = await _ask_readable(once, engines, upstream, observation, guard)
    if isinstance(end, AnswerFailed):
        return end
    verdicts = [check_call(call, repairs.tools) for call in guard.find_calls()]
    body = _body_to_repeat(repairs, guard, verdicts, end)
    if body is None:
        return _release(guard, verdicts, end)
    guard.drop_calls()
    log.info("Asking once more for an answer that cannot be used", extra={"model": upstream.model})
    observation.note_event("repeat", why="the answer cannot be used")
    second = await _ask_again(once, engines, msgspec.structs.replace(upstream, body=body), observation, guard)
    if isinstance(second, AnswerFailed) and not verdicts:
        return second
    if isinstance(second, AnswerFinished):
        verdicts, end = [check_call(call, repairs.tools) for call in guard.find_calls()], second
    if end.reason is FinishReason.STOP and not (verdicts or guard.text.strip() or guard.has_called):
        observation.note_stream_failure(EMPTY_ANSWER.error.sentence, EMPTY_ANSWER.error.code)
        return EMPTY_ANSWER
    return _release(guard, verdicts, end)


def _release(guard: CallGuard, verdicts: Sequence[CallVerdict], end: AnswerFinished) -> AnswerFinished:
    guard.release_calls([each.call for each in verdicts])
    if guard.has_called and end.reason is FinishReason.STOP:
        return msgspec.structs.replace(end, reason=FinishReason.TOOL_CALLS)
    return end


def _body_to_repeat(
    repairs: AnswerRepairs, guard: CallGuard, verdicts: Sequence[CallVerdict], end: AnswerFinished
) -> bytes | None:
    """Return what asks again, None for an answer that can be used, or that only its limit ended."""
    if not repairs.checks_calls or end.reason in {FinishReason.LENGTH, FinishReason.CONTENT_FILTER}:
        return None
    if any(each.faults for each in verdicts):
        return repairs.correction_body([each.call for each in verdicts], [each.faults for each in verdicts])
    is_empty = not verdicts and not guard.text.strip() and not guard.has_called
    return repairs.retry_body if is_empty and repairs.tools else None


async def _ask_again(
    once: AskOnce, engines: EngineAccess, upstream: UpstreamRequest, observation: Observation, guard: CallGuard
) -> End | None:
    """Return how the second answer ended; None where it was refused, as a template may a turn that it does not know."""
    try:
        return await _ask_readable(once, engines, upstream, observation, guard)
    except RoundhouseError as error:
        log.info("Asking once more was refused: %s", error.code, extra={"model": upstream.model})
        return None


async def _ask_readable(
    once: AskOnce, engines: EngineAccess, upstream: UpstreamRequest, observation: Observation, guard: CallGuard
) -> End:
    """Return how an answer ended that the engine could read, or that was read here where it could not."""
    error: RoundhouseError | None = None
    try:
        end = await once(engines, upstream, observation, guard)
        if not isinstance(end, AnswerFailed) or end.error.code != UNPARSED:
            return end
    except EngineFailed as refusal:
        if refusal.code != UNPARSED:
            raise
        error, end = refusal, failure_event(refusal)
    raw = _raw_request(engines, upstream)
    if raw is not None and not guard.has_called:
        log.info("The engine could not read an answer, which is asked for unread", extra={"model": upstream.model})
        observation.forget_failure()
        guard.drop_calls()
        try:
            return await _read_raw(once, engines, raw, observation, guard)
        except RoundhouseError as again:
            log.info("The text of an answer could not be had: %s", again.code, extra={"model": upstream.model})
    if error is not None:
        raise error
    observation.note_stream_failure(end.error.sentence, end.error.code)
    return end


def _raw_request(engines: EngineAccess, upstream: UpstreamRequest) -> UpstreamRequest | None:
    """Return what has the engine write without reading; None where it cannot, or the prompt is no text."""
    repairs = upstream.plan.repairs if upstream.plan is not None else None
    routes = engines.adapters[upstream.load.engine].descriptor.routes
    if repairs is None or Route.APPLY_TEMPLATE not in routes or Route.COMPLETIONS not in routes:
        return None
    if any(isinstance(part, Image | Sound) for turn in repairs.request.messages for part in turn.parts):
        return None
    chat, marks = upstream.body, _marks_of(repairs)

    async def fill_prompt(engines: EngineAccess, lease: Lease, request: UpstreamRequest) -> UpstreamRequest:
        path = routes[Route.APPLY_TEMPLATE]
        status, reply = await engines.ask_engine(lease, path, chat)
        if status != _OK:
            raise EngineFailed("The engine does not show its prompt.", code="engine_error")
        prompt = decode_reply(reply, TemplateReply).prompt
        fields = {"prompt": prompt, "preserved_tokens": marks}  # llama-server leaves out the text of all other marks
        return msgspec.structs.replace(request, body=with_fields(request.body, fields))

    body = repairs.raw_body
    plan = UpstreamPlan(body=body, reading=repairs.raw_reading, counts_tokens=True)
    return msgspec.structs.replace(upstream, path=routes[Route.COMPLETIONS], body=body, plan=plan, prepare=fill_prompt)


def _marks_of(repairs: AnswerRepairs) -> list[str]:
    """Return the marks that tell calls and reasoning from text."""
    family = repairs.family
    forms = [mark for form in family.forms for mark in (*form.opens, *form.closes)]
    thoughts = family.thoughts
    styles = () if thoughts is None else (*thoughts.opens, *thoughts.closes, *thoughts.dropped)
    return [mark for mark in (*forms, *styles, *family.inner_marks) if mark]


async def _read_raw(
    once: AskOnce, engines: EngineAccess, raw: UpstreamRequest, observation: Observation, guard: CallGuard
) -> End:
    """Hand on the answer as it is read here: what goes on after what was said, if something was."""
    if not guard.has_begun:
        return await once(engines, raw, observation, guard)
    collector = CollectingReceiver()
    end = await once(engines, raw, observation, collector)
    guard.take_events(_events_after(guard.text, aggregate_events(collector.events)))
    return end


def _events_after(text: str, answer: WholeAnswer) -> list[Event]:
    """Return what an answer adds to a text of the same answer, which may have been written otherwise the first time."""
    more = answer.text.removeprefix(text) if answer.text.startswith(text) else "" if answer.calls else answer.text
    calls = [
        ToolCallDelta(index=at, id=call.id, name=call.name, arguments=call.arguments)
        for at, call in enumerate(answer.calls)
    ]
    return [*([TextDelta(more)] if more else []), *calls]
