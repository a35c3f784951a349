"""What llama.cpp's answers lack to be Anthropic's: ids, ends that say why, and every count.

It calls an answer "chatcmpl-...", repeats the turn that it goes on with, says `end_turn` when a stop sequence ended it
and `max_tokens` when the context was full, and leaves out what was written to a cache.
"""

import secrets

import msgspec

from app.gateway.canonical.assistant_prefill import NOTHING, Prefilled

Fields = dict[str, object]

_MESSAGE, _TOOL_USE = "msg_", "toolu_"


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What of a request its answer is held to."""

    max_tokens: int | None = None
    one_tool: bool = False
    prefilled: Prefilled = NOTHING
    """What a whole answer repeats of it."""


def message_id() -> str:
    """Return an id as Anthropic writes them."""
    return _MESSAGE + secrets.token_hex(12)


def usage(told: Fields) -> Fields:
    """Return all four counts. What is read from the cache is not part of `input_tokens`."""
    return {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, **told}


def stop_reason(reason: object, sequence: object, written: object, wishes: Wishes) -> object:
    """Return why an answer ended; `written` is its number of tokens."""
    if reason == "end_turn" and sequence is not None:
        return "stop_sequence"
    if reason == "max_tokens" and wishes.max_tokens and isinstance(written, int) and written < wishes.max_tokens:
        return "model_context_window_exceeded"
    return reason


def block(told: Fields) -> Fields:
    """Return a content block with what its type must have."""
    if told.get("type") == "tool_use":
        return {**told, "id": told.get("id") or _TOOL_USE + secrets.token_hex(12), "input": told.get("input") or {}}
    if told.get("type") == "thinking":
        return {"signature": "", **told}
    return told


def whole(body: bytes, wishes: Wishes) -> bytes:
    """Return a whole answer, mended."""
    reply = msgspec.json.decode(body, type=Fields)
    counts = reply.get("usage")
    counts = usage(counts if isinstance(counts, dict) else {})
    content = reply.get("content")
    reply.update(
        id=message_id(),
        content=_kept(_new(content, wishes.prefilled), wishes) if isinstance(content, list) else [],
        stop_reason=stop_reason(
            reply.get("stop_reason"), reply.get("stop_sequence"), counts.get("output_tokens"), wishes
        ),
        usage=counts,
    )
    return msgspec.json.encode(reply)


def _new(content: list[Fields], prefilled: Prefilled) -> list[Fields]:
    """Return the blocks without what they repeat of the request."""
    blocks = [block(part) for part in content]
    if prefilled == NOTHING:
        return blocks
    said = [_renewed(part, prefilled) for part in blocks]
    return [part for part in said if part.get("type") != "thinking" or part.get("thinking")]


def _renewed(part: Fields, prefilled: Prefilled) -> Fields:
    match part:
        case {"type": "text", "text": str(text)}:
            return {**part, "text": prefilled.new_text(text)}
        case {"type": "thinking", "thinking": str(thinking)}:
            return {**part, "thinking": prefilled.new_thinking(thinking)}
    return part


def _kept(content: list[Fields], wishes: Wishes) -> list[Fields]:
    calls = [part for part in content if part.get("type") == "tool_use"]
    surplus = calls[1:] if wishes.one_tool else []
    return [part for part in content if part not in surplus]
