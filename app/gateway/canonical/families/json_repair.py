"""JSON as models write it: single quotes, trailing commas, bare keys, Python's words, and ends that are missing.

Strict JSON is read strictly. The rest is read by the one rule that leaves no doubt about what was meant; where there is
doubt, it is no JSON.
"""

import re
from collections.abc import Callable

import msgspec

_DEEPEST = 64
_SPACE = re.compile(r"\s*")
_BARE = re.compile(r"[A-Za-z_$][\w$.-]*|[-+]?[\d.][\w.+-]*")
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_UNICODE_DIGITS = 4
_QUOTES = {'"': '"', "'": "'", "\u201c": "\u201d"}


def loads(text: str) -> object:
    """Return what a JSON text says. Raises ValueError where that is in doubt."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        pass
    return _Lenient(text).whole()


def first(text: str) -> tuple[object, int]:
    """Return the first value in a text, and where it ends. Raises ValueError."""
    reader = _Lenient(text)
    value = reader.value()
    return value, reader.at


class _Lenient:
    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self.at = 0

    def whole(self) -> object:
        value = self.value()
        if self._peek():
            raise ValueError("something follows")
        return value

    def value(self) -> object:
        begins = self._peek()
        if begins == "{":
            return self._nested(self._members)
        if begins == "[":
            return self._nested(self._items)
        if begins in _QUOTES:
            return self._string(_QUOTES[begins])
        return self._bare()

    def _nested(self, read: Callable[[], object]) -> object:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("nested too deeply")
        self.at += 1
        value = read()
        self._depth -= 1
        return value

    def _members(self) -> dict[str, object]:
        found: dict[str, object] = {}
        while not self._closes("}"):
            key = self._string(_QUOTES[self._peek()]) if self._peek() in _QUOTES else self._key()
            if self._peek() != ":":
                if self._peek():
                    raise ValueError("a key without a value")
                break  # cut off in the middle of a key
            self.at += 1
            if not self._peek():
                break
            found[key] = self.value()
            self._separator("}")
        return found

    def _items(self) -> list[object]:
        found: list[object] = []
        while not self._closes("]"):
            found.append(self.value())
            self._separator("]")
        return found

    def _closes(self, mark: str) -> bool:
        begins = self._peek()
        if begins == mark:
            self.at += 1
        return begins in {mark, ""}

    def _separator(self, mark: str) -> None:
        begins = self._peek()
        if begins == ",":
            self.at += 1
        elif begins not in {mark, ""}:
            raise ValueError("a comma is missing")

    def _string(self, closing: str) -> str:
        self.at += 1
        said: list[str] = []
        while self.at < len(self._text):
            letter = self._text[self.at]
            self.at += 1
            if letter == closing:
                break
            said.append(self._escaped() if letter == "\\" else letter)
        return "".join(said)

    def _escaped(self) -> str:
        letter = self._text[self.at : self.at + 1]
        self.at += 1
        if letter != "u":
            return _ESCAPES.get(letter, letter)
        digits = self._text[self.at : self.at + _UNICODE_DIGITS]
        self.at += _UNICODE_DIGITS
        return chr(int(digits, 16))  # raises ValueError

    def _key(self) -> str:
        found = _BARE.match(self._text, self.at)
        if found is None:
            raise ValueError("not a key")
        self.at = found.end()
        return found[0]

    def _bare(self) -> object:
        word = self._key()
        if word in _WORDS:
            return _WORDS[word]
        return _number(word)

    def _peek(self) -> str:
        """Return the next character that is no space."""
        found = _SPACE.match(self._text, self.at)
        self.at = found.end() if found else self.at
        return self._text[self.at : self.at + 1]


def _number(word: str) -> int | float:
    try:
        return msgspec.json.decode(word.lstrip("+"), type=int | float)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None
