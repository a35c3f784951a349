"""The clients people use, each in its own words, on an engine that answers, breaks and hangs by the script."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import msgspec
import ollama
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from app.hub.gguf.listing import read_gguf
from tests.gateway.played import Gateway
from tests.gateway.scripted import ERROR, ODDS, TEXT, THOUGHT, Script
from tests.patience import PATIENCE_S
from tests.scripted_gguf import ScriptedLlama

pytestmark = pytest.mark.slow

ARGUMENTS = {"city": "Köln"}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER: Any = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
ALL = "".join(TEXT)


@pytest.fixture
def script(gateway: Gateway, tmp_path: Path) -> Script:
    """The engine, for a model whose template knows tools: Ollama's dialect looks."""
    library: Any = gateway.services.library
    file = ScriptedLlama(["Hello"]).write(tmp_path / "tools.gguf")
    library._models[0] = msgspec.structs.replace(
        library.find_model("guide"), path=str(file), capabilities=read_gguf(file).capabilities
    )
    return Script(gateway.upstream)


def says(kind: str) -> list[Any]:
    return [{"role": "user", "content": kind}]


class TestOpenAI:
    """`openai`, chat completions."""

    @pytest.fixture
    async def api(self, gateway: Gateway, script: Script) -> AsyncIterator[AsyncOpenAI]:
        del script
        async with AsyncOpenAI(
            base_url=f"{gateway.url}/v1", api_key="any", max_retries=0, timeout=PATIENCE_S
        ) as client_api:
            yield client_api

    async def stream_events(self, api: AsyncOpenAI, kind: str, **wishes: Any) -> list[Any]:  # noqa: ANN401 -- as the SDK takes it
        async with await api.chat.completions.create(
            model="guide", messages=says(kind), stream=True, **wishes
        ) as stream:
            return [chunk.choices[0] async for chunk in stream if chunk.choices]

    async def whole(self, api: AsyncOpenAI, kind: str, **wishes: Any) -> Any:  # noqa: ANN401 -- as above
        return (await api.chat.completions.create(model="guide", messages=says(kind), **wishes)).choices[0]

    async def test_text(self, api: AsyncOpenAI) -> None:
        assert (await self.whole(api, "text")).message.content == ALL
        assert "".join(choice.delta.content or "" for choice in await self.stream_events(api, "text")) == ALL

    async def test_a_tool_call(self, api: AsyncOpenAI) -> None:
        answered_choice = await self.whole(api, "tool", tools=[WEATHER])
        assert (answered_choice.finish_reason, answered_choice.message.tool_calls[0].function.name) == (
            "tool_calls",
            "weather",
        )
        assert json.loads(answered_choice.message.tool_calls[0].function.arguments) == ARGUMENTS
        choices = await self.stream_events(api, "tool", tools=[WEATHER])
        pieces = [call.function.arguments for choice in choices for call in choice.delta.tool_calls or []]
        assert json.loads("".join(pieces)) == ARGUMENTS

    async def test_reasoning_then_text(self, api: AsyncOpenAI) -> None:
        assert (await self.whole(api, "think")).message.reasoning_content == "".join(THOUGHT)
        deltas = [choice.delta for choice in await self.stream_events(api, "think")]
        assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == "".join(THOUGHT)
        assert "".join(delta.content or "" for delta in deltas) == ALL

    async def test_log_probabilities(self, api: AsyncOpenAI) -> None:
        answered_choice = await self.whole(api, "odds", logprobs=True)
        assert answered_choice.logprobs.content[0].logprob == ODDS[0]["logprob"]
        logprobs = [
            choice.logprobs for choice in await self.stream_events(api, "odds", logprobs=True) if choice.logprobs
        ]
        assert logprobs[0].content[0].token == ODDS[0]["token"]

    async def test_the_first_words_of_a_slow_answer_come_at_once(self, api: AsyncOpenAI, script: Script) -> None:
        stream = await api.chat.completions.create(model="guide", messages=says("slow"), stream=True)
        text = ""
        async with asyncio.timeout(PATIENCE_S):
            async for chunk in stream:
                text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
                if text == TEXT[0]:
                    script.go_on.set()
        assert text == ALL

    @pytest.mark.parametrize("kind", ["broken", "dead"])
    async def test_an_answer_that_breaks_off_is_an_error(self, api: AsyncOpenAI, kind: str) -> None:
        with pytest.raises(openai.APIError, match=ERROR if kind == "broken" else "cut off"):
            await self.stream_events(api, kind)
        with pytest.raises(openai.InternalServerError, match=ERROR):
            await self.whole(api, kind)

    async def test_a_client_that_gives_up_waiting_ends_the_engines_work(self, api: AsyncOpenAI, script: Script) -> None:
        async def give_up(patience_s: float) -> None:
            with pytest.raises(openai.APITimeoutError):
                await self.whole(api, "hang", timeout=patience_s)

        await script.check_left(give_up)

    async def test_a_stream_closed_in_the_middle_ends_the_engines_work(self, api: AsyncOpenAI, script: Script) -> None:
        stream = await api.chat.completions.create(model="guide", messages=says("slow"), stream=True)
        await anext(aiter(stream))
        await stream.close()
        await asyncio.wait_for(script.disconnect.wait(), PATIENCE_S)


class TestAnthropic:
    """`anthropic`, messages."""

    @pytest.fixture
    async def api(self, gateway: Gateway, script: Script) -> AsyncIterator[AsyncAnthropic]:
        del script
        async with AsyncAnthropic(base_url=gateway.url, api_key="any", max_retries=0, timeout=PATIENCE_S) as client_api:
            yield client_api

    async def whole(self, api: AsyncAnthropic, kind: str, **wishes: Any) -> Any:  # noqa: ANN401 -- as the SDK takes it
        return await api.messages.create(model="guide", max_tokens=99, messages=says(kind), **wishes)

    async def stream_events(self, api: AsyncAnthropic, kind: str, **wishes: Any) -> Any:  # noqa: ANN401 -- as above
        async with api.messages.stream(model="guide", max_tokens=99, messages=says(kind), **wishes) as stream:
            return await stream.get_final_message()

    @pytest.mark.parametrize("way", ["whole", "stream_events"])
    async def test_text(self, api: AsyncAnthropic, way: str) -> None:
        assert (await getattr(self, way)(api, "text")).content[0].text == ALL

    @pytest.mark.parametrize("way", ["whole", "stream_events"])
    async def test_a_tool_call(self, api: AsyncAnthropic, way: str) -> None:
        message = await getattr(self, way)(api, "tool", tools=[{"name": "weather", "input_schema": SCHEMA}])
        assert (message.stop_reason, message.content[0].name, message.content[0].input) == (
            "tool_use",
            "weather",
            ARGUMENTS,
        )

    @pytest.mark.parametrize("way", ["whole", "stream_events"])
    async def test_reasoning_then_text(self, api: AsyncAnthropic, way: str) -> None:
        thought, text = (await getattr(self, way)(api, "think")).content
        assert (thought.thinking, text.text) == ("".join(THOUGHT), ALL)

    async def test_the_first_words_of_a_slow_answer_come_at_once(self, api: AsyncAnthropic, script: Script) -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            api.messages.stream(model="guide", max_tokens=99, messages=says("slow")) as stream,
        ):
            whole_text = ""
            async for text in stream.text_stream:
                whole_text += text
                if whole_text == TEXT[0]:
                    script.go_on.set()
        assert whole_text == ALL

    @pytest.mark.parametrize("kind", ["broken", "dead"])
    async def test_an_answer_that_breaks_off_is_an_error(self, api: AsyncAnthropic, kind: str) -> None:
        with pytest.raises(anthropic.APIStatusError, match=ERROR if kind == "broken" else "cut off"):
            await self.stream_events(api, kind)
        with pytest.raises(anthropic.InternalServerError, match=ERROR):
            await self.whole(api, kind)

    async def test_a_client_that_gives_up_waiting_ends_the_engines_work(
        self, api: AsyncAnthropic, script: Script
    ) -> None:
        async def give_up(patience_s: float) -> None:
            with pytest.raises(anthropic.APITimeoutError):
                await self.whole(api, "hang", timeout=patience_s)

        await script.check_left(give_up)

    async def test_a_stream_closed_in_the_middle_ends_the_engines_work(
        self, api: AsyncAnthropic, script: Script
    ) -> None:
        async with api.messages.stream(model="guide", max_tokens=99, messages=says("slow")) as stream:
            await anext(aiter(stream.text_stream))
        await asyncio.wait_for(script.disconnect.wait(), PATIENCE_S)


class TestOllama:
    """`ollama`, chat. Every answer is translated."""

    @pytest.fixture
    async def api(self, gateway: Gateway, script: Script) -> AsyncIterator[ollama.AsyncClient]:
        del script
        async with ollama.AsyncClient(host=gateway.url, timeout=PATIENCE_S) as client_api:
            yield client_api

    async def stream_events(self, api: ollama.AsyncClient, kind: str, **wishes: Any) -> list[Any]:  # noqa: ANN401 -- as the client takes it
        return [part async for part in await api.chat(model="guide", messages=says(kind), stream=True, **wishes)]

    async def whole(self, api: ollama.AsyncClient, kind: str, **wishes: Any) -> list[Any]:  # noqa: ANN401 -- as above
        return [await api.chat(model="guide", messages=says(kind), **wishes)]

    @pytest.mark.parametrize("way", ["whole", "stream_events"])
    async def test_text(self, api: ollama.AsyncClient, way: str) -> None:
        parts = await getattr(self, way)(api, "text")
        assert "".join(part.message.content or "" for part in parts) == ALL
        assert (parts[-1].done, parts[-1].eval_count) == (True, 3)

    @pytest.mark.parametrize("way", ["whole", "stream_events"])
    async def test_a_tool_call(self, api: ollama.AsyncClient, way: str) -> None:
        parts = await getattr(self, way)(api, "tool", tools=[WEATHER])
        (call,) = [call for part in parts for call in part.message.tool_calls or []]
        assert (call.function.name, call.function.arguments) == ("weather", ARGUMENTS)

    @pytest.mark.parametrize("way", ["whole", "stream_events"])
    async def test_reasoning_then_text(self, api: ollama.AsyncClient, way: str) -> None:
        parts = await getattr(self, way)(api, "think")
        assert "".join(part.message.thinking or "" for part in parts) == "".join(THOUGHT)
        assert "".join(part.message.content or "" for part in parts) == ALL

    @pytest.mark.parametrize("way", ["whole", "stream_events"])
    async def test_log_probabilities(self, api: ollama.AsyncClient, way: str) -> None:
        parts = await getattr(self, way)(api, "odds", logprobs=True)
        (odds,) = [logprob for part in parts for logprob in part.logprobs or []]
        assert (odds.token, odds.logprob) == (ODDS[0]["token"], ODDS[0]["logprob"])

    async def test_the_first_words_of_a_slow_answer_come_at_once(self, api: ollama.AsyncClient, script: Script) -> None:
        text = ""
        async with asyncio.timeout(PATIENCE_S):
            async for part in await api.chat(model="guide", messages=says("slow"), stream=True):
                text += part.message.content or ""
                if text == TEXT[0]:
                    script.go_on.set()
        assert text == ALL

    @pytest.mark.parametrize("kind", ["broken", "dead"])
    async def test_an_answer_that_breaks_off_is_an_error(self, api: ollama.AsyncClient, kind: str) -> None:
        for way in (self.stream_events, self.whole):
            with pytest.raises(ollama.ResponseError, match=ERROR if kind == "broken" else "cut off"):
                await way(api, kind)

    async def test_a_client_that_gives_up_waiting_ends_the_engines_work(self, gateway: Gateway, script: Script) -> None:
        async def give_up(patience_s: float) -> None:
            async with ollama.AsyncClient(host=gateway.url, timeout=patience_s) as hasty:
                with pytest.raises(httpx.ReadTimeout):
                    await self.whole(hasty, "hang")

        await script.check_left(give_up)

    async def test_a_stream_closed_in_the_middle_ends_the_engines_work(
        self, api: ollama.AsyncClient, script: Script
    ) -> None:
        stream: Any = await api.chat(model="guide", messages=says("slow"), stream=True)
        await anext(stream)
        await stream.aclose()
        await asyncio.wait_for(script.disconnect.wait(), PATIENCE_S)
