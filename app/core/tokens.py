"""How many tokens a text has, where nobody has the model's tokenizer at hand."""

import math

BYTES_PER_TOKEN = 4
"""Of UTF-8: measured for text and code with large vocabularies (`app.gateway.exchange.token_count` says on what)."""


def estimate_text_tokens(text: str) -> int:
    """Return about how many tokens a model reads for a text."""
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)
