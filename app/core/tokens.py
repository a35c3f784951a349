"""How many tokens a text has, where nobody has the model's tokenizer at hand."""

import math
from typing import Annotated

import msgspec

BYTES_PER_TOKEN = 4
"""Of UTF-8: measured for text and code with large vocabularies (`app.gateway.exchange.token_count` says on what)."""


def estimate_text_tokens(text: str) -> int:
    """Return about how many tokens a model reads for a text."""
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


LONGEST_COUNTED = 1_000_000
"""Characters; longer texts are estimated."""


class CountText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask how many tokens a text is to a model."""

    model: str
    text: Annotated[str, msgspec.Meta(max_length=LONGEST_COUNTED)]


class TextTokens(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens a text is by itself; an estimate where the model is not loaded or its engine cannot count."""

    tokens: int
    is_estimate: bool = True
