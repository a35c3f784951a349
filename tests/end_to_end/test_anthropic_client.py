"""Anthropic's own client, sync and async, and the real engine: the Guide, and models with a script."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import MessageParam, ToolParam

from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.engines import EngineStatus
from tests.patience import wait_until
from tests.scripted_gguf import ScriptedLlama

pytestmark = pytest.mark.real_engine

ASKED: list[MessageParam] = [{"role": "user", "content": "What is Roundhouse?"}]
CERTAIN = {"temperature": 0}
WEATHER: ToolParam = {
    "name": "weather",
    "description": "Tell the weather.",
    "input_schema": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
}
THINKS = ["<think>\n", "They want the ", "weather.", "\n</think>\n\n", "Let me look. "]
CALLS = [
    '<tool_call>\n{"name": "weather", ',
    '"arguments": {"town"',
    ': "Bern"}}\n</tool_call>',
    '\n<tool_call>\n{"name": "weather", "arguments": {"town": "Basel"}}\n</tool_call>',
]


@pytest.fixture(scope="module", autouse=True)
def models(client: GatewayClient, home: Paths) -> None:
    """Models of which it is known what they say."""
    ScriptedLlama([*THINKS, *CALLS]).write(home.models / "agent.gguf")
    ScriptedLlama(["One, ", "two, ", "three, ", "four."]).write(home.models / "counts.gguf")


@pytest.fixture
def api(client: GatewayClient) -> Iterator[Anthropic]:
    with Anthropic(base_url=client.gateway.url, api_key="any", max_retries=0, timeout=60) as client_api:
        yield client_api


@pytest.fixture
async def async_api(client: GatewayClient) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=client.gateway.url, api_key="any", max_retries=0, timeout=60) as client_api:
        yield client_api


def test_a_whole_answer(api: Anthropic) -> None:
    reply = api.messages.create(model="guide", max_tokens=100, messages=ASKED, extra_body=CERTAIN)
    assert (reply.type, reply.role, reply.model, reply.stop_reason) == ("message", "assistant", "guide", "end_turn")
    assert reply.id.startswith("msg_")
    (block,) = reply.content
    assert block.type == "text"
    assert "Roundhouse" in block.text
    usage = reply.usage
    assert usage.output_tokens > 5
    assert usage.input_tokens + (usage.cache_read_input_tokens or 0) > 5
    assert usage.cache_creation_input_tokens == 0


def test_a_stream_says_the_same_as_the_whole(api: Anthropic) -> None:
    whole = api.messages.create(model="guide", max_tokens=100, messages=ASKED, extra_body=CERTAIN)
    with api.messages.stream(model="guide", max_tokens=100, messages=ASKED, extra_body=CERTAIN) as stream:
        final = stream.get_final_message()
    assert [block.to_dict() for block in final.content] == [block.to_dict() for block in whole.content]
    assert final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == whole.usage.output_tokens


async def test_several_streams_at_once(async_api: AsyncAnthropic) -> None:
    async def ask() -> str:
        async with async_api.messages.stream(model="guide", max_tokens=20, messages=ASKED) as stream:
            return await stream.get_final_text()

    assert all(await asyncio.gather(*(ask() for _ in range(6))))


async def test_a_stream_left_early_frees_the_engine(async_api: AsyncAnthropic, client: GatewayClient) -> None:
    stream = await async_api.messages.create(model="guide", max_tokens=1500, messages=ASKED, stream=True)
    async for _ in stream:
        break
    await stream.close()

    def is_idle() -> bool:
        return all(not status.in_flight for status in client.get("/running", list[EngineStatus]))

    await asyncio.to_thread(wait_until, is_idle)


def test_thinking_text_and_tool_calls_are_blocks_of_their_own(api: Anthropic) -> None:
    reply = api.messages.create(model="agent", max_tokens=100, messages=ASKED)
    assert [block.type for block in reply.content] == ["thinking", "text"]
    tools = api.messages.create(
        model="agent", max_tokens=100, messages=ASKED, tools=[WEATHER], thinking={"type": "disabled"}
    )
    calls = [block for block in tools.content if block.type == "tool_use"]
    assert [call.input for call in calls] == [{"town": "Bern"}, {"town": "Basel"}]
    assert len({call.id for call in calls}) == 2
    assert tools.stop_reason == "tool_use"


def events_of(api: Anthropic, wishes: dict[str, Any]) -> list[Any]:
    with api.messages.create(model="agent", max_tokens=100, messages=ASKED, stream=True, **wishes) as stream:
        return list(stream)


@pytest.mark.parametrize("wishes", [{}, {"tools": [WEATHER]}])
def test_each_block_of_a_stream_ends_before_the_next_begins(api: Anthropic, wishes: dict[str, Any]) -> None:
    events = events_of(api, wishes)
    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    open_index, begun_count = None, 0
    for event in events:
        if event.type == "content_block_start":
            assert (open_index, event.index) == (None, begun_count)
            open_index, begun_count = event.index, begun_count + 1
        elif event.type == "content_block_delta":
            assert event.index == open_index
        elif event.type == "content_block_stop":
            assert event.index == open_index
            open_index = None
    assert (open_index, begun_count > 1) == (None, True)


def test_thinking_is_signed_before_it_ends(api: Anthropic) -> None:
    deltas = [
        event.delta.type for event in events_of(api, {}) if event.type == "content_block_delta" and event.index == 0
    ]
    assert deltas[:-1] == ["thinking_delta"] * (len(deltas) - 1)
    assert deltas[-1] == "signature_delta"


def test_thinking_can_be_switched_off(api: Anthropic) -> None:
    on = api.messages.count_tokens(model="agent", messages=ASKED)
    off = api.messages.count_tokens(model="agent", messages=ASKED, thinking={"type": "disabled"})
    assert off.input_tokens > on.input_tokens  # this template opens and closes the reasoning itself


@pytest.mark.parametrize("is_streamed", [False, True])
def test_one_tool_at_a_time(api: Anthropic, *, is_streamed: bool) -> None:
    wishes: dict[str, Any] = {
        "model": "agent",
        "max_tokens": 100,
        "messages": ASKED,
        "tools": [WEATHER],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    }
    if is_streamed:
        with api.messages.stream(**wishes) as stream:
            reply = stream.get_final_message()
    else:
        reply = api.messages.create(**wishes)
    assert [block.input for block in reply.content if block.type == "tool_use"] == [{"town": "Bern"}]


def test_no_tool_is_called_when_none_may_be(api: Anthropic) -> None:
    reply = api.messages.create(
        model="agent", max_tokens=100, messages=ASKED, tools=[WEATHER], tool_choice={"type": "none"}
    )
    assert "tool_use" not in {block.type for block in reply.content}
    assert reply.stop_reason == "end_turn"


def test_a_whole_round_with_a_tool(api: Anthropic) -> None:
    first = api.messages.create(model="agent", max_tokens=100, messages=ASKED, tools=[WEATHER])
    results: Any = [
        {"type": "tool_result", "tool_use_id": block.id, "content": "Rain", "is_error": False}
        for block in first.content
        if block.type == "tool_use"
    ]
    turns: list[MessageParam] = [
        *ASKED,
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [{"type": "text", "text": "So?"}, *results]},
    ]
    assert api.messages.create(model="agent", max_tokens=9, messages=turns, tools=[WEATHER]).usage.output_tokens


@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_end_says_why(api: Anthropic, *, is_streamed: bool) -> None:
    def read_end(**wishes: object) -> tuple[str | None, str | None]:
        arguments: dict[str, Any] = {"model": "counts", "max_tokens": 50, "messages": ASKED, **wishes}
        if not is_streamed:
            reply = api.messages.create(**arguments)
        else:
            with api.messages.stream(**arguments) as stream:
                reply = stream.get_final_message()
        return reply.stop_reason, reply.stop_sequence

    assert read_end() == ("end_turn", None)
    assert read_end(max_tokens=2) == ("max_tokens", None)
    assert read_end(stop_sequences=["never", "three"]) == ("stop_sequence", "three")


def test_system_turns_anywhere_reach_the_model(api: Anthropic) -> None:
    def count(messages: list[MessageParam], **wishes: Any) -> int:  # noqa: ANN401 -- as the SDK takes it
        return api.messages.count_tokens(model="agent", messages=messages, **wishes).input_tokens

    plain = count(ASKED)
    assert count(ASKED, system="Be brief.") > plain
    assert count([*ASKED, {"role": "system", "content": "Be brief."}]) > plain
    assert count(ASKED, system=[{"type": "text", "text": "x-anthropic-billing-header: cc=1; cch=abc;"}]) == plain


async def test_counts_match_what_is_read(async_api: AsyncAnthropic) -> None:
    token_count = await async_api.messages.count_tokens(model="agent", messages=ASKED, tools=[WEATHER])
    reply = await async_api.messages.create(model="agent", messages=ASKED, tools=[WEATHER], max_tokens=1)
    assert token_count.input_tokens == reply.usage.input_tokens + (reply.usage.cache_read_input_tokens or 0)


def test_names_of_anthropics_models_are_answered_by_the_one_in_use(api: Anthropic) -> None:
    for used_model in ("agent", "counts"):
        api.messages.create(model=used_model, max_tokens=1, messages=ASKED)
        assert api.messages.create(model="claude-opus-4-8", max_tokens=1, messages=ASKED).model == used_model


def test_a_request_as_claude_code_sends_it(api: Anthropic) -> None:
    """After protocols seen on the wire: beta route, billing line, deferred and server tools, adaptive thinking."""
    body: dict[str, Any] = {
        "model": "claude-opus-4-8",
        "max_tokens": 32000,
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.329; cch=00000;"},
            {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
            {"role": "system", "content": "Mind the gap."},
        ],
        "tools": [
            {**WEATHER, "defer_loading": True},
            {"type": "tool_search_tool_regex_20251119", "name": "ToolSearch"},
        ],
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "metadata": {"user_id": "somebody"},
        "stream": True,
    }
    api.messages.create(model="agent", max_tokens=1, messages=ASKED)  # the model in use
    text = api.post("/v1/messages?beta=true", body=body, cast_to=str, options={"headers": {"anthropic-beta": "x-1"}})
    assert '"name":"weather"' in text
    assert text.rstrip().endswith('data: {"type":"message_stop"}')


def test_models_are_listed_page_by_page(api: Anthropic) -> None:
    names = {model.id for model in api.models.list(limit=1)}
    assert {"guide", "agent", "counts"} <= names
    model = api.models.retrieve("agent")
    assert (model.type, model.id, model.lifecycle, model.max_input_tokens) == ("model", "agent", "active", 2048)


def test_errors_are_the_clients_own_kinds(api: Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="roundhouse alias gpt-9 MODEL") as unknown:
        api.messages.create(model="gpt-9", max_tokens=1, messages=ASKED)
    assert unknown.value.request_id
    with pytest.raises(anthropic.NotFoundError):
        api.models.retrieve("gpt-9")
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > \d+ maximum") as too_long:
        api.messages.create(model="guide", max_tokens=1, messages=[{"role": "user", "content": "word " * 9000}])
    assert isinstance(too_long.value.body, dict)
    assert too_long.value.body["type"] == "error"
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        api.messages.create(model="guide", max_tokens=0, messages=ASKED)
    picture: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    with pytest.raises(anthropic.BadRequestError, match="image"):
        api.messages.create(model="guide", max_tokens=1, messages=[{"role": "user", "content": [picture]}])
