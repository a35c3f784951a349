"""Tools for models whose chat template knows none: described in the system's words, and called between tags.

The tags are those most models have seen. Earlier calls and their results are put the same way, since such a template
has no turns for them.
"""

from collections.abc import Sequence

import msgspec

from app.gateway.canonical.request import (
    ConversationMessage,
    MessageRole,
    Part,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)

_OFFER = (
    "You can call these tools. Their signatures are JSON:\n<tools>\n{tools}\n</tools>\n"
    "To call one, write a JSON object with its name and arguments between these tags, and nothing after it:\n"
    '<tool_call>\n{{"name": "<the tool\'s name>", "arguments": {{<its arguments>}}}}\n</tool_call>'
)
MUST = "Answer with a tool call now, and with nothing else."
MUST_NAMED = "Call the tool {name} now, and answer with nothing else."
AGAIN = "The last answer held no tool call. Do not explain anything: write the call itself."


def with_tool_prompt(
    messages: Sequence[ConversationMessage], tools: Sequence[ToolDefinition]
) -> tuple[ConversationMessage, ...]:
    """Return a conversation that tells of the tools itself."""
    turns = [_plain_message(message) for message in messages]
    if not tools:
        return tuple(turns)
    said = "\n".join(_tool_signature(tool) for tool in tools)
    return with_system(turns, _OFFER.format(tools=said))


def with_system(messages: Sequence[ConversationMessage], text: str) -> tuple[ConversationMessage, ...]:
    """Return the conversation with one more thing said by the system, before it begins."""
    first = next((at for at, message in enumerate(messages) if message.role is not MessageRole.SYSTEM), len(messages))
    return (*messages[:first], ConversationMessage(MessageRole.SYSTEM, (Text(text),)), *messages[first:])


def _tool_signature(tool: ToolDefinition) -> str:
    parameters = tool.parameters if tool.parameters is not None else msgspec.Raw(b"{}")
    said = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return msgspec.json.encode(said).decode()


def _plain_message(message: ConversationMessage) -> ConversationMessage:
    has_results = any(isinstance(part, ToolResult) for part in message.parts)
    role = MessageRole.USER if has_results or message.role is MessageRole.TOOL else message.role
    return ConversationMessage(role, tuple(_plain_part(part) for part in message.parts))


def _plain_part(part: Part) -> Part:
    match part:
        case ToolCall(name=name, arguments=arguments):
            call = f'{{"name": {_quote_lines(name)}, "arguments": {arguments or "{}"}}}'
            return Text(f"\n<tool_call>\n{call}\n</tool_call>")
        case ToolResult(text=text, is_error=is_error):
            return Text(f"<tool_response>\n{'Error: ' if is_error else ''}{text}\n</tool_response>\n")
    return part


def _quote_lines(text: str) -> str:
    return msgspec.json.encode(text).decode()
