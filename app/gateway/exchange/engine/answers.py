"""What engines answer to small questions beside their work, read once for every dialect."""

from typing import TypeVar

import msgspec

from app.core.errors import EngineFailed

T = TypeVar("T")


class TokenizeReply(msgspec.Struct, frozen=True):
    """A text's tokens."""

    tokens: list[int]


class TemplateReply(msgspec.Struct, frozen=True):
    """A conversation as the model's template writes it."""

    prompt: str


def decode_reply(answer: bytes, kind: type[T]) -> T:
    """Return what an answer says. Raises EngineFailed (engine_nonsense) for one that is not as expected."""
    try:
        return msgspec.json.decode(answer, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EngineFailed(
            "The engine's answer could not be understood.", code="engine_nonsense", detail=str(error)
        ) from None
