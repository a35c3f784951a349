"""Ollama's dialect: everything below /api that is not LM Studio's."""

from app.gateway.dialects.ollama.errors import shape, too_long
from app.gateway.dialects.record import DialectName, DialectRecord

OLLAMA_DIALECT = DialectRecord(
    name=DialectName.OLLAMA, shape=shape, too_long=too_long, prefixes=("/api/",), charset="utf-8"
)
