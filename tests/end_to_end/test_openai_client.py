"""OpenAI's own client, sync and async, against a gateway with the real engine."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.engines import EngineStatus
from tests.gguf_files import TinyLlama
from tests.patience import wait_until

pytestmark = pytest.mark.real_engine

ASKED: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "What is Roundhouse?"}]


@pytest.fixture(params=["noise", "guide"])
def model(request: pytest.FixtureRequest, home: Paths) -> str:
    """A model of random weights, and the Guide."""
    TinyLlama().write(home.models / "noise.gguf")
    name: str = request.param
    return name


@pytest.fixture
def api(client: GatewayClient) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{client.gateway.url}/v1", api_key="any", max_retries=0, timeout=60) as client_api:
        yield client_api


@pytest.fixture
async def async_api(client: GatewayClient) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{client.gateway.url}/v1", api_key="any", max_retries=0, timeout=60) as client_api:
        yield client_api


def test_a_whole_answer(api: OpenAI, model: str) -> None:
    reply = api.chat.completions.create(model=model, messages=ASKED, max_completion_tokens=12, temperature=0)
    assert reply.object == "chat.completion"
    assert reply.choices[0].finish_reason in {"stop", "length"}
    assert reply.choices[0].message.content
    assert reply.usage is not None
    assert 0 < reply.usage.completion_tokens <= 12


def test_a_stream_says_the_same_as_the_whole_and_ends_with_its_usage(api: OpenAI, model: str) -> None:
    whole = api.chat.completions.create(model=model, messages=ASKED, max_tokens=16, temperature=0, seed=1)
    stream = api.chat.completions.create(
        model=model,
        messages=ASKED,
        max_tokens=16,
        temperature=0,
        seed=1,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 0


async def test_several_streams_at_once(async_api: AsyncOpenAI, model: str) -> None:
    async def ask() -> str:
        stream = await async_api.chat.completions.create(
            model=model, messages=ASKED, max_tokens=20, stream=True, temperature=0
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    assert all(await asyncio.gather(*(ask() for _ in range(6))))


async def test_a_stream_left_early_frees_the_engine(async_api: AsyncOpenAI, client: GatewayClient, model: str) -> None:
    stream = await async_api.chat.completions.create(
        model=model, messages=ASKED, max_tokens=1500, stream=True, extra_body={"ignore_eos": True}
    )
    async for _ in stream:
        break
    await stream.close()

    def is_idle() -> bool:
        return all(not status.in_flight for status in client.get("/running", list[EngineStatus]))

    await asyncio.to_thread(wait_until, is_idle)


def test_plain_completions_stream_too(api: OpenAI, model: str) -> None:
    stream = api.completions.create(model=model, prompt="Round", max_tokens=8, stream=True)
    assert next(chunk.object for chunk in stream) == "text_completion"


def test_models_are_listed_and_found(api: OpenAI, model: str) -> None:
    assert model in {entry.id for entry in api.models.list()}
    assert api.models.retrieve(model.upper()).id == model


def test_errors_are_the_clients_own_kinds(api: OpenAI, model: str) -> None:
    with pytest.raises(openai.NotFoundError, match=model) as unknown:
        api.chat.completions.create(model="gpt-9", messages=ASKED)
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as cannot:
        api.embeddings.create(model=model, input="a")
    assert cannot.value.code == "model_cannot"
    with pytest.raises(openai.BadRequestError) as error:
        api.chat.completions.create(model=model, messages=[{"role": "user", "content": "word " * 9000}])
    assert error.value.code == "context_length_exceeded"
