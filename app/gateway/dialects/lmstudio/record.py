"""LM Studio's dialects: /api/v0, with errors in OpenAI's shape, and /api/v1, with errors in its own."""

from app.gateway.dialects.lmstudio.errors import shape
from app.gateway.dialects.openai import errors
from app.gateway.dialects.openai.record import TOO_MANY
from app.gateway.dialects.record import DialectName, DialectRecord

LM_STUDIO_V0 = DialectRecord(
    name=DialectName.LM_STUDIO, shape=errors.shape, prefixes=("/api/v0/",), overloaded=TOO_MANY
)
LM_STUDIO_V1 = DialectRecord(name=DialectName.LM_STUDIO, shape=shape, prefixes=("/api/v1/",), overloaded=TOO_MANY)
