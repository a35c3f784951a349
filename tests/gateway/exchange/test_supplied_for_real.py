"""OpenVINO GenAI, which knows neither tools nor reasoning, has both here: the real engine, asked by real clients."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

import anthropic
import msgspec
import ollama
import openai
import pytest

from app.config.paths import RESOURCES
from app.gateway.services import Services
from engines.api import LaunchOptions
from engines.openvino.launch import ADAPTER
from tests.end_to_end.worker import KEY, Engine, Worker
from tests.engine_environments import engine_environment
from tests.gateway.played import Gateway, Upstream

pytestmark = pytest.mark.real_engine

HI: list[Any] = [{"role": "user", "content": "What is VRAM?"}]
PLACE = {"type": "object", "properties": {"at": {"type": "string", "enum": ["Bern", "Basel"]}}, "required": ["at"]}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": PLACE}}
    for name in ("weather", "traffic")
]
STEADY: dict[str, Any] = {"temperature": 0, "frequency_penalty": 2.0, "max_tokens": 200}
"""OpenVINO's forms allow any white space, of which so small a model would write nothing else."""
MODEL = RESOURCES / "guide" / "openvino"


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    environment = engine_environment("openvino")
    with closing(
        Worker(MODEL, LaunchOptions(context=1024, slots=2), engine=Engine(ADAPTER, environment))
    ) as real_worker:
        assert real_worker.is_ready(), real_worker.lines
        yield real_worker


@pytest.fixture
def upstream(worker: Worker) -> Upstream:
    return Upstream(url=worker.plan.base_url, key=KEY)


@pytest.fixture
def services(services: Services) -> Services:
    library: Any = services.library
    library._models[0] = msgspec.structs.replace(library.find_model("guide"), path=str(MODEL))
    return replace(services, adapters=cast("Any", {"llama.cpp": ADAPTER}))


@pytest.fixture
async def oai(gateway: Gateway) -> AsyncIterator[openai.AsyncOpenAI]:
    gateway.supervisor.served_name = "served"
    url = f"{gateway.url}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=60) as client:
        yield client


async def test_a_plain_answer_in_pieces_and_at_once(oai: openai.AsyncOpenAI) -> None:
    arguments: dict[str, Any] = {"model": "guide", "messages": HI, "temperature": 0, "max_tokens": 60}
    whole = await oai.chat.completions.create(**arguments)
    stream = await oai.chat.completions.create(**arguments, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    text = whole.choices[0].message.content or ""
    assert "memory" in text
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == text
    assert whole.usage is not None
    assert chunks[-1].usage == whole.usage
    assert whole.usage.completion_tokens > 5


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "traffic"}}])
async def test_a_tool_is_called_where_one_must_be(oai: openai.AsyncOpenAI, choice: Any) -> None:  # noqa: ANN401 -- as the SDK takes it
    reply = await oai.chat.completions.create(model="guide", messages=HI, tools=TOOLS, tool_choice=choice, **STEADY)
    assert reply.choices[0].finish_reason == "tool_calls"
    (call,) = cast("Any", reply.choices[0].message.tool_calls)
    assert call.function.name in ({"weather", "traffic"} if choice == "required" else {"traffic"})
    assert json.loads(call.function.arguments)["at"] in {"Bern", "Basel"}


async def test_structured_output(gateway: Gateway, oai: openai.AsyncOpenAI) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE}}
    reply = await oai.chat.completions.create(model="guide", messages=HI, response_format=form, **STEADY)
    assert json.loads(reply.choices[0].message.content or "")["at"] in {"Bern", "Basel"}
    async with ollama.AsyncClient(host=gateway.url, timeout=60) as llama:
        answer = await llama.chat("guide", messages=HI, format=cast("Any", PLACE), options=STEADY)
    assert json.loads(answer.message.content or "")["at"] in {"Bern", "Basel"}


async def test_anthropic_is_answered_and_told_which_stop_sequence_it_was(
    gateway: Gateway, oai: openai.AsyncOpenAI
) -> None:
    plain = await oai.chat.completions.create(model="guide", messages=HI, temperature=0, max_tokens=60)
    text = plain.choices[0].message.content or ""
    async with anthropic.AsyncAnthropic(base_url=gateway.url, api_key="none", max_retries=0, timeout=60) as claude:
        reply = await claude.messages.create(
            model="guide", max_tokens=60, messages=HI, stop_sequences=[text[20:24]], extra_body={"temperature": 0}
        )
    assert cast("Any", reply.content[0]).text == text.split(text[20:24])[0]
    assert (reply.stop_reason, reply.stop_sequence) == ("stop_sequence", text[20:24])


@pytest.mark.slow
async def test_a_stop_sequence_and_what_was_written_until_then(oai: openai.AsyncOpenAI) -> None:
    plain = await oai.chat.completions.create(model="guide", messages=HI, temperature=0, max_tokens=60)
    text = plain.choices[0].message.content or ""
    stop = text[20:24]
    cut = await oai.chat.completions.create(model="guide", messages=HI, temperature=0, max_tokens=60, stop=stop)
    assert cut.choices[0].message.content == text.split(stop)[0]
    assert cut.usage is not None
    assert plain.usage is not None
    assert cut.usage.prompt_tokens == plain.usage.prompt_tokens
    assert 0 < cut.usage.completion_tokens < plain.usage.completion_tokens


@pytest.mark.slow
async def test_several_answers(oai: openai.AsyncOpenAI) -> None:
    reply = await oai.chat.completions.create(model="guide", messages=HI, n=2, seed=1, max_tokens=20)
    assert [choice.index for choice in reply.choices] == [0, 1]
    assert all(choice.message.content for choice in reply.choices)


async def test_what_it_cannot_do_is_refused_by_name(oai: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="OpenVINO GenAI does not support biased tokens"):
        await oai.chat.completions.create(model="guide", messages=HI, logit_bias={"5": 1})
