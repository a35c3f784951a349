"""Chat and generate requests -> canonical ones.

An empty conversation, or an empty prompt, asks only for the model to be loaded, or with `keep_alive` 0 unloaded.
"""

from collections.abc import Sequence

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.request import (
    Complete,
    Generate,
    Level,
    Limits,
    Message,
    Request,
    ResponseFormat,
    Role,
    Shape,
    Text,
    Tool,
)
from app.gateway.dialects.ollama.durations import kept_s
from app.gateway.dialects.ollama.messages import image_parts, read_messages
from app.gateway.dialects.ollama.options import Options, read_options
from app.gateway.dialects.ollama.wire import ABSENT, ChatRequest, Common, GenerateRequest, SentTool, value_of

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
    request = Generate(
        messages=tuple(read_messages(sent.messages)),
        tools=tuple(_tool(tool) for tool in sent.tools or ()),
        response_format=_format(sent.format),
        thinking=_thinking(sent.think),
        sampling=options.sampling,
        limits=_limits(sent, options),
    )
    return _asked(sent, options, request)


def read_generate(sent: GenerateRequest) -> Asked:
    """Return what a generate request asks for. Raises BadRequest."""
    _check(sent)
    options = read_options(sent.options)
    if not (sent.prompt or sent.suffix or sent.images):
        return _asked(sent, options, None)
    if sent.raw or sent.suffix:
        return _asked(sent, options, _bare(sent, options))
    request = Generate(
        messages=tuple(_turns(sent)),
        response_format=_format(sent.format),
        thinking=_thinking(sent.think),
        sampling=options.sampling,
        limits=_limits(sent, options),
    )
    return _asked(sent, options, request)


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
