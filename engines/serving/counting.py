"""Anthropic's count of tokens: its messages as templates take them. Text counts; what cannot be read is refused."""

from collections.abc import Mapping

from engines.serving.asked import Conversation, conversation_of
from engines.serving.fields import Fields
from engines.serving.refusals import invalid, unsupported


def counted_conversation(body: Mapping[str, object]) -> Conversation:
    """Return the conversation that an Anthropic request means. Raises Refused."""
    fields = Fields(body)
    system = _text(body.get("system"))
    first: list[dict[str, object]] = [{"role": "system", "content": system}] if system else []
    turns = [{"role": turn.get("role"), "content": _text(turn.get("content"))} for turn in fields.objects("messages")]
    tools = [_tool(tool) for tool in fields.objects("tools")]
    return conversation_of({"messages": [*first, *turns], "tools": tools})


def _text(content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise invalid("`content` must be a string or a list of blocks.", "messages")
    return "".join(_block(block) for block in content)


def _block(block: Mapping[str, object]) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text") or "")
    if kind == "thinking":
        return str(block.get("thinking") or "")
    if kind == "tool_use":
        return f"{block.get('name')} {block.get('input')}"
    if kind == "tool_result":
        return _text(block.get("content"))
    raise unsupported(f"blocks of the type {kind}", "messages")


def _tool(tool: Mapping[str, object]) -> dict[str, object]:
    function = {name: tool[name] for name in ("name", "description") if name in tool}
    return {"type": "function", "function": {**function, "parameters": tool.get("input_schema", {})}}
