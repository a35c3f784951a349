import json
from typing import Any

import pytest

from engines.serving.answer_request import parse_answer_request, parse_prompt, parse_template_input
from engines.serving.backend import BackendAbility
from engines.serving.json_text import encode_compact, parse_object
from engines.serving.refusals import RequestRefused, context_refusal

ALL = frozenset(BackendAbility)
NONE: frozenset[BackendAbility] = frozenset()


def parse_body(abilities: frozenset[BackendAbility] = ALL, *, is_chat: bool = True, **body: Any) -> Any:  # noqa: ANN401 -- any of them
    return parse_answer_request(body, abilities, is_chat=is_chat)


def refusal(call: Any, *args: object, **kwargs: object) -> RequestRefused:  # noqa: ANN401 -- any of them
    with pytest.raises(RequestRefused) as error:
        call(*args, **kwargs)
    return error.value


def test_nothing_said_leaves_everything_to_the_model() -> None:
    plain = parse_body()
    assert (plain.max_tokens, plain.stops, plain.streams, plain.schema, plain.logprobs) == (None, (), False, None, None)
    assert plain.sampling.temperature is None


def test_null_is_the_same_as_nothing() -> None:
    names = ("max_tokens", "stop", "stream", "temperature", "seed", "response_format", "logprobs", "logit_bias", "n")
    assert parse_answer_request(dict.fromkeys(names), ALL, is_chat=True) == parse_body()


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "n_predict"])
def test_a_limit_has_several_names(name: str) -> None:
    assert parse_answer_request({name: 7}, ALL, is_chat=True).max_tokens == 7
    assert parse_answer_request({name: -1}, ALL, is_chat=True).max_tokens is None


@pytest.mark.parametrize(
    "body",
    [
        {"max_tokens": 0},
        {"max_tokens": -2},
        {"max_tokens": 1.5},
        {"max_tokens": "7"},
        {"max_tokens": True},
        {"temperature": -1},
        {"temperature": "hot"},
        {"temperature": float("inf")},
        {"top_p": 1.01},
        {"top_k": -2},
        {"stop": [1]},
        {"stop": ["x"] * 17},
        {"stream": "yes"},
        {"stream_options": []},
        {"seed": -5},
        {"n": 0},
        {"response_format": "json"},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": [1]}}},
        {"top_logprobs": 21, "logprobs": True},
    ],
    ids=str,
)
def test_values_out_of_range_are_refused_by_name(body: dict[str, object]) -> None:
    error = refusal(parse_body, **body)
    assert error.status == 400
    assert error.param


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"n": 2}, "n"),
        ({"best_of": 3}, "best_of"),
        ({"logit_bias": {"1": 5}}, "logit_bias"),
        ({"suffix": "x"}, "suffix"),
        ({"echo": True}, "echo"),
        ({"grammar": "root ::= x"}, "grammar"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"min_p": 0.1}, "min_p"),
        ({"presence_penalty": 1}, "presence_penalty"),
        ({"frequency_penalty": 1}, "presence_penalty"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"logprobs": True}, "logprobs"),
    ],
)
def test_what_the_engine_lacks_is_refused_and_not_left_out(body: dict[str, object], param: str) -> None:
    error = refusal(parse_body, NONE, **body)
    assert (error.code, error.param) == ("engine_cannot", param)


def test_a_bias_is_of_tokens_by_number() -> None:
    assert parse_body(logit_bias={"7": -100, "12": 2.5}).sampling.logit_bias == {7: -100, 12: 2.5}
    assert parse_body(NONE, logit_bias={}).sampling.logit_bias == {}
    for bad in ({"word": 1}, {"-1": 1}, {"7": 101}, {"7": "much"}, {"9" * 40: 1}, [7]):
        assert refusal(parse_body, logit_bias=bad).param in {"logit_bias", *(bad if isinstance(bad, dict) else ())}


def test_no_penalty_is_none() -> None:
    assert parse_body(NONE, presence_penalty=0, frequency_penalty=0.0, min_p=0, logprobs=False, n=1, echo=False)


def test_alternatives_need_more_than_figures_of_the_chosen() -> None:
    abilities = frozenset({BackendAbility.LOGPROBS})
    assert parse_body(abilities, logprobs=True).logprobs == 0
    assert refusal(parse_body, abilities, logprobs=True, top_logprobs=2).param == "top_logprobs"
    assert parse_body(logprobs=True, top_logprobs=2).logprobs == 2
    assert parse_body(is_chat=False, logprobs=3).logprobs == 3


def test_a_schema_is_found_in_each_of_its_forms() -> None:
    schema = {"type": "integer"}
    forms: list[dict[str, object]] = [
        {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        {"type": "json_object", "schema": schema},
    ]
    assert [json.loads(parse_body(response_format=form).schema) for form in forms] == [schema, schema]
    assert json.loads(parse_body(json_schema=schema).schema) == schema
    assert json.loads(parse_body(response_format={"type": "json_object"}).schema) == {"type": "object"}
    assert parse_body(response_format={"type": "text"}).schema is None


def test_messages_become_what_templates_take() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    odd = {"id": "2", "type": "function", "function": {"name": "g", "arguments": "not json"}}
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    given_input = parse_template_input(
        {
            "messages": [
                {"role": "user", "content": parts},
                {"role": "assistant", "content": None, "tool_calls": [call, odd]},
            ],
            "tools": [{"type": "function"}],
            "chat_template_kwargs": {"enable_thinking": False},
        }
    )
    assert given_input.messages[0]["content"] == "one two"
    assert given_input.messages[1]["content"] == ""
    calls: Any = given_input.messages[1]["tool_calls"]
    assert [tool_call["function"]["arguments"] for tool_call in calls] == [{"a": 1}, "not json"]
    assert (len(given_input.tools), given_input.arguments) == (1, {"enable_thinking": False})


def test_tools_that_must_not_be_called_are_not_shown() -> None:
    given_input = parse_template_input(
        {"messages": [{"role": "user", "content": "x"}], "tools": [{}], "tool_choice": "none"}
    )
    assert given_input.tools == []


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        "hello",
        [5],
        [{"content": "x"}],
        [{"role": "user", "content": 5}],
        [{"role": "user", "content": [5]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
        [{"role": "assistant", "tool_calls": [5]}],
    ],
    ids=str,
)
def test_messages_that_make_no_sense_are_refused(messages: object) -> None:
    assert refusal(parse_template_input, {"messages": messages}).param == "messages"


@pytest.mark.parametrize(
    ("prompt", "parsed_prompt"), [("x", "x"), (["x"], "x"), ([1, 2], [1, 2]), ([[1, 2]], [1, 2]), ("", "")]
)
def test_a_prompt_is_text_or_tokens(prompt: object, parsed_prompt: object) -> None:
    assert parse_prompt({"prompt": prompt}) == parsed_prompt


@pytest.mark.parametrize("prompt", [None, 5, [], ["a", "b"], [1, "a"], [-1], [True], [[1], [2]], {}])
def test_a_prompt_that_is_neither_is_refused(prompt: object) -> None:
    assert refusal(parse_prompt, {"prompt": prompt}).param == "prompt"


@pytest.mark.parametrize(
    "body", [b"", b"[1]", b"{", b'{"a": NaN}', b'{"a": Infinity}', b"\xff{}", b"[" * 100_000, b"{}x"]
)
def test_only_json_objects_are_read(body: bytes) -> None:
    assert refusal(parse_object, body).code == "invalid_json"


def test_a_refusal_is_openai_s_document() -> None:
    document = context_refusal(600, 512).document()
    error: Any = document["error"]
    assert (error["code"], error["type"]) == (400, "exceed_context_size_error")
    assert (error["n_prompt_tokens"], error["n_ctx"]) == (600, 512)


def test_documents_are_written_without_spaces_and_survive_lone_surrogates() -> None:
    assert encode_compact({"a": "é", "b": [1, 2]}) == '{"a":"é","b":[1,2]}'.encode()
    assert encode_compact({"a": "\ud800"}) == b'{"a":"?"}'
