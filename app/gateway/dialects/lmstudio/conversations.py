"""Conversations kept so that a client can go on with one by the id of an answer. In memory, so a restart forgets them.

Bounded by their number and by the text and pictures in them; those not used for longest are forgotten first.
"""

import secrets
from collections import OrderedDict
from typing import NamedTuple

from app.core.errors import NotFound
from app.gateway.canonical.request import Image, Message, Text
from app.gateway.dialects.lmstudio.requests import RESPONSE_PREFIX, Earlier

_MOST = 1024
_MOST_CHARACTERS = 64 * 1024 * 1024
"""Counted once per answer, although answers of one conversation share their turns: so it is an upper bound."""
_ID_BYTES = 24


class _Kept(NamedTuple):
    talk: Earlier
    characters: int


class Remembered:
    """Conversations by the id of their last answer. Belongs to the event loop's thread."""

    def __init__(self, *, most: int = _MOST, most_characters: int = _MOST_CHARACTERS) -> None:
        self._most, self._most_characters = most, most_characters
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._characters = 0

    def find(self, response_id: str) -> Earlier:
        """Return the conversation up to an answer. Raises NotFound."""
        kept = self._kept.get(response_id)
        if kept is None:
            raise NotFound(
                "No earlier response of that id is kept.",
                hint="Send the conversation again; responses are forgotten when Roundhouse restarts.",
                code="previous_response_not_found",
            )
        self._kept.move_to_end(response_id)
        return kept.talk

    def keep(self, response_id: str, talk: Earlier) -> None:
        """Keep a conversation, if it is not larger than all that may be kept."""
        size = len(talk.system) + sum(map(_size, talk.turns))
        if size > self._most_characters:
            return
        self._kept[response_id] = _Kept(talk, size)
        self._characters += size
        while len(self._kept) > self._most or self._characters > self._most_characters:
            _, forgotten = self._kept.popitem(last=False)
            self._characters -= forgotten.characters


def new_response_id() -> str:
    """Return an id that nobody can guess."""
    return RESPONSE_PREFIX + secrets.token_hex(_ID_BYTES)


def _size(turn: Message) -> int:
    return sum(
        len(part.text) if isinstance(part, Text) else len(part.data) if isinstance(part, Image) else 0
        for part in turn.parts
    )
