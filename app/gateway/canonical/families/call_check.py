"""Whether a tool call can be made: its arguments are JSON, and what the tool's schema asks for.

What can be put right without doubt is (a number written as text, a comma too many). What is left is said in sentences
that a model understands, so that it can call again. Of a schema only what every tool's program would trip over counts:
names, types, what is required, and lists of allowed values.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from app.gateway.canonical.families.arguments import Schema, SchemaScope, decode_schema, fit_arguments, parse_json
from app.gateway.canonical.families.arguments import kind_of as kind_of_value
from app.gateway.canonical.request import ToolCall, ToolDefinition

_MOST_FAULTS = 5
_LONGEST_VALUE = 80
"""Characters of a wrong value that are quoted."""


class CallVerdict(NamedTuple):
    """A call with its arguments put right as far as possible, and what is still wrong with it."""

    call: ToolCall
    faults: tuple[str, ...] = ()


def check_call(call: ToolCall, tools: Sequence[ToolDefinition]) -> CallVerdict:
    """Return the call checked against the tools that were offered."""
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None:
        names = ", ".join(tool.name for tool in tools)
        return CallVerdict(call, (f"There is no tool {call.name!r}. The tools are: {names}.",))
    try:
        arguments = parse_json(call.arguments) if call.arguments.strip() else {}
    except ValueError as error:
        return CallVerdict(call, (f"The arguments are not valid JSON ({error}).",))
    if not isinstance(arguments, dict):
        return CallVerdict(call, ("The arguments must be one JSON object.",))
    schema = decode_schema(tool.parameters)
    if faults_of(arguments, schema):
        arguments = fit_arguments(arguments, schema)
    text = call.arguments if _says(call.arguments, arguments) else msgspec.json.encode(arguments).decode()
    return CallVerdict(msgspec.structs.replace(call, arguments=text), faults_of(arguments, schema))


def _says(text: str, arguments: Mapping[str, object]) -> bool:
    """Tell whether a text is strict JSON for these arguments, so that it can stay as the model wrote it."""
    try:
        return bool(msgspec.json.decode(text) == arguments)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return False


def faults_of(arguments: Mapping[str, object], schema: Schema) -> tuple[str, ...]:
    """Return what is wrong with some arguments, a few sentences at most."""
    faults = _faults(arguments, schema, SchemaScope(schema), "")
    return tuple(fault for fault, _ in zip(faults, range(_MOST_FAULTS), strict=False))


def _faults(value: object, schema: object, within: SchemaScope, place: str) -> Iterator[str]:
    schema = within.resolve_reference(schema)
    types = within.types_of(schema)
    if types and kind_of_value(value) not in types:
        yield f"{_name_place(place)} must be of type {' or '.join(sorted(types))}, and is {_quote(value)}."
        return
    allowed_values = schema.get("enum")
    if isinstance(allowed_values, list) and value not in allowed_values:
        values = ", ".join(_quote(entry) for entry in allowed_values)
        yield f"{_name_place(place)} must be one of {values}, and is {_quote(value)}."
    elif isinstance(value, Mapping):
        yield from _faults_of_object(value, schema, within.one_deeper(), place)
    elif isinstance(value, list):
        for at, entry in enumerate(value):
            yield from _faults(entry, schema.get("items"), within.one_deeper(), f"{place}[{at}]")


def _faults_of_object(value: Mapping[str, object], schema: Schema, within: SchemaScope, place: str) -> Iterator[str]:
    properties, required_names = schema.get("properties"), schema.get("required")
    known_properties = properties if isinstance(properties, Mapping) else {}
    for name in required_names if isinstance(required_names, list) else ():
        if name not in value:
            yield f"{_name_place(_below(place, str(name)))} is missing."
    for name, entry in value.items():
        if name in known_properties:
            yield from _faults(entry, known_properties[name], within, _below(place, name))
        elif schema.get("additionalProperties") is False:
            yield f"There is no {_name_place(_below(place, name))}."


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _name_place(place: str) -> str:
    return f"`{place}`" if place else "The value"


def _quote(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
