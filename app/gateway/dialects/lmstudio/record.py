"""LM Studio's dialects: /api/v0, with errors in OpenAI's shape, and /api/v1, with errors in its own."""

import msgspec

from app.gateway.dialects.lmstudio.errors import shape, too_long
from app.gateway.dialects.openai.record import OPENAI_DIALECT, TOO_MANY, about
from app.gateway.dialects.record import DialectName, DialectRecord


def _v0(openai: DialectRecord, path: str) -> DialectRecord:
    return msgspec.structs.replace(openai, name=DialectName.LM_STUDIO, prefixes=(f"/api/v0/{path}",), paths=frozenset())


LM_STUDIO_V0 = _v0(OPENAI_DIALECT, "")
LM_STUDIO_V0_TEXTS = _v0(about("prompt"), "completions")
LM_STUDIO_V0_VECTORS = _v0(about("input"), "embeddings")
LM_STUDIO_V1 = DialectRecord(
    name=DialectName.LM_STUDIO,
    shape=shape,
    too_long=too_long,
    field="input",
    prefixes=("/api/v1/",),
    overloaded=TOO_MANY,
)
