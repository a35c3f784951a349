"""A call is checked against its tool: what can be put right is, and the rest is said so that a model understands it."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.canonical.families.call_check import check_call
from app.gateway.canonical.request import ToolCall, ToolDefinition

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "mode": {"enum": ["read", "write"]},
        "options": {"$ref": "#/$defs/options"},
        "limit": {"type": ["integer", "null"]},
    },
    "required": ["path"],
    "additionalProperties": False,
    "$defs": {"options": {"type": "object", "properties": {"deep": {"type": "boolean"}}, "required": ["deep"]}},
}
TOOL = ToolDefinition(name="open", parameters=msgspec.Raw(json.dumps(SCHEMA).encode()))


def check_arguments(arguments: str, name: str = "open") -> tuple[str, tuple[str, ...]]:
    result = check_call(ToolCall(id="1", name=name, arguments=arguments), [TOOL, ToolDefinition(name="bare")])
    return result.call.arguments, result.faults


@pytest.mark.parametrize(
    "arguments",
    [
        '{"path": "a"}',
        '{"path": "a", "lines": [1, 2], "mode": "read", "options": {"deep": true}, "limit": null}',
        '{ "path" : "a" , "limit": 5 }',
    ],
)
def test_what_is_right_stays_as_it_was_written(arguments: str) -> None:
    assert check_arguments(arguments) == (arguments, ())


@pytest.mark.parametrize(
    ("arguments", "expected_arguments"),
    [
        ("{'path': 'a',}", {"path": "a"}),
        ('{"path": "a", "lines": ["1", 2.0]}', {"path": "a", "lines": [1, 2]}),
        ('{"path": "a", "options": "{\\"deep\\": true}"}', {"path": "a", "options": {"deep": True}}),
        ('{"path": "a", "options": {"deep": "true"}}', {"path": "a", "options": {"deep": True}}),
        ('{"path": 5}', {"path": "5"}),
        ('{"path": "a"', {"path": "a"}),
    ],
)
def test_what_cannot_be_meant_otherwise_is_put_right(arguments: str, expected_arguments: object) -> None:
    text, faults = check_arguments(arguments)
    assert (json.loads(text), faults) == (expected_arguments, ())


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ("{}", "`path` is missing."),
        ("", "`path` is missing."),
        ('{"path": ["a"]}', '`path` must be of type string, and is ["a"].'),
        ('{"path": "a", "lines": [1, "x"]}', '`lines[1]` must be of type integer, and is "x".'),
        ('{"path": "a", "mode": "append"}', '`mode` must be one of "read", "write", and is "append".'),
        ('{"path": "a", "options": {}}', "`options.deep` is missing."),
        ('{"path": "a", "colour": 1}', "There is no `colour`."),
        ("[1]", "The arguments must be one JSON object."),
        ('{"path": "' + "a" * 500 + '", "mode": "' + "b" * 500 + '"}', "…"),
    ],
)
def test_what_is_wrong_is_said(arguments: str, fault: str) -> None:
    (sentence,) = check_arguments(arguments)[1]
    assert fault in sentence
    assert len(sentence) < 300


def test_what_is_no_json_and_a_tool_there_is_not() -> None:
    assert "not valid JSON" in check_arguments("path: a")[1][0]
    assert check_arguments("{}", "close")[1] == ("There is no tool 'close'. The tools are: open, bare.",)


def test_a_tool_that_says_nothing_of_its_arguments_takes_any() -> None:
    assert check_arguments('{"x": [1]}', "bare") == ('{"x": [1]}', ())


def test_a_hundred_faults_are_a_few_sentences() -> None:
    assert len(check_arguments(json.dumps({"path": "a", **{f"x{at}": 1 for at in range(100)}}))[1]) == 5


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    ),
    st.text(),
)
def test_no_arguments_and_no_schema_trip_it_over(value: object, name: str) -> None:
    raw = json.dumps(value)
    tool = ToolDefinition(name=name, parameters=msgspec.Raw(raw.encode()))
    check_call(ToolCall(id="", name=name, arguments=raw), [tool])
    check_call(ToolCall(id="", name="open", arguments=raw), [TOOL])
