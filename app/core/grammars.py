"""Whether a text is a grammar in llama.cpp's form (GBNF) that answers can be held to, and if not, in which line.

    root ::= "yes" | "no" because?
    because ::= ", because " [a-z ]+

What llama.cpp refuses or never comes back from is refused here too: rules that are missing or defined nowhere, a
missing `root`, and rules that begin with themselves. Held against its reader (`tests/end_to_end/test_grammars.py`).
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from app.core.errors import BadRequest, quote_value
from app.core.json_schemas import MOST_FORM_CHARS, MOST_NESTED, form_error

_NAME = re.compile(r"[A-Za-z0-9-]+")
_BLANK = re.compile(r"(?:[ \t]|#[^\r\n]*)*+")
_BLANK_LINES = re.compile(r"(?:\s|#[^\r\n]*)*+")
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_CLASS = re.compile(r"\[(?:[^\]\\]|\\.)*+(?P<end>\]?)", re.DOTALL)
"""Also of a set that does not end, whose `end` is empty: so no search looks through the rest again and again."""
_ESCAPE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[trn\\\"\[\]])|\\")
_TOKEN = re.compile(r"!?<(?:\[\d{1,9}\]|[^<>\s]{1,200})>")
_COUNT = re.compile(r"\{[ \t]*+(\d{1,9}+)[ \t]*+(?:(,)[ \t]*+(?:(\d{1,9}+)[ \t]*+)?)?\}")
_DEFINE = "::="
_TOKEN_BEGINS = frozenset("<!")
_SIGNS = frozenset("*+?")
_ENDLESS = "what may be nothing cannot be repeated without end."
MOST_REPEATED = 2000
"""llama.cpp refuses to write more repetitions out."""


class _Symbol(NamedTuple):
    """What stands in a sequence: a rule by its name (a group has one of its own), or characters, without a name."""

    name: str
    at: int
    may_be_nothing: bool = False
    is_endless: bool = False
    """Whether it is repeated without end."""


_Sequence = list[_Symbol]


def check_grammar(text: str) -> None:
    """Return if answers can be held to a grammar. Raises BadRequest with the line in which it is wrong."""
    if len(text) > MOST_FORM_CHARS:
        raise form_error("grammar", 0, f"it has more than {MOST_FORM_CHARS:,} characters.")
    _RuleChecker(text, _GrammarReader(text).read_rules()).check_rules()


class _GrammarReader:
    """Reads a grammar from its beginning to its end, as its reader in llama.cpp does. Raises BadRequest."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0
        self._rules: dict[str, list[_Sequence]] = {}

    def read_rules(self) -> dict[str, list[_Sequence]]:
        """Return the alternatives of every rule and group."""
        self._skip(_BLANK_LINES)
        while self._at < len(self._text):
            self._read_rule()
            self._skip(_BLANK_LINES)
        return self._rules

    def _read_rule(self) -> None:
        name = self._read_name()
        self._skip(_BLANK)
        if not self._text.startswith(_DEFINE, self._at):
            raise self._error(f"after the name {quote_value(name)} comes `::=`.")
        self._at += len(_DEFINE)
        self._skip(_BLANK_LINES)
        self._rules[name] = self._read_alternatives(is_nested=False)
        if self._at < len(self._text) and self._text[self._at] not in "\r\n":
            raise self._error(f"{quote_value(self._text[self._at])} does not belong here.")

    def _read_name(self) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            raise self._error("a rule begins with a name of letters, digits and hyphens.")
        self._at = match.end()
        return match[0]

    def _read_alternatives(self, *, is_nested: bool) -> list[_Sequence]:
        alternatives = [self._read_sequence(is_nested=is_nested)]
        while self._text.startswith("|", self._at):
            self._at += 1
            self._skip(_BLANK_LINES)
            alternatives.append(self._read_sequence(is_nested=is_nested))
        return alternatives

    def _read_sequence(self, *, is_nested: bool) -> _Sequence:
        sequence: _Sequence = []
        blank = _BLANK_LINES if is_nested else _BLANK
        while (symbol := self._read_symbol()) is not None:
            self._skip(blank)
            while (repetition := self._read_repetition(symbol)) is not None:
                symbol = repetition
                self._skip(blank)
            sequence.append(symbol)
        return sequence

    def _read_symbol(self) -> _Symbol | None:
        """Return what stands here; None at the end of a sequence."""
        start, sign = self._at, self._text[self._at : self._at + 1]
        if sign == '"':
            literal = self._read_marked(_LITERAL, "a text ends with a quotation mark.")
            return _Symbol("", start, may_be_nothing=literal == '""')
        if sign == "[":
            self._read_marked(_CLASS, "a set of characters ends with `]`.")
        elif sign in _TOKEN_BEGINS:
            self._read_marked(_TOKEN, "a token is written as <[1000]> or <name>.")
        elif sign == "(":
            return self._read_group()
        elif sign == ".":
            self._at += 1
        else:
            return _Symbol(self._read_name(), start) if _NAME.match(self._text, start) else None
        return _Symbol("", start)

    def _read_marked(self, pattern: re.Pattern[str], otherwise: str) -> str:
        match = pattern.match(self._text, self._at)
        if match is None or match.groupdict().get("end") == "":
            raise self._error(otherwise)
        for escape in _ESCAPE.finditer(match[0]) if pattern is not _TOKEN else ():
            if escape[0] == "\\":
                sign = match[0][escape.end() : escape.end() + 1]
                raise self._error(f'\\{sign} is no escape: they are \\n \\t \\r \\\\ \\" \\[ \\] \\x41 \\u0041.')
        self._at = match.end()
        return match[0]

    def _read_group(self) -> _Symbol:
        start = self._at
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise self._error(f"it is nested more than {MOST_NESTED} levels deep.")
        self._at += 1
        self._skip(_BLANK_LINES)
        alternatives = self._read_alternatives(is_nested=True)
        if not self._text.startswith(")", self._at):
            self._at = start
            raise self._error("this parenthesis is not closed.")
        self._at += 1
        self._depth -= 1
        name = f"({start}"
        self._rules[name] = alternatives
        return _Symbol(name, start)

    def _read_repetition(self, symbol: _Symbol) -> _Symbol | None:
        """Return what a sign of repetition makes of the symbol before it; None if there is none."""
        sign = self._text[self._at : self._at + 1]
        if sign in _SIGNS:
            self._refuse_endless(symbol, is_endless=sign != "?")
            self._at += 1
            return symbol._replace(
                may_be_nothing=symbol.may_be_nothing or sign != "+", is_endless=symbol.is_endless or sign != "?"
            )
        return self._read_count(symbol) if sign == "{" else None

    def _read_count(self, symbol: _Symbol) -> _Symbol:
        match = _COUNT.match(self._text, self._at)
        if match is None:
            raise self._error("a count is written as {3}, {3,} or {3,5}.")
        least, most = int(match[1]), int(match[3] or match[1])
        if most < least:
            raise self._error(f"{match[0]} repeats more often than allowed.")
        if max(least, most) > MOST_REPEATED:
            raise self._error(f"{match[0]} repeats more than {MOST_REPEATED:,} times.")
        is_endless = match[2] is not None and match[3] is None
        self._refuse_endless(symbol, is_endless=is_endless)
        self._at = match.end()
        return symbol._replace(
            may_be_nothing=symbol.may_be_nothing or not least, is_endless=symbol.is_endless or is_endless
        )

    def _refuse_endless(self, symbol: _Symbol, *, is_endless: bool) -> None:
        if is_endless and symbol.may_be_nothing:
            raise self._error(_ENDLESS)

    def _skip(self, blank: re.Pattern[str]) -> None:
        match = blank.match(self._text, self._at)
        self._at = match.end() if match is not None else self._at

    def _error(self, sentence: str) -> BadRequest:
        return _error_at(self._text, self._at, sentence)


class _RuleChecker:
    """Looks at how the rules of a grammar refer to each other."""

    def __init__(self, text: str, rules: Mapping[str, list[_Sequence]]) -> None:
        self._text, self._rules = text, rules
        self._empty = self._rules_of_nothing()

    def check_rules(self) -> None:
        """Return if all of them are there and none begins with itself. Raises BadRequest."""
        for symbol in self._symbols():
            if symbol.name and symbol.name not in self._rules:
                raise _error_at(self._text, symbol.at, f"there is no rule {quote_value(symbol.name)}.")
            if symbol.is_endless and symbol.name in self._empty:
                raise _error_at(self._text, symbol.at, _ENDLESS)
        if "root" not in self._rules:
            raise form_error("grammar", 0, 'it has no rule named root. For example: root ::= "yes" | "no"')
        self._check_recursion()

    def _symbols(self) -> Iterator[_Symbol]:
        return (symbol for rule in self._rules.values() for sequence in rule for symbol in sequence)

    def _rules_of_nothing(self) -> set[str]:
        """Return the rules that may come to nothing, each sequence looked at once for every name in it."""
        empty: set[str] = set()
        remaining_counts: dict[tuple[str, int], int] = {}
        sequences_with: dict[str, list[tuple[str, int]]] = {}
        for name, rule in self._rules.items():
            for place, sequence in enumerate(rule):
                needed_names = [symbol.name for symbol in sequence if not symbol.may_be_nothing]
                remaining_counts[name, place] = len(needed_names)
                for needed_name in needed_names:
                    sequences_with.setdefault(needed_name, []).append((name, place))
        ready = [name for (name, _), count in remaining_counts.items() if not count]
        while ready:
            name = ready.pop()
            if name in empty:
                continue
            empty.add(name)
            for key in sequences_with.get(name, ()):
                remaining_counts[key] -= 1
                if not remaining_counts[key]:
                    ready.append(key[0])
        return empty

    def _first_symbols(self, name: str) -> Iterator[_Symbol]:
        """Yield what a rule may begin with."""
        for sequence in self._rules[name]:
            for symbol in sequence:
                if symbol.name:
                    yield symbol
                if not symbol.may_be_nothing and symbol.name not in self._empty:
                    break

    def _check_recursion(self) -> None:
        """Go along what rules begin with, without Python's own recursion: chains may be long."""
        is_left: dict[str, bool] = {}  # False while the rule is being gone through
        for start in self._rules:
            stack = [] if start in is_left else [(start, self._first_symbols(start))]
            is_left.setdefault(start, False)
            while stack:
                name, symbols = stack[-1]
                symbol = next(symbols, None)
                if symbol is None:
                    is_left[name] = True
                    stack.pop()
                elif is_left.get(symbol.name) is False:
                    raise _error_at(
                        self._text, symbol.at, "a rule may not begin with itself, not through others either."
                    )
                elif symbol.name not in is_left:
                    is_left[symbol.name] = False
                    stack.append((symbol.name, self._first_symbols(symbol.name)))


def _error_at(text: str, at: int, sentence: str) -> BadRequest:
    return form_error("grammar", text.count("\n", 0, at) + 1, sentence)
