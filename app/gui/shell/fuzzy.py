"""How well typed letters fit a title: every letter in order; starts of words and runs of letters count more."""

from collections.abc import Iterable

from app.gui.shell.contract import Command

_WORD_START = 8
_RUN = 5
_LETTER = 1
_GAP_COST = 1
_LONGEST_GAP = 3
_WHOLE = 12
"""What is typed stands in the title as it is."""


def score_match(query: str, title: str) -> int | None:
    """Return how well `query` fits `title`; None if it does not. Case and spaces in the query are ignored."""
    letters = [letter for letter in query.casefold() if not letter.isspace()]
    text = title.casefold()
    fits = [
        fit
        for fit in (_score_walk(letters, text, jump=True), _score_walk(letters, text, jump=False))
        if fit is not None
    ]
    whole = _WHOLE if " ".join(query.casefold().split()) in text else 0
    return max(fits) + whole - min(len(text) // 16, 3) if fits else None


def rank_commands(query: str, commands: Iterable[Command]) -> list[Command]:
    """Return the commands that fit, best first; all of them in their order when nothing was typed."""
    if not query.strip():
        return list(commands)
    scored = [(score_match(query, command.title), command) for command in commands]
    fitting = [(points, command) for points, command in scored if points is not None]
    return [command for _, command in sorted(fitting, key=lambda pair: -pair[0])]


def _score_walk(letters: list[str], text: str, *, jump: bool) -> int | None:
    """Place the letters one after the other; with `jump`, at the next start of a word where there is one."""
    total, last = 0, -2
    for letter in letters:
        place = text.find(letter, max(last + 1, 0))
        if place < 0:
            return None
        if jump and place != last + 1:
            place = _word_start(text, letter, place)
        total += _letter_points(text, place, last)
        last = place
    return total


def _word_start(text: str, letter: str, place: int) -> int:
    starts = (at for at in range(place, len(text)) if text[at] == letter and (at == 0 or not text[at - 1].isalnum()))
    return next(starts, place)


def _letter_points(text: str, place: int, last: int) -> int:
    points = _LETTER
    if place == last + 1:
        points += _RUN
    elif place == 0 or not text[place - 1].isalnum():
        points += _WORD_START
    elif last >= 0:
        points -= min(place - last - 1, _LONGEST_GAP) * _GAP_COST
    return points
