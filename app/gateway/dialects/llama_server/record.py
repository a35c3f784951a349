"""llama-server's own routes, and Cohere's, whose errors look like OpenAI's."""

import msgspec

from app.core.errors import Overloaded
from app.gateway.dialects.openai.record import about
from app.gateway.dialects.record import DialectName

LLAMA_SERVER_DIALECT = msgspec.structs.replace(
    about("prompt"),
    name=DialectName.LLAMA_SERVER,
    paths=frozenset({"/infill", "/tokenize", "/detokenize", "/apply-template", "/rerank", "/reranking", "/v2/rerank"}),
    overloaded=Overloaded.status,
)
