"""OpenAI's dialect: everything below /v1 that is nobody else's, and whatever is no dialect's at all."""

from app.gateway.dialects.openai.errors import shape
from app.gateway.dialects.record import DialectName, DialectRecord

TOO_MANY = 429
"""What OpenAI's clients take for "not now"."""
UNVERSIONED = frozenset({"/chat/completions", "/completions", "/embeddings", "/models"})
"""What llama-server answers without the /v1 too, for clients that were given its address alone."""
OPENAI_DIALECT = DialectRecord(
    name=DialectName.OPENAI, shape=shape, prefixes=("/v1/",), paths=UNVERSIONED, overloaded=TOO_MANY
)
