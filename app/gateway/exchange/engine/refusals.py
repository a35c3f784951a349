"""What an engine says instead of an answer, as an error of ours that every dialect can put into its own shape."""

from app.core.errors import BadRequest, EngineFailed, RoundhouseError, TooManyRequests, Unavailable
from app.gateway.canonical.overflow import ContextOverflow
from app.gateway.exchange.engine.error_document import parse_refusal

_SERVER_ERROR = 500
_UNAVAILABLE = 503
_NOT_IMPLEMENTED = 501
_LONGEST_TEXT = 2000


def error_from_refusal(body: bytes, status: int = _SERVER_ERROR, *, retry_after: str = "") -> RoundhouseError:
    """Return the error for an engine's error document, or for an error event in its stream (without a status).

    `retry_after` is what its header of that name said.
    """
    refusal = parse_refusal(body, status)
    if refusal.overflow is not None:
        return ContextOverflow(refusal.overflow)
    sentence = refusal.text.strip()[:_LONGEST_TEXT]
    status = refusal.code if isinstance(refusal.code, int) else refusal.status
    if status == _UNAVAILABLE:
        return Unavailable(sentence, code="engine_busy")
    if status == TooManyRequests.status:
        return TooManyRequests(sentence, code="engine_busy", retry_after=retry_after)
    if status < _SERVER_ERROR or status == _NOT_IMPLEMENTED:
        return BadRequest(sentence, code=str(refusal.code) if refusal.param and refusal.code else "engine_refused")
    return EngineFailed(sentence, code="engine_error")
