"""Arguments as a tool's schema wants them, where a model wrote the right value in the wrong type.

Only what cannot be meant otherwise is changed: "5" where a number must be, a list written as text where a list must be.
"""

from collections.abc import Mapping

import msgspec

from app.gateway.canonical.families.json_repair import loads

Schema = Mapping[str, object]
_DEEPEST = 16
_NO_SCHEMA: Schema = {}


def decoded_schema(raw: msgspec.Raw | None) -> Schema:
    """Return a JSON schema, empty where there is none that could be read."""
    try:
        return msgspec.json.decode(raw, type=dict[str, object]) if raw else _NO_SCHEMA
    except (msgspec.MsgspecError, RecursionError):
        return _NO_SCHEMA


def fitted(arguments: Mapping[str, object], schema: Schema) -> dict[str, object]:
    """Return the arguments with their values' types mended."""
    found = _fit(dict(arguments), schema, _Within(schema))
    return found if isinstance(found, dict) else dict(arguments)


class _Within:
    """The document that references point into, and how far down a value lies."""

    def __init__(self, root: Schema, depth: int = 0) -> None:
        self._root = root
        self._depth = depth

    def below(self) -> "_Within":
        return _Within(self._root, self._depth + 1)

    def resolved(self, schema: object) -> Schema:
        if not isinstance(schema, Mapping) or self._depth > _DEEPEST:
            return _NO_SCHEMA
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        found: object = self._root
        for name in reference[2:].split("/"):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found if isinstance(found, Mapping) else _NO_SCHEMA


def _fit(value: object, schema: object, within: _Within) -> object:
    schema = within.resolved(schema)
    types = _types(schema, within)
    if types and _kind(value) not in types:
        value = _changed(value, types)
    match value:
        case dict():
            properties = schema.get("properties")
            known = properties if isinstance(properties, Mapping) else _NO_SCHEMA
            return {name: _fit(one, known.get(name), within.below()) for name, one in value.items()}
        case list():
            return [_fit(one, schema.get("items"), within.below()) for one in value]
    return value


def _types(schema: Schema, within: _Within) -> frozenset[str]:
    """Return which types a value may have; empty for any."""
    said = schema.get("type")
    if isinstance(said, str):
        return _widened({said})
    if isinstance(said, list):
        return _widened({one for one in said if isinstance(one, str)})
    choices = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(choices, list):
        return frozenset()
    each = [_types(within.below().resolved(one), within.below()) for one in choices]
    return frozenset().union(*each) if all(each) else frozenset()


def _widened(types: set[str]) -> frozenset[str]:
    return frozenset(types | {"integer"} if "number" in types else types)


def _kind(value: object) -> str:
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "array" if isinstance(value, list) else "null"


def _changed(value: object, types: frozenset[str]) -> object:
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
        found = loads(text.strip())
    except ValueError:
        return text
    if isinstance(found, float) and found.is_integer() and "integer" in types and "number" not in types:
        found = int(found)
    return found if _kind(found) in types else text


def typed(texts: Mapping[str, str], schema: Schema) -> dict[str, object]:
    """Return arguments that were all written as text: of a parameter that is not described, what is plainly JSON."""
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else _NO_SCHEMA
    return {name: value if name in known else _plain(value) for name, value in texts.items()}


def _plain(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return text
