"""The turns of a conversation as llama.cpp's converter and chat templates understand them.

That converter puts a turn's text before its tool results, forgets that a tool failed, and hands a system turn in the
middle on to templates that reject it. So results come first in a turn of their own, a failure is said in words, and a
system turn becomes a reminder in the user's next to it.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Literal, TypeVar

import msgspec

from app.core.errors import BadRequest, quote_value

T = TypeVar("T")

Block = dict[str, msgspec.Raw]
_TEXT_TYPE = msgspec.Raw(b'"text"')
_RESULT_TYPE = msgspec.Raw(b'"tool_result"')
_PLAIN_TYPES = frozenset({"text", "thinking", "tool_use"})


class AnthropicTurn(msgspec.Struct, frozen=True):
    """One message of a request."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class EngineTurn(msgspec.Struct, frozen=True):
    """A turn for the engine."""

    role: str
    content: list[Block]


class _DocumentSource(msgspec.Struct, frozen=True):
    type: str = ""
    data: str = ""
    media_type: str = ""
    content: str | list[Block] = ""


class _SourceType(msgspec.Struct, frozen=True):
    type: str = ""


class _ImageBlockHead(msgspec.Struct, frozen=True):
    source: _SourceType


class _DocumentBlock(msgspec.Struct, frozen=True):
    source: _DocumentSource = _DocumentSource()
    title: str | None = None


class _SearchResultBlock(msgspec.Struct, frozen=True):
    source: str = ""
    title: str = ""
    content: str | list[Block] = ""


class _ClientToolResult(msgspec.Struct, frozen=True):
    tool_use_id: str
    content: str | list[Block] | None = None
    is_error: bool | None = None


def split_system_turns(turns: Sequence[AnthropicTurn]) -> tuple[list[str], Sequence[AnthropicTurn]]:
    """Return the system turns a conversation begins with, as texts, and the rest."""
    count = next((at for at, turn in enumerate(turns) if turn.role != "system"), len(turns))
    return [text_of(turn.content) for turn in turns[:count]], turns[count:]


def arrange_turns(turns: Sequence[AnthropicTurn]) -> list[EngineTurn]:
    """Return the turns for the engine. Raises BadRequest for what cannot be read."""
    engine_turns = [
        EngineTurn("assistant" if turn.role == "assistant" else "user", _turn_blocks(turn)) for turn in turns
    ]
    turns_by_role = [
        EngineTurn(role, [block for engine_turn in group for block in engine_turn.content])
        for role, group in groupby(engine_turns, key=lambda engine_turn: engine_turn.role)
    ]
    return [part for turn in turns_by_role for part in _results_first(turn)]


def text_of(content: str | Iterable[Block]) -> str:
    """Return what is said in some blocks: texts, documents and search results, a line between two."""
    if isinstance(content, str):
        return content
    blocks = (new for block in content for new in _blocks_for_engine(block))
    return "\n".join(_decode_string(block["text"]) for block in blocks if kind_of(block) == "text")


def thinking_of(block: Block) -> str:
    """Return the reasoning in a block of that kind."""
    return _decode_string(block.get("thinking", _EMPTY))


def kind_of(block: Block) -> str:
    """Return a block's type."""
    kind = block.get("type")
    return _decode_string(kind) if kind is not None else ""


def text_block(text: str) -> Block:
    """Return a block that says `text`."""
    return {"type": _TEXT_TYPE, "text": msgspec.Raw(msgspec.json.encode(text))}


def _turn_blocks(turn: AnthropicTurn) -> list[Block]:
    if turn.role == "system":
        return [text_block(f"<system-reminder>\n{text_of(turn.content)}\n</system-reminder>")]
    if isinstance(turn.content, str):
        return [text_block(turn.content)]
    return [new for block in turn.content for new in _blocks_for_engine(block)]


def _blocks_for_engine(block: Block) -> list[Block]:
    """Return what the engine reads for a block; nothing for one nobody knows, as the dialect wants it."""
    kind = kind_of(block)
    if kind in _PLAIN_TYPES:
        return [block]
    reader = _READERS.get(kind)
    return reader(block) if reader is not None else []


def _read_image(block: Block) -> list[Block]:
    source = _decode_block(block, _ImageBlockHead).source
    if source.type != "base64":
        raise BadRequest(
            f"An image of the source type {quote_value(source.type)} is not fetched.",
            hint="Send the image itself, as base64.",
            code="image_source",
        )
    return [block]


def _read_document(block: Block) -> list[Block]:
    document = _decode_block(block, _DocumentBlock)
    source = document.source
    if source.type not in {"text", "content"}:
        raise BadRequest(
            f"A document of the type {quote_value(source.media_type or source.type)} cannot be read.",
            hint="Send its text.",
            code="document_source",
        )
    text = source.data if source.type == "text" else text_of(source.content)
    return [text_block(f"{document.title}\n{text}" if document.title else text)]


def _search_result(block: Block) -> list[Block]:
    result = _decode_block(block, _SearchResultBlock)
    return [text_block("\n".join(part for part in (result.title, result.source, text_of(result.content)) if part))]


def _tool_reference(block: Block) -> list[Block]:
    """Say which tool was found: every deferred tool has been offered from the start."""
    name = _decode_string(block.get("tool_name", _EMPTY))
    return [text_block(f"The tool {name} is available.")]


def _tool_result(block: Block) -> list[Block]:
    """Return the result as text, and the images in it as blocks of their own, which come after the results."""
    result = _decode_block(block, _ClientToolResult)
    content = result.content or ""
    text = f"Error: {text_of(content)}" if result.is_error else text_of(content)
    parts = [] if isinstance(content, str) else content
    images = [new for part in parts if kind_of(part) == "image" for new in _read_image(part)]
    result_block: Block = {
        "type": _RESULT_TYPE,
        "tool_use_id": msgspec.Raw(msgspec.json.encode(result.tool_use_id)),
        "content": msgspec.Raw(msgspec.json.encode(text)),
    }
    return [result_block, *images]


def _refuse_sound(block: Block) -> list[Block]:
    raise BadRequest(
        f"Input tag {quote_value(kind_of(block))} found using 'type' does not match any of the expected tags: "
        "this dialect has no blocks for sound.",
        hint="Send the recording to /v1/chat/completions as `input_audio`, or its words as text.",
        code="unsupported_content",
    )


_EMPTY = msgspec.Raw(b'""')
_READERS: dict[str, Callable[[Block], list[Block]]] = {
    "image": _read_image,
    "document": _read_document,
    "search_result": _search_result,
    "tool_reference": _tool_reference,
    "tool_result": _tool_result,
    "audio": _refuse_sound,
    "input_audio": _refuse_sound,
}


def _results_first(turn: EngineTurn) -> list[EngineTurn]:
    results = [block for block in turn.content if kind_of(block) == "tool_result"]
    if not results:
        return [turn if turn.content else EngineTurn(turn.role, [text_block("")])]
    rest = [block for block in turn.content if kind_of(block) != "tool_result"]
    return [EngineTurn(turn.role, results), *([EngineTurn(turn.role, rest)] if rest else [])]


def _decode_block(block: Block, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(msgspec.json.encode(block), type=kind)
    except msgspec.ValidationError as error:
        raise BadRequest(f"A block of the type {quote_value(kind_of(block))} is not as expected: {error}.") from None


def _decode_string(raw: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.ValidationError:
        raise BadRequest(f"Expected text in a block, got {bytes(raw[:80]).decode(errors='replace')}.") from None
