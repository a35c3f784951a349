"""Anthropic's dialect: its own routes, and wherever below /v1 a client names the version of Anthropic's API."""

from app.gateway.dialects.anthropic.errors import OVERLOADED, shape, too_long
from app.gateway.dialects.record import DialectName, DialectRecord

ANTHROPIC_DIALECT = DialectRecord(
    name=DialectName.ANTHROPIC,
    shape=shape,
    too_long=too_long,
    prefixes=("/v1/messages",),
    header="anthropic-version",
    shared=("/v1/",),
    overloaded=OVERLOADED,
    unavailable=OVERLOADED,
)
