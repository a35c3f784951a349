"""What an engine that hands on raw text lacks is there all the same, in every dialect; or refused by name."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anthropic
import msgspec
import ollama
import openai
import pytest
from aiohttp import web

from app.core.capabilities import Capability
from app.core.errors import EngineFailed, NotFound
from app.core.model_facts import ModelFacts
from app.core.recordings import SILENCE
from app.gateway.advising.model_facts import FactsReader
from app.gateway.exchange import client_stream
from app.gateway.services import Services
from app.supervisor.policy import LeaseOptions
from engines.api import Descriptor, Feature, Route
from engines.llama_cpp.descriptor import DESCRIPTOR
from tests.gateway.played import Gateway, Play
from tests.patience import PATIENCE_S
from tests.unit.dialects.outputs import OUTPUTS

QWEN = next(output for output in OUTPUTS if output.family.startswith("qwen3, which"))
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tell the weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
HI: list[Any] = [{"role": "user", "content": "Hi"}]
CHAT: dict[str, Any] = {"messages": HI}
CALLS = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'


class Engine:
    """An adapter of which only the descriptor counts."""

    def __init__(self, *features: Feature, routes: tuple[Route, ...] = (Route.CHAT,)) -> None:
        self.descriptor: Descriptor = msgspec.structs.replace(
            DESCRIPTOR,
            name="Raw",
            features=frozenset(features),
            routes={route: DESCRIPTOR.routes[route] for route in routes},
        )


class Facts(FactsReader):
    """The model's template, which is in no file."""

    def __init__(self) -> None:
        pass

    template = QWEN.template
    capabilities: tuple[str, ...] = ("chat", "tools", "thinking")

    def read(self, path: Path) -> ModelFacts:  # noqa: ARG002
        return cast("ModelFacts", _Written(self.template, self.capabilities))

    async def of_file(self, path: Path) -> ModelFacts:
        raise NotFound(f"There is no file {path}.", code="model_not_found")


class _Written(msgspec.Struct):
    chat_template: str
    capabilities: tuple[str, ...]
    tool_template: str = ""
    architecture: str = "qwen3"
    has_draft_head: bool = False


@pytest.fixture
def engine() -> Engine:
    return Engine(Feature.JSON_SCHEMA)


@pytest.fixture
def services(services: Services, engine: Engine) -> Services:
    library: Any = services.library
    can = [Capability(word) for word in Facts.capabilities]
    library._models[0] = msgspec.structs.replace(library.find_model("guide"), capabilities=can)
    return replace(services, adapters=cast("Any", {"llama.cpp": engine}), facts=Facts())


def writes(*answers: str, size: int = 3, finish: str = "stop", usage: dict[str, int] | None = None) -> Play:
    """Play an engine that writes these answers one after another, a few characters at a time; the last for ever."""
    answers_left = list(answers)

    async def play(request: web.Request) -> web.StreamResponse:
        if request.path == "/tokenize":
            return web.json_response({"tokens": list(range(len((await request.json())["content"].split())))})
        if request.path == "/apply-template":
            return web.json_response({"prompt": "one two three"})
        text = answers_left.pop(0) if len(answers_left) > 1 else answers_left[0]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for at in range(0, len(text), size):
            await _send(response, {"delta": {"content": text[at : at + size]}, "finish_reason": None})
        await _send(response, {"delta": {}, "finish_reason": finish}, usage)
        await response.write(b"data: [DONE]\n\n")
        return response

    return play


async def _send(response: web.StreamResponse, choice: object, usage: dict[str, int] | None = None) -> None:
    await response.write(b"data: " + json.dumps({"choices": [choice], "usage": usage}).encode() + b"\n\n")


def read_body(gateway: Gateway, at: int = -1) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(gateway.upstream.bodies[at])
    return body


@pytest.fixture
async def oai(gateway: Gateway) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
async def claude(gateway: Gateway) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(base_url=gateway.url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
async def llama(gateway: Gateway) -> AsyncIterator[ollama.AsyncClient]:
    async with ollama.AsyncClient(host=gateway.url) as client:
        yield client


async def test_openai_calls_and_reasoning_at_once(gateway: Gateway, oai: openai.AsyncOpenAI) -> None:
    gateway.upstream.play = writes(QWEN.raw_text, usage={"prompt_tokens": 7, "completion_tokens": 9})
    reply = await oai.chat.completions.create(model="Guide", messages=HI, tools=cast("Any", [TOOL, NOW]))
    message, choice = reply.choices[0].message, reply.choices[0]
    assert (choice.finish_reason, message.content, reply.model) == ("tool_calls", None, "Guide")
    assert getattr(message, "reasoning_content", None) == QWEN.thinking
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in cast("Any", message.tool_calls)]
    assert calls == [("get_weather", {"city": "Paris", "days": 2}), ("now", {})]
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (7, 9)
    assert [tool["function"]["name"] for tool in read_body(gateway)["tools"]] == ["get_weather", "now"]


async def test_openai_calls_and_reasoning_in_pieces(gateway: Gateway, oai: openai.AsyncOpenAI) -> None:
    gateway.upstream.play = writes(QWEN.raw_text, size=1)
    stream = await oai.chat.completions.create(
        model="guide", messages=HI, tools=cast("Any", [TOOL, NOW]), stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == QWEN.thinking
    assert not any(delta.content for delta in deltas)
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    assert [(call.index, cast("Any", call.function).name) for call in calls] == [(0, "get_weather"), (1, "now")]
    assert chunks[-2].choices[0].finish_reason == "tool_calls"
    assert (chunks[-1].choices, chunks[-1].usage) == ([], None), "what nobody counted is not zero"


async def test_anthropic_calls_and_reasoning(gateway: Gateway, claude: anthropic.AsyncAnthropic) -> None:
    gateway.upstream.play = writes("<think>Hm.</think>I look.\n" + CALLS)
    tools: Any = [{"name": "get_weather", "input_schema": TOOL["function"]["parameters"]}]  # type: ignore[index]
    reply = await claude.messages.create(model="guide", max_tokens=99, messages=HI, tools=tools)
    assert [block.type for block in reply.content] == ["thinking", "text", "tool_use"]
    assert (reply.stop_reason, cast("Any", reply.content[2]).input) == ("tool_use", {"city": "Paris"})
    async with claude.messages.stream(model="guide", max_tokens=99, messages=HI, tools=tools) as stream:
        streamed_message = await stream.get_final_message()
    assert [block.model_dump(exclude={"id"}) for block in streamed_message.content] == [
        block.model_dump(exclude={"id"}) for block in reply.content
    ]
    assert streamed_message.stop_reason == "tool_use"


async def test_ollama_calls_and_reasoning(gateway: Gateway, llama: ollama.AsyncClient) -> None:
    gateway.upstream.play = writes(QWEN.raw_text)
    reply = await llama.chat("guide", messages=HI, tools=[TOOL, NOW], think=True)
    assert reply.message.thinking == QWEN.thinking
    assert [call.function.name for call in reply.message.tool_calls or ()] == ["get_weather", "now"]
    assert read_body(gateway)["chat_template_kwargs"] == {"thinking": True, "enable_thinking": True}


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "now"}}])
async def test_a_call_that_must_be_is_held_to_a_schema(gateway: Gateway, choice: object) -> None:
    gateway.upstream.play = writes('{"name": "now", "arguments": {}}')
    status, reply = await gateway.chat(**CHAT, tools=[TOOL, NOW], tool_choice=choice)
    assert (status, reply["choices"][0]["message"]["tool_calls"][0]["function"]["name"]) == (200, "now")
    schema = read_body(gateway)["response_format"]["json_schema"]["schema"]
    offered_schemas = schema.get("anyOf", [schema])
    assert [schema_offered["properties"]["name"]["const"] for schema_offered in offered_schemas] == (
        ["get_weather", "now"] if choice == "required" else ["now"]
    )
    assert read_body(gateway)["chat_template_kwargs"]["enable_thinking"] is False


@pytest.mark.parametrize("engine", [Engine()])
async def test_a_call_that_must_be_is_asked_for_twice_where_nothing_holds_the_engine(gateway: Gateway) -> None:
    gateway.upstream.play = writes("I would rather talk.", CALLS)
    status, reply = await gateway.chat(**CHAT, tools=[TOOL], tool_choice="required")
    assert (status, len(gateway.upstream.bodies)) == (200, 2)
    assert reply["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
    assert "no tool call" in read_body(gateway)["messages"][0]["content"]
    gateway.upstream.play = writes("I would rather talk.")
    status, refusal = await gateway.chat(**CHAT, tools=[TOOL], tool_choice="required", stream=True)
    assert (status, refusal["error"]["code"], len(gateway.upstream.bodies)) == (400, "tool_not_called", 4)


async def test_no_tools_are_offered_where_none_may_be_called(gateway: Gateway) -> None:
    gateway.upstream.play = writes(CALLS)
    _, reply = await gateway.chat(**CHAT, tools=[TOOL], tool_choice="none")
    assert reply["choices"][0]["message"]["content"] == CALLS
    assert "tools" not in read_body(gateway)


async def test_one_call_at_a_time(gateway: Gateway) -> None:
    gateway.upstream.play = writes(QWEN.raw_text)
    _, reply = await gateway.chat(**CHAT, tools=[TOOL, NOW], parallel_tool_calls=False)
    assert len(reply["choices"][0]["message"]["tool_calls"]) == 1


async def test_a_template_without_tools_is_told_of_them(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Facts, "template", "{{ messages }}")
    gateway.upstream.play = writes(CALLS)
    earlier = [
        *HI,
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "now", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "noon"},
    ]
    _, reply = await gateway.chat(messages=earlier, tools=[TOOL])
    assert reply["choices"][0]["finish_reason"] == "tool_calls"
    body = read_body(gateway)
    assert "tools" not in body
    assert [turn["role"] for turn in body["messages"]] == ["system", "user", "assistant", "user"]
    assert '"get_weather"' in body["messages"][0]["content"]
    assert "<tool_call>" in body["messages"][2]["content"]
    assert "noon" in body["messages"][3]["content"]


async def test_openai_structured_output(gateway: Gateway, oai: openai.AsyncOpenAI) -> None:
    gateway.upstream.play = writes('{"city": "Paris"}')
    response_format: Any = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}
    reply = await oai.chat.completions.create(model="guide", messages=HI, response_format=response_format)
    assert json.loads(reply.choices[0].message.content or "") == {"city": "Paris"}
    assert read_body(gateway)["response_format"]["json_schema"]["schema"] == SCHEMA


async def test_anthropic_structured_output(gateway: Gateway, claude: anthropic.AsyncAnthropic) -> None:
    gateway.upstream.play = writes('{"city": "Paris"}')
    output_format = {"type": "json_schema", "schema": SCHEMA}
    for body in ({"output_config": {"format": output_format}}, {"output_format": output_format}):
        reply = await claude.messages.create(model="guide", max_tokens=9, messages=HI, extra_body=body)
        assert json.loads(cast("Any", reply.content[0]).text) == {"city": "Paris"}
        assert read_body(gateway)["response_format"]["json_schema"]["schema"] == SCHEMA


async def test_ollama_structured_output(gateway: Gateway, llama: ollama.AsyncClient) -> None:
    gateway.upstream.play = writes('{"city": "Paris"}')
    reply = await llama.chat("guide", messages=HI, format=cast("Any", SCHEMA))
    assert json.loads(reply.message.content or "") == {"city": "Paris"}
    assert read_body(gateway)["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.parametrize("engine", [Engine()])
async def test_an_engine_that_cannot_be_held_to_a_form_is_named(gateway: Gateway) -> None:
    json_object = {"response_format": {"type": "json_object"}}
    for path, body in {
        "/v1/chat/completions": {**CHAT, **json_object},
        "/v1/messages": {**CHAT, "max_tokens": 9, "output_config": {"format": {"type": "json_schema", "schema": {}}}},
        "/api/chat": {**CHAT, "format": "json"},
    }.items():
        async with gateway.http.post(gateway.url + path, json={"model": "guide", **body}) as reply:
            assert reply.status == 400
            assert "Raw does not support answers in a given format" in await reply.text()
    assert gateway.upstream.bodies == []


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"logprobs": True}, "log probabilities"),
        ({"logit_bias": {"5": 1}}, "biased tokens"),
        ({"grammar": "root ::= x"}, "grammars"),
        ({"thinking_budget_tokens": 5}, "a limit for thinking"),
        ({"n": 99}, "`n` must be"),
        ({"functions": [{}]}, "use `tools`"),
        ({"messages": []}, "at least one message"),
        ({"messages": [{"role": "judge"}]}, "Invalid enum value 'judge'"),
        ({"tools": [{"type": "function"}]}, "a function with a name"),
        ({"tools": [TOOL], "tool_choice": "maybe"}, "`tool_choice` must be"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "not among the tools"),
        ({"response_format": {"type": "xml"}}, "`response_format` must be"),
        ({"reasoning_effort": "huge"}, "`reasoning_effort` must be"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "'input_audio' cannot be read"),
    ],
)
async def test_what_cannot_be_is_refused_and_not_passed_over(
    gateway: Gateway, fields: dict[str, object], sentence: str
) -> None:
    status, refusal = await gateway.chat(**{**CHAT, **fields})
    assert (status, set(refusal["error"])) == (400, {"message", "type", "param", "code"})
    assert sentence in refusal["error"]["message"]
    assert gateway.upstream.bodies == []


@pytest.mark.parametrize("features", [(Feature.JSON_SCHEMA,), (Feature.TOOLS, Feature.REASONING)])
async def test_an_engine_without_ears_is_sent_no_sound(
    gateway: Gateway, engine: Engine, features: tuple[Feature, ...]
) -> None:
    engine.descriptor = msgspec.structs.replace(
        engine.descriptor, modalities=frozenset({"text", "image"}), features=frozenset(features)
    )
    sound = {"data": base64.b64encode(SILENCE).decode(), "format": "wav"}
    turn = {"role": "user", "content": [{"type": "input_audio", "input_audio": sound}]}
    status, refusal = await gateway.chat(messages=[turn])
    assert (status, refusal["error"]["code"]) == (400, "engine_cannot")
    assert "Raw does not support sound" in refusal["error"]["message"]
    assert gateway.upstream.bodies == []


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("streams", [True, False])
async def test_a_stop_sequence_ends_the_answer_and_the_engines_work(
    gateway: Gateway, oai: openai.AsyncOpenAI, *, streams: bool
) -> None:
    gateway.upstream.play = writes("<think>STOP</think>one STOP two")
    if streams:
        stream = await oai.chat.completions.create(model="guide", messages=HI, stop="STOP", stream=True)
        chunks = [chunk.choices[0] async for chunk in stream]
        text, finish = "".join(chunk.delta.content or "" for chunk in chunks), chunks[-1].finish_reason
    else:
        reply = await oai.chat.completions.create(model="guide", messages=HI, stop="STOP")
        text, finish = reply.choices[0].message.content or "", reply.choices[0].finish_reason
    assert (text, finish) == ("one ", "stop")
    assert "stop" not in read_body(gateway)


async def test_anthropic_is_told_which_stop_sequence_it_was(gateway: Gateway, claude: anthropic.AsyncAnthropic) -> None:
    gateway.upstream.play = writes("one STOP two")
    reply = await claude.messages.create(model="guide", max_tokens=9, messages=HI, stop_sequences=["STOP"])
    assert (reply.stop_reason, reply.stop_sequence) == ("stop_sequence", "STOP")


@pytest.mark.slow
async def test_several_answers_are_asked_for_one_after_another(gateway: Gateway, oai: openai.AsyncOpenAI) -> None:
    gateway.upstream.play = writes("one", "two", usage={"prompt_tokens": 4, "completion_tokens": 2})
    reply = await oai.chat.completions.create(model="guide", messages=HI, n=2, seed=5)
    assert [(choice.index, choice.message.content) for choice in reply.choices] == [(0, "one"), (1, "two")]
    assert [read_body(gateway, at)["seed"] for at in (0, 1)] == [5, 6]
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (4, 4)
    stream = await oai.chat.completions.create(model="guide", messages=HI, n=2, stream=True)
    assert {chunk.choices[0].index async for chunk in stream} == {0, 1}


@pytest.mark.parametrize("engine", [Engine(routes=(Route.CHAT, Route.TOKENIZE, Route.APPLY_TEMPLATE))])
async def test_tokens_are_counted_by_the_engines_tokenizer(gateway: Gateway, oai: openai.AsyncOpenAI) -> None:
    gateway.upstream.play = writes("<think>a b</think>one two STOP")
    reply = await oai.chat.completions.create(model="guide", messages=HI, stop="STOP")
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (3, 4)


@pytest.mark.parametrize("engine", [Engine(routes=(Route.CHAT, Route.TOKENIZE, Route.APPLY_TEMPLATE))])
async def test_anthropics_count_is_made_of_the_written_prompt(
    gateway: Gateway, claude: anthropic.AsyncAnthropic
) -> None:
    gateway.upstream.play = writes("")
    assert (await claude.messages.count_tokens(model="guide", messages=HI)).input_tokens == 3


async def test_a_limit_is_said_and_a_call_it_cut_is_not_made(gateway: Gateway) -> None:
    gateway.upstream.play = writes(CALLS[:40], finish="length")
    _, reply = await gateway.chat(**CHAT, tools=[TOOL])
    choice = reply["choices"][0]
    assert (choice["finish_reason"], choice["message"]) == ("length", {"role": "assistant", "content": ""})


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat"])
async def test_an_engine_that_breaks_off_ends_in_an_error(gateway: Gateway, path: str) -> None:
    async def breaks(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await _send(response, {"delta": {"content": "half"}, "finish_reason": None})
        return response

    gateway.upstream.play = breaks
    body = {"model": "guide", **CHAT, "max_tokens": 9, "stream": True}
    async with gateway.http.post(gateway.url + path, json=body) as reply:
        text = await reply.text()
    assert "half" in text
    assert "cut off" in text.strip().splitlines()[-1]
    async with gateway.http.post(gateway.url + path, json={**body, "stream": False}) as reply:
        assert reply.status == 502


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/v0/chat/completions"])
async def test_a_client_that_waits_for_a_load_is_kept_and_told_how_it_ends(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(client_stream, "QUIET_S", 0.01)
    monkeypatch.setattr(client_stream, "EVERY_S", 0.01)
    gateway.supervisor.may_load.clear()
    gateway.supervisor.refuse_with = EngineFailed("There is too little memory.", code="out_of_memory")
    body = {"model": "guide", **CHAT, "max_tokens": 9, "stream": True}
    async with asyncio.timeout(PATIENCE_S), gateway.http.post(gateway.url + path, json=body) as reply:
        while await reply.content.readuntil(b"\n\n") != b": waiting\n\n":
            pass
        gateway.supervisor.may_load.set()
        text = (await reply.read()).decode()
    assert "too little memory" in text.strip().splitlines()[-1]


def _own(document: object) -> Callable[[web.Request], Any]:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.json_response(document)

    return play


@pytest.mark.parametrize("engine", [Engine(*DESCRIPTOR.features)])
async def test_the_bytes_pass_untouched_where_the_engine_does_it_all(gateway: Gateway) -> None:
    gateway.upstream.play = _own({"untouched": [1, 2]})
    document = {**CHAT, "tools": [TOOL], "whatever": {"a": 1}, "tool_choice": "required"}
    assert await gateway.chat(**document) == (200, {"untouched": [1, 2]})
    assert read_body(gateway) == {"model": "guide", **document}


@pytest.mark.parametrize("engine", [Engine(*DESCRIPTOR.features)])
async def test_a_tool_named_is_the_only_one_offered(gateway: Gateway) -> None:
    gateway.upstream.play = _own({})
    choice = {"type": "function", "function": {"name": "now"}}
    await gateway.chat(**CHAT, tools=[TOOL, NOW], tool_choice=choice)
    names = [tool["function"]["name"] for tool in read_body(gateway)["tools"]]
    assert (names, read_body(gateway)["tool_choice"]) == (["now"], "required")
    status, refusal = await gateway.chat(**CHAT, tools=[TOOL], tool_choice=choice)
    assert (status, refusal["error"]["code"]) == (400, "invalid_tools")


ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NOW]}}


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("engine", [Engine(*DESCRIPTOR.features), Engine()], ids=["native", "raw"])
@pytest.mark.parametrize(
    ("choice", "expected_tools"),
    [(ALLOWED, [NOW]), ({"type": "auto"}, [TOOL, NOW]), ({"type": "required"}, [TOOL, NOW])],
)
async def test_allowed_tools_are_the_only_ones_offered(
    gateway: Gateway, choice: dict[str, object], expected_tools: list[object]
) -> None:
    gateway.upstream.play = writes('<tool_call>{"name": "now", "arguments": {}}</tool_call>')
    body = {"model": "guide", **CHAT, "tools": [TOOL, NOW], "tool_choice": choice, "stream": True}
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=body) as reply:
        assert (reply.status, "[DONE]" in await reply.text()) == (200, True)
    names = [tool["function"]["name"] for tool in read_body(gateway)["tools"]]
    assert names == [tool["function"]["name"] for tool in cast("Any", expected_tools)]
    async with gateway.http.post(f"{gateway.url}/api/v0/chat/completions", json=body) as reply:
        assert reply.status == 200
    assert [tool["function"]["name"] for tool in read_body(gateway)["tools"]] == names
    status, refusal = await gateway.chat(**CHAT, tools=[TOOL, NOW], tool_choice={"type": "custom"})
    assert (status, "`tool_choice` must be" in refusal["error"]["message"]) == (400, True)


@pytest.mark.parametrize("engine", [Engine(Feature.TOOLS, Feature.REASONING)])
async def test_of_an_engine_that_lacks_little_only_that_is_supplied(gateway: Gateway) -> None:
    gateway.upstream.play = _own({"untouched": True})
    assert await gateway.chat(**CHAT) == (200, {"untouched": True})
    status, refusal = await gateway.chat(**CHAT, response_format={"type": "json_object"})
    assert (status, refusal["error"]["code"]) == (400, "engine_cannot")
    gateway.upstream.play = writes("one", "two")
    _, reply = await gateway.chat(**CHAT, n=2)
    assert [choice["message"]["content"] for choice in reply["choices"]] == ["one", "two"]


@pytest.mark.parametrize("engine", [Engine(Feature.TOOLS)])
async def test_what_an_engine_does_not_read_is_read_only_of_models_that_think(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.upstream.play = writes("<think>Hm.</think>So", "untouched")
    _, reply = await gateway.chat(**CHAT, tools=[TOOL])
    assert (reply["choices"][0]["message"]["content"], read_body(gateway)["tools"]) == ("So", [TOOL])
    monkeypatch.setattr(Facts, "capabilities", ("chat", "tools"))
    gateway.upstream.play = _own({"untouched": True})
    assert await gateway.chat(**CHAT, guided_choice=["a"]) == (200, {"untouched": True})
    assert read_body(gateway)["guided_choice"] == ["a"]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("streams", [True, False])
async def test_lm_studio_has_its_stats_with_it(gateway: Gateway, *, streams: bool) -> None:
    gateway.upstream.play = writes("<think>Hm.</think>" + CALLS, usage={"prompt_tokens": 7, "completion_tokens": 9})
    body = {"model": "guide", **CHAT, "tools": [TOOL], "stream": streams, "ttl": 60}
    async with gateway.http.post(f"{gateway.url}/api/v0/chat/completions", json=body) as reply:
        text = await reply.text()
    assert reply.status == 200
    assert '"stats"' in text
    assert '"get_weather"' in text
    assert "<think>" not in text
    assert gateway.supervisor.terms == [LeaseOptions(keep_s=60.0)]
