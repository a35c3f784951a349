"""What an engine says instead of an answer, understood: whose mistake it is, and OpenAI's shape of it.

llama-server sends `{"error": {"code": 400, "message", "type"}}`, MLX-LM `{"error": "text"}`, FastAPI engines
`{"detail": ...}`, and a server in trouble plain text. llama-server answers several mistakes of the caller with 500 or
501, which clients repeat in vain; each is known by its words, as the pinned build writes them. So is a context that is
too short, for which every engine has a body of its own.
"""

import re
from typing import NamedTuple

import msgspec

from app.gateway.dialects.openai.errors import error_type
from app.gateway.exchange.engine.engine_words import in_words
from app.gateway.exchange.engine.overflow import Counts, counts_in

_CONTEXT_TYPE = "exceed_context_size_error"
"""llama-server's word for OpenAI's `context_length_exceeded`, which editors look for."""
TOO_LONG = "context_length_exceeded"
_LONGEST_TEXT = 2000
_BAD_REQUEST = 400
_SERVER_ERROR = 500


class _Mistake(NamedTuple):
    code: str
    param: str | None


_MISTAKES = (
    (
        re.compile(r"(image|audio) input is not supported|unsupported content\[\]\.type"),
        _Mistake("unsupported_content", "messages"),
    ),
    (re.compile(r"Failed to parse tools"), _Mistake("invalid_tools", "tools")),
    (
        re.compile(r"Failed to parse messages|'messages' is required|Failed to parse tool call arguments"),
        _Mistake("invalid_messages", "messages"),
    ),
    (re.compile(r"not supported by this model|does not support"), _Mistake("model_cannot", "model")),
    (re.compile(r"Unknown reasoning format"), _Mistake("invalid_value", "reasoning_format")),
    (re.compile(r"\[json\.exception\."), _Mistake("invalid_value", None)),
)


_FIELD = re.compile(r"^Field '(\w+)': ")
"""How llama-server begins a sentence about one field."""
_CODES = {400: "invalid_value", 501: "engine_cannot"}
"""By status, OpenAI's code for a refusal to which the engine gave only the status again."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's refusal. `prompt_tokens` and `context` are there when the prompt was too long, if it told them."""

    status: int
    message: str
    code: str | int | None = None
    param: str | None = None
    prompt_tokens: int | None = None
    context: int | None = None
    answer_tokens: int | None = None
    """How long an answer was asked for, where the prompt alone would have fitted."""
    kind: str = ""
    """Its own word for the type of error, where that is kept."""
    extra: dict[str, msgspec.Raw] = {}
    """Whatever else it said."""

    @property
    def is_too_long(self) -> bool:
        """Tell whether the prompt did not fit into the context."""
        return self.code == TOO_LONG


_NOTHING = msgspec.Raw()


class _Engine(msgspec.Struct, frozen=True):
    error: dict[str, msgspec.Raw] | str | None = None
    detail: msgspec.Raw = _NOTHING
    message: str = ""


def understood(body: bytes, status: int) -> Refused:
    """Return what an engine's error document means."""
    said = _decoded(body)
    told = said.error if said is not None and isinstance(said.error, dict) else None
    if told is None or "message" not in told:
        return _judged(Refused(status=status, message=_sentence(said, body), code="engine_error"))
    message, counts = _text(told["message"]), (_number(told.get("n_prompt_tokens")), _number(told.get("n_ctx")))
    kind, param = _text(told.get("type")), _text(told.get("param")) or None
    if kind == _CONTEXT_TYPE:
        return msgspec.structs.replace(_too_long(message, *counts), extra=told)
    param = param or _field_of(message)
    return _judged(Refused(status=status, message=message, code=_code(told), param=param, kind=kind, extra=told))


def in_openai_shape(refused: Refused, *, prompt: str) -> bytes:
    """Return OpenAI's error document, always with message, type, param and code, and all else the engine said.

    The code is text or null, as clients have it typed; llama-server's is the status as a number. `prompt` is the field
    of the request that holds what was too long, where that is what is wrong.
    """
    error: dict[str, object] = {
        **refused.extra,
        "message": refused.message,
        "type": refused.kind or error_type(refused.status),
        "param": prompt if refused.is_too_long else refused.param,
        "code": _CODES.get(refused.code, "engine_error") if isinstance(refused.code, int) else refused.code,
    }
    return msgspec.json.encode({"error": error})


def _field_of(message: str) -> str | None:
    found = _FIELD.match(message)
    return found[1] if found else None


def _judged(refused: Refused) -> Refused:
    """Return the refusal with the mistake found that its words tell of, if they tell of one of the caller's."""
    counts = counts_in(refused.message)
    if counts is not None:
        return _overflow(refused.message, counts)
    if refused.status >= _SERVER_ERROR:
        for pattern, mistake in _MISTAKES:
            if pattern.search(refused.message):
                changed = {"status": _BAD_REQUEST, "code": mistake.code, "param": mistake.param, "kind": ""}
                refused = msgspec.structs.replace(refused, **changed)
                break
    return msgspec.structs.replace(refused, message=in_words(refused.message))


def _too_long(message: str, tokens: int | None, context: int | None) -> Refused:
    if context is not None:
        return _overflow(message, Counts(context=context, prompt=tokens))
    return Refused(status=_BAD_REQUEST, message=message, code=TOO_LONG, param="messages", prompt_tokens=tokens)


def _overflow(message: str, counts: Counts) -> Refused:
    return Refused(
        status=_BAD_REQUEST,
        message=counts.told or message,
        code=TOO_LONG,
        param="messages",
        prompt_tokens=counts.prompt,
        context=counts.context,
        answer_tokens=counts.answer,
    )


def _decoded(body: bytes) -> _Engine | None:
    try:
        return msgspec.json.decode(body, type=_Engine)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _code(told: dict[str, msgspec.Raw]) -> str | int | None:
    number = _number(told.get("code"))
    return number if number is not None else _text(told.get("code")) or None


def _number(raw: msgspec.Raw | None) -> int | None:
    try:
        return msgspec.json.decode(raw, type=int) if raw else None
    except msgspec.MsgspecError:
        return None


def _text(raw: msgspec.Raw | None) -> str:
    """Return a JSON string's text, any other value's JSON, or nothing."""
    if not raw or bytes(raw) == b"null":
        return ""
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.MsgspecError:
        return bytes(raw).decode()


def _sentence(said: _Engine | None, body: bytes) -> str:
    if said is None:
        text = body.decode(errors="replace").strip()
    else:
        text = said.error if isinstance(said.error, str) else said.message or _text(said.detail)
    return text[:_LONGEST_TEXT] or "The engine refused the request and did not say why."
