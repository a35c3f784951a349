"""Completions with a `suffix`: llama.cpp's route for them ignores it, so its infill route is asked instead.

Pure both ways: OpenAI's request as infill's, and infill's answers as `text_completion` objects.
"""

import secrets
import time

import msgspec

from app.core.errors import BadRequest
from app.gateway.dialects.form import StreamEditor
from app.gateway.dialects.openai.form import END, OpenAIForm, as_event

_DATA = b"data:"
_DONE = b"data: [DONE]\n\n"
_LENGTH = "limit"
"""llama-server's word for an answer cut at its limit."""
_NOT_WITH_SUFFIX = ("echo", "logprobs", "best_of", "n")

Fields = dict[str, object]


class SuffixCompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a completion with a suffix is made of."""

    prompt: str | list[str]
    suffix: str
    max_tokens: int | None = None
    echo: bool | None = None
    logprobs: int | None = None
    best_of: int | None = None
    n: int | None = None


class _InfillTimings(msgspec.Struct, frozen=True):
    cache_n: int = 0


class _InfillPiece(msgspec.Struct, frozen=True):
    content: str = ""
    stop: bool = False
    stop_type: str = ""
    tokens_predicted: int = 0
    tokens_evaluated: int = 0
    timings: _InfillTimings = _InfillTimings()


def for_infill(body: bytes, request: SuffixCompletionRequest) -> bytes:
    """Return infill's request; fields both have keep their bytes. Raises BadRequest for what infill cannot do."""
    for name in _NOT_WITH_SUFFIX:
        if (getattr(request, name) or 0) > (1 if name in {"n", "best_of"} else 0):
            raise BadRequest(f"`{name}` is not possible together with `suffix`.", code="unsupported_parameter")
    fields: Fields = dict(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))
    for name in ("prompt", "suffix", "max_tokens", *_NOT_WITH_SUFFIX):
        fields.pop(name, None)
    fields |= {"input_prefix": _only_prompt(request.prompt), "input_suffix": request.suffix}
    if request.max_tokens is not None:
        fields["n_predict"] = request.max_tokens
    return msgspec.json.encode(fields)


def _only_prompt(prompt: str | list[str]) -> str:
    if isinstance(prompt, str):
        return prompt
    if len(prompt) != 1:
        raise BadRequest("With `suffix` there is exactly one prompt.", code="unsupported_parameter")
    return prompt[0]


class SuffixCompletionForm(OpenAIForm, frozen=True, kw_only=True):
    """`app.gateway.dialects.form.AnswerForm` for one such request."""

    model: str = ""
    includes_usage: bool = False
    prompt: str = "prompt"

    def whole(self, body: bytes) -> bytes:
        """Return the answer as OpenAI's."""
        piece = msgspec.json.decode(body, type=_InfillPiece)
        return msgspec.json.encode(
            _CompletionHead(self.model).completion_object(piece, reason=_finish_reason(piece))
            | {"usage": _usage_fields(piece)}
        )

    def _make_editor(self) -> StreamEditor:
        """Return what rewrites a stream."""
        return _InfillStreamEditor(_CompletionHead(self.model), includes_usage=self.includes_usage)


class _CompletionHead:
    """What all chunks of an answer have in common."""

    def __init__(self, model: str) -> None:
        self._fields: Fields = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model,
        }

    def completion_object(self, piece: _InfillPiece, *, reason: str | None) -> Fields:
        choice = {"text": piece.content, "index": 0, "logprobs": None, "finish_reason": reason}
        return {**self._fields, "choices": [choice]}

    def counts_object(self, piece: _InfillPiece) -> Fields:
        return {**self._fields, "choices": [], "usage": _usage_fields(piece)}


class _InfillStreamEditor:
    """Turns infill's events into completion chunks, whole events at a time."""

    def __init__(self, head: _CompletionHead, *, includes_usage: bool) -> None:
        self._head = head
        self._includes_usage = includes_usage
        self._rest = b""

    def __call__(self, chunk: bytes) -> bytes:
        *events, self._rest = (self._rest + chunk).split(END)
        return b"".join(self._edit_event(event.strip()) for event in events)

    def _edit_event(self, raw: bytes) -> bytes:
        if not raw.startswith(_DATA) or b'"error"' in raw[: len(b'data: {"error"')]:
            return raw + END
        piece = msgspec.json.decode(raw[len(_DATA) :], type=_InfillPiece)
        if not piece.stop:
            return as_event(self._head.completion_object(piece, reason=None))
        last = as_event(self._head.completion_object(piece, reason=_finish_reason(piece)))
        return last + (as_event(self._head.counts_object(piece)) if self._includes_usage else b"") + _DONE


def _finish_reason(piece: _InfillPiece) -> str:
    return "length" if piece.stop_type == _LENGTH else "stop"


def _usage_fields(piece: _InfillPiece) -> Fields:
    return {
        "prompt_tokens": piece.tokens_evaluated,
        "completion_tokens": piece.tokens_predicted,
        "total_tokens": piece.tokens_evaluated + piece.tokens_predicted,
        "prompt_tokens_details": {"cached_tokens": piece.timings.cache_n},
    }
