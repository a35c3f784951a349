"""Google's form of a schema, a part of OpenAPI 3.0's, as JSON Schema: https://ai.google.dev/api/caching#Schema.

Its types are written in capitals, counts may be strings, as in all of Google's JSON, and null is a flag.
"""

from collections.abc import Callable, Mapping

import msgspec

from app.core.errors import BadRequest, quote_value
from app.gateway.dialects.raw_fields import is_set, value_of

_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_COUNTS = {
    "minitems": "minItems",
    "maxitems": "maxItems",
    "minlength": "minLength",
    "maxlength": "maxLength",
    "minproperties": "minProperties",
    "maxproperties": "maxProperties",
}
_SAME = {
    "title": "title",
    "description": "description",
    "enum": "enum",
    "required": "required",
    "pattern": "pattern",
    "minimum": "minimum",
    "maximum": "maximum",
    "default": "default",
}
_FORMATS = frozenset({"date-time", "date", "time", "int32", "int64", "float", "double"})
"""Others ("enum", "byte") say nothing in JSON Schema."""
_MOST_DEEP = 64
"""Schemas of people end long before."""


def schema_from(schema: msgspec.Raw, json_schema: msgspec.Raw, *, field: str) -> msgspec.Raw | None:
    """Return the JSON Schema of a request, which gives one form or the other; None for neither. Raises BadRequest."""
    if is_set(json_schema):
        if not bytes(json_schema).lstrip().startswith(b"{"):
            raise _not_as_expected(field, "an object is expected")
        return json_schema
    if not is_set(schema):
        return None
    return msgspec.Raw(msgspec.json.encode(_convert(value_of(schema), field, 0)))


def _convert(schema: object, field: str, depth: int) -> dict[str, object]:
    if not isinstance(schema, Mapping):
        raise _not_as_expected(field, "an object is expected")
    if depth > _MOST_DEEP:
        raise _not_as_expected(field, "it is nested too deeply")
    fields = {str(name).replace("_", "").lower(): value for name, value in schema.items()}
    out: dict[str, object] = {new: fields[name] for name, new in _SAME.items() if fields.get(name) is not None}
    out |= {new: _count(fields[name], field) for name, new in _COUNTS.items() if fields.get(name) is not None}
    if fields.get("format") in _FORMATS:
        out["format"] = fields["format"]
    out |= _inner_schemas(fields, lambda inner: _convert(inner, field, depth + 1), field)
    return out | _type_fields(fields, field)


def _inner_schemas(
    fields: Mapping[str, object], convert: Callable[[object], dict[str, object]], field: str
) -> dict[str, object]:
    out: dict[str, object] = {}
    if (properties := fields.get("properties")) is not None:
        if not isinstance(properties, Mapping):
            raise _not_as_expected(field, "`properties` is an object")
        out["properties"] = {str(name): convert(value) for name, value in properties.items()}
    if (items := fields.get("items")) is not None:
        out["items"] = convert(items)
    if (choices := fields.get("anyof")) is not None:
        if not isinstance(choices, list):
            raise _not_as_expected(field, "`anyOf` is a list")
        out["anyOf"] = [convert(choice) for choice in choices]
    return out


def _type_fields(fields: Mapping[str, object], field: str) -> dict[str, object]:
    """Return the type, in JSON Schema's way to allow null."""
    kind = fields.get("type")
    if kind is None or str(kind).upper() == "TYPE_UNSPECIFIED":
        return {}
    if str(kind).lower() not in _TYPES:
        raise _not_as_expected(field, f"there is no type {quote_value(str(kind))}")
    kind = str(kind).lower()
    if not fields.get("nullable"):
        return {"type": kind}
    choices = fields.get("enum")
    return {"type": [kind, "null"], **({"enum": [*choices, None]} if isinstance(choices, list) else {})}


def _count(value: object, field: str) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise _not_as_expected(field, f"{quote_value(str(value))} is no count") from None


def _not_as_expected(field: str, reason: str) -> BadRequest:
    return BadRequest(f"`{field}` is not a schema: {reason}.", code="invalid_value")
