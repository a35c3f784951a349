"""llama-server's own routes, and Cohere's, whose errors look like OpenAI's."""

from app.gateway.dialects.openai.errors import shape
from app.gateway.dialects.record import DialectName, DialectRecord

LLAMA_SERVER_DIALECT = DialectRecord(
    name=DialectName.LLAMA_SERVER,
    shape=shape,
    paths=frozenset({"/infill", "/tokenize", "/detokenize", "/apply-template", "/rerank", "/reranking", "/v2/rerank"}),
)
