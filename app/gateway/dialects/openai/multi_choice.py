"""Several answers to one request, counted together, where an engine counts each as if there were no other.

llama.cpp tells in a stream the counts of each answer when that ends, and in a whole document those of the first alone.
So a whole document is asked for as a stream and put together here. Pure.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from app.gateway.dialects.form import Editor
from app.gateway.dialects.openai.form import END, as_event
from app.gateway.exchange.engine.refusals import refused

_DATA = b"data:"
_DONE, _NOTHING = b"[DONE]", b"null"
_USAGE = b'"usage":'
_ONCE = frozenset({"role", "id", "type", "name"})
"""What a piece says again or for the first time, and does not go on with."""

Fields = dict[str, Any]


class Prompt(msgspec.Struct, frozen=True):
    """How much of a prompt had been read before."""

    cached_tokens: int = 0


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one answer, or of all."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: Prompt | None = None


class Counts:
    """Adds the counts of answers up; `each` is how many of them every prompt has, which counts once."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._told: list[Usage] = []

    def add(self, usage: object) -> None:
        """Take the counts of one answer."""
        self._told.append(msgspec.convert(usage, Usage))

    def total(self) -> Usage | None:
        """Return the counts of all; None if nobody told any."""
        if not self._told:
            return None
        prompts = sum(one.prompt_tokens for one in self._told) // self._each
        written = sum(one.completion_tokens for one in self._told)
        cached = sum(one.prompt_tokens_details.cached_tokens for one in self._told if one.prompt_tokens_details)
        return Usage(
            prompt_tokens=prompts,
            completion_tokens=written,
            total_tokens=prompts + written,
            prompt_tokens_details=Prompt(cached // self._each),
        )


class Totals:
    """An editor for streams of several answers: of their counts one event is left, the last."""

    def __init__(self, edit: Editor, *, each: int) -> None:
        self._edit = edit
        self._counts = Counts(each)
        self._last: Fields = {}
        self._rest = b""

    def __call__(self, chunk: bytes) -> bytes:
        """Return what to send for a chunk."""
        *events, self._rest = (self._rest + chunk).split(END)
        return self._edit(b"".join(self._event(one.strip()) for one in events))

    def _event(self, raw: bytes) -> bytes:
        document = raw.removeprefix(_DATA).strip()
        if document == _DONE:
            return self._end() + raw + END
        if document == _NOTHING:
            return b""
        told = _counted(document) if raw.startswith(_DATA) and _USAGE in document else None
        if told is None:
            return raw + END
        self._counts.add(told.pop("usage"))
        self._last = told
        return as_event(told) if told["choices"] else b""

    def _end(self) -> bytes:
        total = self._counts.total()
        return b"" if total is None else as_event({**self._last, "choices": [], "usage": total})


def as_stream(body: bytes) -> bytes:
    """Return a request that asks for the same as a stream with its counts."""
    fields: Fields = dict(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))
    return msgspec.json.encode({**fields, "stream": True, "stream_options": {"include_usage": True}})


def gathered(stream: bytes, *, each: int) -> bytes:
    """Return the document that a whole stream comes to. Raises what an error event in it says."""
    counts, choices = Counts(each), dict[int, Fields]()
    head: Fields = {}
    for document in _documents(stream):
        usage = document.pop("usage", None)
        if usage is not None:
            counts.add(usage)
        for piece in document.pop("choices", ()):
            choices[piece["index"]] = _grown(choices.get(piece["index"]), piece)
        head = {**document, **head}
    kind = str(head.get("object", "")).removesuffix(".chunk")
    whole = [_whole(choices[index]) for index in sorted(choices)]
    return msgspec.json.encode({"choices": whole, **head, "object": kind, "usage": counts.total()})


def _documents(stream: bytes) -> Iterator[Fields]:
    for raw in stream.split(END):
        document = raw.strip().removeprefix(_DATA).strip()
        if not raw.strip().startswith(_DATA) or document in {_DONE, _NOTHING}:
            continue
        fields = msgspec.json.decode(document)
        if "error" in fields:
            raise refused(document)
        yield fields


def _grown(so_far: Any, piece: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Return what was said so far and goes on with this."""
    if so_far is None or piece is None:
        return so_far if piece is None else piece
    if isinstance(so_far, dict) and isinstance(piece, dict):
        return {**so_far, **{name: _joined(name, so_far.get(name), value) for name, value in piece.items()}}
    if isinstance(so_far, list) and isinstance(piece, list):
        return _longer(so_far, piece)
    return so_far + piece if isinstance(so_far, str) and isinstance(piece, str) else piece


def _joined(name: str, so_far: Any, piece: Any) -> Any:  # noqa: ANN401 -- as above
    return (piece or so_far) if name in _ONCE else _grown(so_far, piece)


def _longer(so_far: list[Any], pieces: list[Any]) -> list[Any]:
    """Return a list with more in it; what has an index, as calls do, is gone on with."""
    found = list(so_far)
    for piece in pieces:
        at = piece.get("index") if isinstance(piece, dict) else None
        if isinstance(at, int) and at < len(found):
            found[at] = _grown(found[at], piece)
        else:
            found.append(piece)
    return found


def _whole(choice: Fields) -> Fields:
    """Return a choice as a whole answer has it."""
    if "delta" not in choice:
        return choice
    said = choice.pop("delta")
    calls = [{name: value for name, value in call.items() if name != "index"} for call in said.pop("tool_calls", ())]
    text = said.pop("content", None) or (None if calls else "")
    said.pop("role", None)
    told = {"tool_calls": calls} if calls else {}
    return {**choice, "message": {"role": "assistant", "content": text, **said, **told}}


def _counted(document: bytes) -> Fields | None:
    """Return a piece that tells counts, None for any other."""
    try:
        fields: Fields = msgspec.json.decode(document, type=dict[str, Any])
    except msgspec.MsgspecError:
        return None
    return fields if fields.get("usage") is not None and "choices" in fields else None
