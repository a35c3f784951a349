"""Requests in Anthropic's dialect, as llama.cpp's own route is sent them."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadRequest
from app.gateway.dialects.anthropic.requests import AnthropicRequest, check_request, for_engine
from app.gateway.entry.bodies import decode_body

TOOL = {"name": "weather", "description": "d", "input_schema": {"type": "object", "properties": {}}}


def engine_body(**fields: object) -> dict[str, Any]:
    """Return what the engine is sent for a request with these fields."""
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": [user("Hi")], **fields}).encode()
    request = decode_body(body, AnthropicRequest)
    check_request(request)
    document: dict[str, Any] = json.loads(for_engine(body, request))
    return document


def user(*content: object) -> dict[str, object]:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def result(**fields: object) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": "t", "content": "42", **fields}


def expect_refusal(**fields: object) -> str:
    with pytest.raises(BadRequest) as error:
        engine_body(**fields)
    return str(error.value)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"max_tokens": 0}, "max_tokens: must be"),
        ({"max_tokens": "x"}, r"$.max_tokens"),
        ({"temperature": 1.5}, "temperature: range: 0..1"),
        ({"temperature": -0.1}, "temperature: range: 0..1"),
        ({"temperature": "x"}, "$.temperature"),
        ({"top_p": 2}, "top_p: range: 0..1"),
        ({"output_config": {"effort": "bogus"}}, "output_config.effort: must be one of low, medium"),
        ({"stop_sequences": "x"}, "$.stop_sequences"),
        ({"stop_sequences": ["a", ""]}, "stop_sequences: each"),
        ({"tool_choice": {"type": "any"}}, "while providing tools"),
        ({"messages": []}, "messages: at least one"),
        ({"messages": None}, "messages: at least one"),
        ({"messages": "x"}, "$.messages"),
        ({"messages": [{"role": "bogus", "content": "x"}]}, "$.messages[0].role"),
        ({"messages": [{"role": "user"}]}, "$.messages[0]"),
        ({"tools": "x"}, "$.tools"),
        ({"tools": [{"input_schema": {}}]}, "$.tools[0]"),
        ({"tools": [{"name": "a"}]}, "tools.0.input_schema"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "other"}}, "tool_choice.name"),
        ({"tool_choice": {"type": "bogus"}}, "$.tool_choice"),
        ({"messages": [user({"type": "image", "source": {"type": "url", "url": "http://a"}})]}, "not fetched"),
        ({"messages": [user({"type": "document", "source": {"type": "base64", "data": ""}})]}, "cannot be read"),
        ({"messages": [user({"type": "text", "text": 1}, {"type": "tool_result"})]}, "tool_result"),
    ],
)
def test_mistakes_are_said_where_they_are(fields: dict[str, object], sentence: str) -> None:
    assert sentence in expect_refusal(**fields)


def test_what_nothing_is_wrong_with_keeps_its_bytes() -> None:
    body = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}],"temperature":0.50,"x":"\\u00e9"}'
    data = for_engine(body, decode_body(body, AnthropicRequest))
    assert b'"temperature":0.50' in data
    assert b'"x":"\\u00e9"' in data


def test_results_come_first_and_failures_are_said() -> None:
    turns = engine_body(
        messages=[user(text("and?"), result(is_error=True), result(tool_use_id="u", content=[text("a"), text("b")]))]
    )
    first, second = turns["messages"]
    assert [block["type"] for block in first["content"]] == ["tool_result", "tool_result"]
    assert [block["content"] for block in first["content"]] == ["Error: 42", "a\nb"]
    assert second["content"] == [text("and?")]


def test_pictures_in_a_result_follow_it() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}}
    first, second = engine_body(messages=[user(result(content=[text("see"), picture]))])["messages"]
    assert first["content"][0]["content"] == "see"
    assert second["content"] == [picture]


def test_system_turns_at_the_start_are_the_system_prompt() -> None:
    system = [text("x-anthropic-billing-header: a"), text("One.")]
    document = engine_body(system=system, messages=[{"role": "system", "content": "Two."}, user("Hi")])
    assert document["system"] == "One.\n\nTwo."
    assert [turn["role"] for turn in document["messages"]] == ["user"]


def test_system_turns_later_are_reminders_in_the_users() -> None:
    turns = engine_body(messages=[user("a"), {"role": "system", "content": "mind"}, user("b")])["messages"]
    assert len(turns) == 1
    assert [block["text"] for block in turns[0]["content"]] == ["a", "<system-reminder>\nmind\n</system-reminder>", "b"]


def test_documents_and_found_pages_are_read_as_text_and_unknown_blocks_left_out() -> None:
    document = {
        "type": "document",
        "title": "T",
        "source": {"type": "text", "data": "body", "media_type": "text/plain"},
    }
    outcome = {"type": "search_result", "title": "F", "source": "http://a", "content": [text("page")]}
    turns = engine_body(
        messages=[user(document, outcome, {"type": "mystery"}, {"type": "redacted_thinking", "data": "x"})]
    )["messages"]
    assert [block["text"] for block in turns[0]["content"]] == ["T\nbody", "F\nhttp://a\npage"]


@pytest.mark.parametrize(
    ("choice", "names", "expected_choice"),
    [
        (None, ["weather", "other"], "auto"),
        ({"type": "auto"}, ["weather", "other"], "auto"),
        ({"type": "any"}, ["weather", "other"], "any"),
        ({"type": "tool", "name": "other"}, ["other"], "any"),
        ({"type": "none"}, None, None),
    ],
)
def test_the_tools_offered_follow_the_choice(
    choice: object, names: list[str] | None, expected_choice: str | None
) -> None:
    server_tool = {"type": "web_search_20250305", "name": "web_search"}
    document = engine_body(
        tools=[TOOL, server_tool, {**TOOL, "name": "other", "defer_loading": True}], tool_choice=choice
    )
    assert [tool["name"] for tool in document["tools"]] == names if names else "tools" not in document
    assert document.get("tool_choice", {}).get("type") == expected_choice


@pytest.mark.parametrize(
    ("fields", "kwargs"),
    [
        ({}, None),
        ({"thinking": {"type": "disabled"}}, {"enable_thinking": False}),
        ({"thinking": {"type": "adaptive"}}, {"enable_thinking": True}),
        ({"output_config": {"effort": "max"}}, {"reasoning_effort": "high"}),
        (
            {"thinking": {"type": "disabled"}, "chat_template_kwargs": {"enable_thinking": True}},
            {"enable_thinking": True},
        ),
    ],
)
def test_thinking_is_told_to_the_template(fields: dict[str, object], kwargs: object) -> None:
    assert engine_body(**fields).get("chat_template_kwargs") == kwargs


KINDS = [text("a"), result(), result(is_error=True), {"type": "mystery"}, {"type": "thinking", "thinking": "h"}]
CONTENTS = st.lists(st.sampled_from(KINDS), max_size=4) | st.text()
ROLES = st.sampled_from(["user", "assistant", "system"])
TURNS = st.lists(st.fixed_dictionaries({"role": ROLES, "content": CONTENTS}), min_size=1, max_size=6)


@given(TURNS)
def test_any_conversation_alternates_and_loses_no_result(turns: list[dict[str, Any]]) -> None:
    messages = engine_body(messages=turns)["messages"]
    for turn in messages:
        kinds = [block["type"] for block in turn["content"]] if isinstance(turn["content"], list) else []
        assert "tool_result" not in kinds or set(kinds) == {"tool_result"}
    results = [block for turn in turns[find_opening(turns) :] for block in turn["content"] if is_result(block)]
    kept_results = [block for turn in messages for block in turn["content"] if is_result(block)]
    assert len(kept_results) == len([outcome for outcome in results if outcome]) or has_results_in_system(turns)


def find_opening(turns: list[dict[str, Any]]) -> int:
    return next((at for at, turn in enumerate(turns) if turn["role"] != "system"), len(turns))


def is_result(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def has_results_in_system(turns: list[dict[str, Any]]) -> bool:
    return any(turn["role"] == "system" and any(is_result(block) for block in turn["content"]) for turn in turns)


def test_a_request_that_is_no_json_says_so() -> None:
    with pytest.raises(BadRequest, match="not valid JSON"):
        decode_body(b'{"model":', AnthropicRequest)
    assert msgspec.json.decode(b'{"model":null}', type=AnthropicRequest).model is None
