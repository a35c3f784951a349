"""What comes in a stream before its first content: signs of life, and events that say no more than that it begins."""

import msgspec

_EVENT_ENDS = (b"\n\n", b"\r\n\r\n")
_DATA = b"data:"
_ANNOUNCEMENTS = frozenset({"message_start", "ping"})
"""Kinds of Anthropic's events."""
_NOTHING = frozenset({b'""', b"null", b"[]"})


class _Choice(msgspec.Struct, frozen=True):
    delta: dict[str, msgspec.Raw] | None = None
    text: str | None = None
    finish_reason: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it says who speaks at most."""
        words = [bytes(value) for name, value in (self.delta or {}).items() if name != "role"]
        return not self.text and self.finish_reason is None and _NOTHING.issuperset(words)


class _Event(msgspec.Struct, frozen=True):
    type: str = ""
    choices: list[_Choice] | None = None


_DECODER = msgspec.json.Decoder(_Event)


def is_sign_of_life(piece: bytes) -> bool:
    """Tell whether some of a stream is nothing but whole comments, which everybody passes over."""
    return piece.endswith(b"\n") and all(not line or line.startswith(b":") for line in piece.splitlines())


def has_content(piece: bytes) -> bool:
    """Tell whether some of a stream has more in it than the announcement of an answer. Half an event counts as more."""
    if not piece.endswith(_EVENT_ENDS):
        return True
    return any(_is_content(line[len(_DATA) :]) for line in piece.splitlines() if line.startswith(_DATA))


def _is_content(data: bytes) -> bool:
    try:
        event = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return True  # the last event of all, or nobody knows what
    if event.type in _ANNOUNCEMENTS:
        return False
    return not event.choices or not all(choice.is_empty for choice in event.choices)
