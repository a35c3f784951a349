"""A conversation as chat templates take it: one system message, at the top; tool results as turns of their own.

Many templates refuse a system message later on, and agents send them. There it becomes a reminder inside the next
user's turn, or in one of its own.
"""

from collections.abc import Iterable, Sequence

from app.gateway.canonical.request import (
    ConversationMessage,
    Image,
    MessageRole,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

_BETWEEN = "\n\n"


def wire_messages(messages: Sequence[ConversationMessage]) -> list[dict[str, object]]:
    """Return the messages of an OpenAI chat request."""
    return [wire for message in in_order(messages) for wire in _wire_message(message)]


def in_order(messages: Sequence[ConversationMessage]) -> list[ConversationMessage]:
    """Return the same conversation with all its system messages where templates take them."""
    first = next((at for at, message in enumerate(messages) if message.role is not MessageRole.SYSTEM), len(messages))
    system = _BETWEEN.join(message.text for message in messages[:first] if message.text)
    turns = _with_reminders(messages[first:])
    return [ConversationMessage(MessageRole.SYSTEM, (Text(system),)), *turns] if system else turns


def _with_reminders(messages: Iterable[ConversationMessage]) -> list[ConversationMessage]:
    turns: list[ConversationMessage] = []
    waiting: list[Part] = []
    for message in messages:
        if message.role is MessageRole.SYSTEM:
            waiting.append(_reminder_text(message))
        elif message.role is MessageRole.USER:
            turns.append(ConversationMessage(MessageRole.USER, (*waiting, *message.parts)) if waiting else message)
            waiting.clear()
        else:
            turns += _user_turn(waiting)
            turns.append(message)
            waiting.clear()
    return [*turns, *_user_turn(waiting)]


def _reminder_text(message: ConversationMessage) -> Text:
    return Text(f"<system-reminder>\n{message.text}\n</system-reminder>\n")


def _user_turn(parts: Sequence[Part]) -> list[ConversationMessage]:
    return [ConversationMessage(MessageRole.USER, tuple(parts))] if parts else []


def _wire_message(message: ConversationMessage) -> list[dict[str, object]]:
    """Return one message's; the results of tools come before what is said beside them, as templates expect."""
    match message.parts:
        case (Text(text=text),):  # as most are
            return [{"role": message.role, "content": text}]
    results = [_wire_result(part) for part in message.parts if isinstance(part, ToolResult)]
    rest = tuple(part for part in message.parts if not isinstance(part, ToolResult))
    if results and not rest:
        return results
    return [*results, _wire_turn(ConversationMessage(message.role, rest))]


def _wire_result(result: ToolResult) -> dict[str, object]:
    text = f"Error: {result.text}" if result.is_error else result.text
    wire: dict[str, object] = {"role": "tool", "tool_call_id": result.call_id, "content": text}
    return wire | ({"name": result.name} if result.name else {})


def _wire_turn(message: ConversationMessage) -> dict[str, object]:
    wire: dict[str, object] = {"role": message.role, "content": _wire_content(message)}
    reasoning = "".join(part.text for part in message.parts if isinstance(part, Thinking))
    calls = [_wire_call(part) for part in message.parts if isinstance(part, ToolCall)]
    if reasoning:
        wire["reasoning_content"] = reasoning
    if calls:
        wire["tool_calls"] = calls
    return wire


def _wire_content(message: ConversationMessage) -> str | list[dict[str, object]]:
    if not any(isinstance(part, Image) for part in message.parts):
        return message.text
    return [_wire_part(part) for part in message.parts if isinstance(part, Text | Image)]


def _wire_part(part: Text | Image) -> dict[str, object]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}


def _wire_call(call: ToolCall) -> dict[str, object]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
