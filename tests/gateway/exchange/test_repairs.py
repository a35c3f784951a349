"""Answers that cannot be used are put right alike in every dialect, before a client gets them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web

from app.core.model_facts import ModelFacts
from app.gateway.services import Services
from tests.gateway.exchange.test_supplied import Facts as Templates
from tests.gateway.played import Gateway

UNPARSED = "The model produced output that does not match the expected peg-native format"
OLD_WORDS = "Failed to parse input at pos 12: <tool_call>"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
WRITTEN = (
    '<think>Hm.</think>I look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
)
ASKED = "How is it in Paris?"


class Facts(Templates):
    """What is read of the model: a template that tells of tools and marks reasoning."""

    def read(self, path: Path) -> ModelFacts:  # noqa: ARG002
        return cast("ModelFacts", _Written())


class _Written(msgspec.Struct):
    chat_template: str = "{{ tools }} <tool_call> <think>"
    tool_template: str = ""
    capabilities: tuple[str, ...] = ("chat", "tools")
    architecture: str = "qwen3"
    has_draft_head: bool = False


@pytest.fixture
def services(services: Services) -> Services:
    return replace(services, facts=Facts())


class Scripted:
    """An engine with an answer for each request, in turn: deltas, and at last why it ended or what failed."""

    def __init__(self, gateway: Gateway, *answers: Sequence[object], raw: str = WRITTEN) -> None:
        self.answers, self.raw, self.requests = list(answers), raw, list[dict[str, Any]]()
        self.paths: list[str] = []
        gateway.upstream.play = self.play

    async def play(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        body = json.loads(await request.read())
        if request.path == "/apply-template":
            return web.json_response({"prompt": "<|im_start|>user…assistant\n"})
        if request.path == "/tokenize":
            return web.json_response({"tokens": [1]})
        self.requests.append(body)
        if request.path == "/v1/completions":
            return await self._stream(request, [{"text": self.raw[at : at + 4]} for at in range(0, len(self.raw), 4)])
        *deltas, end = self.answers.pop(0)
        if not deltas and isinstance(end, Exception):
            return web.json_response(_error(end), status=500)
        choices = [{"delta": delta} for delta in deltas]
        return await self._stream(request, choices, end)

    async def _stream(
        self, request: web.Request, choices: Sequence[dict[str, object]], end: object = "stop"
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for choice in choices:
            await _write(response, {"choices": [{"index": 0, "finish_reason": None, **choice}]})
        if isinstance(end, Exception):
            await _write(response, _error(end))
            return response
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": end}]}
        await _write(response, {**last, "usage": {"prompt_tokens": 9, "completion_tokens": 3}})
        await response.write(b"data: [DONE]\n\n")
        return response


async def _write(response: web.StreamResponse, event: object) -> None:
    await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")


def _error(error: Exception) -> dict[str, object]:
    return {"error": {"code": 500, "message": str(error), "type": "server_error"}}


def call(arguments: str, name: str = "get_weather", number: int = 0) -> dict[str, object]:
    function = {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": number, "id": f"call_{number}", "type": "function", "function": function}]}


class Answer(msgspec.Struct):
    """What a dialect's answer says."""

    text: str
    calls: list[tuple[str, dict[str, object]]]
    status: int = 200


def tool_for(dialect: str) -> dict[str, object]:
    function = {"name": "get_weather", "description": "Tell the weather", "parameters": SCHEMA}
    if dialect == "anthropic":
        return {"name": "get_weather", "input_schema": SCHEMA}
    if dialect == "responses":
        return {"type": "function", **function}
    return {"functionDeclarations": [function]} if dialect == "google" else {"type": "function", "function": function}


async def ask(gateway: Gateway, dialect: str, *, tools: bool = True, stream: bool = False) -> Answer:
    messages = [{"role": "user", "content": ASKED}]
    requests: dict[str, tuple[str, dict[str, object]]] = {
        "openai": ("/v1/chat/completions", {"messages": messages}),
        "anthropic": ("/v1/messages", {"messages": messages, "max_tokens": 99}),
        "ollama": ("/api/chat", {"messages": messages}),
        "responses": ("/v1/responses", {"input": ASKED}),
        "google": (
            f"/v1beta/models/guide:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}",
            {"contents": [{"role": "user", "parts": [{"text": ASKED}]}]},
        ),
    }
    path, body = requests[dialect]
    fields: dict[str, object] = {**body, **({"tools": [tool_for(dialect)]} if tools else {})}
    if dialect != "google":
        fields |= {"model": "guide", "stream": stream}
    async with gateway.http.post(gateway.url + path, json=fields) as reply:
        data = await reply.read()
    documents = _documents(data, is_lines=dialect == "ollama") if stream else [json.loads(data)]
    text, calls = READERS[dialect](documents)
    return Answer(text, calls, reply.status)


def _documents(data: bytes, *, is_lines: bool) -> list[Any]:
    lines = [line for line in data.decode().split("\n") if line.startswith("data: {") or (is_lines and line)]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


TextAndCalls = tuple[str, list[tuple[str, dict[str, object]]]]


def _of_openai(documents: list[Any]) -> TextAndCalls:
    messages = [
        choice.get("delta") or choice.get("message") or {} for each in documents for choice in each.get("choices", ())
    ]
    functions = [entry["function"] for message in messages for entry in message.get("tool_calls") or ()]
    name = next((function["name"] for function in functions if function.get("name")), "")
    arguments = "".join(function.get("arguments") or "" for function in functions)
    text = "".join(message.get("content") or "" for message in messages)
    return text, [(name, json.loads(arguments))] if name else []


def _of_anthropic(documents: list[Any]) -> TextAndCalls:
    blocks = [block for each in documents for block in each.get("content", ())]
    blocks += [each["content_block"] for each in documents if "content_block" in each]
    deltas = [each["delta"] for each in documents if each.get("type") == "content_block_delta"]
    pieces = "".join(delta.get("partial_json", "") for delta in deltas)
    calls = [
        (block["name"], block["input"] or json.loads(pieces or "{}")) for block in blocks if block["type"] == "tool_use"
    ]
    texts = [block.get("text", "") for block in blocks if block["type"] == "text"]
    return "".join([*texts, *(delta.get("text", "") for delta in deltas)]), calls


def _of_ollama(documents: list[Any]) -> TextAndCalls:
    messages = [each.get("message") or {} for each in documents]
    functions = [entry["function"] for message in messages for entry in message.get("tool_calls") or ()]
    text = "".join(message.get("content") or "" for message in messages)
    return text, [(function["name"], function["arguments"]) for function in functions]


def _of_responses(documents: list[Any]) -> TextAndCalls:
    last = documents[-1].get("response", documents[-1])
    items = last.get("output") or ()
    calls = [(item["name"], json.loads(item["arguments"])) for item in items if item["type"] == "function_call"]
    texts = [part["text"] for item in items if item["type"] == "message" for part in item["content"]]
    return "".join(texts), calls


def _of_google(documents: list[Any]) -> TextAndCalls:
    parts = [part for each in documents for part in each.get("candidates", [{}])[0].get("content", {}).get("parts", ())]
    calls = [(part["functionCall"]["name"], part["functionCall"]["args"]) for part in parts if "functionCall" in part]
    return "".join(part.get("text", "") for part in parts if not part.get("thought")), calls


READERS = {
    "openai": _of_openai,
    "anthropic": _of_anthropic,
    "ollama": _of_ollama,
    "responses": _of_responses,
    "google": _of_google,
}
PARIS = ("get_weather", {"city": "Paris"})
dialects = pytest.mark.parametrize("dialect", READERS)
streams = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@pytest.mark.slow(cases=1)
@dialects
@streams
@pytest.mark.parametrize("words", [UNPARSED, OLD_WORDS])
async def test_what_the_engine_could_not_read_is_read_here(
    gateway: Gateway, dialect: str, *, stream: bool, words: str
) -> None:
    engine = Scripted(gateway, [RuntimeError(words)])
    answer = await ask(gateway, dialect, stream=stream)
    assert (answer.status, answer.text.strip(), answer.calls) == (200, "I look.", [PARIS])
    raw = engine.requests[-1]
    assert raw["prompt"] == "<|im_start|>user…assistant\n"
    assert {"<tool_call>", "</tool_call>", "<think>"} <= set(raw["preserved_tokens"])


@dialects
async def test_a_stream_that_broke_off_unread_goes_on_after_what_was_said(gateway: Gateway, dialect: str) -> None:
    Scripted(gateway, [{"content": "I "}, {"content": "lo"}, RuntimeError(UNPARSED)])
    answer = await ask(gateway, dialect, stream=True)
    assert (answer.text.strip(), answer.calls) == ("I look.", [PARIS])


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
async def test_without_tools_too_and_streams_from_the_second_on(gateway: Gateway, dialect: str) -> None:
    engine = Scripted(gateway, *([RuntimeError(UNPARSED)] for _ in range(3)), raw="It rains.")
    assert (await ask(gateway, dialect, tools=False)).text == "It rains."
    assert (await ask(gateway, dialect, tools=False, stream=True)).text == "It rains."
    assert engine.answers == []


async def test_a_failure_that_cannot_be_put_right_is_told(gateway: Gateway) -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.json_response(_error(RuntimeError(UNPARSED)), status=500)

    gateway.upstream.play = refuse
    answer = await ask(gateway, "ollama")
    assert answer.status >= 500


@pytest.mark.slow(cases=1)
@dialects
@streams
async def test_a_call_that_its_tool_would_refuse_is_asked_for_again(
    gateway: Gateway, dialect: str, *, stream: bool
) -> None:
    engine = Scripted(gateway, [call('{"days": 3}'), "tool_calls"], [call('{"city": "Paris"}'), "tool_calls"])
    answer = await ask(gateway, dialect, stream=stream)
    assert answer.calls == [PARIS]
    *_, turn, result = engine.requests[1]["messages"]
    assert turn["tool_calls"][0]["function"]["arguments"] == '{"days": 3}'
    assert "`city` is missing." in result["content"]
    assert result["tool_call_id"] == turn["tool_calls"][0]["id"]


async def test_what_is_no_json_is_told_in_words(gateway: Gateway) -> None:
    engine = Scripted(gateway, [call("city: Paris"), "tool_calls"], [call('{"city": "Paris"}'), "tool_calls"])
    assert (await ask(gateway, "openai")).calls == [PARIS]
    *_, turn, result = engine.requests[1]["messages"]
    assert turn["tool_calls"][0]["function"]["arguments"] == "{}"
    assert "not valid JSON" in result["content"]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("arguments", "expected_arguments"),
    [
        ("{'city': 'Paris',}", {"city": "Paris"}),
        ('{"city": "Paris", "days": "3"}', {"city": "Paris", "days": 3}),
        ('{"city": "Paris"', {"city": "Paris"}),
    ],
)
async def test_what_is_meant_without_doubt_is_put_right_at_once(
    gateway: Gateway, arguments: str, expected_arguments: dict[str, object]
) -> None:
    engine = Scripted(gateway, [call(arguments), "tool_calls"])
    assert (await ask(gateway, "openai", stream=True)).calls == [("get_weather", expected_arguments)]
    assert len(engine.requests) == 1


async def test_a_second_wrong_call_is_handed_on(gateway: Gateway) -> None:
    engine = Scripted(gateway, [call("{}"), "tool_calls"], [call('{"days": 1}'), "tool_calls"])
    assert (await ask(gateway, "openai")).calls == [("get_weather", {"days": 1})]
    assert len(engine.requests) == 2


async def test_the_first_call_stays_where_the_second_request_is_refused(gateway: Gateway) -> None:
    Scripted(gateway, [call('{"days": 1}'), "tool_calls"], [RuntimeError("no such turn")])
    assert (await ask(gateway, "openai", stream=True)).calls == [("get_weather", {"days": 1})]


@pytest.mark.slow(cases=1)
@dialects
@streams
async def test_an_empty_answer_is_asked_for_again(gateway: Gateway, dialect: str, *, stream: bool) -> None:
    engine = Scripted(gateway, [{"reasoning_content": "Hm."}, "stop"], [{"content": "It rains."}, "stop"])
    assert (await ask(gateway, dialect, stream=stream)).text == "It rains."
    assert "The last answer was empty." in engine.requests[1]["messages"][-1]["content"]
    assert engine.requests[1]["chat_template_kwargs"]["enable_thinking"] is False


async def test_two_empty_answers_are_an_error(gateway: Gateway) -> None:
    Scripted(gateway, ["stop"], ["stop"])
    assert (await ask(gateway, "openai")).status == 502


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("end", ["length", "content_filter"])
async def test_an_answer_that_its_limit_ended_is_left_alone(gateway: Gateway, end: str) -> None:
    engine = Scripted(gateway, [{"reasoning_content": "Hm"}, end])
    assert (await ask(gateway, "openai")).status == 200
    assert len(engine.requests) == 1


@pytest.mark.slow(cases=1)
@streams
async def test_a_call_within_reasoning_is_a_call(gateway: Gateway, *, stream: bool) -> None:
    thought = 'I call it.\n<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'
    engine = Scripted(gateway, [{"reasoning_content": thought}, "stop"])
    assert (await ask(gateway, "openai", stream=stream)).calls == [PARIS]
    assert len(engine.requests) == 1


@pytest.mark.slow(cases=1)
@streams
async def test_a_call_that_the_engine_took_for_text_is_a_call(gateway: Gateway, *, stream: bool) -> None:
    Scripted(gateway, [{"content": "So:\n<tool_"}, {"content": WRITTEN.partition("<tool_")[2]}, "stop"])
    answer = await ask(gateway, "openai", stream=stream)
    assert (answer.text, answer.calls) == ("So:", [PARIS])


async def test_a_long_call_is_not_waited_for(gateway: Gateway) -> None:
    long = json.dumps({"city": "x" * 5000, "days": "many"})
    engine = Scripted(gateway, [call(long[:3000]), _more(long[3000:]), "tool_calls"])
    assert (await ask(gateway, "openai", stream=True)).calls == [("get_weather", json.loads(long))]
    assert len(engine.requests) == 1


def _more(arguments: str) -> dict[str, object]:
    return {"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("dialect", ["openai", "ollama"])
async def test_nothing_is_asked_twice_where_the_setting_is_off(gateway: Gateway, dialect: str) -> None:
    gateway.services.settings.change_values({"models.check_calls": False})
    engine = Scripted(gateway, [call("{}"), "tool_calls"])
    assert (await ask(gateway, dialect, stream=True)).calls == [("get_weather", {})]
    assert len(engine.requests) == 1


async def test_a_request_with_fields_of_the_engines_own_passes_as_it_is(gateway: Gateway) -> None:
    engine = Scripted(gateway, [{"content": "Yes."}, "stop"])
    body = {
        "model": "guide",
        "messages": [{"role": "user", "content": ASKED}],
        "tools": [tool_for("openai")],
        "stream": True,
        "dry_multiplier": 0.5,
    }
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=body) as reply:
        assert reply.status == 200
        await reply.read()
    assert engine.requests == [body]
