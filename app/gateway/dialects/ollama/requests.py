"""Chat and generate requests -> canonical ones, and what they need of a model.

An empty conversation, or an empty prompt, asks only for the model to be loaded, or with `keep_alive` 0 unloaded. The
refusal of what a model cannot do is in words that clients look for.

Ollama's clients often give tool calls no id, and answer them in order, or by the tool's name; every other dialect needs
one. So calls without an id are numbered, and results are given the id of the call they answer.
"""

import base64
import binascii
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.request import (
    Complete,
    Generate,
    Image,
    Level,
    Limits,
    Message,
    Part,
    Request,
    ResponseFormat,
    Role,
    Shape,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from app.gateway.dialects.keep_alive import kept_s
from app.gateway.dialects.ollama.options import Options, read_options
from app.gateway.dialects.ollama.wire import ChatRequest, Common, GenerateRequest, SentCall, SentMessage, SentTool
from app.gateway.dialects.raw_fields import ABSENT, value_of


def needed_abilities(request: Request) -> list[str]:
    """Return Ollama's words for what a request needs, beside plain text."""
    if isinstance(request, Complete):
        return ["completion"] if request.suffix is None else ["insert"]
    wants = {
        "completion": True,
        "tools": bool(request.tools),
        "thinking": request.thinking not in {Level.DEFAULT, Level.OFF},
        "vision": _has_images(request),
    }
    return [ability for ability, is_wanted in wants.items() if is_wanted]


def check_abilities(request: Request, capabilities: Collection[str], *, model: str) -> None:
    """Raise BadRequest (model_cannot) for the first thing the model cannot do."""
    lacking = next((ability for ability in needed_abilities(request) if ability not in capabilities), None)
    if lacking is not None:
        raise cannot(model, lacking)


def cannot(model: str, ability: str) -> BadRequest:
    """Return the refusal as Ollama words it."""
    return BadRequest(f'"{model}" does not support {ability}', code="model_cannot")


def _has_images(request: Generate) -> bool:
    return any(isinstance(part, Image) for message in request.messages for part in message.parts)


_ROLES = {"developer": Role.SYSTEM} | {role.value: role for role in Role}
_KINDS = ((b"\x89PNG", "image/png"), (b"GIF8", "image/gif"), (b"\xff\xd8", "image/jpeg"), (b"BM", "image/bmp"))
_USUAL_KIND = "image/jpeg"


def read_messages(sent: Sequence[SentMessage]) -> Iterator[Message]:
    """Yield the conversation. Raises BadRequest."""
    unanswered: list[ToolCall] = []
    numbers = iter(range(1, 1 << 31))
    for message in sent:
        role = _ROLES.get(message.role.lower())
        if role is None:
            raise BadRequest(f"invalid role: {message.role!r} (must be system, user, assistant or tool)")
        if role is Role.TOOL:
            yield Message(role, (_result(message, unanswered),))
            continue
        calls = [_call(call, numbers) for call in message.tool_calls or ()]
        unanswered += calls
        yield Message(role, (*_said(message), *calls))


def image_parts(images: Iterable[str] | None) -> Iterator[Image]:
    """Yield pictures. Raises BadRequest for what is not base64."""
    for image in images or ():
        _, _, after = image.partition(";base64,")
        data = (after or image).strip()
        yield Image(media_type=_kind(data), data=data)


def _said(message: SentMessage) -> Iterator[Part]:
    if message.thinking:
        yield Thinking(message.thinking)
    if message.content:
        yield Text(message.content)
    yield from image_parts(message.images)


def _result(message: SentMessage, unanswered: list[ToolCall]) -> ToolResult:
    name = message.tool_name or message.name or ""
    answered = _answered(message.tool_call_id or "", name, unanswered)
    if answered is not None:
        unanswered.remove(answered)
    return ToolResult(
        call_id=message.tool_call_id or (answered.id if answered else "call_0"),
        text=message.content or "",
        name=name or (answered.name if answered else ""),
    )


def _answered(call_id: str, name: str, unanswered: Sequence[ToolCall]) -> ToolCall | None:
    """Return the call a result is for: the one of that id, else the first of that name, else the first."""
    if call_id:
        return next((call for call in unanswered if call.id == call_id), None)
    named = [call for call in unanswered if call.name == name]
    return next(iter(named or unanswered), None)


def _call(sent: SentCall, numbers: Iterator[int]) -> ToolCall:
    number = next(numbers)
    return ToolCall(
        id=sent.id or f"call_{number}", name=sent.function.name, arguments=_arguments(sent.function.arguments)
    )


def _arguments(raw: msgspec.Raw) -> str:
    value = value_of(raw)
    if value is None:
        return "{}"
    return value if isinstance(value, str) else bytes(raw).decode()


def _kind(data: str) -> str:
    """Return what a picture is, by its first bytes. Raises BadRequest if it is not base64 at all."""
    try:
        begins = base64.b64decode(data, validate=True)[:12]
    except (binascii.Error, ValueError):
        raise BadRequest("invalid image data: not base64", code="invalid_value") from None
    if begins[:4] == b"RIFF" and begins[8:] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _KINDS if begins.startswith(mark)), _USUAL_KIND)


_THINK = {
    "low": Level.LOW,
    "medium": Level.MEDIUM,
    "high": Level.HIGH,
    "max": Level.MAX,
}
_MOST_LOGPROBS = 20
_NOTHING = (ABSENT, msgspec.Raw(b"null"))


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a client wants. `request` is None if it is only about loading."""

    model: str
    request: Request | None
    streams: bool
    keep_s: float | None = None
    """Seconds the model is kept afterwards: `inf` for ever, None as before."""
    num_ctx: int | None = None
    trims: bool = False
    """Whether the client says in so many words that a conversation may be cut to what fits (`truncate`)."""
    unheeded: tuple[str, ...] = ()

    @property
    def unloads(self) -> bool:
        """Whether nothing is asked but that the model goes."""
        return self.request is None and self.keep_s == 0


def read_chat(sent: ChatRequest) -> Asked:
    """Return what a chat request asks for. Raises BadRequest."""
    options = read_options(sent.options)
    if not sent.messages:
        return _asked(sent, options, None)
    messages = tuple(read_messages(sent.messages))
    tools = tuple(_tool(tool) for tool in sent.tools or ())
    return _asked(sent, options, _conversation(sent, options, messages, tools))


def read_generate(sent: GenerateRequest) -> Asked:
    """Return what a generate request asks for. Raises BadRequest."""
    _check(sent)
    options = read_options(sent.options)
    if not (sent.prompt or sent.suffix or sent.images):
        return _asked(sent, options, None)
    if sent.raw or sent.suffix:
        return _asked(sent, options, _bare(sent, options))
    return _asked(sent, options, _conversation(sent, options, tuple(_turns(sent))))


def _check(sent: GenerateRequest) -> None:
    if sent.raw and (sent.template or sent.system or sent.context):
        raise BadRequest("raw mode does not support template, system, or context")
    if sent.raw and sent.images:
        raise BadRequest("raw mode does not support images")
    if sent.context:
        raise BadRequest(
            "context is not supported: this endpoint returns none either.", hint="Send the messages to /api/chat."
        )
    if sent.template:
        raise BadRequest(
            "template is not supported: a model keeps its own.", hint="Use raw, and put the prompt into its form."
        )


def _asked(sent: Common, options: Options, request: Request | None) -> Asked:
    return Asked(
        model=sent.model or "",
        request=request,
        streams=sent.stream is not False,
        trims=sent.truncate is True,
        keep_s=kept_s(sent),
        num_ctx=options.num_ctx,
        unheeded=options.unheeded,
    )


def _conversation(
    sent: Common, options: Options, messages: tuple[Message, ...], tools: tuple[Tool, ...] = ()
) -> Generate:
    return Generate(
        messages=messages,
        tools=tools,
        response_format=_format(sent.format),
        thinking=_thinking(sent.think),
        sampling=options.sampling,
        limits=_limits(sent, options),
    )


def _bare(sent: GenerateRequest, options: Options) -> Complete:
    return Complete(
        prompt=sent.prompt or "",
        suffix=sent.suffix or None,
        response_format=_format(sent.format),
        sampling=options.sampling,
        limits=_limits(sent, options),
    )


def _turns(sent: GenerateRequest) -> Sequence[Message]:
    asked = Message(Role.USER, (Text(sent.prompt or ""), *image_parts(sent.images)))
    return [Message(Role.SYSTEM, (Text(sent.system),)), asked] if sent.system else [asked]


def _limits(sent: Common, options: Options) -> Limits:
    told = sent.top_logprobs or 0
    if not 0 <= told <= _MOST_LOGPROBS:
        raise BadRequest(f"top_logprobs must be between 0 and {_MOST_LOGPROBS}")
    return Limits(max_tokens=options.num_predict, stops=options.stops, logprobs=told if sent.logprobs else None)


def _tool(sent: SentTool) -> Tool:
    function = sent.function
    schema = None if function.parameters in _NOTHING else function.parameters
    return Tool(name=function.name, description=function.description or "", parameters=schema)


def _thinking(think: bool | str | None) -> Level:  # noqa: FBT001 -- the wire's own type
    if think is None or think == "":
        return Level.DEFAULT
    if isinstance(think, bool):
        return Level.ON if think else Level.OFF
    if think not in _THINK:
        raise BadRequest(f"invalid think value: {think!r} (must be true, false, {', '.join(_THINK)})")
    return _THINK[think]


def _format(raw: msgspec.Raw) -> ResponseFormat:
    value = value_of(raw)
    if value is None or value == "":
        return ResponseFormat()
    if value == "json":
        return ResponseFormat(shape=Shape.JSON)
    if isinstance(value, dict):
        return ResponseFormat(shape=Shape.SCHEMA, schema=msgspec.Raw(bytes(raw)))
    raise BadRequest('invalid format: expected "json" or a JSON schema')
