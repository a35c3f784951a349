"""Schemas that answers can be held to, and in which line others are wrong."""

import json

import pytest

from app.core.errors import BadRequest
from app.core.json_schemas import MOST_FORM_CHARS, check_schema

RIGHT = [
    "{}",
    '{"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": true}, "required": ["a"]}',
    '{"$defs": {"a/b": {"type": "string"}}, "$ref": "#/$defs/a~1b"}',
    '{"anyOf": [{"const": 1}, {"enum": [1, null]}], "title": "any", "x-mine": 5}',
    '{"type": "array", "items": {"pattern": "^[a-z]+$"}, "minItems": 1, "maxItems": 3}',
    '{"items": [{"type": "string"}, {"type": "number"}], "additionalProperties": false}',
    '{"pattern": "[^]"}',
    '{"$ref": "#"}',
]
WRONG = [
    ("{", "line 1: Expecting property name"),
    ('{"a": 1,\n "b": }', "line 2: Expecting value (column 7)"),
    ("[]", "line 1: a schema is an object"),
    ("NaN", "NaN is not JSON"),
    ('{"type":\n"objct"}', "line 2: there is no type 'objct'"),
    ('{"type": []}', "`type` names no type"),
    ('{"properties": {\n"a": {"type": "string"},\n"b": {"type": "strin"}}}', "line 3: there is no type 'strin'"),
    ('{"properties": []}', "`properties` is an object"),
    ('{"properties": {"a": 1}}', "a schema is an object"),
    ('{"required": "a"}', "`required` is a list of names"),
    ('{"enum": []}', "`enum` is a list of values"),
    ('{"anyOf": []}', "`anyOf` is a list of schemas"),
    ('{"items": 3}', "a schema is an object"),
    ('{"$ref": "https://example.org/a"}', "`$ref` has to begin with `#`"),
    ('{"$ref": "#/$defs/a"}', "which is not in the schema"),
    ('{"pattern": "("}', "`pattern` is a regular expression"),
    ('{"anyOf": [{"type": "string"},\n\n{"minLength": 5, "maxLength": 2}]}', "line 3: `minLength` is 5 and"),
    ('{"minimum": "1"}', "`minimum` is a number"),
    ("[" * 2000, "nested more than 100 levels deep"),
    ('{"a":' * 200 + "1" + "}" * 200, "nested more than 100 levels deep"),
    ('{"a": ' + "1" * 5000 + "}", "wrong"),
    ('"' + "a" * MOST_FORM_CHARS + '"', "more than 65,536 characters"),
]


@pytest.mark.parametrize("schema", RIGHT)
def test_what_answers_can_be_held_to(schema: str) -> None:
    check_schema(schema)


@pytest.mark.parametrize(("schema", "words"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_told_with_its_line(schema: str, words: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        check_schema(schema)
    assert words in str(refusal.value)
    assert refusal.value.code == "invalid_value"


def test_the_line_is_that_of_the_value_at_any_depth() -> None:
    schema = {"properties": {"list": {"items": {"anyOf": [{"type": "string"}, {"properties": {"x": {"type": "?"}}}]}}}}
    text = json.dumps(schema, indent=1)
    line = next(number for number, words in enumerate(text.splitlines(), 1) if '"?"' in words)
    with pytest.raises(BadRequest, match=f"line {line}: there is no type"):
        check_schema(text)
