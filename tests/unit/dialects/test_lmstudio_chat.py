"""LM Studio's own chat: a recorded pair, and what holds for every stream there can be."""

import base64
import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadRequest, ErrorBody
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.events import (
    AnswerFailed,
    AnswerFinished,
    AnswerStarted,
    AnswerTimings,
    Event,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
)
from app.gateway.canonical.request import (
    ConversationMessage,
    ConversationRequest,
    Image,
    MessageRole,
    Text,
)
from app.gateway.dialects.lmstudio.requests import (
    EMPTY_HISTORY,
    LmStudioChatRequest,
    LmStudioHistory,
    extend_history,
    to_canonical_request,
)
from app.gateway.dialects.lmstudio.stream import LmStudioEncoder

END = AnswerFinished(
    reason=FinishReason.STOP,
    usage=TokenUsage(prompt=329, completion=268, reasoning=5),
    timings=AnswerTimings(load_s=0.0, prefill_s=0.5, decode_s=4.0),
)


def events_of(stream: bytes) -> list[dict[str, Any]]:
    documents = []
    for block in stream.decode().split("\n\n")[:-1]:
        match = re.fullmatch(r"event: ([a-z_.]+)\ndata: (.+)", block)
        assert match is not None, block
        data = json.loads(match[2])
        assert data["type"] == match[1]
        documents.append(data)
    return documents


def stream_events(encoder: LmStudioEncoder, events: list[Event]) -> list[dict[str, Any]]:
    return events_of(encoder.begin() + b"".join(map(encoder.take_event, events)))


def test_reasoning_then_a_message_as_lm_studio_streams_them() -> None:
    answer: list[Event] = [ReasoningDelta("Need"), ReasoningDelta(" to."), TextDelta("The "), TextDelta("model")]
    assert stream_events(LmStudioEncoder("gpt-oss-20b", response_id="resp_1"), [AnswerStarted(), *answer, END]) == [
        {"type": "chat.start", "model_instance_id": "gpt-oss-20b"},
        {"type": "prompt_processing.start"},
        {"type": "prompt_processing.progress", "progress": 1},
        {"type": "prompt_processing.end"},
        {"type": "reasoning.start"},
        {"type": "reasoning.delta", "content": "Need"},
        {"type": "reasoning.delta", "content": " to."},
        {"type": "reasoning.end"},
        {"type": "message.start"},
        {"type": "message.delta", "content": "The "},
        {"type": "message.delta", "content": "model"},
        {"type": "message.end"},
        {
            "type": "chat.end",
            "result": {
                "model_instance_id": "gpt-oss-20b",
                "output": [
                    {"type": "reasoning", "content": "Need to."},
                    {"type": "message", "content": "The model"},
                ],
                "stats": {
                    "input_tokens": 329,
                    "total_output_tokens": 268,
                    "reasoning_output_tokens": 5,
                    "tokens_per_second": 67.0,
                    "time_to_first_token_seconds": 0.5,
                },
                "response_id": "resp_1",
            },
        },
    ]


def test_a_load_is_told_of_while_it_goes_on() -> None:
    encoder = LmStudioEncoder("m")
    data = encoder.begin() + encoder.say_loading(None) + encoder.say_loading(0.65) + encoder.say_loaded(12.34)
    data += (
        encoder.take_event(AnswerStarted(load_s=12.5)) + encoder.take_event(TextDelta("a")) + encoder.take_event(END)
    )
    kinds = [event["type"] for event in events_of(data)]
    assert kinds[:5] == [
        "chat.start",
        "model_load.start",
        "model_load.progress",
        "model_load.end",
        "prompt_processing.start",
    ]
    assert {"type": "model_load.end", "model_instance_id": "m", "load_time_seconds": 12.34} in events_of(data)
    assert encoder.result is not None
    assert encoder.result.stats.model_load_time_seconds == 12.34


def test_a_load_nobody_was_told_of_still_counts() -> None:
    encoder = LmStudioEncoder("m")
    stream_events(encoder, [AnswerStarted(load_s=2.5), END])
    assert encoder.result is not None
    assert encoder.result.stats.model_load_time_seconds == 2.5


def test_an_error_is_told_and_what_was_written_is_not_lost() -> None:
    broke = AnswerFailed(error=ErrorBody(code="crashed", sentence="It crashed.", hint="Try again."), status=502)
    *_, error, end = stream_events(
        LmStudioEncoder("m", response_id="resp_1"), [AnswerStarted(), TextDelta("Half"), broke]
    )
    assert error == {
        "type": "error",
        "error": {"type": "internal_error", "message": "It crashed. Try again.", "code": "crashed"},
    }
    assert end["type"] == "chat.end"
    assert end["result"]["output"] == [{"type": "message", "content": "Half"}]
    assert "response_id" not in end["result"]


def test_a_call_of_a_tool_that_was_not_offered_is_a_failure() -> None:
    calls: list[Event] = [
        ToolCallDelta(index=0, id="1", name="search", arguments='{"q":'),
        ToolCallDelta(index=0, arguments="1}"),
    ]
    events = stream_events(LmStudioEncoder("m"), [AnswerStarted(), *calls, END])
    failure, end = events[-2:]
    assert failure["type"] == "tool_call.failure"
    assert failure["metadata"] == {"type": "invalid_name", "tool_name": "search", "arguments": {"q": 1}}
    assert end["result"]["output"] == [
        {"type": "invalid_tool_call", "reason": failure["reason"], "metadata": failure["metadata"]}
    ]


DELTAS = st.one_of(
    st.builds(TextDelta, st.text(min_size=1)),
    st.builds(ReasoningDelta, st.text(min_size=1)),
    st.builds(
        ToolCallDelta, index=st.integers(0, 2), name=st.text(max_size=3), arguments=st.sampled_from(["", "{", "}", "1"])
    ),
)
ENDS = st.one_of(
    st.builds(AnswerFinished, usage=st.builds(TokenUsage, prompt=st.integers(0, 9), completion=st.integers(0, 9))),
    st.just(AnswerFailed(error=ErrorBody(code="x", sentence="X."), status=500)),
)
STREAMS = st.tuples(
    st.lists(st.just(AnswerStarted(load_s=1.0)), max_size=1),
    st.lists(DELTAS, max_size=12),
    ENDS,
).map(lambda parts: [*parts[0], *parts[1], parts[2]])
GRAMMAR = re.compile(
    r"chat\.start (model_load\.start (model_load\.progress )*(model_load\.end )?)?"
    r"(prompt_processing\.start )?(prompt_processing\.progress prompt_processing\.end )?"
    r"((reasoning|message)\.start ((reasoning|message)\.delta )+(reasoning|message)\.end )*"
    r"(tool_call\.failure )*(error )?chat\.end"
)


@given(events=STREAMS, loads=st.lists(st.none() | st.floats(0, 1), max_size=3))
def test_whatever_comes_is_a_stream_that_ends_and_comes_to_its_result(
    events: list[Event], loads: list[float | None]
) -> None:
    encoder = LmStudioEncoder("m", response_id="resp_1")
    all_events = events_of(
        encoder.begin()
        + b"".join(map(encoder.say_loading, loads))
        + b"".join(map(encoder.take_event, [*events, *events]))
    )
    assert GRAMMAR.fullmatch(" ".join(event["type"] for event in all_events))
    assert all_events[-1]["result"] == json.loads(msgspec.json.encode(encoder.result))
    assert fold_events(all_events) == [
        item for item in all_events[-1]["result"]["output"] if item["type"] != "invalid_tool_call"
    ]
    assert ("error" in {event["type"] for event in all_events}) == isinstance(events[-1], AnswerFailed)


def fold_events(events: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return what a client puts together from the pieces."""
    output: list[dict[str, str]] = []
    for event in events:
        kind, _, step = event["type"].partition(".")
        if kind in {"message", "reasoning"} and step == "start":
            output.append({"type": kind, "content": ""})
        elif step == "delta":
            assert output[-1]["type"] == kind
            output[-1]["content"] += event["content"]
    return output


def make_request(**fields: object) -> LmStudioChatRequest:
    return msgspec.convert({"model": "m", **fields}, LmStudioChatRequest)


def test_a_request_is_read_whole() -> None:
    picture = base64.b64encode(b"\x89PNG").decode()
    request = make_request(
        input=[
            {"type": "message", "content": "What is"},
            {"type": "text", "content": "this?"},
            {"type": "image", "data_url": f"data:image/png;base64,{picture}"},
        ],
        system_prompt="Be brief.",
        temperature=0,
        top_k=3,
        reasoning="off",
        max_output_tokens=7,
    )
    work = to_canonical_request(request, extend_history(request))
    assert isinstance(work, ConversationRequest)
    assert work.messages == (
        ConversationMessage(MessageRole.SYSTEM, (Text("Be brief."),)),
        ConversationMessage(MessageRole.USER, (Text("What is\nthis?"), Image(media_type="image/png", data=picture))),
    )
    assert (work.sampling.temperature, work.sampling.top_k, work.limits.max_tokens) == (0, 3, 7)
    assert work.thinking is ThinkingLevel.OFF


def test_a_conversation_goes_on_with_its_system_prompt_until_there_is_another() -> None:
    before = LmStudioHistory(
        "Old.",
        (
            ConversationMessage(MessageRole.USER, (Text("Hi"),)),
            ConversationMessage(MessageRole.ASSISTANT, (Text("Hello"),)),
        ),
    )
    same = to_canonical_request(make_request(input="Go on"), extend_history(make_request(input="Go on"), before))
    assert [message.text for message in same.messages] == ["Old.", "Hi", "Hello", "Go on"]
    changed_history = extend_history(make_request(input="x", system_prompt="New."), before)
    assert changed_history.system == "New."


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "input_required"),
        ({"input": [{"type": "message"}]}, "invalid_value"),
        ({"input": [{"type": "image", "data_url": "https://example.com/a.png"}]}, "invalid_value"),
        ({"input": "x", "integrations": ["mcp/playwright"]}, "not_implemented"),
    ],
)
def test_what_cannot_be_done_is_said(fields: dict[str, object], code: str) -> None:
    request = make_request(**fields)
    with pytest.raises(BadRequest) as error:
        to_canonical_request(request, extend_history(request, EMPTY_HISTORY))
    assert error.value.code == code
