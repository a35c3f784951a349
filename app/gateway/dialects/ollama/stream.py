"""Canonical events -> NDJSON lines, or one whole answer. Both are made by the same form, so they cannot differ.

Tool calls are held back to the end, since Ollama's come whole. Arguments that are no JSON object are a mistake of the
model: they are shown as text, and the call has none.
"""

from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from app.gateway.canonical.events import (
    BROKE_OFF,
    Answer,
    Calls,
    Event,
    Failed,
    Finish,
    Finished,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    Usage,
)
from app.gateway.canonical.request import ToolCall
from app.gateway.dialects.keep_alive import nanoseconds, work_nanoseconds
from app.gateway.dialects.ollama.record import OLLAMA_DIALECT
from app.gateway.dialects.ollama.wire import ChatReply, Ending, GenerateReply, ReplyCall, ReplyFunction, ReplyMessage
from app.gateway.dialects.raw_fields import object_in

_ENCODER = msgspec.json.Encoder()
_NOT_DONE = Ending()


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What one line, or a whole answer, has to say."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ReplyCall, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()


class Form:
    """How `/api/chat` or `/api/generate` puts it. `model` is what replies call it; `moment` returns the time.

    The time is in RFC 3339. `dropped` is how many messages were left out to make it fit.
    """

    def __init__(self, model: str, moment: Callable[[], str]) -> None:
        self._model = model
        self._moment = moment
        self.dropped = 0

    def __call__(self, said: Said, ending: Ending = _NOT_DONE) -> ChatReply | GenerateReply:
        """Return one reply; it is the last if `ending` says why."""
        raise NotImplementedError


class ChatForm(Form):
    """Replies of `/api/chat`."""

    def __call__(self, said: Said, ending: Ending = _NOT_DONE) -> ChatReply:
        """Return one reply."""
        return ChatReply(
            model=self._model,
            created_at=self._moment(),
            message=ReplyMessage(role="assistant", content=said.text, thinking=said.thinking, tool_calls=said.calls),
            done=bool(ending.done_reason),
            logprobs=said.logprobs,
            **msgspec.structs.asdict(ending),
        )


class GenerateForm(Form):
    """Replies of `/api/generate`. There is no `context`: these engines keep the conversation's cache themselves."""

    def __call__(self, said: Said, ending: Ending = _NOT_DONE) -> GenerateReply:
        """Return one reply."""
        return GenerateReply(
            model=self._model,
            created_at=self._moment(),
            response=said.text,
            done=bool(ending.done_reason),
            thinking=said.thinking,
            tool_calls=said.calls,
            logprobs=said.logprobs,
            **msgspec.structs.asdict(ending),
        )


class Lines:
    """Encodes a stream. After its last line, whatever comes adds nothing."""

    def __init__(self, form: Form, new_id: Callable[[], str]) -> None:
        self._form = form
        self._new_id = new_id
        self._calls = Calls()
        self.is_over = False

    def begin(self) -> bytes:
        """Return nothing: the first line is the first of the answer."""
        return b""

    def feed(self, events: Iterable[Event]) -> bytes:
        """Return the lines for some events; often one, sometimes none."""
        return b"".join(line for event in events for line in self._lines(event))

    def _lines(self, event: Event) -> list[bytes]:
        if self.is_over:
            return []
        match event:
            case TextDelta(text=text, logprobs=logprobs):
                return [line(self._form(Said(text=text, logprobs=logprobs)))]
            case ReasoningDelta(text=text):
                return [line(self._form(Said(thinking=text)))]
            case ToolCallDelta():
                self._calls.add(event)
            case Finished():
                self.is_over = True
                return [*self._held_back(), line(self._form(Said(), ending_of(event, dropped=self._form.dropped)))]
            case Failed():
                self.is_over = True
                return [error_line(event)]
            case _:
                pass
        return []

    def _held_back(self) -> list[bytes]:
        text, calls = called(self._calls.all(), self._new_id)
        said = [Said(text=text)] if text else []
        said += [Said(calls=calls)] if calls else []
        return [line(self._form(one)) for one in said]


def whole(answer: Answer, form: Form, new_id: Callable[[], str]) -> ChatReply | GenerateReply | Failed:
    """Return the reply that says all of an answer at once, or why there is none."""
    if not isinstance(answer.end, Finished):
        return answer.end or BROKE_OFF
    text, calls = called(answer.calls, new_id)
    said = Said(text=answer.text + text, thinking=answer.thinking, calls=calls, logprobs=answer.logprobs)
    return form(said, ending_of(answer.end, dropped=form.dropped))


def ending_of(finished: Finished, *, dropped: int = 0) -> Ending:
    """Return the counts and times. A tool call is an ordinary stop to Ollama.

    Its `load_duration` is there for a loaded model too: it counts from the request's arrival. Where an engine without
    a clock answers in one piece, reading and writing cannot be told apart: both took at most all its time.
    """
    usage, timings = finished.usage, finished.timings
    ready_s = max(timings.load_s, timings.ready_s)
    took = partial(work_nanoseconds, at_most_s=timings.total_s - ready_s) if _counts(usage) else nanoseconds
    return Ending(
        done_reason="length" if finished.reason is Finish.LENGTH else "stop",
        dropped_messages=dropped,
        total_duration=took(timings.total_s),
        load_duration=took(ready_s),
        prompt_eval_count=usage.prompt or 0,
        prompt_eval_duration=took(timings.prefill_s),
        eval_count=usage.completion or 0,
        eval_duration=took(timings.decode_s),
    )


def _counts(usage: Usage) -> bool:
    return bool(usage.prompt or usage.completion)


def called(calls: Iterable[ToolCall], new_id: Callable[[], str]) -> tuple[str, tuple[ReplyCall, ...]]:
    """Return the calls, and as text the arguments of those whose model lost its way."""
    text: list[str] = []
    replies: list[ReplyCall] = []
    for index, call in enumerate(calls):
        arguments = object_in(call.arguments) if call.arguments.strip() else {}
        if arguments is None:
            text.append(call.arguments)
        function = ReplyFunction(index=index, name=call.name, arguments=arguments or {})
        replies.append(ReplyCall(id=call.id or new_id(), function=function))
    return "".join(text), tuple(replies)


def error_line(failed: Failed) -> bytes:
    """Return the line that ends a stream that cannot go on."""
    return line(OLLAMA_DIALECT.document(failed))


def line(reply: object) -> bytes:
    """Return one line of NDJSON."""
    return _ENCODER.encode(reply) + b"\n"
