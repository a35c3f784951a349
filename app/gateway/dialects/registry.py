"""Which dialect a request is made in."""

from collections.abc import Mapping

import msgspec

from app.gateway.dialects.anthropic.record import ANTHROPIC_DIALECT
from app.gateway.dialects.google.record import GOOGLE_DIALECT
from app.gateway.dialects.llama_server.record import LLAMA_SERVER_DIALECT
from app.gateway.dialects.lmstudio.record import LM_STUDIO_V0, LM_STUDIO_V0_TEXTS, LM_STUDIO_V0_VECTORS, LM_STUDIO_V1
from app.gateway.dialects.ollama.record import OLLAMA_DIALECT
from app.gateway.dialects.openai.record import OPENAI_DIALECT, OPENAI_TEXTS, OPENAI_VECTORS
from app.gateway.dialects.record import DialectFault, DialectName, DialectRecord
from app.gateway.dialects.responses.record import RESPONSES_DIALECT


def _bare_error(fault: DialectFault) -> msgspec.Struct:
    return fault.error


OWN_DIALECT = DialectRecord(
    name=DialectName.ROUNDHOUSE,
    shape=_bare_error,
    prefixes=("/roundhouse/",),
    paths=frozenset({"/", "/health", "/metrics"}),
)
_RECORDS = (
    ANTHROPIC_DIALECT,
    LM_STUDIO_V0_TEXTS,
    LM_STUDIO_V0_VECTORS,
    LM_STUDIO_V0,
    LM_STUDIO_V1,
    OLLAMA_DIALECT,
    LLAMA_SERVER_DIALECT,
    GOOGLE_DIALECT,
    RESPONSES_DIALECT,
    OPENAI_TEXTS,
    OPENAI_VECTORS,
    OWN_DIALECT,
)
"""The first that answers a request is its dialect: what is narrower comes first."""


def dialect_of(path: str, headers: Mapping[str, str]) -> DialectRecord:
    """Return the dialect of a request; OpenAI's, which most clients read, where nothing is at its address."""
    return next((record for record in _RECORDS if record.matches_request(path, headers)), OPENAI_DIALECT)
