"""OpenAI's dialect: everything below /v1 that is nobody else's, and whatever is no dialect's at all."""

from functools import cache, partial

import msgspec

from app.gateway.dialects.openai.errors import shape, too_long
from app.gateway.dialects.record import DialectName, DialectRecord

TOO_MANY = 429
"""What OpenAI's clients take for "not now"."""
UNVERSIONED = frozenset({"/chat/completions", "/completions", "/embeddings", "/models"})
"""What llama-server answers without the /v1 too, for clients that were given its address alone."""


@cache
def about(field: str) -> DialectRecord:
    """Return OpenAI's dialect as routes speak it whose prompt is in that field of a request."""
    return DialectRecord(
        name=DialectName.OPENAI,
        shape=shape,
        too_long=partial(too_long, field=field),
        field=field,
        overloaded=TOO_MANY,
    )


OPENAI_DIALECT = msgspec.structs.replace(about("messages"), prefixes=("/v1/",), paths=UNVERSIONED)
OPENAI_TEXTS = msgspec.structs.replace(about("prompt"), paths=frozenset({"/v1/completions", "/completions"}))
OPENAI_VECTORS = msgspec.structs.replace(about("input"), paths=frozenset({"/v1/embeddings", "/embeddings"}))
