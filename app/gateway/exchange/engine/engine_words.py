"""What an engine says in its programming language's words, said in ours. Pure.

llama-server hands on what its JSON library and its containers throw: "[json.exception.type_error.302] type must be
number, but is string". What they tell of the request is kept, and the rest left out.
"""

import re

_JSON = re.compile(r"(?:Field '(?P<field>\w+)': )?\[json\.exception\.\w+\.\d+\] (?P<said>.*)", re.DOTALL)
_TYPE = re.compile(r"type must be (?P<wanted>\w+), but is (?P<found>\w+)")
_MISSING = re.compile(r"key '(?P<key>[^']*)' not found")
_PART = "unsupported content[].type"
_CONTAINER = re.compile(r"(?:\w+::)?_M_\w+|std::\w+|basic_string|invalid vector subscript")


def plain_sentence(message: str) -> str:
    """Return the message with what no caller can read put into a sentence; any other as it is."""
    found = _JSON.search(message)
    if found is not None:
        return message[: found.start()] + _of_json(found["field"], found["said"])
    if _PART in message:
        return "A part of a message is of a type that the engine cannot read."
    if _CONTAINER.search(message):
        return "The engine could not understand the request."
    return message


def _of_json(field: str | None, said: str) -> str:
    if kinds := _TYPE.search(said):
        return f"{_field_name(field)} must be of type {kinds['wanted']}, and is of type {kinds['found']}."
    if missing := _MISSING.search(said):
        return f"`{missing['key']}` is missing."
    return f"{_field_name(field)} is not as expected: {said}"


def _field_name(field: str | None) -> str:
    return f"`{field}`" if field else "A value of the request"
