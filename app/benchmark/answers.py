"""Whether an answer satisfies the schema it was held to: kinds, required properties, values and members."""

from typing import Any

import msgspec

_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def satisfies_schema(text: str, schema: dict[str, msgspec.Raw]) -> bool:
    """Return whether a text is JSON as the schema has it. What it says beside kinds and values is passed over."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return _satisfies(value, msgspec.json.decode(msgspec.json.encode(schema)))


def _satisfies(value: Any, schema: Any) -> bool:  # noqa: ANN401 -- any JSON
    if not isinstance(schema, dict):
        return schema is not False
    if "enum" in schema and value not in schema["enum"]:
        return False
    kind = schema.get("type")
    kinds = _KINDS.get(kind, (object,)) if isinstance(kind, str) else (object,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds and object not in kinds):
        return False
    if isinstance(value, list):
        return all(_satisfies(item, schema.get("items", {})) for item in value)
    return not isinstance(value, dict) or _satisfies_object(value, schema)


def _satisfies_object(value: dict[str, Any], schema: dict[str, Any]) -> bool:
    properties = schema.get("properties", {})
    has_all = all(name in value for name in schema.get("required", []))
    has_others = schema.get("additionalProperties") is False and not value.keys() <= properties.keys()
    return (
        has_all
        and not has_others
        and all(_satisfies(value[name], properties[name]) for name in value.keys() & properties)
    )
