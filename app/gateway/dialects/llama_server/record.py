"""llama-server's own routes, and Cohere's, whose errors look like OpenAI's."""

import msgspec

from app.core.errors import Overloaded
from app.gateway.dialects.openai.record import dialect_for_field
from app.gateway.dialects.record import DialectName

LLAMA_SERVER_DIALECT = msgspec.structs.replace(
    dialect_for_field("prompt"),
    name=DialectName.LLAMA_SERVER,
    paths=frozenset(
        {
            *("/infill", "/tokenize", "/detokenize", "/apply-template", "/rerank", "/reranking", "/v2/rerank"),
            *("/props", "/models/load", "/models/unload", "/models/sse"),
        }
    ),
    overloaded=Overloaded.status,
)
