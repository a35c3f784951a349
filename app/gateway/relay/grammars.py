"""Refuse what an engine cannot make a grammar of and live: one request would end it for everybody, or take all memory.

llama.cpp writes a list's repetitions out before it counts them: `maxItems` of a thousand million, which some programs
write for "any number", takes tens of GB. 1,000,000 take 0.1 GB and half a second (measured with llama.cpp b11549).
`grammar_triggers` is what its parts tell one another; a kind it does not know ends the process.
"""

import re

import msgspec

from app.core.errors import BadRequest
from app.gateway.entry.bodies import decode
from app.gateway.relay.remote_media import HIDDEN

MOST_ITEMS = 1_000_000
"""Of all lists of a request together."""
_COUNTS = re.compile(rb'"(?:min|max)Items"\s*:\s*(\d+(?:\.\d+)?(?:[eE]\+?\d+)?)')
_TRIGGERS = b'"grammar_triggers"'
_HIDDEN = re.compile(HIDDEN)


class _Inner(msgspec.Struct, frozen=True, kw_only=True):
    grammar_triggers: msgspec.Raw | None = None


def refuse_deadly_grammars(body: bytes) -> None:
    """Return if the request's grammars can be made. Raises BadRequest that says what is too much."""
    if _HIDDEN.search(body):
        body = msgspec.json.encode(decode(body, object))
    if sum(map(float, _COUNTS.findall(body))) > MOST_ITEMS:
        raise BadRequest(
            f"The schema's lists may have more than {MOST_ITEMS:,} items, for which no grammar is made.",
            hint="Leave out `maxItems` where any number will do.",
            code="invalid_value",
        )
    if _TRIGGERS in body and decode(body, _Inner).grammar_triggers is not None:
        raise BadRequest("`grammar_triggers` is not taken from clients.", code="unsupported_parameter")
