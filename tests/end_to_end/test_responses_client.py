"""OpenAI's own client for Responses, sync and async, and the real engine: the Guide, and models with a script."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import FunctionToolParam, Response, ResponseInputParam, ToolParam
from pydantic import BaseModel

from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.engines import EngineStatus
from tests.end_to_end.conftest import Roundhouse
from tests.fake_mcp import server as fake
from tests.patience import wait_until
from tests.scripted_gguf import ScriptedLlama

pytestmark = pytest.mark.real_engine

QUESTION = "What is Roundhouse?"
WEATHER: FunctionToolParam = {
    "type": "function",
    "name": "weather",
    "description": "Tell the weather.",
    "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
    "strict": False,
}
THINKS = ["<think>\n", "They want the ", "weather.", "\n</think>\n\n", "Let me look. "]
CALLS = [
    '<tool_call>\n{"name": "weather", ',
    '"arguments": {"town"',
    ': "Bern"}}\n</tool_call>',
    '\n<tool_call>\n{"name": "weather", "arguments": {"town": "Basel"}}\n</tool_call>',
]
PATCHES = ['<tool_call>\n{"name": "patch", "arguments": {"input": ', '"*** Begin\\n"}}\n</tool_call>']


class Forecast(BaseModel):
    """What an answer must hold."""

    town: str
    rain: bool


@pytest.fixture(scope="module", autouse=True)
def models(client: GatewayClient, home: Paths) -> None:
    """Models of which it is known what they say."""
    ScriptedLlama([*THINKS, *CALLS]).write(home.models / "agent.gguf")
    ScriptedLlama(["One, ", "two, ", "three, ", "four."]).write(home.models / "counts.gguf")
    ScriptedLlama(['{"town": "Bern", ', '"rain": true}']).write(home.models / "forecast.gguf")
    ScriptedLlama(PATCHES).write(home.models / "patcher.gguf")


@pytest.fixture
def api(client: GatewayClient) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{client.gateway.url}/v1", api_key="any", max_retries=0, timeout=60) as client_api:
        yield client_api


@pytest.fixture
async def async_api(client: GatewayClient) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{client.gateway.url}/v1", api_key="any", max_retries=0, timeout=60) as client_api:
        yield client_api


def stable_output(response: Response) -> list[dict[str, Any]]:
    """Return the output without what is new every time."""
    output: list[dict[str, Any]] = response.model_dump(mode="json")["output"]
    return [{key: value for key, value in item.items() if key not in {"id", "call_id"}} for item in output]


CALLS_ECHO = ['<tool_call>\n{"name": "fake__echo", "arguments": {"text"', ': "hello"}}\n</tool_call>']
SEARCHES = ['<tool_call>\n{"name": "file_search", "arguments": {"queries": ', '["Which locomotive?"]}}\n</tool_call>']


@pytest.mark.slow
def test_a_tool_of_an_mcp_server_is_called_here(api: OpenAI, roundhouse: Roundhouse, home: Paths) -> None:
    ScriptedLlama(CALLS_ECHO).write(home.models / "echoes.gguf")
    roundhouse("mcp", "add", "fake", "--", sys.executable, fake.__file__)
    tool: ToolParam = {"type": "mcp", "server_label": "fake", "require_approval": "never"}
    with pytest.raises(openai.PermissionDeniedError, match="Programs may use no MCP servers here"):
        api.responses.create(model="echoes", input="Say hello", tools=[tool])
    assert roundhouse("settings", "responses.mcp_servers", "fake").returncode == 0
    first = api.responses.create(model="echoes", input="Say hello", tools=[tool])
    assert [item.type for item in first.output] == ["mcp_list_tools", "mcp_approval_request"]
    approval: Any = {"type": "mcp_approval_response", "approval_request_id": first.output[1].id, "approve": True}
    second = api.responses.create(
        model="echoes", input=[approval], tools=[tool], previous_response_id=first.id, max_tool_calls=1
    )
    assert second.output[0].type == "mcp_call"
    assert (second.output[0].output, second.status) == ("hello", "completed")
    roundhouse("mcp", "allow", "fake", "echo")
    with api.responses.stream(model="echoes", input="Say hello", tools=[tool], max_tool_calls=2) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds.count("response.mcp_call.completed") == 2
    assert [item.type for item in final.output[:3]] == ["mcp_list_tools", "mcp_call", "mcp_call"]
    roundhouse("settings", "responses.mcp_servers", "--reset")
    roundhouse("mcp", "remove", "fake")


def test_files_are_searched_here(api: OpenAI, home: Paths) -> None:
    ScriptedLlama(SEARCHES).write(home.models / "searcher.gguf")
    store = api.vector_stores.create(name="Manuals")
    trains = api.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("trains.md", b"# Trains\n\nThe locomotive stood here.")
    )
    tool: ToolParam = {"type": "file_search", "vector_store_ids": [store.id]}
    response = api.responses.create(
        model="searcher", input="Find it", tools=[tool], max_tool_calls=1, include=["file_search_call.results"]
    )
    search = response.output[0]
    assert search.type == "file_search_call"
    assert search.results is not None
    assert [(result.file_id, result.filename) for result in search.results] == [(trains.id, "trains.md")]
    assert api.responses.retrieve(response.id).output[0].to_dict()["results"] is None
    shown_output = api.responses.retrieve(response.id, include=["file_search_call.results"]).output[0]
    assert shown_output.to_dict()["results"]
    api.vector_stores.delete(store.id)


def test_a_stream_says_the_same_as_the_whole(api: OpenAI) -> None:
    whole = api.responses.create(model="guide", input=QUESTION, max_output_tokens=200, temperature=0)
    with api.responses.stream(model="guide", input=QUESTION, max_output_tokens=200, temperature=0) as stream:
        final = stream.get_final_response()
    assert "Roundhouse" in whole.output_text
    assert (whole.status, final.output_text, final.status) == ("completed", whole.output_text, "completed")
    assert whole.usage is not None
    assert final.usage is not None
    assert whole.usage.input_tokens == final.usage.input_tokens > 5
    assert whole.usage.output_tokens == final.usage.output_tokens > 5
    assert final.usage.input_tokens_details.cached_tokens > 0


def test_an_empty_input_is_answered(api: OpenAI) -> None:
    assert api.responses.create(model="guide", input="", max_output_tokens=1).status in {"completed", "incomplete"}


@pytest.mark.slow
def test_reasoning_text_and_tool_calls_are_items_of_their_own(api: OpenAI) -> None:
    plain = api.responses.create(model="agent", input=QUESTION)
    assert [item.type for item in plain.output] == ["reasoning", "message"]
    with api.responses.stream(model="agent", input=QUESTION, tools=[WEATHER]) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call", "function_call"]
    assert [json.loads(item.arguments) for item in final.output if item.type == "function_call"] == [
        {"town": "Bern"},
        {"town": "Basel"},
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    whole = api.responses.create(model="agent", input=QUESTION, tools=[WEATHER])
    assert stable_output(api.responses.retrieve(final.id)) == stable_output(whole)


def test_reasoning_is_a_summary_where_one_is_wanted(api: OpenAI) -> None:
    response = api.responses.create(
        model="agent", input=QUESTION, reasoning={"summary": "auto"}, include=["reasoning.encrypted_content"]
    )
    thought = response.output[0]
    assert thought.type == "reasoning"
    assert thought.summary[0].text.startswith("They want")
    assert thought.encrypted_content


@pytest.mark.parametrize("by_id", [True, False])
def test_a_whole_round_with_tools(api: OpenAI, *, by_id: bool) -> None:
    first = api.responses.create(
        model="agent", input=QUESTION, tools=[WEATHER], include=["reasoning.encrypted_content"]
    )
    results: ResponseInputParam = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "Rain"}
        for item in first.output
        if item.type == "function_call"
    ]
    if by_id:
        second = api.responses.create(model="agent", input=results, tools=[WEATHER], previous_response_id=first.id)
    else:
        talk: Any = [{"role": "user", "content": QUESTION}, *first.output, *results]
        second = api.responses.create(model="agent", input=talk, tools=[WEATHER], store=False)
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens


def calls(response: Response) -> list[str]:
    return [item.arguments for item in response.output if item.type == "function_call"]


def test_tool_choice_is_kept_to(api: OpenAI) -> None:
    other: FunctionToolParam = {**WEATHER, "name": "other"}
    tools = [other, WEATHER]
    arguments: dict[str, Any] = {"model": "agent", "input": QUESTION, "reasoning": {"effort": "none"}}
    assert len(calls(api.responses.create(**arguments, tools=tools))) == 2
    assert len(calls(api.responses.create(**arguments, tools=tools, parallel_tool_calls=False))) == 1
    none = api.responses.create(**arguments, tools=tools, tool_choice="none")
    assert calls(none) == []
    named_response = api.responses.create(**arguments, tools=tools, tool_choice={"type": "function", "name": "weather"})
    assert named_response.tool_choice == openai.types.responses.ToolChoiceFunction(type="function", name="weather")
    assert calls(named_response)


def test_a_custom_tool_is_given_text(api: OpenAI) -> None:
    tool: Any = {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}}
    with api.responses.stream(model="patcher", input=QUESTION, tools=[tool]) as stream:
        kinds = {event.type for event in stream}
        (item,) = stream.get_final_response().output
    assert "response.custom_tool_call_input.done" in kinds
    assert item.type == "custom_tool_call"
    assert (item.name, item.input) == ("patch", "*** Begin\n")
    result: Any = [item, {"type": "custom_tool_call_output", "call_id": item.call_id, "output": "Done"}]
    api.responses.create(model="patcher", input=[{"role": "user", "content": QUESTION}, *result], tools=[tool])


def test_an_answer_is_parsed_into_what_it_must_hold(api: OpenAI) -> None:
    parsed_response = api.responses.parse(model="forecast", input=QUESTION, text_format=Forecast)
    assert parsed_response.output_parsed == Forecast(town="Bern", rain=True)
    with api.responses.stream(model="forecast", input=QUESTION, text_format=Forecast) as stream:
        assert stream.get_final_response().output_parsed == parsed_response.output_parsed
    held_format: Any = {"type": "json_schema", "name": "yes", "schema": {"type": "object", "properties": {"yes": {
        "type": "boolean"}}, "required": ["yes"], "additionalProperties": False}}  # fmt: skip
    free = api.responses.create(model="counts", input=QUESTION, text={"format": held_format}, max_output_tokens=50)
    if free.status == "completed":  # a model that wants to count may never come to an end
        assert isinstance(json.loads(free.output_text)["yes"], bool)


def test_a_conversation_goes_on_with_an_answer_by_its_id(api: OpenAI) -> None:
    first = api.responses.create(model="counts", input=QUESTION, instructions="Count.")
    second = api.responses.create(model="counts", input="And?", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    alone = api.responses.create(model="counts", input="And?", store=False)
    assert second.usage is not None
    assert alone.usage is not None
    assert second.usage.input_tokens > alone.usage.input_tokens
    kept_response = api.responses.retrieve(second.id)
    assert kept_response == second
    (given_item,) = api.responses.input_items.list(second.id)
    assert given_item.type == "message"
    assert given_item.content[0].to_dict() == {"type": "input_text", "text": "And?"}
    api.responses.delete(first.id)
    with pytest.raises(openai.BadRequestError) as error:
        api.responses.create(model="counts", input="And?", previous_response_id=second.id)
    assert error.value.code == "previous_response_not_found"
    with pytest.raises(openai.NotFoundError):
        api.responses.retrieve(first.id)
    with pytest.raises(openai.NotFoundError):
        api.responses.retrieve(alone.id)


def test_an_end_says_why(api: OpenAI) -> None:
    cut = api.responses.create(model="counts", input=QUESTION, max_output_tokens=2)
    assert cut.status == "incomplete"
    assert cut.incomplete_details is not None
    assert cut.incomplete_details.reason == "max_output_tokens"
    assert cut.output_text.startswith("One, two")


def test_odds_of_tokens_are_told(api: OpenAI) -> None:
    response = api.responses.create(
        model="counts", input=QUESTION, include=["message.output_text.logprobs"], top_logprobs=2
    )
    message = response.output[0]
    assert message.type == "message"
    part = message.content[0]
    assert part.type == "output_text"
    assert part.logprobs
    assert part.logprobs[0].token == "One, "
    assert len(part.logprobs[0].top_logprobs) == 2


def test_counts_match_what_is_read(api: OpenAI) -> None:
    token_count = api.responses.input_tokens.count(model="agent", input=QUESTION, instructions="Look.", tools=[WEATHER])
    read = api.responses.create(
        model="agent", input=QUESTION, instructions="Look.", tools=[WEATHER], max_output_tokens=1
    )
    assert read.usage is not None
    assert token_count.input_tokens == read.usage.input_tokens


def test_what_does_not_fit_is_refused_or_left_out_and_said(api: OpenAI) -> None:
    talk: Any = [{"role": "user", "content": f"{at} " + "word " * 200} for at in range(30)]
    mixed_messages = [message for question in talk for message in (question, {"role": "assistant", "content": "Yes."})]
    arguments: Any = {"model": "counts", "input": [*mixed_messages, {"role": "user", "content": QUESTION}]}
    with pytest.raises(openai.BadRequestError) as too_long:
        api.responses.create(**arguments)
    assert too_long.value.code == "context_length_exceeded"
    trimmed_response = api.responses.create(**arguments, truncation="auto")
    assert trimmed_response.output_text == "One, two, three, four."
    assert trimmed_response.model_extra is not None
    assert 0 < trimmed_response.model_extra["roundhouse"]["dropped_messages"] < 60


async def test_several_streams_at_once(async_api: AsyncOpenAI) -> None:
    async def ask() -> str:
        async with async_api.responses.stream(model="counts", input=QUESTION) as stream:
            return (await stream.get_final_response()).output_text

    assert set(await asyncio.gather(*(ask() for _ in range(6)))) == {"One, two, three, four."}


async def test_a_stream_left_early_frees_the_engine(async_api: AsyncOpenAI, client: GatewayClient) -> None:
    stream = await async_api.responses.create(model="guide", input=QUESTION, stream=True, temperature=2)
    async for event in stream:
        if event.type == "response.output_text.delta":
            break
    await stream.close()

    def is_idle() -> bool:
        return all(not status.in_flight for status in client.get("/running", list[EngineStatus]))

    await asyncio.to_thread(wait_until, is_idle)


def test_a_request_as_codex_sends_it(client: GatewayClient) -> None:
    """After what Codex 0.169 was seen to send, with its headers and fields of its own."""
    body = {
        "model": "agent",
        "stream": True,
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You are an agent."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Say hi"}]},
        ],
        "tools": [
            WEATHER,
            {"type": "namespace", "name": "agents", "description": "d", "tools": [{**WEATHER, "name": "close"}]},
            {"type": "web_search", "external_web_access": False},
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"summary": "auto"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "01a1",
        "client_metadata": {"session_id": "01a1"},
    }
    headers = {"originator": "codex_exec", "session-id": "01a1", "accept": "text/event-stream"}
    reply = httpx.post(f"{client.gateway.url}/v1/responses", json=body, headers=headers, timeout=60)
    assert reply.status_code == 200
    *_, last = (json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: "))
    assert last["type"] == "response.completed"
    assert [item["type"] for item in last["response"]["output"]] == ["reasoning", "message", *["function_call"] * 2]
    assert [tool["type"] for tool in last["response"]["tools"]] == ["function", "namespace"]


def test_errors_are_the_clients_own_kinds(api: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        api.responses.create(model="gpt-9", input=QUESTION)
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError, match="background"):
        api.responses.create(model="guide", input=QUESTION, background=True)
    picture: Any = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    with pytest.raises(openai.BadRequestError, match="images"):
        api.responses.create(model="guide", input=[{"role": "user", "content": [picture]}])
