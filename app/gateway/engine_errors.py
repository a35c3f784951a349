"""An engine's refusal in OpenAI's shape, with whatever else the engine said in it.

llama-server sends `{"error": {"code": 400, "message", "type"}}`, MLX-LM `{"error": "text"}`, FastAPI engines
`{"detail": ...}`, and a server in trouble plain text.
"""

import msgspec

from app.core.errors import ErrorBody
from app.gateway.faults import openai_error

_CONTEXT_TYPES = frozenset({"exceed_context_size_error"})
"""llama-server's word for OpenAI's `context_length_exceeded`, which editors look for."""
_LONGEST_TEXT = 2000


_NOTHING = msgspec.Raw()


class _Engine(msgspec.Struct, frozen=True):
    error: dict[str, msgspec.Raw] | str | None = None
    detail: msgspec.Raw = _NOTHING
    message: str = ""


def in_openai_shape(body: bytes, status: int) -> bytes:
    """Return the error document, always with message, type, param and code."""
    said = _decoded(body)
    if said is not None and isinstance(said.error, dict) and "message" in said.error:
        return msgspec.json.encode({"error": _completed(said.error, status)})
    return msgspec.json.encode(openai_error(ErrorBody(code="engine_error", sentence=_sentence(said, body)), status))


def _decoded(body: bytes) -> _Engine | None:
    try:
        return msgspec.json.decode(body, type=_Engine)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _completed(error: dict[str, msgspec.Raw], status: int) -> dict[str, object]:
    ours = openai_error(ErrorBody(code="engine_error", sentence=""), status).error
    complete: dict[str, object] = {"message": "", "type": ours.type, "param": None, "code": None, **error}
    if _text(error.get("type")) in _CONTEXT_TYPES:
        complete.update(type=ours.type, code="context_length_exceeded")
    return complete


def _text(raw: msgspec.Raw | None) -> str:
    """Return a JSON string's text, any other value's JSON, or nothing."""
    if not raw:
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
