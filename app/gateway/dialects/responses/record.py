"""OpenAI's Responses: its dialect, with other words for a prompt that is too long."""

import msgspec

from app.gateway.dialects.openai.record import about
from app.gateway.dialects.responses.errors import too_long

RESPONSES_DIALECT = msgspec.structs.replace(about("input"), too_long=too_long, prefixes=("/v1/responses",))
