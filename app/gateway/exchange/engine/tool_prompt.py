"""Tools for models whose chat template knows none: described in the system's words, and called between tags.

The tags are those most models have seen. Earlier calls and their results are put the same way, since such a template
has no turns for them.
"""

from collections.abc import Sequence

import msgspec

from app.gateway.canonical.request import Message, Part, Role, Text, Tool, ToolCall, ToolResult

_OFFER = (
    "You can call these tools. Their signatures are JSON:\n<tools>\n{tools}\n</tools>\n"
    "To call one, write a JSON object with its name and arguments between these tags, and nothing after it:\n"
    '<tool_call>\n{{"name": "<the tool\'s name>", "arguments": {{<its arguments>}}}}\n</tool_call>'
)
MUST = "Answer with a tool call now, and with nothing else."
MUST_NAMED = "Call the tool {name} now, and answer with nothing else."
AGAIN = "The last answer held no tool call. Do not explain anything: write the call itself."


def offered(messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[Message, ...]:
    """Return a conversation that tells of the tools itself."""
    turns = [_plain(message) for message in messages]
    if not tools:
        return tuple(turns)
    said = "\n".join(_signature(tool) for tool in tools)
    return with_system(turns, _OFFER.format(tools=said))


def with_system(messages: Sequence[Message], text: str) -> tuple[Message, ...]:
    """Return the conversation with one more thing said by the system, before it begins."""
    first = next((at for at, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages))
    return (*messages[:first], Message(Role.SYSTEM, (Text(text),)), *messages[first:])


def _signature(tool: Tool) -> str:
    parameters = tool.parameters if tool.parameters is not None else msgspec.Raw(b"{}")
    said = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return msgspec.json.encode(said).decode()


def _plain(message: Message) -> Message:
    has_results = any(isinstance(part, ToolResult) for part in message.parts)
    role = Role.USER if has_results or message.role is Role.TOOL else message.role
    return Message(role, tuple(_said(part) for part in message.parts))


def _said(part: Part) -> Part:
    match part:
        case ToolCall(name=name, arguments=arguments):
            call = f'{{"name": {_quoted(name)}, "arguments": {arguments or "{}"}}}'
            return Text(f"\n<tool_call>\n{call}\n</tool_call>")
        case ToolResult(text=text, is_error=is_error):
            return Text(f"<tool_response>\n{'Error: ' if is_error else ''}{text}\n</tool_response>\n")
    return part


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
