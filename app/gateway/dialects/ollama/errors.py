"""Errors in Ollama's shape."""

import msgspec

from app.gateway.dialects.record import Fault


class OllamaError(msgspec.Struct, frozen=True):
    """Ollama's error document, and the last line of a stream of its that cannot go on."""

    error: str


def shape(fault: Fault) -> OllamaError:
    """Return the document."""
    return OllamaError(fault.message)
