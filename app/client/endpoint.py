"""The public endpoint as a chat client sees it: one streamed answer, with what it cost."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from app.client.http import event_data
from app.core.api import PortFile
from app.core.chats import Sampling, Timings
from app.core.errors import EngineFailed, GatewayGone
from app.core.thinking import ThinkingLevel

if TYPE_CHECKING:
    import http.client

_TIMEOUT_S = 3600.0


class TextPart(msgspec.Struct, frozen=True, kw_only=True, tag="text"):
    """Words of a turn."""

    text: str


class ImageUrl(msgspec.Struct, frozen=True, kw_only=True):
    """Where a picture is: a `data:` URI."""

    url: str


class ImagePart(msgspec.Struct, frozen=True, kw_only=True, tag="image_url"):
    """A picture of a turn."""

    image_url: ImageUrl


class SoundData(msgspec.Struct, frozen=True, kw_only=True):
    """A sound in base64."""

    data: str
    format: str


class SoundPart(msgspec.Struct, frozen=True, kw_only=True, tag="input_audio"):
    """A sound of a turn."""

    input_audio: SoundData


ContentPart = TextPart | ImagePart | SoundPart


class ToolCallFunction(msgspec.Struct, frozen=True):
    """What a model calls. `arguments` is JSON text: an object, if the model kept to its format."""

    name: str
    arguments: str


class EndpointToolCall(msgspec.Struct, frozen=True, kw_only=True, tag="function"):
    """A model's wish that a tool be called."""

    id: str
    function: ToolCallFunction


class EndpointMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of a conversation, as the OpenAI dialect has it. A tool's result names the call that it answers."""

    role: str
    content: str | Sequence[ContentPart]
    tool_calls: Sequence[EndpointToolCall] = ()
    tool_call_id: str = ""


class EndpointFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function that a model may call. `parameters` is the JSON schema of its arguments."""

    name: str
    description: str = ""
    parameters: dict[str, object] = {}


class EndpointTool(msgspec.Struct, frozen=True, tag="function"):
    """A tool of a request."""

    function: EndpointFunction


class _FunctionDelta(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCallDelta(msgspec.Struct):
    index: int = 0
    id: str | None = None
    function: _FunctionDelta = msgspec.field(default_factory=_FunctionDelta)


class _AnswerDelta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_ToolCallDelta] | None = None


class _AnswerChoice(msgspec.Struct):
    delta: _AnswerDelta = msgspec.field(default_factory=_AnswerDelta)


class _AnswerUsage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _EndpointTimings(msgspec.Struct):
    """llama.cpp's own clock, when it says: it sees tokens, we see text, and some tokens are no text by themselves."""

    predicted_per_second: float | None = None
    prompt_per_second: float | None = None


class _AnswerError(msgspec.Struct):
    message: str = "The engine failed."


class _AnswerChunk(msgspec.Struct):
    choices: list[_AnswerChoice] = []
    usage: _AnswerUsage | None = None
    timings: _EndpointTimings | None = None
    error: _AnswerError | None = None


class _CallPieces:
    """A tool call as it arrives."""

    def __init__(self) -> None:
        self._id, self._name, self._arguments = "", "", ""

    def add(self, delta: _ToolCallDelta) -> None:
        """Append what came."""
        self._id = delta.id or self._id
        self._name += delta.function.name or ""
        self._arguments += delta.function.arguments or ""

    def join(self) -> EndpointToolCall:
        """Return the whole call."""
        return EndpointToolCall(id=self._id, function=ToolCallFunction(self._name, self._arguments or "{}"))


class AnswerStream:
    """A streamed answer: iterate for its text, then read `timings`. Rates are the engine's own where it gives them.

    `calls` are the tools that the model wants called before it goes on. The gateway's token opens its public routes
    too, where keys are asked for.
    """

    def __init__(
        self,
        gateway: PortFile,
        model: str,
        messages: Sequence[EndpointMessage],
        sampling: Sampling | None = None,
        tools: Sequence[EndpointTool] = (),
    ) -> None:
        self._gateway = gateway
        self._body = {
            "model": model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            **sampling_fields(sampling or Sampling()),
            **({"tools": tools} if tools else {}),
        }
        self.timings = Timings()
        self.calls: list[EndpointToolCall] = []

    def __iter__(self) -> Iterator[str]:
        """Yield text as it comes. Raises EngineFailed on an error in the stream, GatewayGone when it breaks off."""
        import http.client  # noqa: PLC0415 -- as in `app.client.http`

        where = urlsplit(self._gateway.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=_TIMEOUT_S)
        try:
            with closing(connection):
                yield from self._read_stream(connection)
        except (OSError, http.client.HTTPException) as error:
            raise GatewayGone("The answer was cut off: the service stopped.", detail=str(error)) from error

    def _read_stream(self, connection: "http.client.HTTPConnection") -> Iterator[str]:
        began = time.monotonic()
        headers = {"Authorization": f"Bearer {self._gateway.token}"}
        connection.request("POST", "/v1/chat/completions", msgspec.json.encode(self._body), headers)
        response = connection.getresponse()
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise _parse_refusal(response.read())
        first, last = None, _AnswerChunk()
        pieces: dict[int, _CallPieces] = {}
        for data in event_data(response):
            if data == b"[DONE]":
                break
            chunk = msgspec.json.decode(data, type=_AnswerChunk)
            if chunk.error:
                raise EngineFailed(chunk.error.message)
            last = _AnswerChunk(usage=chunk.usage or last.usage, timings=chunk.timings or last.timings)
            for delta in (choice.delta for choice in chunk.choices):
                for call in delta.tool_calls or ():
                    pieces.setdefault(call.index, _CallPieces()).add(call)
                if delta.content:
                    first = first or time.monotonic()
                    yield delta.content
        else:
            raise GatewayGone("The answer was cut off: the service stopped.")
        self.calls = [pieces[index].join() for index in sorted(pieces)]
        self.timings = _build_timings(began, first, time.monotonic(), last)


def sampling_fields(sampling: Sampling) -> dict[str, object]:
    """Return what a request in OpenAI's dialect says of how its answer is made."""
    fields: dict[str, object] = msgspec.to_builtins(sampling)
    level, budget = fields.pop("thinking", None), fields.pop("thinking_budget", None)
    stops, schema = fields.pop("stops", None), fields.pop("json_schema", None)
    if "grammar" in fields:
        level = ThinkingLevel.OFF  # a grammar begins with the first word, and thoughts keep to none
    if level is not None:
        fields["think"] = _SWITCHES.get(level, level)
    if budget is not None:
        fields["thinking_budget_tokens"] = budget
    if stops is not None:
        fields["stop"] = stops
    if schema is not None:
        form = {"name": "answer", "schema": msgspec.Raw(str(schema).encode()), "strict": True}
        fields["response_format"] = {"type": "json_schema", "json_schema": form}
    return fields


_SWITCHES: dict[object, bool] = {ThinkingLevel.OFF: False, ThinkingLevel.ON: True}


def _parse_refusal(data: bytes) -> EngineFailed:
    try:
        error = msgspec.json.decode(data, type=_AnswerChunk).error or _AnswerError()
    except msgspec.MsgspecError:
        error = _AnswerError()
    return EngineFailed(error.message)


def _build_timings(began: float, first: float | None, ended_at: float, last: _AnswerChunk) -> Timings:
    usage, engine = last.usage, last.timings or _EndpointTimings()
    return Timings(
        ttft_s=first - began if first else None,
        total_s=ended_at - began,
        prompt_tokens=usage.prompt_tokens if usage else None,
        completion_tokens=usage.completion_tokens if usage else None,
        prefill_tokens_per_s=engine.prompt_per_second,
        decode_tokens_per_s=engine.predicted_per_second or _client_rate(usage, ended_at - first if first else 0.0),
    )


def _client_rate(usage: _AnswerUsage | None, span_s: float) -> float | None:
    """Return the rate after the first token as this client saw it."""
    later = (usage.completion_tokens if usage else 0) - 1
    return later / span_s if later > 0 and span_s > 0 else None
