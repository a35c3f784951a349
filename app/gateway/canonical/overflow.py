"""A prompt that does not fit into the context, with its counts: every dialect has words of its own for it.

Programs that shorten a conversation and ask again look for those words, and for nothing else.
"""

import msgspec

from app.core.errors import BadRequest


class Overflow(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, None where nobody said. `answer` is what was asked for, where the prompt alone would have fitted."""

    context: int | None = None
    prompt: int | None = None
    answer: int | None = None


class ContextOverflow(BadRequest):
    """The prompt does not fit. Its sentence is for logs; clients are told in the words of their dialect."""

    default_code = "context_length_exceeded"

    def __init__(self, overflow: Overflow) -> None:
        super().__init__(_sentence(overflow), hint="Shorten it, or ask for a larger context.")
        self.overflow = overflow

    @property
    def prompt_tokens(self) -> int | None:
        """How long the prompt is."""
        return self.overflow.prompt

    @property
    def context(self) -> int | None:
        """How much the model keeps."""
        return self.overflow.context


def _sentence(overflow: Overflow) -> str:
    if overflow.prompt is None or overflow.context is None:
        return "The prompt is longer than the model's context."
    answer = "" if overflow.answer is None else f" and an answer of {overflow.answer}"
    return f"The prompt of {overflow.prompt} tokens{answer} exceeds the context length of {overflow.context}."
