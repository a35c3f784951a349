"""Answers that go on with the assistant's last turn, from an engine that repeats that turn before a whole answer.

A stream holds only what is new. A whole answer is the fold of its stream, so it holds no more.
"""

from collections.abc import Sequence

import msgspec


class AssistantPrefill(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation ends with that the model goes on with: the turn's pieces of text, and its reasoning."""

    texts: tuple[str, ...] = ()
    thinking: str = ""

    def new_text(self, text: str) -> str:
        """Return what follows the turn's text; all of it, if the engine did not repeat that."""
        return _text_after(text, self.texts)

    def new_thinking(self, thinking: str) -> str:
        """Return what follows the turn's reasoning. White space, which templates put behind it, is nothing new."""
        rest = _text_after(thinking, (self.thinking,))
        return rest if rest.strip() else ""


NOTHING = AssistantPrefill()


def _text_after(text: str, pieces: Sequence[str]) -> str:
    """Return what follows these pieces, between which engines put lines of their own."""
    at = 0
    for piece in pieces:
        rest = text[at:]
        gap = 0 if rest.startswith(piece) else len(rest) - len(rest.lstrip())
        if not rest.startswith(piece, gap):
            return text
        at += gap + len(piece)
    return text[at:]
