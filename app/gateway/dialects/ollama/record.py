"""Ollama's dialect: everything below /api that is not LM Studio's."""

from app.gateway.dialects.ollama.errors import shape
from app.gateway.dialects.record import DialectName, DialectRecord

OLLAMA_DIALECT = DialectRecord(name=DialectName.OLLAMA, shape=shape, prefixes=("/api/",), charset="utf-8")
