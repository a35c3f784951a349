"""What OpenAI's client asks for beside chat, with the real engine: the middle of code, embeddings, ranking, tokens."""

import base64
import math
import re
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI

from app.client.http import GatewayClient
from app.config.paths import Paths
from tests.gguf_files import TinyLlama, vocabulary
from tests.patience import PATIENCE_S
from tests.scripted_gguf import ScriptedLlama

pytestmark = [pytest.mark.slow, pytest.mark.real_engine]

PREFIX, SUFFIX, MIDDLE = range(len(vocabulary()), len(vocabulary()) + 3)
CODER = ScriptedLlama(
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>", "return ", "one"],
    values={
        "tokenizer.ggml.fim_pre_token_id": PREFIX,
        "tokenizer.ggml.fim_suf_token_id": SUFFIX,
        "tokenizer.ggml.fim_mid_token_id": MIDDLE,
    },
)
"""Its script begins with the marks, so that what follows the last of them is what it writes in the middle."""
MEAN, RANK = 1, 4


@pytest.fixture(scope="module", autouse=True)
def models(client: GatewayClient, home: Paths) -> None:
    CODER.write(home.models / "coder.gguf")
    replace(CODER, values={**CODER.values, "llama.context_length": 8192}).write(home.models / "wide.gguf")
    TinyLlama(values={"llama.pooling_type": MEAN}).write(home.models / "vectors.gguf")
    TinyLlama(values={"llama.pooling_type": RANK}).write(home.models / "ranker.gguf")


@pytest.fixture
def api(client: GatewayClient) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{client.gateway.url}/v1", api_key="any", max_retries=0, timeout=60) as client_api:
        yield client_api


def post(api: OpenAI, path: str, **body: object) -> Any:  # noqa: ANN401 -- any JSON
    """Ask a route the client has no method for."""
    return api.post(path, body=body, cast_to=object)


def test_a_suffix_has_the_middle_written(api: OpenAI) -> None:
    reply = api.completions.create(model="coder", prompt="def one():\n    ", suffix="\n", max_tokens=9)
    assert (reply.object, reply.choices[0].text, reply.choices[0].finish_reason) == (
        "text_completion",
        "return one",
        "stop",
    )
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 3
    cut = api.completions.create(model="coder", prompt="a", suffix="b", max_tokens=1)
    assert (cut.choices[0].text, cut.choices[0].finish_reason) == ("return ", "length")


@pytest.mark.parametrize("side", ["prompt", "suffix"])
def test_all_around_the_middle_is_read_or_refused_with_its_count(api: OpenAI, side: str) -> None:
    long = {"prompt": "a", "suffix": "b", side: "x <fim_middle>" * 1500}
    reply = api.completions.create(model="wide", max_tokens=9, **long)  # type: ignore[call-overload]
    assert reply.usage.prompt_tokens == 1500 * 3 + 1 + 3
    assert reply.choices[0].text == "return one"
    long[side] *= 3
    with pytest.raises(openai.BadRequestError, match="your prompt resulted in 13504 tokens") as too_long:
        api.completions.create(model="wide", max_tokens=9, **long)  # type: ignore[call-overload]
    assert (too_long.value.code, too_long.value.param) == ("context_length_exceeded", "prompt")
    root = api.with_options(base_url=str(api.base_url).removesuffix("/v1/"))
    extra = [{"filename": "f", "text": "z" * 7000}]
    filled_text = post(root, "/infill", model="wide", input_prefix="a", input_suffix="b", input_extra=extra)
    assert (filled_text["tokens_evaluated"], filled_text["content"]) == (7000 + 19 + 5, "return one")
    generated_text = post(root, "/api/generate", model="wide", prompt="x" * 4000, suffix="b", stream=False)
    assert (generated_text["prompt_eval_count"], generated_text["response"]) == (4004, "return one")


@pytest.mark.parametrize(("count", "prompts"), [(2, "ab"), (1, ["ab", "abcd"]), (2, ["ab", "abcd"])])
def test_several_answers_are_counted_together(api: OpenAI, count: int, prompts: Any) -> None:  # noqa: ANN401 -- its type
    arguments: Any = {"model": "coder", "prompt": prompts, "n": count, "max_tokens": 2, "logit_bias": {"120": 100}}
    read, written_tokens = len("".join(prompts)), 2 * count * (1 if isinstance(prompts, str) else len(prompts))
    whole = api.completions.create(**arguments)
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (read, written_tokens)
    assert [choice.text for choice in whole.choices] == ["xx"] * (written_tokens // 2)
    usages = [
        chunk.usage
        for chunk in api.completions.create(**arguments, stream=True, stream_options={"include_usage": True})
    ]
    assert all(usage is None for usage in usages[:-1])
    assert (usages[-1].prompt_tokens, usages[-1].completion_tokens) == (read, written_tokens)


def test_several_chats_are_counted_together(api: OpenAI) -> None:
    arguments: Any = {"model": "guide", "messages": [{"role": "user", "content": "Hi"}], "n": 2, "max_tokens": 3}
    whole = api.chat.completions.create(**arguments)
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 6
    chunks = list(api.chat.completions.create(**arguments, stream=True, stream_options={"include_usage": True}))
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == [6]
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens


def test_the_middle_streams(api: OpenAI) -> None:
    stream = api.completions.create(
        model="coder", prompt="a", suffix="b", max_tokens=9, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == "return one"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].usage is not None


def test_a_model_without_marks_cannot_write_the_middle(api: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        api.completions.create(model="guide", prompt="a", suffix="b", max_tokens=9)
    assert error.value.code == "model_cannot"


def test_what_completions_cannot_do_is_refused(api: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="echo"):
        api.completions.create(model="guide", prompt="a", echo=True, max_tokens=1)


def test_embeddings_in_both_encodings_and_fewer_dimensions(api: OpenAI) -> None:
    whole = api.embeddings.create(model="vectors", input="hello", encoding_format="float").data[0].embedding
    by_default = api.embeddings.create(model="vectors", input="hello").data[0].embedding
    assert by_default == pytest.approx(whole, abs=1e-6)
    short = api.embeddings.create(model="vectors", input=["hello", "you"], dimensions=8)
    assert [len(row.embedding) for row in short.data] == [8, 8]
    scale = math.sqrt(sum(number * number for number in whole[:8]))
    assert short.data[0].embedding == pytest.approx([number / scale for number in whole[:8]], abs=1e-5)
    raw = post(api, "/embeddings", model="vectors", input="hello", dimensions=8, encoding_format="base64")
    assert struct.unpack("<8f", base64.b64decode(raw["data"][0]["embedding"])) == pytest.approx(
        short.data[0].embedding, abs=1e-5
    )


@pytest.mark.parametrize("wishes", [{"dimensions": 0}, {"dimensions": 4096}, {"input": []}])
def test_impossible_embeddings_are_refused(api: OpenAI, wishes: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError):
        api.embeddings.create(**{"model": "vectors", "input": "hello", **wishes})


def test_what_is_too_long_to_embed_is_said_with_its_counts(api: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=r"context length is \d+ tokens") as error:
        api.embeddings.create(model="vectors", input="a " * 9000)
    assert error.value.code == "context_length_exceeded"


def test_documents_are_ranked(api: OpenAI) -> None:
    documents = ["a", {"text": "b c"}, "d e f"]
    reply = post(api, "/rerank", model="ranker", query="a", documents=documents, top_n=2, return_documents=True)
    assert len(reply["results"]) == 2
    scores = [row["relevance_score"] for row in reply["results"]]
    assert scores == sorted(scores, reverse=True)
    texts = ["a", "b c", "d e f"]
    assert [row["document"]["text"] for row in reply["results"]] == [texts[row["index"]] for row in reply["results"]]


def test_models_do_only_what_they_can(api: OpenAI) -> None:
    for path, body in (
        ("/rerank", {"model": "guide", "query": "a", "documents": ["b"]}),
        ("/rerank", {"model": "ranker", "query": "a", "documents": []}),
        ("/embeddings", {"model": "ranker", "input": "a"}),
        ("/chat/completions", {"model": "ranker", "messages": []}),
    ):
        with pytest.raises(openai.BadRequestError):
            post(api, path, **body)


def test_tokens_and_templates_and_the_middle_as_llama_server_has_them(client: GatewayClient, api: OpenAI) -> None:
    root = api.with_options(base_url=client.gateway.url)
    tokens = post(root, "/tokenize", model="coder", content="hello")["tokens"]
    assert post(root, "/detokenize", model="coder", tokens=tokens)["content"] == "hello"
    prompt = post(root, "/apply-template", model="coder", messages=[{"role": "user", "content": "hello"}])["prompt"]
    assert "<|im_start|>user\nhello" in prompt
    api.completions.create(model="coder", prompt="a", max_tokens=1)  # from now on, the one in use
    assert post(root, "/infill", input_prefix="a", input_suffix="b", n_predict=9)["content"] == "return one"
    with pytest.raises(openai.BadRequestError, match="content"):
        post(root, "/tokenize", model="coder")


def test_the_callers_mistakes_are_not_the_servers(api: OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Hi"}]
    picture: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    with pytest.raises(openai.BadRequestError) as tools:
        post(api, "/chat/completions", model="guide", messages=messages, tools=[{"x": 1}])
    assert (tools.value.code, tools.value.param) == ("invalid_tools", "tools")
    with pytest.raises(openai.BadRequestError) as image:
        api.chat.completions.create(model="guide", messages=[{"role": "user", "content": [picture]}])
    assert image.value.code == "unsupported_content"
    with pytest.raises(openai.BadRequestError, match=r"maximum context length is \d+ tokens") as too_long:
        api.chat.completions.create(model="guide", messages=[{"role": "user", "content": "word " * 9000}])
    assert too_long.value.code == "context_length_exceeded"


def test_a_model_tells_its_contexts(api: OpenAI) -> None:
    api.completions.create(model="coder", prompt="a", max_tokens=1)
    model = api.models.retrieve("coder")
    assert (model.id, model.object, model.owned_by) == ("coder", "model", "roundhouse")
    assert model.model_extra is not None
    assert model.model_extra["max_context_length"] == 2048
    assert model.model_extra["loaded_context_length"] == 2048


def kv_use(api: OpenAI, model: str) -> float:
    text = httpx.get(f"{str(api.base_url).removesuffix('/v1/')}/metrics").text
    match = re.search(
        rf'^roundhouse_engine_kv_cache_usage_ratio{{model="{model}",engine="llama.cpp"}} (\S+)$', text, re.MULTILINE
    )
    assert match, text
    return float(match[1])


def use_while_writing(api: OpenAI) -> float:
    """Return what is told while an answer is written; it may be over before the question is there."""
    endless = {"ignore_eos": True}
    stream = api.completions.create(model="coder", prompt="a" * 100, max_tokens=1500, stream=True, extra_body=endless)
    with stream as chunks:
        next(iter(chunks))
        return kv_use(api, "coder")


def test_how_full_the_kv_cache_is_shows_in_the_metrics(api: OpenAI) -> None:
    assert 0 < max(use_while_writing(api) for _ in range(5)) < 1
    until = time.monotonic() + PATIENCE_S
    while kv_use(api, "coder"):
        assert time.monotonic() < until, "the request is over"
        time.sleep(0.05)
