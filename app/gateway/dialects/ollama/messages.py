"""Ollama's messages -> canonical ones.

Ollama's clients often give tool calls no id, and answer them in order, or by the tool's name; every other dialect needs
one. So calls without an id are numbered, and results are given the id of the call they answer.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.request import Image, Message, Part, Role, Text, Thinking, ToolCall, ToolResult
from app.gateway.dialects.ollama.wire import SentCall, SentMessage, value_of

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
