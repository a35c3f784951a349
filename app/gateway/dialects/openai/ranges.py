"""What OpenAI's document says the fields of chats and completions may be, which llama.cpp answers over."""

from typing import Annotated

import msgspec

Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
Temperature = Annotated[float, msgspec.Meta(ge=0, le=2)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Answers = Annotated[float, msgspec.Meta(ge=1)]
Most = Annotated[float, msgspec.Meta(ge=-1)]
"""LM Studio's manual writes -1 for no limit, and some clients write 512.0."""
Bias = dict[str, Annotated[float, msgspec.Meta(ge=-100, le=100)] | bool] | list[tuple[int | str, float | bool]]
"""By token; llama.cpp's own form is a list of pairs, and `false` there is never."""


def without_empty(stop: str | list[str] | None) -> list[str] | None:
    """Return the stop sequences that can end an answer, None where there are no others: llama.cpp finds "" at once."""
    if stop == "" or (isinstance(stop, list) and "" in stop):
        return [text for text in stop if text]
    return None
