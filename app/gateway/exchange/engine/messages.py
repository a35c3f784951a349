"""A conversation as chat templates take it: one system message, at the top; tool results as turns of their own.

Many templates refuse a system message later on, and agents send them. There it becomes a reminder inside the next
user's turn, or in one of its own.
"""

from collections.abc import Iterable, Sequence

from app.gateway.canonical.request import Image, Message, Part, Role, Text, Thinking, ToolCall, ToolResult

_BETWEEN = "\n\n"


def wire_messages(messages: Sequence[Message]) -> list[dict[str, object]]:
    """Return the messages of an OpenAI chat request."""
    return [wire for message in in_order(messages) for wire in _wired(message)]


def in_order(messages: Sequence[Message]) -> list[Message]:
    """Return the same conversation with all its system messages where templates take them."""
    first = next((at for at, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages))
    system = _BETWEEN.join(message.text for message in messages[:first] if message.text)
    turns = _with_reminders(messages[first:])
    return [Message(Role.SYSTEM, (Text(system),)), *turns] if system else turns


def _with_reminders(messages: Iterable[Message]) -> list[Message]:
    turns: list[Message] = []
    waiting: list[Part] = []
    for message in messages:
        if message.role is Role.SYSTEM:
            waiting.append(_reminder(message))
        elif message.role is Role.USER:
            turns.append(Message(Role.USER, (*waiting, *message.parts)) if waiting else message)
            waiting.clear()
        else:
            turns += _in_a_turn(waiting)
            turns.append(message)
            waiting.clear()
    return [*turns, *_in_a_turn(waiting)]


def _reminder(message: Message) -> Text:
    return Text(f"<system-reminder>\n{message.text}\n</system-reminder>\n")


def _in_a_turn(parts: Sequence[Part]) -> list[Message]:
    return [Message(Role.USER, tuple(parts))] if parts else []


def _wired(message: Message) -> list[dict[str, object]]:
    """Return one message's; the results of tools come before what is said beside them, as templates expect."""
    match message.parts:
        case (Text(text=text),):  # as most are
            return [{"role": message.role, "content": text}]
    results = [_result(part) for part in message.parts if isinstance(part, ToolResult)]
    rest = tuple(part for part in message.parts if not isinstance(part, ToolResult))
    if results and not rest:
        return results
    return [*results, _turn(Message(message.role, rest))]


def _result(result: ToolResult) -> dict[str, object]:
    text = f"Error: {result.text}" if result.is_error else result.text
    wire: dict[str, object] = {"role": "tool", "tool_call_id": result.call_id, "content": text}
    return wire | ({"name": result.name} if result.name else {})


def _turn(message: Message) -> dict[str, object]:
    wire: dict[str, object] = {"role": message.role, "content": _content(message)}
    reasoning = "".join(part.text for part in message.parts if isinstance(part, Thinking))
    calls = [_call(part) for part in message.parts if isinstance(part, ToolCall)]
    if reasoning:
        wire["reasoning_content"] = reasoning
    if calls:
        wire["tool_calls"] = calls
    return wire


def _content(message: Message) -> str | list[dict[str, object]]:
    if not any(isinstance(part, Image) for part in message.parts):
        return message.text
    return [_part(part) for part in message.parts if isinstance(part, Text | Image)]


def _part(part: Text | Image) -> dict[str, object]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}


def _call(call: ToolCall) -> dict[str, object]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
