"""What Ollama's clients send, as they send it, and what it means."""

import base64
import contextlib
import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadRequest
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.request import (
    CompletionRequest,
    ConversationMessage,
    ConversationRequest,
    Image,
    MessageRole,
    ResponseFormat,
    ResponseShape,
    SamplingParams,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from app.gateway.dialects.keep_alive import go_duration_s, keep_alive_s, to_nanoseconds
from app.gateway.dialects.ollama.requests import (
    OllamaGenerationParams,
    parameters_to_keep,
    read_chat,
    read_generate,
    read_options,
)
from app.gateway.dialects.ollama.wire import OllamaChatRequest, OllamaGenerateRequest, OllamaMessage
from app.gateway.dialects.raw_fields import ABSENT
from app.gateway.entry.bodies import decode_body
from app.gateway.exchange.engine.request import body_of

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n0000").decode()
WEBP = base64.b64encode(b"RIFF\0\0\0\0WEBPVP8 ").decode()
HI = [{"role": "user", "content": "Hi"}]


def chat(**fields: object) -> OllamaGenerationParams:
    return read_chat(msgspec.json.decode(json.dumps({"model": "m", **fields}), type=OllamaChatRequest))


def generate(**fields: object) -> OllamaGenerationParams:
    return read_generate(msgspec.json.decode(json.dumps({"model": "m", **fields}), type=OllamaGenerateRequest))


def make_conversation(**fields: object) -> ConversationRequest:
    request = chat(messages=HI, **fields).request
    assert isinstance(request, ConversationRequest)
    return request


def test_a_plain_chat() -> None:
    params = chat(messages=[{"role": "System", "content": "Be brief."}, *HI])
    assert params == OllamaGenerationParams(
        model="m",
        streams=True,
        request=ConversationRequest(
            messages=(
                ConversationMessage(MessageRole.SYSTEM, (Text("Be brief."),)),
                ConversationMessage(MessageRole.USER, (Text("Hi"),)),
            ),
        ),
    )


def test_what_langchain_sends_means_nothing_beyond_the_question() -> None:
    nulls = dict.fromkeys(("mirostat", "num_ctx", "num_gpu", "temperature", "stop", "seed", "top_k"))
    params = chat(messages=HI, tools=[], format="", options=nulls, stream=True, keep_alive=None, think=None)
    assert params == chat(messages=HI)


def test_what_cline_and_zed_send_beyond_the_dialect_is_passed_over() -> None:
    assert chat(messages=HI, tool_choice="auto", shift=True, _debug=1) == chat(messages=HI)
    assert chat(messages=HI, truncate=True).trims
    assert not chat(messages=HI).trims


@pytest.mark.parametrize(
    ("form", "response_format"),
    [
        (None, ResponseFormat()),
        ("", ResponseFormat()),
        ("json", ResponseFormat(shape=ResponseShape.JSON)),
        ({"type": "object"}, ResponseFormat(shape=ResponseShape.SCHEMA, schema=msgspec.Raw(b'{"type": "object"}'))),
    ],
)
def test_formats(form: object, response_format: ResponseFormat) -> None:
    assert make_conversation(format=form).response_format == response_format


@pytest.mark.parametrize(
    ("think", "thinking"),
    [
        (None, ThinkingLevel.DEFAULT),
        ("", ThinkingLevel.DEFAULT),
        (True, ThinkingLevel.ON),
        (False, ThinkingLevel.OFF),
        ("low", ThinkingLevel.LOW),
        ("max", ThinkingLevel.MAX),
    ],
)
def test_thinking(think: object, thinking: ThinkingLevel) -> None:
    assert make_conversation(think=think).thinking is thinking


def test_options_have_their_effect() -> None:
    params = chat(
        messages=HI,
        options={
            "num_ctx": 8933,
            "num_predict": 5.0,
            "temperature": 1,
            "top_k": 3,
            "top_p": 0.5,
            "min_p": 0.1,
            "typical_p": 0.9,
            "seed": 7,
            "repeat_penalty": 1.1,
            "repeat_last_n": 64,
            "presence_penalty": 0.2,
            "frequency_penalty": 0.3,
            "stop": ["\n", ""],
            "num_gpu": 3,
            "made_up": [],
        },
    )
    assert params.num_ctx == 8933
    assert params.names_without_effect == ("made_up", "num_gpu")
    assert isinstance(params.request, ConversationRequest)
    assert params.request.limits.max_tokens == 5
    assert params.request.limits.stops == ("\n",)
    assert params.request.sampling == SamplingParams(
        temperature=1.0,
        top_k=3,
        top_p=0.5,
        min_p=0.1,
        typical_p=0.9,
        seed=7,
        repeat_penalty=1.1,
        repeat_last_n=64,
        presence_penalty=0.2,
        frequency_penalty=0.3,
    )


@pytest.mark.parametrize("limit", [-1, -2, 0])
def test_no_limit_is_none(limit: int) -> None:
    assert make_conversation(options={"num_predict": limit, "seed": -1}) == make_conversation()


@pytest.mark.parametrize(
    ("option", "value", "kind"),
    [
        ("temperature", "hot", "float32"),
        ("temperature", True, "float32"),
        ("num_ctx", "8k", "integer"),
        ("seed", [1], "integer"),
        ("stop", 3, "array"),
        ("stop", [3], "array"),
        ("use_mmap", "x", "boolean"),
        ("num_gpu", "all", "integer"),
    ],
)
def test_options_of_the_wrong_type_are_refused_in_ollamas_words(option: str, value: object, kind: str) -> None:
    with pytest.raises(BadRequest, match=f'^option "{option}" must be of type {kind}$'):
        chat(messages=HI, options={option: value})


@pytest.mark.parametrize(("option", "value"), [("repeat_last_n", -2), ("repeat_penalty", 0), ("repeat_penalty", -1.5)])
def test_values_that_every_answer_would_fail_with_are_refused(option: str, value: float) -> None:
    with pytest.raises(BadRequest, match=f'^option "{option}" must be'):
        parameters_to_keep({option: msgspec.Raw(msgspec.json.encode(value))})


def test_the_whole_context_is_looked_back_upon() -> None:
    params = chat(messages=HI, options={"repeat_last_n": -1})
    assert isinstance(params.request, ConversationRequest)
    body = msgspec.json.decode(body_of(params.request, model="m", features=()))
    assert body["repeat_last_n"] > 100_000


def test_tools_and_what_came_of_them() -> None:
    schema = {"type": "object", "properties": {}}
    request = chat(
        messages=[
            *HI,
            {
                "role": "assistant",
                "content": "",
                "thinking": "Two.",
                "tool_calls": [
                    {"function": {"name": "look", "arguments": {"at": 1}}},
                    {"id": "mine", "function": {"name": "go", "arguments": '{"x":2}'}},
                    {"function": {"name": "look", "arguments": None}},
                ],
            },
            {"role": "tool", "tool_name": "look", "content": "one"},
            {"role": "tool", "tool_call_id": "mine", "content": "two"},
            {"role": "tool", "content": "three"},
            {"role": "tool", "content": "nobody asked"},
        ],
        tools=[{"type": "function", "function": {"name": "look", "description": "d", "parameters": schema}}],
    ).request
    assert isinstance(request, ConversationRequest)
    assert request.messages[1] == ConversationMessage(
        MessageRole.ASSISTANT,
        (
            Thinking("Two."),
            ToolCall(id="call_1", name="look", arguments='{"at": 1}'),
            ToolCall(id="mine", name="go", arguments='{"x":2}'),
            ToolCall(id="call_3", name="look", arguments="{}"),
        ),
    )
    results = [message.parts[0] for message in request.messages[2:]]
    assert [(result.call_id, result.name, result.text) for result in results if isinstance(result, ToolResult)] == [
        ("call_1", "look", "one"),
        ("mine", "go", "two"),
        ("call_3", "look", "three"),
        ("call_0", "", "nobody asked"),
    ]
    (tool,) = request.tools
    assert (tool.name, tool.description) == ("look", "d")
    assert json.loads(bytes(tool.parameters or b"")) == schema


def test_pictures_are_told_by_their_first_bytes() -> None:
    request = chat(
        messages=[{"role": "user", "content": "?", "images": [PNG, WEBP, f"data:image/x;base64,{PNG}"]}]
    ).request
    assert isinstance(request, ConversationRequest)
    pictures = [part for part in request.messages[0].parts if isinstance(part, Image)]
    assert [picture.media_type for picture in pictures] == ["image/png", "image/webp", "image/png"]
    assert pictures[2].data == PNG


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"messages": [{"role": "robot", "content": ""}]}, "invalid role"),
        ({"messages": [{"role": "user", "content": "", "images": ["http://x/y.png"]}]}, "not base64"),
        ({"messages": HI, "think": "hard"}, "invalid think value"),
        ({"messages": HI, "format": "xml"}, "invalid format"),
        ({"messages": HI, "format": [1]}, "invalid format"),
        ({"messages": HI, "top_logprobs": 21}, "top_logprobs"),
        ({"messages": HI, "keep_alive": "1d"}, 'invalid duration "1d"'),
        ({"messages": HI, "keep_alive": [5]}, "invalid keep_alive"),
    ],
)
def test_refusals(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        chat(**fields)


@pytest.mark.parametrize(
    ("keep_alive", "unloads", "keep_s"),
    [(0, True, 0.0), ("0", True, 0.0), (-1, False, math.inf), ("5m", False, 300.0), (None, False, None)],
)
def test_asking_for_nothing_loads_or_unloads(keep_alive: object, unloads: bool, keep_s: float | None) -> None:  # noqa: FBT001 -- one row of the table
    for params in (chat(messages=[], keep_alive=keep_alive), generate(prompt="", keep_alive=keep_alive)):
        assert params.request is None
        assert (params.unloads, params.keep_s) == (unloads, keep_s)
    assert not chat(messages=HI, keep_alive=keep_alive).unloads


def test_a_prompt_becomes_a_conversation() -> None:
    request = generate(prompt="Hi", system="Be brief.", images=[PNG], stream=False)
    assert request.streams is False
    assert isinstance(request.request, ConversationRequest)
    assert [message.role for message in request.request.messages] == [MessageRole.SYSTEM, MessageRole.USER]
    assert request.request.messages[1].parts == (Text("Hi"), Image(media_type="image/png", data=PNG))


def test_raw_prompts_and_those_with_a_suffix_stay_bare() -> None:
    assert generate(prompt="[INST] Hi", raw=True).request == CompletionRequest(prompt="[INST] Hi")
    assert generate(prompt="def f(", suffix="return").request == CompletionRequest(prompt="def f(", suffix="return")
    assert generate(prompt="", suffix="return").request == CompletionRequest(prompt="", suffix="return")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"raw": True, "system": "s"}, "raw mode does not support"),
        ({"raw": True, "template": "t"}, "raw mode does not support"),
        ({"raw": True, "context": [1]}, "raw mode does not support"),
        ({"raw": True, "images": [PNG]}, "raw mode does not support"),
        ({"template": "t"}, "template is not supported"),
        ({"context": [1, 2]}, "context is not supported"),
    ],
)
def test_what_cannot_be_honoured_is_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        generate(prompt="Hi", **fields)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300),
        ("1h30m", 5400),
        ("24h", 86400),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("100ms", 0.1),
        ("2us", 2e-6),
        ("2\u00b5s", 2e-6),
        ("3ns", 3e-9),
        ("+1m", 60),
        ("-1s", -1),
        ("0", 0),
        ("-0", 0),
    ],
)
def test_durations_as_go_writes_them(text: str, seconds: float) -> None:
    assert go_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "1d", "m", "5 m", "1h 30m", "-", "+", "1e3s", "5mm", "\u0665m"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="time: invalid duration"):
        go_duration_s(text)


@pytest.mark.parametrize(
    ("raw", "kept_s"),
    [(b"300", 300.0), (b"0.5", 0.5), (b"-1", math.inf), (b'"-1s"', math.inf), (b"1e300", math.inf), (b"null", None)],
)
def test_keep_alive(raw: bytes, kept_s: float | None) -> None:
    assert keep_alive_s(msgspec.Raw(raw)) == kept_s
    assert keep_alive_s(ABSENT) is None


@given(text=st.text(alphabet="0123456789.hmsuneg+-", max_size=12))
def test_a_duration_is_read_or_refused(text: str) -> None:
    try:
        seconds = go_duration_s(text)
    except BadRequest:
        return
    assert math.isfinite(seconds)
    assert to_nanoseconds(seconds) >= 0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(["num_ctx", "num_predict", "stop", "seed", "temperature", "top_k", "made_up"])


fields = st.sampled_from(
    [name for kind in (OllamaChatRequest, OllamaGenerateRequest, OllamaMessage) for name in kind.__struct_fields__]
)
messages = st.lists(st.dictionaries(fields, json_values, max_size=4) | st.just(HI[0]), max_size=3)
strange = st.sampled_from(['"\\ud800"', "1e999", "[" * 5000 + "]" * 5000, '{"a":"\\ud800"}'])


@given(
    body=st.dictionaries(fields, json_values, max_size=6),
    conversation=messages,
    odd=st.none() | st.tuples(fields, strange),
)
def test_any_body_is_understood_or_refused(
    body: dict[str, object], conversation: list[dict[str, object]], odd: tuple[str, str] | None
) -> None:
    text = msgspec.json.encode({**body, "messages": conversation}).decode()
    if odd is not None:
        text = f'{text[:-1]},"{odd[0]}":{odd[1]}}}'
    with contextlib.suppress(BadRequest):
        read_chat(decode_body(text.encode(), OllamaChatRequest))
    with contextlib.suppress(BadRequest):
        read_generate(decode_body(text.encode(), OllamaGenerateRequest))


@pytest.mark.parametrize("text", ['"\\ud800"', "1e999", "[" * 5000 + "]" * 5000])
def test_values_passed_over_at_first_are_looked_at_in_the_end(text: str) -> None:
    for field in ("format", "keep_alive"):
        with pytest.raises(BadRequest):
            read_chat(
                decode_body(
                    f'{{"model":"m","{field}":{text},"messages":[{{"role":"user"}}]}}'.encode(), OllamaChatRequest
                )
            )


@given(options=st.dictionaries(names, json_values))
def test_any_options_are_read_or_refused(options: dict[str, object]) -> None:
    fields = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in options.items()}
    try:
        read = read_options(fields)
    except BadRequest:
        return
    msgspec.json.encode(read)
