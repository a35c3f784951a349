"""Ollama's dialect: everything below /api that is not LM Studio's, its errors, and its words for a long prompt."""

import msgspec

from app.gateway.canonical.events import Overflow
from app.gateway.dialects.record import DialectFault, DialectName, DialectRecord


class OllamaError(msgspec.Struct, frozen=True):
    """Ollama's error document, and the last line of a stream of its that cannot go on."""

    error: str


def shape_error(fault: DialectFault) -> OllamaError:
    """Return the document."""
    return OllamaError(fault.message)


def too_long(overflow: Overflow) -> str:
    """Return Ollama's own words, and the counts after them."""
    sentence = "the input length exceeds the context length"
    if overflow.context is None:
        return sentence
    sentence = f"{sentence}: this model's maximum context length is {overflow.context} tokens"
    if overflow.prompt is None:
        return sentence
    answer = "" if overflow.answer is None else f" and the answer may have {overflow.answer}"
    return f"{sentence}, and the prompt has {overflow.prompt}{answer}"


OLLAMA_DIALECT = DialectRecord(
    name=DialectName.OLLAMA, shape=shape_error, too_long=too_long, prefixes=("/api/",), charset="utf-8"
)
