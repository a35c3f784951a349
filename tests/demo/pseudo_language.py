"""A language that is none, to see what a translation would do: accents, brackets, and 40 % more letters.

What stays plain on a picture is not translated, or is the gateway's; a text without its last bracket is cut off.
"""

import re
from gettext import NullTranslations

LONGER = 0.4
"""German and Finnish take about so much more room than English; short words take more."""
_ACCENTED = str.maketrans("AEIOUaeiouCNSYcnsyz", "ÅÉÎÕÜåéîõüÇÑŠÝçñšýž")
_PLACEHOLDER = re.compile(r"(\{[^}]*\})")
_FILLER, _WORD = "~", 8
"""Words of so many letters, so that what wraps can wrap."""


class PseudoLanguage(NullTranslations):
    """Translates every sentence by rule."""

    def gettext(self, message: str) -> str:
        return disguise(message)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return disguise(msgid1 if n == 1 else msgid2)


def disguise(sentence: str) -> str:
    """Return a sentence with accents and in brackets, longer than it was. Placeholders stay as they are."""
    parts = _PLACEHOLDER.split(sentence)
    accented_text = "".join(part if _PLACEHOLDER.fullmatch(part) else part.translate(_ACCENTED) for part in parts)
    missing_letters = round(LONGER * sum(len(part) for part in parts if not _PLACEHOLDER.fullmatch(part))) - 2
    filler = _FILLER * max(1, missing_letters)
    words = [filler[at : at + _WORD] for at in range(0, len(filler), _WORD)]
    return f"[{accented_text}{' ' if len(words) > 1 else ''}{' '.join(words)}]"
