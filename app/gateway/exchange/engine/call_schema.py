"""Tool calls as a JSON schema, for engines that can be held to one and know nothing of tools."""

from collections.abc import Mapping, Sequence

import msgspec

from app.gateway.canonical.families.arguments import decode_schema
from app.gateway.canonical.request import ResponseFormat, ResponseShape, ToolDefinition

_DEFINITIONS = ("$defs", "definitions")
_ANY_OBJECT: Mapping[str, object] = {"type": "object"}


def must_call(tools: Sequence[ToolDefinition]) -> ResponseFormat:
    """Return the format of an answer that is one call of one of these."""
    return _call_format([], tools)


def may_call(tools: Sequence[ToolDefinition], otherwise: ResponseFormat) -> ResponseFormat:
    """Return the format of an answer that is a call of one of these, or else of the form that was asked for."""
    schema = decode_schema(otherwise.schema) if otherwise.shape is ResponseShape.SCHEMA else _ANY_OBJECT
    return _call_format([("", schema)], tools)


def _call_format(others: list[tuple[str, Mapping[str, object]]], tools: Sequence[ToolDefinition]) -> ResponseFormat:
    definitions: dict[str, object] = {}
    choices = [_hoist_definitions(schema, prefix, definitions) for prefix, schema in others]
    for at, tool in enumerate(tools):
        arguments = _hoist_definitions(decode_schema(tool.parameters) or _ANY_OBJECT, f"tool{at}.", definitions)
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
    return ResponseFormat(shape=ResponseShape.SCHEMA, schema=msgspec.Raw(msgspec.json.encode(schema)), name="call")


def _hoist_definitions(schema: Mapping[str, object], prefix: str, definitions: dict[str, object]) -> dict[str, object]:
    """Return a schema whose definitions lie in the document around it: references are from the document's root."""
    for place in _DEFINITIONS:
        found = schema.get(place)
        for name, one in found.items() if isinstance(found, Mapping) else ():
            definitions[prefix + name] = _rename_references(one, prefix)
    kept = {name: value for name, value in schema.items() if name not in {*_DEFINITIONS, "$schema"}}
    return {name: _rename_references(value, prefix) for name, value in kept.items()}


def _rename_references(value: object, prefix: str) -> object:
    if isinstance(value, list):
        return [_rename_references(one, prefix) for one in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: _rename_reference(one, prefix) if name == "$ref" else _rename_references(one, prefix)
        for name, one in value.items()
    }


def _rename_reference(value: object, prefix: str) -> object:
    for place in _DEFINITIONS:
        begins = f"#/{place}/"
        if isinstance(value, str) and value.startswith(begins):
            return f"#/$defs/{prefix}{value.removeprefix(begins)}"
    return value
