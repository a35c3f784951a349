"""Arguments of tool calls: read although their JSON is not quite right, and put as the tool's schema wants them.

Models write single quotes, trailing commas, bare keys and Python's words, and stop in the middle. Strict JSON is read
strictly; the rest by the one rule that leaves no doubt about what was meant, and where there is doubt, it is no JSON.
Of the values only what cannot be meant otherwise is changed: "5" where a number must be, a list written as text where a
list must be.
"""

import re
from collections.abc import Callable, Mapping

import msgspec

_DEEPEST_JSON = 64
_SPACE = re.compile(r"\s*")
_BARE = re.compile(r"[A-Za-z_$][\w$.-]*|[-+]?[\d.][\w.+-]*")
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_UNICODE_DIGITS = 4
_QUOTES = {'"': '"', "'": "'", "\u201c": "\u201d"}


def parse_json(text: str) -> object:
    """Return what a JSON text says. Raises ValueError where that is in doubt."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        pass
    return _LenientJson(text).whole()


def parse_first_json(text: str) -> tuple[object, int]:
    """Return the first value in a text, and where it ends. Raises ValueError."""
    reader = _LenientJson(text)
    value = reader.value()
    return value, reader.at


class _LenientJson:
    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: list[str] = []
        """What ends the objects and lists that are open. That of an outer ends the inner ones, too."""
        self.at = 0

    def whole(self) -> object:
        value = self.value()
        if self._peek():
            raise ValueError("something follows")
        return value

    def value(self) -> object:
        begins = self._peek()
        if begins == "{":
            return self._read_nested(self._members, "}")
        if begins == "[":
            return self._read_nested(self._items, "]")
        if begins in _QUOTES:
            return self._string(_QUOTES[begins])
        return self._bare()

    def _read_nested(self, read: Callable[[], object], end: str) -> object:
        self._ends.append(end)
        if len(self._ends) > _DEEPEST_JSON:
            raise ValueError("nested too deeply")
        self.at += 1
        value = read()
        self._ends.pop()
        return value

    def _members(self) -> dict[str, object]:
        members: dict[str, object] = {}
        while not self._take_close("}"):
            key = self._string(_QUOTES[self._peek()]) if self._peek() in _QUOTES else self._key()
            if self._peek() != ":":
                if self._peek():
                    raise ValueError("a key without a value")
                break  # cut off in the middle of a key
            self.at += 1
            if not self._peek():
                break
            members[key] = self.value()
            self._take_separator("}")
        return members

    def _items(self) -> list[object]:
        items: list[object] = []
        while not self._take_close("]"):
            items.append(self.value())
            self._take_separator("]")
        return items

    def _take_close(self, mark: str) -> bool:
        begins = self._peek()
        if begins == mark:
            self.at += 1
        return begins in {mark, ""} or begins in self._ends

    def _take_separator(self, mark: str) -> None:
        begins = self._peek()
        if begins == ",":
            self.at += 1
        elif begins not in {mark, ""} and begins not in self._ends:
            raise ValueError("a comma is missing")

    def _string(self, closing_tag: str) -> str:
        self.at += 1
        letters: list[str] = []
        while self.at < len(self._text):
            letter = self._text[self.at]
            self.at += 1
            if letter == closing_tag:
                break
            letters.append(self._read_escape() if letter == "\\" else letter)
        return "".join(letters)

    def _read_escape(self) -> str:
        letter = self._text[self.at : self.at + 1]
        self.at += 1
        if letter != "u":
            return _ESCAPES.get(letter, letter)
        digits = self._text[self.at : self.at + _UNICODE_DIGITS]
        self.at += _UNICODE_DIGITS
        return chr(int(digits, 16))  # raises ValueError

    def _key(self) -> str:
        match = _BARE.match(self._text, self.at)
        if match is None:
            raise ValueError("not a key")
        self.at = match.end()
        return match[0]

    def _bare(self) -> object:
        word = self._key()
        if word in _WORDS:
            return _WORDS[word]
        return _number(word)

    def _peek(self) -> str:
        """Return the next character that is no space."""
        match = _SPACE.match(self._text, self.at)
        self.at = match.end() if match else self.at
        return self._text[self.at : self.at + 1]


def _number(word: str) -> int | float:
    try:
        return msgspec.json.decode(word.lstrip("+"), type=int | float)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None


Schema = Mapping[str, object]
_DEEPEST_SCHEMA = 16
_NO_SCHEMA: Schema = {}


def decode_schema(raw: msgspec.Raw | None) -> Schema:
    """Return a JSON schema, empty where there is none that could be read."""
    try:
        return msgspec.json.decode(raw, type=dict[str, object]) if raw else _NO_SCHEMA
    except (msgspec.MsgspecError, RecursionError):
        return _NO_SCHEMA


def fit_arguments(arguments: Mapping[str, object], schema: Schema) -> dict[str, object]:
    """Return the arguments with their values' types mended."""
    arguments_fitted = _fit(dict(arguments), schema, SchemaScope(schema))
    return arguments_fitted if isinstance(arguments_fitted, dict) else dict(arguments)


class SchemaScope:
    """The document that references point into, and how far down a value lies."""

    def __init__(self, root: Schema, depth: int = 0) -> None:
        self._root = root
        self._depth = depth

    def one_deeper(self) -> "SchemaScope":
        """Return the scope of what lies inside a value."""
        return SchemaScope(self._root, self._depth + 1)

    def types_of(self, schema: Schema) -> frozenset[str]:
        """Return which types a value may have; empty for any."""
        return _types(schema, self)

    def resolve_reference(self, schema: object) -> Schema:
        """Return what a schema, or what it refers to, says; nothing where it is none or too far down."""
        if not isinstance(schema, Mapping) or self._depth > _DEEPEST_SCHEMA:
            return _NO_SCHEMA
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        target: object = self._root
        for name in reference[2:].split("/"):
            target = target.get(name) if isinstance(target, Mapping) else None
        return target if isinstance(target, Mapping) else _NO_SCHEMA


def _fit(value: object, schema: object, within: SchemaScope) -> object:
    schema = within.resolve_reference(schema)
    types = _types(schema, within)
    if types and kind_of(value) not in types:
        value = _convert_value(value, types)
    match value:
        case dict():
            properties = schema.get("properties")
            known_properties = properties if isinstance(properties, Mapping) else _NO_SCHEMA
            return {name: _fit(entry, known_properties.get(name), within.one_deeper()) for name, entry in value.items()}
        case list():
            return [_fit(entry, schema.get("items"), within.one_deeper()) for entry in value]
    return value


def _types(schema: Schema, within: SchemaScope) -> frozenset[str]:
    """Return which types a value may have; empty for any."""
    type_names = schema.get("type")
    if isinstance(type_names, str):
        return _widen_types({type_names})
    if isinstance(type_names, list):
        return _widen_types({entry for entry in type_names if isinstance(entry, str)})
    choices = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(choices, list):
        return frozenset()
    types_of_choices = [_types(within.one_deeper().resolve_reference(entry), within.one_deeper()) for entry in choices]
    return frozenset().union(*types_of_choices) if all(types_of_choices) else frozenset()


def _widen_types(types: set[str]) -> frozenset[str]:
    return frozenset(types | {"integer"} if "number" in types else types)


def kind_of(value: object) -> str:
    """Return JSON schema's word for the type of a value."""
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "array" if isinstance(value, list) else "null"


def _convert_value(value: object, types: frozenset[str]) -> object:
    """Return a value of one of these types that can only be meant by this one; itself where there is none."""
    if isinstance(value, str):
        return _from_text(value, types)
    if isinstance(value, float) and value.is_integer() and "integer" in types:
        return int(value)
    if isinstance(value, (int, float)) and types == {"string"}:
        return msgspec.json.encode(value).decode()
    return value


def _from_text(text: str, types: frozenset[str]) -> object:
    try:
        value = parse_json(text.strip())
    except ValueError:
        return text
    if isinstance(value, float) and value.is_integer() and "integer" in types and "number" not in types:
        value = int(value)
    return value if kind_of(value) in types else text


def type_texts(texts: Mapping[str, str], schema: Schema) -> dict[str, object]:
    """Return arguments that were all written as text: of a parameter that is not described, what is plainly JSON."""
    properties = schema.get("properties")
    known_properties = properties if isinstance(properties, Mapping) else _NO_SCHEMA
    return {name: value if name in known_properties else _plain(value) for name, value in texts.items()}


def _plain(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return text
