"""Anthropic's count of tokens: its messages as templates take them. Text counts; what cannot be read is refused."""

from collections.abc import Mapping

from engines.serving.answer_request import TemplateInput, parse_template_input
from engines.serving.fields import RequestFields
from engines.serving.refusals import feature_refusal, invalid_request


def parse_count_request(body: Mapping[str, object]) -> TemplateInput:
    """Return the conversation that an Anthropic request means. Raises Refused."""
    fields = RequestFields(body)
    system = _text(body.get("system"))
    first: list[dict[str, object]] = [{"role": "system", "content": system}] if system else []
    turns = [{"role": turn.get("role"), "content": _text(turn.get("content"))} for turn in fields.objects("messages")]
    tools = [_tool(tool) for tool in fields.objects("tools")]
    return parse_template_input({"messages": [*first, *turns], "tools": tools})


def _text(content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise invalid_request("`content` must be a string or a list of blocks.", "messages")
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
    raise feature_refusal(f"blocks of the type {kind}", "messages")


def _tool(tool: Mapping[str, object]) -> dict[str, object]:
    function = {name: tool[name] for name in ("name", "description") if name in tool}
    return {"type": "function", "function": {**function, "parameters": tool.get("input_schema", {})}}
