"""Pictures that an attached endpoint draws for a model: what a model may ask for, and what is read of the answer."""

from typing import Annotated, Literal

import msgspec

LONGEST_PROMPT = 4000
"""Characters; OpenAI's models take as many or more."""


class DrawPicture(msgspec.Struct, frozen=True):
    """What the picture shows, in words, and its width and height in pixels."""

    prompt: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_PROMPT)]
    size: Literal["256x256", "512x512", "1024x1024", "1536x1024", "1024x1536"] = "1024x1024"


class _Drawing(msgspec.Struct, frozen=True):
    b64_json: str | None = None
    url: str | None = None


class DrawingReply(msgspec.Struct, frozen=True):
    """An endpoint's answer, in OpenAI's form."""

    data: list[_Drawing] = []
