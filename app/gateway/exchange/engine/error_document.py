"""What an engine says instead of an answer, understood: whose mistake it is, and which.

llama-server sends `{"error": {"code": 400, "message", "type"}}`, MLX-LM `{"error": "text"}`, FastAPI engines
`{"detail": ...}`, and a server in trouble plain text. llama-server answers several mistakes of the caller with 500 or
501, which clients repeat in vain; each is known by its words, as the pinned build writes them. So is a context that is
too short, for which every engine has a body of its own.
"""

import re
from typing import NamedTuple

import msgspec

from app.gateway.canonical.overflow import ContextOverflow, Overflow
from app.gateway.exchange.engine.engine_words import plain_sentence
from app.gateway.exchange.engine.overflow import overflow_in

_CONTEXT_TYPE = "exceed_context_size_error"
"""llama-server's word for OpenAI's `context_length_exceeded`, which editors look for."""
NO_REASON = "The engine refused the request and did not say why."
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


class EngineRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's refusal. `overflow` is there when the prompt was too long, with what the engine told of it."""

    status: int
    message: str
    code: str | int | None = None
    param: str | None = None
    overflow: Overflow | None = None
    kind: str = ""
    """Its own word for the type of error, where that is kept."""
    extra: dict[str, msgspec.Raw] = {}
    """Whatever else it said."""

    @property
    def text(self) -> str:
        """The message, or that there is none."""
        return self.message or NO_REASON


_NOTHING = msgspec.Raw()


class _EngineError(msgspec.Struct, frozen=True):
    error: dict[str, msgspec.Raw] | str | None = None
    detail: msgspec.Raw = _NOTHING
    message: str = ""


def parse_refusal(body: bytes, status: int) -> EngineRefusal:
    """Return what an engine's error document means."""
    document = _decode_document(body)
    error = document.error if document is not None and isinstance(document.error, dict) else None
    if error is None or "message" not in error:
        return _classify_refusal(
            EngineRefusal(status=status, message=_error_sentence(document, body), code="engine_error")
        )
    message, kind = _text_in(error["message"]), _text_in(error.get("type"))
    if kind == _CONTEXT_TYPE or _text_in(error.get("code")) == ContextOverflow.default_code:
        told = overflow_in(message) or Overflow()
        prompt, context = _integer_in(error.get("n_prompt_tokens")), _integer_in(error.get("n_ctx"))
        told = msgspec.structs.replace(told, prompt=prompt or told.prompt, context=context or told.context)
        return _overflow_refusal(EngineRefusal(status=status, message=message, extra=error), told)
    param = _text_in(error.get("param")) or _field_of(message)
    return _classify_refusal(
        EngineRefusal(status=status, message=message, code=_error_code(error), param=param, kind=kind, extra=error)
    )


def _field_of(message: str) -> str | None:
    found = _FIELD.match(message)
    return found[1] if found else None


def _classify_refusal(refused: EngineRefusal) -> EngineRefusal:
    """Return the refusal with the mistake found that its words tell of, if they tell of one of the caller's."""
    overflow = overflow_in(refused.message)
    if overflow is not None:
        return _overflow_refusal(refused, overflow)
    if refused.status >= _SERVER_ERROR:
        for pattern, mistake in _MISTAKES:
            if pattern.search(refused.message):
                changed = {"status": _BAD_REQUEST, "code": mistake.code, "param": mistake.param, "kind": ""}
                refused = msgspec.structs.replace(refused, **changed)
                break
    return msgspec.structs.replace(refused, message=plain_sentence(refused.message))


def _overflow_refusal(refused: EngineRefusal, overflow: Overflow) -> EngineRefusal:
    code = ContextOverflow.default_code
    return msgspec.structs.replace(refused, status=_BAD_REQUEST, code=code, param=None, kind="", overflow=overflow)


def _decode_document(body: bytes) -> _EngineError | None:
    try:
        return msgspec.json.decode(body, type=_EngineError)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _error_code(told: dict[str, msgspec.Raw]) -> str | int | None:
    number = _integer_in(told.get("code"))
    return number if number is not None else _text_in(told.get("code")) or None


def _integer_in(raw: msgspec.Raw | None) -> int | None:
    try:
        return msgspec.json.decode(raw, type=int) if raw else None
    except msgspec.MsgspecError:
        return None


def _text_in(raw: msgspec.Raw | None) -> str:
    """Return a JSON string's text, any other value's JSON, or nothing."""
    if not raw or bytes(raw) == b"null":
        return ""
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.MsgspecError:
        return bytes(raw).decode()


def _error_sentence(said: _EngineError | None, body: bytes) -> str:
    """Return what an engine says that does not say it as OpenAI's do; "" for nothing at all."""
    if said is None:
        text = body.decode(errors="replace").strip()
    else:
        text = said.error if isinstance(said.error, str) else said.message or _text_in(said.detail)
    return text[:_LONGEST_TEXT]
