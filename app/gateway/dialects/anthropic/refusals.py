"""An engine's refusal in Anthropic's shape, and in its words where the prompt is too long."""

from app.gateway.dialects.anthropic.errors import AnthropicErrorBody, anthropic_error
from app.gateway.dialects.anthropic.record import ANTHROPIC_DIALECT
from app.gateway.exchange.engine.error_document import Refused


def refusal_document(refused: Refused, request_id: str | None = None) -> AnthropicErrorBody:
    """Return the document."""
    return anthropic_error(ANTHROPIC_DIALECT.words(refused.text, refused.overflow), refused.status, request_id)
