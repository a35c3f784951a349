"""Several answers to one request, counted together, where an engine counts each as if there were no other.

llama.cpp tells in a stream the counts of each answer when that ends, and in a whole document those of the first alone.
So a whole document is asked for as a stream and put together here. Pure.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from app.gateway.dialects.form import StreamEditor
from app.gateway.dialects.openai.form import END, as_event
from app.gateway.exchange.engine.error_document import error_from_refusal

_DATA = b"data:"
_DONE, _NOTHING = b"[DONE]", b"null"
_USAGE = b'"usage":'
_FIELDS_SENT_ONCE = frozenset({"role", "id", "type", "name"})
"""What a piece says again or for the first time, and does not go on with."""

Fields = dict[str, Any]


class PromptTokenDetails(msgspec.Struct, frozen=True):
    """How much of a prompt had been read before."""

    cached_tokens: int = 0


class OpenAIUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one answer, or of all."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: PromptTokenDetails | None = None


class UsageSum:
    """Adds the counts of answers up; `each` is how many of them every prompt has, which counts once."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._usages: list[OpenAIUsage] = []

    def add_usage(self, usage: object) -> None:
        """Take the counts of one answer."""
        self._usages.append(msgspec.convert(usage, OpenAIUsage))

    def total_usage(self) -> OpenAIUsage | None:
        """Return the counts of all; None if nobody told any."""
        if not self._usages:
            return None
        prompts = sum(usage.prompt_tokens for usage in self._usages) // self._each
        completion_tokens = sum(usage.completion_tokens for usage in self._usages)
        cached_tokens = sum(
            usage.prompt_tokens_details.cached_tokens for usage in self._usages if usage.prompt_tokens_details
        )
        return OpenAIUsage(
            prompt_tokens=prompts,
            completion_tokens=completion_tokens,
            total_tokens=prompts + completion_tokens,
            prompt_tokens_details=PromptTokenDetails(cached_tokens // self._each),
        )


class UsageTotalEditor:
    """An editor for streams of several answers: of their counts one event is left, the last."""

    def __init__(self, edit: StreamEditor, *, each: int) -> None:
        self._edit = edit
        self._counts = UsageSum(each)
        self._last: Fields = {}
        self._rest = b""

    def __call__(self, chunk: bytes) -> bytes:
        """Return what to send for a chunk."""
        *events, self._rest = (self._rest + chunk).split(END)
        return self._edit(b"".join(self._edit_event(event.strip()) for event in events))

    def _edit_event(self, raw: bytes) -> bytes:
        document = raw.removeprefix(_DATA).strip()
        if document == _DONE:
            return self._end_event() + raw + END
        if document == _NOTHING:
            return b""
        piece = _decode_counts(document) if raw.startswith(_DATA) and _USAGE in document else None
        if piece is None:
            return raw + END
        self._counts.add_usage(piece.pop("usage"))
        self._last = piece
        return as_event(piece) if piece["choices"] else b""

    def _end_event(self) -> bytes:
        total = self._counts.total_usage()
        return b"" if total is None else as_event({**self._last, "choices": [], "usage": total})


def as_stream(body: bytes) -> bytes:
    """Return a request that asks for the same as a stream with its counts."""
    fields: Fields = dict(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))
    return msgspec.json.encode({**fields, "stream": True, "stream_options": {"include_usage": True}})


def gather_stream(stream: bytes, *, each: int) -> bytes:
    """Return the document that a whole stream comes to. Raises what an error event in it says."""
    counts, choices = UsageSum(each), dict[int, Fields]()
    head: Fields = {}
    for document in _stream_documents(stream):
        usage = document.pop("usage", None)
        if usage is not None:
            counts.add_usage(usage)
        for piece in document.pop("choices", ()):
            choices[piece["index"]] = _merge_value(choices.get(piece["index"]), piece)
        head = {**document, **head}
    kind = str(head.get("object", "")).removesuffix(".chunk")
    whole = [_whole_choice(choices[index]) for index in sorted(choices)]
    return msgspec.json.encode({"choices": whole, **head, "object": kind, "usage": counts.total_usage()})


def _stream_documents(stream: bytes) -> Iterator[Fields]:
    for raw in stream.split(END):
        document = raw.strip().removeprefix(_DATA).strip()
        if not raw.strip().startswith(_DATA) or document in {_DONE, _NOTHING}:
            continue
        fields = msgspec.json.decode(document)
        if "error" in fields:
            raise error_from_refusal(document)
        yield fields


def _merge_value(so_far: Any, piece: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Return what was said so far and goes on with this."""
    if so_far is None or piece is None:
        return so_far if piece is None else piece
    if isinstance(so_far, dict) and isinstance(piece, dict):
        return {**so_far, **{name: _merge_field(name, so_far.get(name), value) for name, value in piece.items()}}
    if isinstance(so_far, list) and isinstance(piece, list):
        return _merge_lists(so_far, piece)
    return so_far + piece if isinstance(so_far, str) and isinstance(piece, str) else piece


def _merge_field(name: str, so_far: Any, piece: Any) -> Any:  # noqa: ANN401 -- as above
    return (piece or so_far) if name in _FIELDS_SENT_ONCE else _merge_value(so_far, piece)


def _merge_lists(so_far: list[Any], pieces: list[Any]) -> list[Any]:
    """Return a list with more in it; what has an index, as calls do, is gone on with."""
    items = list(so_far)
    for piece in pieces:
        at = piece.get("index") if isinstance(piece, dict) else None
        if isinstance(at, int) and at < len(items):
            items[at] = _merge_value(items[at], piece)
        else:
            items.append(piece)
    return items


def _whole_choice(choice: Fields) -> Fields:
    """Return a choice as a whole answer has it."""
    if "delta" not in choice:
        return choice
    delta = choice.pop("delta")
    calls = [{name: value for name, value in call.items() if name != "index"} for call in delta.pop("tool_calls", ())]
    text = delta.pop("content", None) or (None if calls else "")
    delta.pop("role", None)
    call_fields = {"tool_calls": calls} if calls else {}
    return {**choice, "message": {"role": "assistant", "content": text, **delta, **call_fields}}


def _decode_counts(document: bytes) -> Fields | None:
    """Return a piece that tells counts, None for any other."""
    try:
        fields: Fields = msgspec.json.decode(document, type=dict[str, Any])
    except msgspec.MsgspecError:
        return None
    return fields if fields.get("usage") is not None and "choices" in fields else None
