"""Strings on which a regular expression does the most work, made from its own parse tree.

A backtracking matcher is slow where a repetition can end in many places, or where a search begins anew at every
character. So for each repetition there is a string with what leads up to it, what it repeats many times over, and an
end at which the match fails; and one for each pair of repetitions that follow each other.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from re import _constants as sre  # the parser's vocabulary has no public name
from re import _parser as sre_parser
from typing import Any, NamedTuple

_ALPHABET = "a0 -.:/\"'\\[{(<\n`=_1A|xé\x00!>)}]"
"""What a class is tried with, the likeliest first."""
_ENDS = ("", "\x00", "!", "a", "\n")
_CATEGORIES = {
    sre.CATEGORY_DIGIT: "0",
    sre.CATEGORY_WORD: "a",
    sre.CATEGORY_SPACE: " ",
    sre.CATEGORY_NOT_DIGIT: "a",
    sre.CATEGORY_NOT_WORD: "-",
    sre.CATEGORY_NOT_SPACE: "a",
}
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_MOST_SHORT = 64
"""A repetition of at most so many is no loop."""
_MOST_PUMPS = 4


class PatternShape(NamedTuple):
    """What the strings for a pattern are made of: its loops, each with a text before it, and a text it may match."""

    loops: tuple[tuple[str, str], ...]
    whole: str


@cache
def _shape_of(pattern: re.Pattern[Any]) -> PatternShape:
    """Return the same for every length: parsing takes longer than most matches."""
    items = list(sre_parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))
    return PatternShape(tuple(dict.fromkeys(_iter_loops(items, ""))), _sample(items))


def strings_for(pattern: re.Pattern[Any], length: int) -> Iterator[str]:
    """Yield strings of about that many characters."""
    loops, whole = _shape_of(pattern)
    for prefix, pump in loops:
        for end in _ENDS:
            yield prefix + pump * (length // len(pump)) + end
        yield (prefix + pump) * (length // len(prefix + pump))
    for (prefix, first), (_, second) in pairwise(loops):
        half = length // 2
        yield prefix + first * (half // len(first)) + second * (half // len(second)) + "\x00"
    for unit in dict.fromkeys((whole[:-1] or "a", whole or "a", whole[:1] or "a")):
        yield unit * (length // len(unit))


def _iter_loops(items: list[Any], before: str) -> Iterator[tuple[str, str]]:
    """Yield each repetition with a text that leads up to it and the texts it may repeat."""
    for operator, argument in items:
        if operator in _REPEATS:
            _, most, body = argument
            if most == sre.MAXREPEAT or most > _MOST_SHORT:
                for pump in _pumps(list(body)):
                    yield before, pump
            yield from _iter_loops(list(body), before)
        for inner in _bodies(operator, argument):
            yield from _iter_loops(list(inner), before)
        before += _sample([(operator, argument)])


def _bodies(operator: object, argument: Any) -> list[Any]:  # noqa: ANN401 -- the parser's values are untyped
    if operator is sre.SUBPATTERN:
        return [argument[3]]
    if operator is sre.BRANCH:
        return list(argument[1])
    if operator in {sre.ASSERT, sre.ASSERT_NOT}:
        return [argument[1]]
    return [argument] if operator is sre.ATOMIC_GROUP else []


def _pumps(items: list[Any]) -> list[str]:
    """Return different texts that a repeated body matches."""
    if len(items) == 1 and items[0][0] is sre.SUBPATTERN:
        return _pumps(list(items[0][1][3]))
    if len(items) == 1 and items[0][0] is sre.BRANCH:
        return [text for body in items[0][1][1] if (text := _sample(list(body)))] or ["a"]
    if len(items) == 1 and items[0][0] in {sre.IN, sre.ANY, sre.NOT_LITERAL, sre.CATEGORY}:
        return _members(items[0])[:_MOST_PUMPS] or ["a"]
    return [_sample(items) or "a"]


def _sample(items: list[Any]) -> str:
    """Return a short text that the items match, as far as that can be told from them alone."""
    return "".join(_sample_item(operator, argument) for operator, argument in items)


def _sample_item(operator: object, argument: Any) -> str:  # noqa: ANN401 -- the parser's values are untyped
    if operator is sre.LITERAL:
        return chr(argument)
    if operator in {sre.IN, sre.ANY, sre.NOT_LITERAL, sre.CATEGORY}:
        return _members((operator, argument))[0]
    if operator in _REPEATS:
        least, most, body = argument
        return _sample(list(body)) * int(max(least, min(1, most)))
    if operator in {sre.ASSERT, sre.ASSERT_NOT}:
        return ""
    bodies = _bodies(operator, argument)
    return _sample(list(bodies[0])) if bodies else ""


def _members(item: tuple[Any, Any]) -> list[str]:
    operator, argument = item
    if operator is sre.CATEGORY:
        return [_CATEGORIES.get(argument, "a")]
    if operator is sre.ANY:
        return list(_ALPHABET)
    if operator is sre.NOT_LITERAL:
        return [letter for letter in _ALPHABET if ord(letter) != argument]
    named_letters = [chr(value) for kind, value in argument if kind is sre.LITERAL]
    range_ends = [chr(value[0]) for kind, value in argument if kind is sre.RANGE]
    return list(_letters_in(_class_text(argument), "".join((_ALPHABET, *named_letters, *range_ends))))


@cache
def _letters_in(class_text: str, letters: str) -> tuple[str, ...]:
    """Return those of some letters that a class has, each once. The same classes stand in many patterns."""
    pattern = re.compile(class_text)
    return tuple(dict.fromkeys(filter(pattern.match, letters))) or ("a",)


_CLASS_NAMES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_NOT_WORD: r"\W",
    sre.CATEGORY_NOT_SPACE: r"\S",
}


def _class_text(parts: list[Any]) -> str:
    class_text = ""
    for kind, value in parts:
        if kind is sre.NEGATE:
            class_text += "^"
        elif kind is sre.LITERAL:
            class_text += re.escape(chr(value))
        elif kind is sre.RANGE:
            class_text += f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        else:
            class_text += _CLASS_NAMES[value]
    return f"[{class_text}]"
