"""Canonical events -> NDJSON lines, or one whole answer. Both are made by the same form, so they cannot differ.

Tool calls are held back to the end, since Ollama's come whole. Arguments that are no JSON object are a mistake of the
model: they are shown as text, and the call has none.
"""

from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from app.gateway.canonical.events import (
    BROKE_OFF,
    AnswerFailed,
    AnswerFinished,
    Event,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
    TokenUsage,
    ToolCallAssembler,
    ToolCallDelta,
    WholeAnswer,
)
from app.gateway.canonical.request import ToolCall
from app.gateway.dialects.keep_alive import to_nanoseconds, work_nanoseconds
from app.gateway.dialects.ollama.record import OLLAMA_DIALECT
from app.gateway.dialects.ollama.wire import (
    OllamaChatReply,
    OllamaEndFields,
    OllamaGenerateReply,
    OllamaReplyCall,
    OllamaReplyFunction,
    OllamaReplyMessage,
)
from app.gateway.dialects.raw_fields import object_in

_ENCODER = msgspec.json.Encoder()
_NOT_DONE = OllamaEndFields()


class OllamaReplyContent(msgspec.Struct, frozen=True, kw_only=True):
    """What one line, or a whole answer, has to say."""

    text: str = ""
    thinking: str = ""
    calls: tuple[OllamaReplyCall, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()


class OllamaReplyForm:
    """How `/api/chat` or `/api/generate` puts it. `model` is what replies call it; `moment` returns the time.

    The time is in RFC 3339. `dropped` is how many messages were left out to make it fit.
    """

    def __init__(self, model: str, moment: Callable[[], str]) -> None:
        self._model = model
        self._moment = moment
        self.dropped = 0

    def __call__(
        self, content: OllamaReplyContent, end_fields: OllamaEndFields = _NOT_DONE
    ) -> OllamaChatReply | OllamaGenerateReply:
        """Return one reply; it is the last if `ending` says why."""
        raise NotImplementedError


class OllamaChatForm(OllamaReplyForm):
    """Replies of `/api/chat`."""

    def __call__(self, content: OllamaReplyContent, end_fields: OllamaEndFields = _NOT_DONE) -> OllamaChatReply:
        """Return one reply."""
        return OllamaChatReply(
            model=self._model,
            created_at=self._moment(),
            message=OllamaReplyMessage(
                role="assistant", content=content.text, thinking=content.thinking, tool_calls=content.calls
            ),
            done=bool(end_fields.done_reason),
            logprobs=content.logprobs,
            **msgspec.structs.asdict(end_fields),
        )


class OllamaGenerateForm(OllamaReplyForm):
    """Replies of `/api/generate`. There is no `context`: these engines keep the conversation's cache themselves."""

    def __call__(self, content: OllamaReplyContent, end_fields: OllamaEndFields = _NOT_DONE) -> OllamaGenerateReply:
        """Return one reply."""
        return OllamaGenerateReply(
            model=self._model,
            created_at=self._moment(),
            response=content.text,
            done=bool(end_fields.done_reason),
            thinking=content.thinking,
            tool_calls=content.calls,
            logprobs=content.logprobs,
            **msgspec.structs.asdict(end_fields),
        )


class OllamaLineEncoder:
    """Encodes a stream. After its last line, whatever comes adds nothing."""

    def __init__(self, form: OllamaReplyForm, new_id: Callable[[], str]) -> None:
        self._form = form
        self._new_id = new_id
        self._calls = ToolCallAssembler()
        self.is_over = False

    def begin(self) -> bytes:
        """Return nothing: the first line is the first of the answer."""
        return b""

    def feed(self, events: Iterable[Event]) -> bytes:
        """Return the lines for some events; often one, sometimes none."""
        return b"".join(line for event in events for line in self._encode_event(event))

    def _encode_event(self, event: Event) -> list[bytes]:
        if self.is_over:
            return []
        match event:
            case TextDelta(text=text, logprobs=logprobs):
                return [encode_line(self._form(OllamaReplyContent(text=text, logprobs=logprobs)))]
            case ReasoningDelta(text=text):
                return [encode_line(self._form(OllamaReplyContent(thinking=text)))]
            case ToolCallDelta():
                self._calls.add_delta(event)
            case AnswerFinished():
                self.is_over = True
                return [
                    *self._call_lines(),
                    encode_line(
                        self._form(OllamaReplyContent(), end_fields_of(event, dropped_count=self._form.dropped))
                    ),
                ]
            case AnswerFailed():
                self.is_over = True
                return [error_line(event)]
            case _:
                pass
        return []

    def _call_lines(self) -> list[bytes]:
        text, calls = reply_calls(self._calls.all_calls(), self._new_id)
        contents = [OllamaReplyContent(text=text)] if text else []
        contents += [OllamaReplyContent(calls=calls)] if calls else []
        return [encode_line(self._form(content)) for content in contents]


def build_reply(
    answer: WholeAnswer, form: OllamaReplyForm, new_id: Callable[[], str]
) -> OllamaChatReply | OllamaGenerateReply | AnswerFailed:
    """Return the reply that says all of an answer at once, or why there is none."""
    if not isinstance(answer.end, AnswerFinished):
        return answer.end or BROKE_OFF
    text, calls = reply_calls(answer.calls, new_id)
    content = OllamaReplyContent(
        text=answer.text + text, thinking=answer.thinking, calls=calls, logprobs=answer.logprobs
    )
    return form(content, end_fields_of(answer.end, dropped_count=form.dropped))


def end_fields_of(answer_end: AnswerFinished, *, dropped_count: int = 0) -> OllamaEndFields:
    """Return the counts and times. A tool call is an ordinary stop to Ollama.

    Its `load_duration` is there for a loaded model too: it counts from the request's arrival. Where an engine without
    a clock answers in one piece, reading and writing cannot be told apart: both took at most all its time.
    """
    usage, timings = answer_end.usage, answer_end.timings
    ready_s = max(timings.load_s, timings.ready_s)
    took = partial(work_nanoseconds, at_most_s=timings.total_s - ready_s) if _has_counts(usage) else to_nanoseconds
    return OllamaEndFields(
        done_reason="length" if answer_end.reason is FinishReason.LENGTH else "stop",
        dropped_messages=dropped_count,
        total_duration=took(timings.total_s),
        load_duration=took(ready_s),
        prompt_eval_count=usage.prompt or 0,
        prompt_eval_duration=took(timings.prefill_s),
        eval_count=usage.completion or 0,
        eval_duration=took(timings.decode_s),
    )


def _has_counts(usage: TokenUsage) -> bool:
    return bool(usage.prompt or usage.completion)


def reply_calls(calls: Iterable[ToolCall], new_id: Callable[[], str]) -> tuple[str, tuple[OllamaReplyCall, ...]]:
    """Return the calls, and as text the arguments of those whose model lost its way."""
    text: list[str] = []
    replies: list[OllamaReplyCall] = []
    for index, call in enumerate(calls):
        arguments = object_in(call.arguments) if call.arguments.strip() else {}
        if arguments is None:
            text.append(call.arguments)
        function = OllamaReplyFunction(index=index, name=call.name, arguments=arguments or {})
        replies.append(OllamaReplyCall(id=call.id or new_id(), function=function))
    return "".join(text), tuple(replies)


def error_line(failure: AnswerFailed) -> bytes:
    """Return the line that ends a stream that cannot go on."""
    return encode_line(OLLAMA_DIALECT.error_document(failure))


def encode_line(reply: object) -> bytes:
    """Return one line of NDJSON."""
    return _ENCODER.encode(reply) + b"\n"
