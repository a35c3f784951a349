"""Canonical events -> the typed events of `/api/v1/chat`, and the whole answer, which is what they come to.

    chat.start  [model_load.start progress* end]  prompt_processing.start progress end
    ([reasoning.start delta* end] | [message.start delta* end])*  tool_call.failure*  [error]  chat.end

Roundhouse offers a model no tools there, so a call it makes anyway has a name that does not exist.
"""

import msgspec

from app.gateway.canonical.events import (
    Calls,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    Started,
    TextDelta,
    ToolCallDelta,
)
from app.gateway.canonical.request import ToolCall
from app.gateway.dialects.lmstudio.record import LM_STUDIO_V1

_MESSAGE, _REASONING = "message", "reasoning"
_NO_SUCH_TOOL = "The model called a tool that it was not offered."


class Stats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens and seconds."""

    input_tokens: int
    total_output_tokens: int
    reasoning_output_tokens: int
    tokens_per_second: float
    time_to_first_token_seconds: float
    model_load_time_seconds: float | None = None


class Said(msgspec.Struct, frozen=True):
    """A stretch of message or reasoning."""

    type: str
    content: str


class WrongCall(msgspec.Struct, frozen=True, kw_only=True):
    """What was wrong with a call, and which."""

    tool_name: str
    arguments: msgspec.Raw
    type: str = "invalid_name"


class InvalidCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that could not be made."""

    metadata: WrongCall
    type: str = "invalid_tool_call"
    reason: str = _NO_SUCH_TOOL


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A whole answer."""

    model_instance_id: str
    output: list[Said | InvalidCall]
    stats: Stats
    response_id: str | None = None


class Encoder:
    """One answer. Every method returns bytes to send; `result` is the whole answer once `chat.end` was returned."""

    def __init__(self, instance: str, *, response_id: str | None = None) -> None:
        self.failure: Failed | None = None
        self.result: Result | None = None
        self.instance = instance
        self._response_id = response_id
        self._output: list[Said | InvalidCall] = []
        self._kind = ""
        self._pieces: list[str] = []
        self._thoughts = 0
        self._calls = Calls()
        self._load_s: float | None = None
        self.is_loading = False
        self._reads: bool | None = None

    @property
    def text(self) -> str:
        """What was said so far, without the reasoning."""
        said = [item.content for item in self._output if isinstance(item, Said) and item.type == _MESSAGE]
        return "".join([*said, *(self._pieces if self._kind == _MESSAGE else ())])

    def begin(self) -> bytes:
        """Open the stream."""
        return _event("chat.start", model_instance_id=self.instance)

    def loading(self, progress: float | None) -> bytes:
        """Say that the model is being loaded, and how far that is."""
        head = b"" if self.is_loading else _event("model_load.start", model_instance_id=self.instance)
        self.is_loading = True
        if progress is None:
            return head
        return head + _event("model_load.progress", model_instance_id=self.instance, progress=progress)

    def loaded(self, seconds: float) -> bytes:
        """Say that the model is loaded, if it was said that it is being, and that the prompt is read from now on."""
        if self._reads is not None:
            return b""
        self._reads, self._load_s = True, seconds if self.is_loading or seconds else None
        told = _event("model_load.end", model_instance_id=self.instance, load_time_seconds=seconds)
        return (told if self.is_loading else b"") + _event("prompt_processing.start")

    def take(self, event: Event) -> bytes:
        """Encode the next event. Nothing comes after `Finished` and `Failed`."""
        if self.result is not None:
            return b""
        match event:
            case TextDelta():
                return self._say(_MESSAGE, event.text)
            case ReasoningDelta():
                self._thoughts += 1
                return self._say(_REASONING, event.text)
            case ToolCallDelta():
                self._calls.add(event)
                return b""
            case _:
                return self._turn(event)

    def _turn(self, event: Event) -> bytes:
        match event:
            case Started():
                return self.loaded(event.load_s)
            case Finished():
                return self._finish(event)
            case Failed():
                return self._fail(event)
            case _:
                return b""

    def _say(self, kind: str, text: str) -> bytes:
        head = self._have_read()
        if self._kind != kind:
            head += self._close() + _event(f"{kind}.start")
            self._kind = kind
        self._pieces.append(text)
        return head + _event(f"{kind}.delta", content=text)

    def _have_read(self) -> bytes:
        head = self.loaded(0.0)
        if not self._reads:
            return head
        self._reads = False
        return head + _event("prompt_processing.progress", progress=1) + _event("prompt_processing.end")

    def _close(self) -> bytes:
        if not self._kind:
            return b""
        kind, self._kind = self._kind, ""
        self._output.append(Said(kind, "".join(self._pieces)))
        self._pieces.clear()
        return _event(f"{kind}.end")

    def _finish(self, end: Finished) -> bytes:
        told = self._have_read() + self._close()
        for call in self._calls.all():
            failure = _invalid(call)
            self._output.append(failure)
            told += _event("tool_call.failure", reason=failure.reason, metadata=failure.metadata)
        return told + self._end(end, self._response_id)

    def _fail(self, failed: Failed) -> bytes:
        self.failure = failed
        document = msgspec.to_builtins(LM_STUDIO_V1.document(failed))
        return self._close() + _event("error", **document) + self._end(Finished(), None)

    def _end(self, end: Finished, response_id: str | None) -> bytes:
        self.result = Result(
            model_instance_id=self.instance,
            output=self._output,
            stats=self._stats(end),
            response_id=response_id,
        )
        return _event("chat.end", result=self.result)

    def _stats(self, end: Finished) -> Stats:
        usage, timings = end.usage, end.timings
        wrote = usage.completion or 0
        return Stats(
            input_tokens=usage.prompt or 0,
            total_output_tokens=wrote,
            reasoning_output_tokens=self._thoughts if usage.reasoning is None else usage.reasoning,
            tokens_per_second=wrote / timings.decode_s if timings.decode_s > 0 else 0.0,
            time_to_first_token_seconds=timings.prefill_s,
            model_load_time_seconds=self._load_s,
        )


def _invalid(call: ToolCall) -> InvalidCall:
    return InvalidCall(metadata=WrongCall(tool_name=call.name, arguments=_arguments(call.arguments)))


def _arguments(text: str) -> msgspec.Raw:
    """Return a call's arguments as they are, or as text if they are no JSON."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.Raw(msgspec.json.encode(text))
    return msgspec.Raw(text.encode())


def _event(kind: str, **fields: object) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode({"type": kind, **fields}) + b"\n\n"
