"""Tool calls as a JSON schema, for engines that can be held to one and know nothing of tools."""

from collections.abc import Mapping, Sequence

import msgspec

from app.gateway.canonical.families.arguments import decoded_schema
from app.gateway.canonical.request import ResponseFormat, Shape, Tool

_DEFINITIONS = ("$defs", "definitions")
_ANY_OBJECT: Mapping[str, object] = {"type": "object"}


def must_call(tools: Sequence[Tool]) -> ResponseFormat:
    """Return the format of an answer that is one call of one of these."""
    return _format([], tools)


def may_call(tools: Sequence[Tool], otherwise: ResponseFormat) -> ResponseFormat:
    """Return the format of an answer that is a call of one of these, or else of the form that was asked for."""
    schema = decoded_schema(otherwise.schema) if otherwise.shape is Shape.SCHEMA else _ANY_OBJECT
    return _format([("", schema)], tools)


def _format(others: list[tuple[str, Mapping[str, object]]], tools: Sequence[Tool]) -> ResponseFormat:
    definitions: dict[str, object] = {}
    choices = [_hoisted(schema, prefix, definitions) for prefix, schema in others]
    for at, tool in enumerate(tools):
        arguments = _hoisted(decoded_schema(tool.parameters) or _ANY_OBJECT, f"tool{at}.", definitions)
        choices.append(
            {
                "type": "object",
                "properties": {"name": {"const": tool.name}, "arguments": arguments},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    schema: dict[str, object] = choices[0] if len(choices) == 1 else {"anyOf": choices}
    if definitions:
        schema = {**schema, "$defs": definitions}
    return ResponseFormat(shape=Shape.SCHEMA, schema=msgspec.Raw(msgspec.json.encode(schema)), name="call")


def _hoisted(schema: Mapping[str, object], prefix: str, definitions: dict[str, object]) -> dict[str, object]:
    """Return a schema whose definitions lie in the document around it: references are from the document's root."""
    for place in _DEFINITIONS:
        found = schema.get(place)
        for name, one in found.items() if isinstance(found, Mapping) else ():
            definitions[prefix + name] = _renamed(one, prefix)
    kept = {name: value for name, value in schema.items() if name not in {*_DEFINITIONS, "$schema"}}
    return {name: _renamed(value, prefix) for name, value in kept.items()}


def _renamed(value: object, prefix: str) -> object:
    if isinstance(value, list):
        return [_renamed(one, prefix) for one in value]
    if not isinstance(value, Mapping):
        return value
    return {name: _reference(one, prefix) if name == "$ref" else _renamed(one, prefix) for name, one in value.items()}


def _reference(value: object, prefix: str) -> object:
    for place in _DEFINITIONS:
        begins = f"#/{place}/"
        if isinstance(value, str) and value.startswith(begins):
            return f"#/$defs/{prefix}{value.removeprefix(begins)}"
    return value
