"""OpenAI's dialect: everything below /v1 that is nobody else's."""

from app.gateway.dialects.openai.errors import shape
from app.gateway.dialects.record import DialectName, DialectRecord

TOO_MANY = 429
"""What OpenAI's clients take for "not now"."""
OPENAI_DIALECT = DialectRecord(name=DialectName.OPENAI, shape=shape, prefixes=("/v1/",), overloaded=TOO_MANY)
