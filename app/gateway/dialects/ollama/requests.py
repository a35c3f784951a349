"""Chat and generate requests -> canonical ones, and what they need of a model.

An empty conversation, or an empty prompt, asks only for the model to be loaded, or with `keep_alive` 0 unloaded. The
refusal of what a model cannot do is in words that clients look for.

Ollama's clients often give tool calls no id, and answer them in order, or by the tool's name; every other dialect needs
one. So calls without an id are numbered, and results are given the id of the call they answer.

`options`: each with its type. Nulls are as good as absent, and unknown names are passed over, as Ollama does.

What only changes how a model is loaded (threads, layers, batches) is the gateway's to choose here; it is taken without
complaint, has no effect, and is named in `names_without_effect` so that the log can say so.
"""

import base64
import binascii
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from app.core.errors import BadRequest, quote_value
from app.core.recordings import SoundFile
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.request import (
    CompletionRequest,
    ConversationMessage,
    ConversationRequest,
    GenerationLimits,
    Image,
    MessageRole,
    Part,
    Request,
    ResponseFormat,
    ResponseShape,
    SamplingParams,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from app.gateway.dialects.keep_alive import keep_time_s
from app.gateway.dialects.ollama.wire import (
    OllamaChatRequest,
    OllamaCommonFields,
    OllamaGenerateRequest,
    OllamaMessage,
    OllamaTool,
    OllamaToolCall,
)
from app.gateway.dialects.raw_fields import ABSENT, is_set, value_of

_Reader = Callable[[object], Any]


class OllamaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What of the options has an effect, and the names of those that have none."""

    sampling: SamplingParams = SamplingParams()
    num_ctx: int | None = None
    num_predict: int | None = None
    """None for as many tokens as it takes."""
    stops: tuple[str, ...] = ()
    names_without_effect: tuple[str, ...] = ()


def read_options(fields: Mapping[str, msgspec.Raw] | None) -> OllamaOptions:
    """Return the options. Raises BadRequest for a value of the wrong type."""
    raw_values = {name: value_of(raw) for name, raw in (fields or {}).items()}
    values = {name: value for name, value in raw_values.items() if value is not None}
    for name in values.keys() & _LOAD_OPTIONS.keys():
        _check_option(name, values[name], _LOAD_OPTIONS[name])
    options = {name: _read_option(name, values[name]) for name in values if name in _READERS}
    sampling = {name: value for name, value in options.items() if name in _SAMPLING}
    limit, context = options.get("num_predict"), options.get("num_ctx")
    return OllamaOptions(
        sampling=SamplingParams(**sampling),
        num_ctx=context if context is not None and context > 0 else None,
        num_predict=limit if limit is not None and limit > 0 else None,
        stops=options.get("stop", ()),
        names_without_effect=tuple(sorted(name for name in values if name not in _READERS)),
    )


def parameters_to_keep(fields: Mapping[str, msgspec.Raw] | None) -> dict[str, bool | int | float | str | list[str]]:
    """Return the options that a made model keeps: those that have an effect, each of its type. Raises BadRequest."""
    raw_values = {name: value_of(raw) for name, raw in (fields or {}).items()}
    options = {
        name: _read_option(name, value) for name, value in raw_values.items() if value is not None and name in _READERS
    }
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in options.items() if value is not None
    }


def _read_option(name: str, value: object) -> Any:  # noqa: ANN401 -- each option has a type of its own
    return _check_option(name, value, _READERS[name])


def _check_option(name: str, value: object, reads: tuple[_Reader, str]) -> Any:  # noqa: ANN401 -- as above
    reader, kind = reads
    try:
        return reader(value)
    except (TypeError, ValueError, OverflowError):
        raise BadRequest(f'option "{name}" must be of type {kind}', code="invalid_value") from None


def _read_integer(value: object) -> int:
    """Return an integer; JSON's 5.0 is one too, and Go cuts off what follows the point."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return int(value)


def _read_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _read_seed(value: object) -> int | None:
    """Return the seed; a negative one means a new one each time."""
    seed = _read_integer(value)
    return None if seed < 0 else seed


def _look_back(value: object) -> int:
    count = _read_integer(value)
    if count < -1:
        raise BadRequest('option "repeat_last_n" must be -1 (the whole context) or more', code="invalid_value")
    return count


def _read_penalty(value: object) -> float:
    penalty = _read_number(value)
    if penalty <= 0:
        raise BadRequest('option "repeat_penalty" must be more than 0', code="invalid_value")
    return penalty


def _read_texts(value: object) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError
    return tuple(text for text in texts if text)


_READERS: dict[str, tuple[_Reader, str]] = {
    "num_ctx": (_read_integer, "integer"),
    "num_predict": (_read_integer, "integer"),
    "stop": (_read_texts, "array"),
    "seed": (_read_seed, "integer"),
    "temperature": (_read_number, "float32"),
    "top_k": (_read_integer, "integer"),
    "top_p": (_read_number, "float32"),
    "min_p": (_read_number, "float32"),
    "typical_p": (_read_number, "float32"),
    "repeat_last_n": (_look_back, "integer"),
    "repeat_penalty": (_read_penalty, "float32"),
    "presence_penalty": (_read_number, "float32"),
    "frequency_penalty": (_read_number, "float32"),
}
_LOAD_OPTIONS: dict[str, tuple[_Reader, str]] = {
    "use_mmap": (_read_flag, "boolean"),
    **dict.fromkeys(
        ("num_batch", "num_gpu", "main_gpu", "num_thread", "num_keep", "draft_num_predict"), (_read_integer, "integer")
    ),
}
"""Options without effect here that Ollama refuses all the same where their type is wrong."""
_SAMPLING = frozenset(_READERS) - {"num_ctx", "num_predict", "stop"}


def abilities_needed(request: Request) -> list[str]:
    """Return Ollama's words for what a request needs, beside plain text.

    Tools are not among them: a model whose template has none is told of them in the system prompt, as in every dialect.
    """
    if isinstance(request, CompletionRequest):
        return ["completion"] if request.suffix is None else ["insert"]
    wants = {
        "completion": True,
        "thinking": request.thinking not in {ThinkingLevel.DEFAULT, ThinkingLevel.OFF},
        "vision": _has_images(request),
    }
    return [ability for ability, is_wanted in wants.items() if is_wanted]


def check_abilities(request: Request, capabilities: Collection[str], *, model: str) -> None:
    """Raise BadRequest (model_cannot) for the first thing the model cannot do."""
    first_missing = next((ability for ability in abilities_needed(request) if ability not in capabilities), None)
    if first_missing is not None:
        raise ability_error(model, first_missing)


def ability_error(model: str, ability: str) -> BadRequest:
    """Return the refusal as Ollama words it."""
    return BadRequest(f'"{model}" does not support {ability}', code="model_cannot")


def _has_images(request: ConversationRequest) -> bool:
    return any(isinstance(part, Image) for message in request.messages for part in message.parts)


_ROLES = {"developer": MessageRole.SYSTEM} | {role.value: role for role in MessageRole}
_KINDS = ((b"\x89PNG", "image/png"), (b"GIF8", "image/gif"), (b"\xff\xd8", "image/jpeg"), (b"BM", "image/bmp"))
_USUAL_KIND = "image/jpeg"
_SOUNDS = frozenset({"wav", "mp3", "flac", "ogg"})


def read_messages(messages: Sequence[OllamaMessage]) -> Iterator[ConversationMessage]:
    """Yield the conversation. Raises BadRequest."""
    open_calls: list[ToolCall] = []
    numbers = iter(range(1, 1 << 31))
    for message in messages:
        role = _ROLES.get(message.role.lower())
        if role is None:
            raise BadRequest(f"invalid role: {quote_value(message.role)} (must be system, user, assistant or tool)")
        if role is MessageRole.TOOL:
            yield ConversationMessage(role, (_tool_result(message, open_calls),))
            continue
        calls = [_to_call(call, numbers) for call in message.tool_calls or ()]
        open_calls += calls
        yield ConversationMessage(role, (*_message_parts(message), *calls))


def image_parts(images: Iterable[str] | None) -> Iterator[Image]:
    """Yield pictures. Raises BadRequest for what is not base64."""
    for image in images or ():
        _, _, after = image.partition(";base64,")
        data = (after or image).strip()
        yield Image(media_type=_image_type(data), data=data)


def _message_parts(message: OllamaMessage) -> Iterator[Part]:
    for field in ("audio", "audios", "input_audio"):
        if is_set(getattr(message, field)):
            raise _sound_error(field)
    if message.thinking:
        yield Thinking(message.thinking)
    if message.content:
        yield Text(message.content)
    yield from image_parts(message.images)


def _tool_result(message: OllamaMessage, open_calls: list[ToolCall]) -> ToolResult:
    name = message.tool_name or message.name or ""
    call = _find_call(message.tool_call_id or "", name, open_calls)
    if call is not None:
        open_calls.remove(call)
    return ToolResult(
        call_id=message.tool_call_id or (call.id if call else "call_0"),
        text=message.content or "",
        name=name or (call.name if call else ""),
    )


def _find_call(call_id: str, name: str, open_calls: Sequence[ToolCall]) -> ToolCall | None:
    """Return the call a result is for: the one of that id, else the first of that name, else the first."""
    if call_id:
        return next((call for call in open_calls if call.id == call_id), None)
    calls_by_name = [call for call in open_calls if call.name == name]
    return next(iter(calls_by_name or open_calls), None)


def _to_call(call: OllamaToolCall, numbers: Iterator[int]) -> ToolCall:
    number = next(numbers)
    return ToolCall(
        id=call.id or f"call_{number}", name=call.function.name, arguments=_json_arguments(call.function.arguments)
    )


def _json_arguments(raw: msgspec.Raw) -> str:
    value = value_of(raw)
    if value is None:
        return "{}"
    return value if isinstance(value, str) else bytes(raw).decode()


def _sound_error(field: str) -> BadRequest:
    return BadRequest(
        f"{field}: audio input is not supported by this API",
        hint="Send the recording to /v1/chat/completions as `input_audio`.",
        code="unsupported_content",
    )


def _image_type(data: str) -> str:
    """Return what a picture is, by its first bytes. Raises BadRequest if it is not base64 at all."""
    try:
        first_bytes = base64.b64decode(data, validate=True)[:12]
    except (binascii.Error, ValueError):
        raise BadRequest("invalid image data: not base64", code="invalid_value") from None
    if SoundFile(first_bytes).kind in _SOUNDS:
        raise _sound_error("images")
    if first_bytes[:4] == b"RIFF" and first_bytes[8:] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _KINDS if first_bytes.startswith(mark)), _USUAL_KIND)


_THINK = {
    "low": ThinkingLevel.LOW,
    "medium": ThinkingLevel.MEDIUM,
    "high": ThinkingLevel.HIGH,
    "max": ThinkingLevel.MAX,
}
_MOST_LOGPROBS = 20
_NOTHING = (ABSENT, msgspec.Raw(b"null"))


class OllamaGenerationParams(msgspec.Struct, frozen=True, kw_only=True):
    """What a client wants. `request` is None if it is only about loading."""

    model: str
    request: Request | None
    streams: bool
    keep_s: float | None = None
    """Seconds the model is kept afterwards: `inf` for ever, None as before."""
    num_ctx: int | None = None
    trims: bool = False
    """Whether the client says in so many words that a conversation may be cut to what fits (`truncate`)."""
    names_without_effect: tuple[str, ...] = ()

    @property
    def unloads(self) -> bool:
        """Whether nothing is asked but that the model goes."""
        return self.request is None and self.keep_s == 0


def read_chat(chat_request: OllamaChatRequest) -> OllamaGenerationParams:
    """Return what a chat request asks for. Raises BadRequest."""
    options = read_options(chat_request.options)
    if not chat_request.messages:
        return _make_params(chat_request, options, None)
    messages = tuple(read_messages(chat_request.messages))
    tools = tuple(_to_tool(tool) for tool in chat_request.tools or ())
    return _make_params(chat_request, options, _to_conversation(chat_request, options, messages, tools))


def read_generate(generate_request: OllamaGenerateRequest) -> OllamaGenerationParams:
    """Return what a generate request asks for. Raises BadRequest."""
    _check_request(generate_request)
    options = read_options(generate_request.options)
    if not (generate_request.prompt or generate_request.suffix or generate_request.images):
        return _make_params(generate_request, options, None)
    if generate_request.raw or generate_request.suffix:
        return _make_params(generate_request, options, _to_completion(generate_request, options))
    return _make_params(
        generate_request, options, _to_conversation(generate_request, options, tuple(_prompt_turns(generate_request)))
    )


def _check_request(generate_request: OllamaGenerateRequest) -> None:
    if generate_request.raw and (generate_request.template or generate_request.system or generate_request.context):
        raise BadRequest("raw mode does not support template, system, or context")
    if generate_request.raw and generate_request.images:
        raise BadRequest("raw mode does not support images")
    if generate_request.context:
        raise BadRequest(
            "context is not supported: this endpoint returns none either.", hint="Send the messages to /api/chat."
        )
    if generate_request.template:
        raise BadRequest(
            "template is not supported: a model keeps its own.", hint="Use raw, and put the prompt into its form."
        )


def _make_params(
    wire_request: OllamaCommonFields, options: OllamaOptions, request: Request | None
) -> OllamaGenerationParams:
    return OllamaGenerationParams(
        model=wire_request.model or "",
        request=request,
        streams=wire_request.stream is not False,
        trims=wire_request.truncate is True,
        keep_s=keep_time_s(wire_request),
        num_ctx=options.num_ctx,
        names_without_effect=options.names_without_effect,
    )


def _to_conversation(
    wire_request: OllamaCommonFields,
    options: OllamaOptions,
    messages: tuple[ConversationMessage, ...],
    tools: tuple[ToolDefinition, ...] = (),
) -> ConversationRequest:
    return ConversationRequest(
        messages=messages,
        tools=tools,
        response_format=_to_response_format(wire_request.format),
        thinking=_thinking_level(wire_request.think),
        sampling=options.sampling,
        limits=_to_limits(wire_request, options),
    )


def _to_completion(generate_request: OllamaGenerateRequest, options: OllamaOptions) -> CompletionRequest:
    return CompletionRequest(
        prompt=generate_request.prompt or "",
        suffix=generate_request.suffix or None,
        response_format=_to_response_format(generate_request.format),
        sampling=options.sampling,
        limits=_to_limits(generate_request, options),
    )


def _prompt_turns(generate_request: OllamaGenerateRequest) -> Sequence[ConversationMessage]:
    user_turn = ConversationMessage(
        MessageRole.USER, (Text(generate_request.prompt or ""), *image_parts(generate_request.images))
    )
    return (
        [ConversationMessage(MessageRole.SYSTEM, (Text(generate_request.system),)), user_turn]
        if generate_request.system
        else [user_turn]
    )


def _to_limits(wire_request: OllamaCommonFields, options: OllamaOptions) -> GenerationLimits:
    top_logprobs = wire_request.top_logprobs or 0
    if not 0 <= top_logprobs <= _MOST_LOGPROBS:
        raise BadRequest(f"top_logprobs must be between 0 and {_MOST_LOGPROBS}")
    return GenerationLimits(
        max_tokens=options.num_predict, stops=options.stops, logprobs=top_logprobs if wire_request.logprobs else None
    )


def _to_tool(tool: OllamaTool) -> ToolDefinition:
    function = tool.function
    schema = None if function.parameters in _NOTHING else function.parameters
    return ToolDefinition(name=function.name, description=function.description or "", parameters=schema)


def _thinking_level(think: bool | str | None) -> ThinkingLevel:  # noqa: FBT001 -- the wire's own type
    if think is None or think == "":
        return ThinkingLevel.DEFAULT
    if isinstance(think, bool):
        return ThinkingLevel.ON if think else ThinkingLevel.OFF
    if think not in _THINK:
        raise BadRequest(f"invalid think value: {quote_value(think)} (must be true, false, {', '.join(_THINK)})")
    return _THINK[think]


def _to_response_format(raw: msgspec.Raw) -> ResponseFormat:
    value = value_of(raw)
    if value is None or value == "":
        return ResponseFormat()
    if value == "json":
        return ResponseFormat(shape=ResponseShape.JSON)
    if isinstance(value, dict):
        return ResponseFormat(shape=ResponseShape.SCHEMA, schema=msgspec.Raw(bytes(raw)))
    raise BadRequest('invalid format: expected "json" or a JSON schema')
