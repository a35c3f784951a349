"""The engine's side: what it is sent, and its streams, as recorded from llama-server, cut anywhere."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadRequest, EngineFailed, Unavailable
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.events import (
    AnswerFailed,
    AnswerFinished,
    AnswerTimings,
    Event,
    FinishReason,
    TextDelta,
    TokenUsage,
    aggregate_events,
)
from app.gateway.canonical.request import (
    CompletionRequest,
    ConversationMessage,
    ConversationRequest,
    GenerationLimits,
    Image,
    MessageRole,
    Request,
    ResponseFormat,
    ResponseShape,
    SamplingParams,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolMode,
    ToolResult,
)
from app.gateway.exchange.engine.capability import check_needs
from app.gateway.exchange.engine.error_document import error_from_refusal
from app.gateway.exchange.engine.request import body_of, route_of
from app.gateway.exchange.engine.stream import StreamReader
from engines.api import Feature, Route

EVERYTHING = frozenset(Feature)
HI = (ConversationMessage(MessageRole.USER, (Text("Hi"),)),)
SCHEMA = msgspec.Raw(b'{"type":"object"}')


def engine_body(request: Request, features: frozenset[Feature] = EVERYTHING) -> dict[str, Any]:
    check_needs(request, features)
    body: dict[str, Any] = json.loads(body_of(request, model="guide", features=features))
    assert (body.pop("model"), body.pop("stream")) == ("guide", True)
    body.pop("stream_options", None)
    return body


def test_a_plain_question() -> None:
    assert engine_body(ConversationRequest(messages=HI)) == {"messages": [{"role": "user", "content": "Hi"}]}


def test_what_is_chosen_is_sent_and_nothing_else() -> None:
    request = ConversationRequest(
        messages=HI,
        sampling=SamplingParams(temperature=0.0, top_k=1, seed=0),
        limits=GenerationLimits(max_tokens=5, stops=("a",), logprobs=2),
        thinking=ThinkingLevel.MAX,
        response_format=ResponseFormat(shape=ResponseShape.SCHEMA, schema=SCHEMA),
    )
    assert engine_body(request) == {
        "messages": [{"role": "user", "content": "Hi"}],
        "temperature": 0.0,
        "top_k": 1,
        "seed": 0,
        "max_tokens": 5,
        "stop": ["a"],
        "logprobs": True,
        "top_logprobs": 2,
        "chat_template_kwargs": {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
        },
    }
    assert engine_body(ConversationRequest(messages=HI, thinking=ThinkingLevel.OFF))["chat_template_kwargs"] == {
        "enable_thinking": False,
        "thinking": False,
    }
    assert engine_body(ConversationRequest(messages=HI, response_format=ResponseFormat(shape=ResponseShape.JSON)))[
        "response_format"
    ] == {"type": "json_object"}


@pytest.mark.parametrize(
    ("choice", "fields"),
    [
        (ToolChoice(), {}),
        (ToolChoice(choose=ToolMode.REQUIRED), {"tool_choice": "required"}),
        (ToolChoice(choose=ToolMode.NONE, one_at_a_time=True), {"tool_choice": "none", "parallel_tool_calls": False}),
        (ToolChoice(name="f"), {"tool_choice": "required"}),
    ],
)
def test_tools(choice: ToolChoice, fields: dict[str, object]) -> None:
    body = engine_body(
        ConversationRequest(
            messages=HI, tools=(ToolDefinition(name="f", parameters=SCHEMA, strict=True),), tool_choice=choice
        )
    )
    function = {"name": "f", "description": "", "parameters": {"type": "object"}, "strict": True}
    assert body.pop("tools") == [{"type": "function", "function": function}]
    assert body == {"messages": [{"role": "user", "content": "Hi"}], **fields}


def test_every_kind_of_part() -> None:
    messages = (
        ConversationMessage(MessageRole.USER, (Text("Look:"), Image(media_type="image/png", data="AA=="))),
        ConversationMessage(MessageRole.ASSISTANT, (Thinking("Hm."), ToolCall(id="c", name="f", arguments="{}"))),
        ConversationMessage(
            MessageRole.USER, (Text("And?"), ToolResult(call_id="c", text="one", name="f", is_error=True))
        ),
    )
    assert engine_body(ConversationRequest(messages=messages))["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            ],
        },
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "Hm.",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "Error: one", "name": "f"},
        {"role": "user", "content": "And?"},
    ]


def test_system_messages_stand_where_templates_take_them() -> None:
    def say(role: MessageRole, text: str) -> ConversationMessage:
        return ConversationMessage(role, (Text(text),))

    turns = [
        say(MessageRole.SYSTEM, "One."),
        say(MessageRole.SYSTEM, "Two."),
        say(MessageRole.USER, "Hi"),
        say(MessageRole.SYSTEM, "Three."),
        say(MessageRole.USER, "Go"),
        say(MessageRole.ASSISTANT, "Yes"),
        say(MessageRole.SYSTEM, "Four."),
    ]
    reminder = "<system-reminder>\n{}\n</system-reminder>\n"
    assert [
        (message["role"], message["content"])
        for message in engine_body(ConversationRequest(messages=tuple(turns)))["messages"]
    ] == [
        ("system", "One.\n\nTwo."),
        ("user", "Hi"),
        ("user", reminder.format("Three.") + "Go"),
        ("assistant", "Yes"),
        ("user", reminder.format("Four.")),
    ]


def test_bare_prompts_go_to_routes_of_their_own() -> None:
    limits = GenerationLimits(max_tokens=3, stops=("x",))
    bare = CompletionRequest(prompt="a", limits=limits, response_format=ResponseFormat(shape=ResponseShape.JSON))
    assert route_of(bare) is Route.COMPLETIONS
    assert engine_body(bare) == {"prompt": "a", "max_tokens": 3, "stop": ["x"], "json_schema": {"type": "object"}}
    between = CompletionRequest(prompt="a", suffix="b", limits=limits)
    assert route_of(between) is Route.INFILL
    assert engine_body(between) == {"input_prefix": "a", "input_suffix": "b", "n_predict": 3, "stop": ["x"]}
    assert route_of(ConversationRequest(messages=HI)) is Route.CHAT


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (ConversationRequest(messages=HI, tools=(ToolDefinition(name="f"),)), "tools"),
        (
            ConversationRequest(
                messages=(ConversationMessage(MessageRole.USER, (Image(media_type="image/png", data=""),)),)
            ),
            "images",
        ),
        (ConversationRequest(messages=HI, limits=GenerationLimits(logprobs=0)), "log probabilities"),
        (ConversationRequest(messages=HI, response_format=ResponseFormat(shape=ResponseShape.JSON)), "given format"),
        (CompletionRequest(prompt="a", response_format=ResponseFormat(shape=ResponseShape.JSON)), "format"),
    ],
)
def test_what_an_engine_lacks_is_refused_and_not_left_out(request_: Request, sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence) as refusal:
        engine_body(request_, frozenset())
    assert refusal.value.code == "engine_cannot"


def event(**fields: object) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(**fields: object) -> bytes:
    return event(choices=[{"index": 0, "delta": fields, "finish_reason": None}])


CHAT = b"".join(
    [
        b": ping\n\n",
        delta(role="assistant", content=None),
        delta(reasoning_content="H\u00e4"),
        delta(content="Zug \U0001f682"),
        delta(tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": '{"a":'}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": "1}"}}]),
        event(choices=[{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]),
        event(
            choices=[],
            usage={"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}},
            timings={"cache_n": 2, "prompt_n": 7, "prompt_ms": 20.0, "predicted_n": 4, "predicted_ms": 40.5},
        ),
        b"data: [DONE]\n\n",
    ]
)


def read(stream: bytes) -> list[Event]:
    reader = StreamReader()
    return [*reader.feed(stream), *reader.end_stream()]


@given(cuts=st.lists(st.integers(0, len(CHAT)), max_size=30).map(sorted))
def test_a_chat_stream_cut_anywhere(cuts: list[int]) -> None:
    reader, events = StreamReader(), list[Event]()
    for start, stop in zip([0, *cuts], [*cuts, len(CHAT)], strict=True):
        events += reader.feed(CHAT[start:stop])
    assert reader.is_over
    assert reader.end_stream() == []
    answer = aggregate_events(events)
    assert (answer.thinking, answer.text) == ("H\u00e4", "Zug \U0001f682")
    assert answer.calls == (ToolCall(id="c1", name="f", arguments='{"a":1}'),)
    assert answer.end == AnswerFinished(
        reason=FinishReason.TOOL_CALLS,
        usage=TokenUsage(prompt=9, cached=2, completion=4),
        timings=AnswerTimings(prefill_s=0.02, decode_s=0.0405),
    )


def test_plain_completions_and_probabilities() -> None:
    logprobs = {"content": [{"id": 5, "token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []}]}
    events = read(
        event(choices=[{"text": "a", "logprobs": logprobs, "finish_reason": None}])
        + event(choices=[{"text": "", "finish_reason": "length"}])
        + b"data: [DONE]\n\n"
    )
    assert isinstance(events[0], TextDelta)
    assert (events[0].text, events[0].logprobs[0].token) == ("a", "a")
    assert events[-1] == AnswerFinished(reason=FinishReason.LENGTH)


def test_llama_servers_own_stream_ends_without_done() -> None:
    timings = {"cache_n": 1, "prompt_n": 3, "prompt_ms": 1.0, "predicted_n": 2, "predicted_ms": 2.0}
    events = read(
        event(index=0, content="ab", tokens=[1], stop=False)
        + event(index=0, content="", tokens=[], stop=True, stop_type="limit", timings=timings)
    )
    assert events == [
        TextDelta("ab"),
        AnswerFinished(
            reason=FinishReason.LENGTH,
            usage=TokenUsage(prompt=4, cached=1, completion=2),
            timings=AnswerTimings(prefill_s=0.001, decode_s=0.002),
        ),
    ]


def test_an_engine_that_hangs_up_after_its_reason_is_done() -> None:
    assert read(event(choices=[{"delta": {"content": "a"}, "finish_reason": "stop"}])) == [
        TextDelta("a"),
        AnswerFinished(),
    ]
    assert read(delta(content="a")) == [TextDelta("a")]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (event(error={"code": 500, "message": "boom", "type": "server_error"}), "engine_error"),
        (event(error="boom"), "engine_error"),
        (b'error: {"message": "boom"}\n\n', "engine_error"),
        (b"data: {nonsense\n\n", "engine_nonsense"),
        (b'data: {"choices": [{"delta": {"content": 3}}]}\n\n', "engine_nonsense"),
        (b"data: " + b"[" * 100_000 + b"\n\n", "engine_nonsense"),
    ],
)
def test_an_error_in_the_stream_ends_it(line: bytes, code: str) -> None:
    first, last = read(delta(content="a") + line + delta(content="b"))
    assert first == TextDelta("a")
    assert isinstance(last, AnswerFailed)
    assert (last.error.code, last.status) == (code, 502)


def test_no_error_is_none() -> None:
    assert read(event(error=None, choices=[{"delta": {"content": "a"}}])) == [TextDelta("a")]


@given(stream=st.binary(max_size=200))
def test_no_bytes_are_too_strange(stream: bytes) -> None:
    for data in (stream, b"data: " + stream + b"\n", b'data: {"choices":[' + stream + b"]}\n"):
        read(data)


def test_a_prompt_that_is_too_long_is_refused_with_both_counts() -> None:
    error_fields = {
        "code": 400,
        "message": "m",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 9000,
        "n_ctx": 4096,
    }
    error = error_from_refusal(json.dumps({"error": error_fields}).encode(), 400)
    assert (error.code, error.status) == ("context_length_exceeded", 400)
    assert "9000" in str(error)
    assert "4096" in str(error)


@pytest.mark.parametrize(
    ("body", "status", "kind", "sentence"),
    [
        (b'{"error":{"message":"bad grammar","code":400}}', 400, BadRequest, "bad grammar"),
        (b'{"error":"mlx says no"}', 404, BadRequest, "mlx says no"),
        (b'{"detail":[{"loc":["body"]}]}', 422, BadRequest, "loc"),
        (b'{"error":{"message":"Loading","code":503}}', 503, Unavailable, "Loading"),
        (b'{"error":{"message":"not supported","code":501}}', 501, BadRequest, "not supported"),
        (b"<html>Gateway</html>", 500, EngineFailed, "Gateway"),
        (b"", 500, EngineFailed, "did not say why"),
    ],
)
def test_refusals_of_every_engine(body: bytes, status: int, kind: type[Exception], sentence: str) -> None:
    error = error_from_refusal(body, status)
    assert isinstance(error, kind)
    assert sentence in str(error)


def test_the_penalty_of_repetition_has_the_names_of_all_engines() -> None:
    body = engine_body(ConversationRequest(messages=HI, sampling=SamplingParams(repeat_penalty=1.1)))
    assert (body["repeat_penalty"], body["repetition_penalty"]) == (1.1, 1.1)
