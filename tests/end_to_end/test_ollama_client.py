"""Ollama's own client, sync and async, against a gateway with the real engine and the Guide."""

import asyncio
import datetime as dt
import math
from collections.abc import AsyncIterator, Iterator

import ollama
import pytest

from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.engines import EngineState, EngineStatus
from tests.gguf_files import TEMPLATE, TinyLlama, Value
from tests.patience import wait_until

pytestmark = pytest.mark.real_engine

MODEL = "guide"
ASKED = [ollama.Message(role="user", content="What is Roundhouse?")]
SAME = {"temperature": 0, "num_predict": 16, "seed": 1}

THINKING = """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% else %}<think>
{% endif %}{% endif %}"""
"""A template that thinks as Qwen3's does, and opens the thought itself."""


@pytest.fixture(scope="module")
def noise(home: Paths) -> str:
    """A model of random weights: it writes anything, for as long as it may."""
    TinyLlama().write(home.models / "noise.gguf")
    return "noise"


@pytest.fixture
def api(client: GatewayClient) -> Iterator[ollama.Client]:
    with ollama.Client(host=client.gateway.url, timeout=60) as client_api:
        yield client_api


@pytest.fixture
async def async_api(client: GatewayClient) -> AsyncIterator[ollama.AsyncClient]:
    async with ollama.AsyncClient(host=client.gateway.url, timeout=60) as client_api:
        yield client_api


def statuses(client: GatewayClient) -> list[EngineStatus]:
    return client.get("/running", list[EngineStatus])


def test_a_whole_answer_has_its_counts_and_times(api: ollama.Client) -> None:
    reply = api.chat(MODEL, ASKED, options=SAME)
    assert reply.message.role == "assistant"
    assert reply.message.content
    assert reply.done is True
    assert reply.done_reason in {"stop", "length"}
    assert reply.model == MODEL
    assert reply.created_at is not None
    assert abs(dt.datetime.fromisoformat(reply.created_at) - dt.datetime.now(dt.UTC)).seconds < 60
    assert reply.prompt_eval_count is not None
    assert reply.prompt_eval_count > 4
    assert reply.eval_count is not None
    assert 0 < reply.eval_count <= 16
    assert reply.total_duration is not None
    assert reply.eval_duration is not None
    assert reply.total_duration >= reply.eval_duration > 1000, "nanoseconds"


def test_a_stream_says_the_same_as_the_whole(api: ollama.Client) -> None:
    whole = api.chat(MODEL, ASKED, options=SAME)
    chunks = list(api.chat(MODEL, ASKED, options=SAME, stream=True))
    assert "".join(chunk.message.content or "" for chunk in chunks) == whole.message.content
    assert [chunk.done for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert len(chunks) > 3
    assert chunks[-1].done_reason == whole.done_reason
    assert chunks[-1].eval_count == whole.eval_count


def test_generate_with_a_system_prompt_streams_too(api: ollama.Client) -> None:
    whole = api.generate(MODEL, "What is GGUF?", system="Be brief.", options=SAME)
    streamed_parts = list(api.generate(MODEL, "What is GGUF?", system="Be brief.", options=SAME, stream=True))
    assert "".join(chunk.response or "" for chunk in streamed_parts) == whole.response
    assert whole.response
    assert streamed_parts[-1].done_reason == whole.done_reason


def test_a_raw_prompt_goes_without_the_template(api: ollama.Client) -> None:
    raw = api.generate(MODEL, "What is GGUF?", raw=True, options=SAME)
    answer = api.generate(MODEL, "What is GGUF?", options=SAME)
    assert raw.prompt_eval_count is not None
    assert answer.prompt_eval_count is not None
    assert raw.prompt_eval_count < answer.prompt_eval_count


def test_options_reach_the_engine(api: ollama.Client, noise: str) -> None:
    options = {"num_predict": 5, "seed": 3, "top_k": 40, "temperature": 1.5, "top_p": None, "num_thread": 2}
    first, again = (api.generate(noise, "Round", raw=True, options=options) for _ in range(2))
    assert first.response == again.response
    assert (first.eval_count, first.done_reason) == (5, "length")
    other = api.generate(noise, "Round", raw=True, options={**options, "seed": 4})
    assert other.response != first.response


def test_a_stop_ends_the_answer_before_it(api: ollama.Client) -> None:
    whole = api.generate(MODEL, "What is Roundhouse?", options={"temperature": 0, "num_predict": 40})
    assert whole.response is not None
    word = whole.response.split()[3]
    cut = api.generate(MODEL, "What is Roundhouse?", options={"temperature": 0, "num_predict": 40, "stop": [word]})
    assert cut.response is not None
    assert word not in cut.response
    assert whole.response.startswith(cut.response.rstrip())
    assert cut.done_reason == "stop"


def test_a_format_is_kept_to_even_by_random_weights(api: ollama.Client, noise: str) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    reply = api.chat(noise, ASKED, format=schema, options={"num_predict": 60, "seed": 1})
    assert reply.message.content is not None
    assert reply.message.content.lstrip().startswith("{")
    assert '"ok"' in reply.message.content


def test_probabilities_are_told_with_each_token(api: ollama.Client) -> None:
    reply = api.chat(MODEL, ASKED, options=SAME, logprobs=True, top_logprobs=2)
    assert reply.logprobs
    assert all(logprob.logprob <= 0 and logprob.token is not None for logprob in reply.logprobs)
    assert all(len(logprob.top_logprobs or ()) == 2 for logprob in reply.logprobs)


def test_models_are_listed_shown_and_found_in_any_spelling(api: ollama.Client) -> None:
    names = [model.model for model in api.list().models]
    assert f"{MODEL}:latest" in names
    model_info = api.show("GUIDE:latest")
    assert model_info.capabilities == ["completion"]
    assert model_info.modelinfo is not None
    architecture = model_info.modelinfo["general.architecture"]
    assert model_info.modelinfo[f"{architecture}.context_length"] == 4096
    assert model_info.modelinfo[f"{architecture}.embedding_length"] == 256
    assert model_info.details is not None
    assert model_info.details.quantization_level == "Q8_0"
    assert api.chat("Guide:latest", ASKED, options=SAME).model == "Guide:latest"


def test_pulling_what_is_here_succeeds_and_what_is_not_fails(api: ollama.Client) -> None:
    assert api.pull(MODEL).status == "success"
    assert [progress.status for progress in api.pull(MODEL, stream=True)][-1] == "success"
    with pytest.raises(ollama.ResponseError, match="catalogue"):
        list(api.pull("nobody-has-this", stream=True))
    with pytest.raises(ollama.ResponseError, match="cannot be reached"):
        list(api.pull("hf.co/org/model", stream=True))


def test_keep_alive_loads_keeps_and_unloads(api: ollama.Client, client: GatewayClient) -> None:
    assert api.chat(MODEL, [], keep_alive="10m").done_reason == "load"
    (loaded_model,) = [model for model in api.ps().models if model.model == f"{MODEL}:latest"]
    assert loaded_model.expires_at is not None
    left_s = (loaded_model.expires_at - dt.datetime.now(dt.UTC)).total_seconds()
    assert 540 < left_s <= 601
    assert loaded_model.context_length == 4096
    assert api.generate(MODEL, "", keep_alive=-1).done_reason == "load"
    (kept_model,) = [model for model in api.ps().models if model.model == f"{MODEL}:latest"]
    assert kept_model.expires_at is not None
    assert kept_model.expires_at.year > 2300
    assert api.generate(MODEL, "", keep_alive=0).done_reason == "unload"
    assert [model for model in api.ps().models if model.model == f"{MODEL}:latest"] == []
    last_answer = api.chat(MODEL, ASKED, options=SAME, keep_alive=0)
    assert last_answer.message.content
    assert (last_answer.load_duration or 0) > 5_000_000, "it had to be loaded again: that takes longer than 5 ms"
    wait_until(lambda: all(status.model != MODEL for status in statuses(client)))


def test_a_context_asked_for_is_loaded_once_and_kept_by_smaller_ones(
    api: ollama.Client, client: GatewayClient, home: Paths
) -> None:
    TinyLlama().write(home.models / "grows.gguf")

    def context_after(num_ctx: int | None) -> tuple[int | None, int | None]:
        options = {"num_predict": 1} if num_ctx is None else {"num_predict": 1, "num_ctx": num_ctx}
        api.generate("grows", "Round", raw=True, options=options)
        (running_model,) = [status for status in statuses(client) if status.model == "grows"]
        assert running_model.state is EngineState.READY
        return running_model.context, running_model.pid

    trained_context = api.show("grows").modelinfo["llama.context_length"]  # type: ignore[index]  # it is always there
    first = context_after(None)
    assert first == context_after(300) == context_after(trained_context * 50), "it has all it was trained for already"
    client.post("/unload", {"model": "grows"}, EngineStatus)
    client.post("/load", {"model": "grows", "options": {"context": 256}}, EngineStatus)
    small = context_after(200)
    assert small[0] == 256
    grown_context = context_after(300)
    assert grown_context[0] == first[0]
    assert grown_context[1] != small[1]
    assert context_after(301) == context_after(None) == grown_context


def test_the_guide_is_told_of_tools_as_in_every_dialect(api: ollama.Client) -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
    answer = api.chat(MODEL, ASKED, tools=[tool], options={"num_predict": 8, "temperature": 0})
    assert answer.message.content or answer.message.tool_calls


def test_errors_are_ollamas_own(api: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match=r"model 'gpt-9' not found.*guide") as unknown:
        api.chat("gpt-9", ASKED)
    assert unknown.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="does not support embedding") as cannot:
        api.embed(MODEL, "a")
    assert cannot.value.status_code == 400
    with pytest.raises(ollama.ResponseError, match="does not support thinking"):
        api.chat(MODEL, ASKED, think=True)
    with pytest.raises(ollama.ResponseError, match="does not support insert"):
        api.generate(MODEL, "def f(", suffix="return 1")
    with pytest.raises(ollama.ResponseError, match=r'option "temperature" must be of type float32'):
        api.chat(MODEL, ASKED, options={"temperature": "hot"})


def test_a_prompt_longer_than_the_context_is_refused_with_both_counts(api: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match=r"length is 4096 tokens, and the prompt has \d+") as error:
        api.chat(MODEL, [ollama.Message(role="user", content="word " * 9000)], stream=False)
    assert error.value.status_code == 400
    with pytest.raises(ollama.ResponseError, match="exceeds the context length"):
        list(api.generate(MODEL, "word " * 9000, stream=True))


@pytest.fixture(scope="module")
def embedder(home: Paths) -> str:
    """A model of random weights that makes vectors, of the last token's state as most decoders do."""
    TinyLlama(name="Tiny Embedder", values={"llama.pooling_type": 3}).write(home.models / "embedder.gguf")
    return "embedder"


def test_vectors_have_length_one_and_the_order_of_their_texts(api: ollama.Client, embedder: str) -> None:
    assert api.show(embedder).capabilities == ["embedding"]
    together = api.embed(embedder, ["a train", "two engines"], keep_alive="1m")
    assert together.prompt_eval_count
    vectors = [list(map(float, vector)) for vector in together.embeddings]
    assert [math.hypot(*vector) for vector in vectors] == pytest.approx([1.0, 1.0])
    assert vectors[0] != vectors[1]
    (alone,) = api.embed(embedder, "two engines").embeddings
    assert list(alone) == pytest.approx(vectors[1], abs=1e-3)
    (short,) = api.embed(embedder, "two engines", dimensions=8).embeddings
    assert len(short) == 8
    assert math.hypot(*short) == pytest.approx(1.0)
    assert api.embed(embedder, "").embeddings == []
    assert list(api.embeddings(embedder, "a train").embedding)
    with pytest.raises(ollama.ResponseError, match="the input length exceeds the context length") as error:
        api.embed(embedder, "word " * 9000, truncate=False)
    assert error.value.status_code == 400
    assert api.embed(embedder, "two engines", dimensions=0).embeddings == [alone]
    with pytest.raises(ollama.ResponseError, match="does not support completion"):
        api.chat(embedder, ASKED)


def test_inputs_that_are_too_long_are_cut(api: ollama.Client, embedder: str) -> None:
    embedded_texts = api.embed(embedder, ["a train", "word " * 9000, "word " * 8000])
    short, long, as_long = embedded_texts.embeddings
    assert long == as_long
    assert [short] == api.embed(embedder, "a train").embeddings
    assert embedded_texts.prompt_eval_count == 2 * 2047 + len("a train")


def test_a_model_that_can_fill_in_does(api: ollama.Client, home: Paths) -> None:
    marks: dict[str, Value] = {
        f"tokenizer.ggml.fim_{name}_token_id": at for at, name in enumerate(("pre", "suf", "mid"))
    }
    TinyLlama(values=marks).write(home.models / "fills.gguf")
    model = api.show("fills")
    assert model.capabilities == ["completion", "insert"]
    assert ".Suffix" in (model.template or ""), "or Continue completes nothing"
    chunks = list(api.generate("fills", "def f(", suffix="return", options={"num_predict": 6, "seed": 1}, stream=True))
    assert chunks[-1].done_reason in {"stop", "length"}
    assert chunks[-1].prompt_eval_count
    whole = api.generate("fills", "def f(", suffix="return", options={"num_predict": 6, "seed": 1})
    assert whole.response == "".join(chunk.response or "" for chunk in chunks)


def test_tools_their_results_and_thoughts_pass_through_a_template_that_knows_them(
    api: ollama.Client, home: Paths
) -> None:
    template = "{% for t in tools %}{{ t.function.name }}{% endfor %}{% if enable_thinking %}<think>{% endif %}"
    TinyLlama(values={"tokenizer.chat_template": template + TEMPLATE}).write(home.models / "handy.gguf")
    assert api.show("handy").capabilities == ["completion", "tools", "thinking"]
    call = ollama.Message.ToolCall.Function(name="look", arguments={"at": "the clock"})
    messages = [
        *ASKED,
        ollama.Message(role="assistant", tool_calls=[ollama.Message.ToolCall(function=call)]),
        ollama.Message(role="tool", tool_name="look", content="noon"),
    ]
    tool = {"type": "function", "function": {"name": "look", "description": "d", "parameters": {"type": "object"}}}
    options = {"num_predict": 4, "seed": 1}
    with_tool = api.chat("handy", messages, tools=[tool], think=False, options=options)
    without = api.chat("handy", messages, think=False, options=options)
    assert with_tool.done
    assert without.done
    assert (with_tool.prompt_eval_count or 0) > (without.prompt_eval_count or 0), "the template was given the tool"
    assert api.chat("handy", ASKED, think="low", options=options).done


def test_thoughts_are_told_apart_from_what_is_said(api: ollama.Client, home: Paths) -> None:
    TinyLlama(values={"tokenizer.chat_template": THINKING}).write(home.models / "thinker.gguf")
    options = {"num_predict": 12, "seed": 1}
    thought = api.chat("thinker", ASKED, think=True, options=options)
    assert thought.message.thinking
    assert not thought.message.content
    chunks = list(api.chat("thinker", ASKED, think=True, options=options, stream=True))
    assert "".join(chunk.message.thinking or "" for chunk in chunks) == thought.message.thinking
    by_itself = api.generate("thinker", "What is Roundhouse?", options=options)
    assert by_itself.thinking, "a model that thinks does, unless it is told not to"
    plain = api.chat("thinker", ASKED, think=False, options=options)
    assert plain.message.content
    assert not plain.message.thinking


async def test_several_async_streams_at_once(async_api: ollama.AsyncClient) -> None:
    async def ask() -> str:
        stream = await async_api.chat(MODEL, ASKED, options=SAME, stream=True)
        return "".join([chunk.message.content or "" async for chunk in stream])

    answers = await asyncio.gather(*(ask() for _ in range(6)))
    assert len(set(answers)) == 1
    assert answers[0]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_the_engine(
    async_api: ollama.AsyncClient, client: GatewayClient, *, stream: bool
) -> None:
    numbers = {"type": "array", "items": {"type": "integer"}, "minItems": 60}
    endless = {"type": "array", "items": numbers, "minItems": 60}  # longer than the context

    async def ask() -> None:
        if stream:
            async for _ in await async_api.chat(MODEL, ASKED, format=endless, stream=True):
                pass
        else:
            await async_api.chat(MODEL, ASKED, format=endless)

    question = asyncio.create_task(ask())

    def is_busy() -> bool:
        return any(status.in_flight for status in statuses(client))

    await asyncio.to_thread(wait_until, is_busy)
    question.cancel()
    await asyncio.gather(question, return_exceptions=True)
    await asyncio.to_thread(wait_until, lambda: not is_busy())


async def test_the_async_client_reads_everything_else(async_api: ollama.AsyncClient) -> None:
    assert (await async_api.show(MODEL)).capabilities == ["completion"]
    assert (await async_api.list()).models
    reply = await async_api.generate(MODEL, "What is GGUF?", options=SAME)
    assert reply.response
