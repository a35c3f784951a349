"""How many parts in a row a grammar leaves out at will, counting what its rules name and repeat.

An engine tries every way through such a chain at each token: `([a-z]?){0,40}` is one of 40, and so is a rule that names
another forty times. What is not in a row, or must be there, costs nothing; a rule that names itself is counted once.
Works on the text of a grammar (or of a regular expression) whose literals, sets and comments are `_` already.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

_TOKEN = re.compile(r"(?P<name>[A-Za-z0-9-]++)(?P<define>\s{0,99}+::=)?|(?P<count>\{[^{}]{0,40}\})|[()|?*+_.]")
_BOUNDS = re.compile(r"\{\s{0,9}+(\d{0,9}+)\s{0,9}+(,?+)\s{0,9}+(\d{0,9}+)\s{0,9}+\}")
_DEEPEST = 100
"""Parentheses in parentheses, and rules that name rules, are followed so far; what people write has ten."""


class _Chain(NamedTuple):
    """Of a piece of a grammar: whether all of it may be left out, and how long the chains in it are.

    `first` and `last` are those at its ends; of a piece that may be left out they are the same, the whole of it.
    """

    is_optional: bool
    first: int
    last: int
    longest: int


_FIXED = _Chain(is_optional=False, first=0, last=0, longest=0)
_NOTHING = _Chain(is_optional=True, first=0, last=0, longest=0)


class TooManyTokensError(Exception):
    """A grammar has more in it than is looked at."""


class ChainReader:
    """Measures the chains of the grammars and patterns of one request, and looks at `most_tokens` of all together."""

    def __init__(self, most_tokens: int) -> None:
        self._remaining_tokens = most_tokens

    def longest_chain(self, text: str, *, has_rules: bool = True) -> int:
        """Return the length of the longest chain. `has_rules`: words are names of rules, and not letters.

        Raises TooManyTokensError.
        """
        tokens = list(islice(_TOKEN.finditer(text), self._remaining_tokens + 1))
        self._remaining_tokens -= len(tokens)
        if self._remaining_tokens < 0:
            raise TooManyTokensError
        return _Reader(has_rules=has_rules).read_all(tokens)


class _Reader:
    """Reads the rules of one grammar."""

    def __init__(self, *, has_rules: bool) -> None:
        self._has_rules = has_rules
        self._rules: dict[str, Sequence[re.Match[str]]] = {}
        self._chains: dict[str, _Chain] = {}
        self._depth = 0

    def read_all(self, tokens: Sequence[re.Match[str]]) -> int:
        """Return the longest chain of any rule."""
        rule: list[re.Match[str]] = []
        self._rules[""] = rule
        for token in tokens:
            if token["define"] is not None:
                rule = self._rules[token["name"]] = []
            else:
                rule.append(token)
        return max(self._chain_of(name).longest for name in self._rules)

    def _chain_of(self, name: str) -> _Chain:
        if name not in self._chains:
            self._chains[name] = _FIXED  # while it is read: a rule that names itself goes on after something fixed
            self._chains[name] = self._read_choice(iter(self._rules.get(name, ())))
        return self._chains[name]

    def _read_choice(self, tokens: Iterator[re.Match[str]]) -> _Chain:
        """Read up to the closing parenthesis, or the end."""
        self._depth += 1
        choices, pieces = [], list[_Chain]()
        for token in tokens:
            sign = token[0]
            if sign == ")":
                break
            if sign == "|":
                choices.append(_join_row(pieces))
                pieces = []
            elif sign in _REPEATS or token["count"] is not None:
                if pieces:
                    pieces[-1] = _repeat(pieces[-1], sign)
            else:
                pieces.append(self._read_piece(token, tokens))
        self._depth -= 1
        return _join_choices([*choices, _join_row(pieces)])

    def _read_piece(self, token: re.Match[str], tokens: Iterator[re.Match[str]]) -> _Chain:
        if self._depth > _DEEPEST:
            return _FIXED
        if token[0] == "(":
            return self._read_choice(tokens)
        return self._chain_of(token[0]) if token["name"] is not None and self._has_rules else _FIXED


_REPEATS = frozenset("?*+")


def _repeat(piece: _Chain, sign: str) -> _Chain:
    """Return a piece that is repeated: what may be left out is one link more, as often as there is a bound."""
    bounds = _BOUNDS.fullmatch(sign)
    if bounds is None:
        return piece if sign == "+" else _leave_out(piece)
    least = int(bounds[1] or 0)
    most = int(bounds[3] or 0) if bounds[2] else least
    if piece.is_optional:
        length = piece.first * max(1, most)
        return _Chain(is_optional=True, first=length, last=length, longest=max(piece.longest, length))
    return piece if least else _leave_out(piece)


def _leave_out(piece: _Chain) -> _Chain:
    length = piece.first + 1 if piece.is_optional else max(1, piece.first, piece.last)
    return _Chain(is_optional=True, first=length, last=length, longest=max(piece.longest, length))


def _join_row(pieces: Sequence[_Chain]) -> _Chain:
    """Return pieces one after the other: chains that meet are one."""
    row = _NOTHING
    for piece in pieces:
        meeting_text = row.last + piece.first
        row = _Chain(
            is_optional=row.is_optional and piece.is_optional,
            first=row.first + piece.first if row.is_optional else row.first,
            last=row.last + piece.last if piece.is_optional else piece.last,
            longest=max(row.longest, piece.longest, meeting_text),
        )
    return row


def _join_choices(choices: Sequence[_Chain]) -> _Chain:
    """Return the choice between pieces: it may be left out if one may, and every chain in it is a way of its own."""
    if len(choices) == 1:
        return choices[0]
    is_optional = any(choice.is_optional for choice in choices)
    length = max(1, sum(choice.first for choice in choices if choice.is_optional))
    first = max(choice.first for choice in choices)
    last = max(choice.last for choice in choices)
    ends = (max(length, first), max(length, last)) if is_optional else (first, last)
    return _Chain(
        is_optional=is_optional, first=ends[0], last=ends[1], longest=max(*ends, *(each.longest for each in choices))
    )
