"""Canonical events -> the typed events of `/api/v1/chat`, and the whole answer, which is what they come to.

    chat.start  [model_load.start progress* end]  prompt_processing.start progress end
    ([reasoning.start delta* end] | [message.start delta* end])*  tool_call.failure*  [error]  chat.end

Roundhouse offers a model no tools there, so a call it makes anyway has a name that does not exist.
"""

import msgspec

from app.gateway.canonical.events import (
    AnswerFailed,
    AnswerFinished,
    AnswerStarted,
    Event,
    ReasoningDelta,
    TextDelta,
    ToolCallAssembler,
    ToolCallDelta,
)
from app.gateway.canonical.request import ToolCall
from app.gateway.dialects.lmstudio.record import LM_STUDIO_V1

_MESSAGE, _REASONING = "message", "reasoning"
_NO_SUCH_TOOL = "The model called a tool that it was not offered."


class LmStudioChatStats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens and seconds."""

    input_tokens: int
    total_output_tokens: int
    reasoning_output_tokens: int
    tokens_per_second: float
    time_to_first_token_seconds: float
    model_load_time_seconds: float | None = None


class LmStudioOutputText(msgspec.Struct, frozen=True):
    """A stretch of message or reasoning."""

    type: str
    content: str


class InvalidCallMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What was wrong with a call, and which."""

    tool_name: str
    arguments: msgspec.Raw
    type: str = "invalid_name"


class LmStudioInvalidCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that could not be made."""

    metadata: InvalidCallMetadata
    type: str = "invalid_tool_call"
    reason: str = _NO_SUCH_TOOL


class LmStudioChatResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A whole answer."""

    model_instance_id: str
    output: list[LmStudioOutputText | LmStudioInvalidCall]
    stats: LmStudioChatStats
    response_id: str | None = None


class LmStudioEncoder:
    """One answer. Every method returns bytes to send; `result` is the whole answer once `chat.end` was returned."""

    def __init__(self, instance: str, *, response_id: str | None = None) -> None:
        self.failure: AnswerFailed | None = None
        self.result: LmStudioChatResult | None = None
        self.instance = instance
        self._response_id = response_id
        self._output: list[LmStudioOutputText | LmStudioInvalidCall] = []
        self._kind = ""
        self._pieces: list[str] = []
        self._thoughts = 0
        self._calls = ToolCallAssembler()
        self._load_s: float | None = None
        self.is_loading = False
        self._reads: bool | None = None

    @property
    def text(self) -> str:
        """What was said so far, without the reasoning."""
        texts = [
            item.content for item in self._output if isinstance(item, LmStudioOutputText) and item.type == _MESSAGE
        ]
        return "".join([*texts, *(self._pieces if self._kind == _MESSAGE else ())])

    def begin(self) -> bytes:
        """Open the stream."""
        return _encode_event("chat.start", model_instance_id=self.instance)

    def say_loading(self, progress: float | None) -> bytes:
        """Say that the model is being loaded, and how far that is."""
        head = b"" if self.is_loading else _encode_event("model_load.start", model_instance_id=self.instance)
        self.is_loading = True
        if progress is None:
            return head
        return head + _encode_event("model_load.progress", model_instance_id=self.instance, progress=progress)

    def say_loaded(self, seconds: float) -> bytes:
        """Say that the model is loaded, if it was said that it is being, and that the prompt is read from now on."""
        if self._reads is not None:
            return b""
        self._reads, self._load_s = True, seconds if self.is_loading or seconds else None
        load_end = _encode_event("model_load.end", model_instance_id=self.instance, load_time_seconds=seconds)
        return (load_end if self.is_loading else b"") + _encode_event("prompt_processing.start")

    def take_event(self, event: Event) -> bytes:
        """Encode the next event. Nothing comes after `AnswerFinished` and `AnswerFailed`."""
        if self.result is not None:
            return b""
        match event:
            case TextDelta():
                return self._add_text(_MESSAGE, event.text)
            case ReasoningDelta():
                self._thoughts += 1
                return self._add_text(_REASONING, event.text)
            case ToolCallDelta():
                self._calls.add_delta(event)
                return b""
            case _:
                return self._encode_turn(event)

    def _encode_turn(self, event: Event) -> bytes:
        match event:
            case AnswerStarted():
                return self.say_loaded(event.load_s)
            case AnswerFinished():
                return self._finish_answer(event)
            case AnswerFailed():
                return self._fail_answer(event)
            case _:
                return b""

    def _add_text(self, kind: str, text: str) -> bytes:
        head = self._have_read()
        if self._kind != kind:
            head += self._close_block() + _encode_event(f"{kind}.start")
            self._kind = kind
        self._pieces.append(text)
        return head + _encode_event(f"{kind}.delta", content=text)

    def _have_read(self) -> bytes:
        head = self.say_loaded(0.0)
        if not self._reads:
            return head
        self._reads = False
        return head + _encode_event("prompt_processing.progress", progress=1) + _encode_event("prompt_processing.end")

    def _close_block(self) -> bytes:
        if not self._kind:
            return b""
        kind, self._kind = self._kind, ""
        self._output.append(LmStudioOutputText(kind, "".join(self._pieces)))
        self._pieces.clear()
        return _encode_event(f"{kind}.end")

    def _finish_answer(self, end: AnswerFinished) -> bytes:
        output = self._have_read() + self._close_block()
        for call in self._calls.all_calls():
            failure = _invalid_call(call)
            self._output.append(failure)
            output += _encode_event("tool_call.failure", reason=failure.reason, metadata=failure.metadata)
        return output + self._end_chat(end, self._response_id)

    def _fail_answer(self, failure: AnswerFailed) -> bytes:
        self.failure = failure
        document = msgspec.to_builtins(LM_STUDIO_V1.error_document(failure))
        return self._close_block() + _encode_event("error", **document) + self._end_chat(AnswerFinished(), None)

    def _end_chat(self, end: AnswerFinished, response_id: str | None) -> bytes:
        self.result = LmStudioChatResult(
            model_instance_id=self.instance,
            output=self._output,
            stats=self._make_stats(end),
            response_id=response_id,
        )
        return _encode_event("chat.end", result=self.result)

    def _make_stats(self, end: AnswerFinished) -> LmStudioChatStats:
        usage, timings = end.usage, end.timings
        wrote = usage.completion or 0
        return LmStudioChatStats(
            input_tokens=usage.prompt or 0,
            total_output_tokens=wrote,
            reasoning_output_tokens=self._thoughts if usage.reasoning is None else usage.reasoning,
            tokens_per_second=wrote / timings.decode_s if timings.decode_s > 0 else 0.0,
            time_to_first_token_seconds=timings.prefill_s,
            model_load_time_seconds=self._load_s,
        )


def _invalid_call(call: ToolCall) -> LmStudioInvalidCall:
    return LmStudioInvalidCall(
        metadata=InvalidCallMetadata(tool_name=call.name, arguments=_raw_arguments(call.arguments))
    )


def _raw_arguments(text: str) -> msgspec.Raw:
    """Return a call's arguments as they are, or as text if they are no JSON."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.Raw(msgspec.json.encode(text))
    return msgspec.Raw(text.encode())


def _encode_event(kind: str, **fields: object) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode({"type": kind, **fields}) + b"\n\n"
