"""Whether a text is a JSON schema that answers can be held to, and if not, in which line it is wrong.

Only what engines make a grammar of is looked at: kinds, properties, lists of alternatives, references within the
document, patterns and bounds. Words that are no part of a schema are passed over, as engines do.
"""

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

from app.core.errors import BadRequest, quote_value

MOST_FORM_CHARS = 64 * 1024
"""Of a schema or grammar; more would keep an engine busy for longer than an answer is worth."""
MOST_NESTED = 100
"""Levels of a document; Python's own reader gives up at about a thousand."""
_KINDS = ("string", "number", "integer", "boolean", "object", "array", "null")
_BOUNDS = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minimum", "maximum"))
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_NO_PATTERN = re.compile(
    r"missing \)|unbalanced parenthesis|unterminated character set|nothing to repeat|multiple repeat"
)
"""Of what Python says of a regular expression, what is wrong in JavaScript's too, whose patterns schemas have."""
_ONLY_JAVASCRIPT = re.compile(r"\[\^?\]")

_Path = tuple[str | int, ...]


class SchemaError(Exception):
    """What is wrong, and at which place of the document."""

    def __init__(self, sentence: str, path: _Path) -> None:
        super().__init__(sentence)
        self.sentence, self.path = sentence, path


def check_schema(text: str) -> None:
    """Return if answers can be held to a schema. Raises BadRequest with the line in which it is wrong."""
    if len(text) > MOST_FORM_CHARS:
        raise form_error("JSON schema", 0, f"it has more than {MOST_FORM_CHARS:,} characters.")
    if (line := _too_deep_at(text)) is not None:
        raise form_error("JSON schema", line, f"it is nested more than {MOST_NESTED} levels deep.")
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise form_error("JSON schema", error.lineno, f"{error.msg} (column {error.colno}).") from None
    except ValueError as error:  # a number with too many digits, or no number
        raise form_error("JSON schema", 0, f"{error}.") from None
    try:
        _SchemaChecker(document).check_node(document, ())
    except SchemaError as error:
        raise form_error("JSON schema", _line_of(text, error.path), error.sentence) from None


def form_error(what: str, line: int, sentence: str) -> BadRequest:
    """Return the refusal of a schema or grammar; line 0 stands for all of it."""
    place = f", line {line}" if line else ""
    return BadRequest(f"The {what} is wrong{place}: {sentence}", code="invalid_value")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _too_deep_at(text: str) -> int | None:
    depth = 0
    for match in _MARK.finditer(text):
        depth += (match[0] in "{[") - (match[0] in "}]")
        if depth > MOST_NESTED:
            return text.count("\n", 0, match.start()) + 1
    return None


class _SchemaChecker:
    """Looks at every schema within a document. Raises SchemaError."""

    def __init__(self, document: object) -> None:
        self._document = document
        self._checks: Mapping[str, Callable[[object, _Path], None]] = {
            "type": self._check_kind,
            "properties": self._check_properties,
            "$defs": self._check_properties,
            "definitions": self._check_properties,
            "required": _check_names,
            "items": self._check_items,
            "prefixItems": self._check_list,
            "additionalProperties": self._check_additional,
            "enum": _check_values,
            "$ref": self._check_reference,
            "pattern": _check_pattern,
            **dict.fromkeys(_ALTERNATIVES, self._check_list),
        }

    def check_node(self, node: object, path: _Path) -> None:
        """Look at one schema and those in it."""
        if not isinstance(node, dict):
            raise SchemaError("a schema is an object, in braces.", path)
        for name, value in node.items():
            if name in self._checks:
                self._checks[name](value, (*path, name))
        _check_bounds(node, path)

    def _check_kind(self, value: object, path: _Path) -> None:
        kinds = value if isinstance(value, list) else [value]
        for kind in kinds:
            if kind not in _KINDS:
                raise SchemaError(f"there is no type {quote_value(str(kind))}.", path)
        if not kinds:
            raise SchemaError("`type` names no type.", path)

    def _check_properties(self, value: object, path: _Path) -> None:
        if not isinstance(value, dict):
            raise SchemaError(f"`{path[-1]}` is an object of names and schemas.", path)
        for name, schema in value.items():
            self._check_or_bool(schema, (*path, name))

    def _check_items(self, value: object, path: _Path) -> None:
        if isinstance(value, list):
            self._check_list(value, path)
        else:
            self._check_or_bool(value, path)

    def _check_list(self, value: object, path: _Path) -> None:
        if not isinstance(value, list) or not value:
            raise SchemaError(f"`{path[-1]}` is a list of schemas, and not empty.", path)
        for place, schema in enumerate(value):
            self._check_or_bool(schema, (*path, place))

    def _check_additional(self, value: object, path: _Path) -> None:
        self._check_or_bool(value, path)

    def _check_or_bool(self, value: object, path: _Path) -> None:
        if not isinstance(value, bool):
            self.check_node(value, path)

    def _check_reference(self, value: object, path: _Path) -> None:
        if not isinstance(value, str) or not value.startswith("#"):
            raise SchemaError("`$ref` has to begin with `#`: nothing is downloaded.", path)
        node: object = self._document
        for step in value.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or name not in node:
                raise SchemaError(f"`$ref` names {quote_value(value)}, which is not in the schema.", path)
            node = node[name]


def _check_names(value: object, path: _Path) -> None:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise SchemaError("`required` is a list of names.", path)


def _check_values(value: object, path: _Path) -> None:
    if not isinstance(value, list) or not value:
        raise SchemaError("`enum` is a list of values, and not empty.", path)


def _check_pattern(value: object, path: _Path) -> None:
    if not isinstance(value, str) or not is_pattern(value):
        raise SchemaError(f"`pattern` is a regular expression, not {quote_value(str(value))}.", path)


def is_pattern(text: str) -> bool:
    """Tell whether a text can be a regular expression, in JavaScript's form or another."""
    if _ONLY_JAVASCRIPT.search(text):
        return True
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(text)
    except re.error as error:
        return _NO_PATTERN.search(error.msg) is None
    except (OverflowError, RecursionError):
        return True
    return True


def _check_bounds(node: Mapping[str, object], path: _Path) -> None:
    for names in _BOUNDS:
        bounds = [node.get(name) for name in names]
        for name, limit in zip(names, bounds, strict=True):
            if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float)):
                raise SchemaError(f"`{name}` is a number.", (*path, name))
        low, high = bounds
        if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
            raise SchemaError(f"`{names[0]}` is {low:g} and `{names[1]}` {high:g}.", (*path, names[0]))


def _line_of(text: str, path: Sequence[str | int]) -> int:
    """Return the line of the value at a place of a document, which is JSON."""
    offset = next((offset for where, offset in _iter_places(text) if where == tuple(path)), 0)
    return text.count("\n", 0, offset) + 1


def _iter_places(text: str) -> Iterator[tuple[_Path, int]]:
    """Yield the place of every value of a document, and where in the text it begins."""
    path: list[str | int | None] = []  # None: an object whose next key is not read yet
    for match in _MARK.finditer(text):
        mark = match[0]
        if mark in "}]":
            path.pop()
        elif mark == ",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None
        elif mark != ":" and path and path[-1] is None:
            path[-1] = json.loads(mark)
        elif mark != ":":
            yield tuple(step for step in path if step is not None), match.start()
            if mark in "{[":
                path.append(None if mark == "{" else 0)
