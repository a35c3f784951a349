"""An answer's limit that does not fit is cut in every dialect that allows it, and refused in its words in the other."""

import json
from collections.abc import Callable
from typing import Any

import anthropic
import ollama
import openai
import pytest
from aiohttp import web

from app.core.models import AttachEndpoint
from app.gateway.exchange.answer_limits import fitting_limit, limit_changes
from app.gateway.library.attached_endpoints import attach
from tests.gateway.far import ASKED, Far, begin_stream, chunk
from tests.gateway.played import Gateway

CONTEXT, PROMPT = 32768, 9000
ROOM = CONTEXT - PROMPT
LIMITS = (131_072, 65_536, 32_000)
ASKED_OF_GOOGLE = [{"role": "user", "parts": [{"text": "Why?"}]}]
WAYS: list[tuple[str, Callable[[int], dict[str, Any]]]] = [
    ("/v1/chat/completions", lambda most: {"messages": ASKED, "max_tokens": most}),
    ("/v1/chat/completions", lambda most: {"messages": ASKED, "max_completion_tokens": most}),
    ("/v1/chat/completions", lambda most: {"messages": ASKED, "max_tokens": most, "max_completion_tokens": most}),
    ("/v1/messages", lambda most: {"messages": ASKED, "max_tokens": most}),
    ("/v1/responses", lambda most: {"input": "Why?", "max_output_tokens": most}),
    ("/api/chat", lambda most: {"messages": ASKED, "options": {"num_predict": most}}),
    ("/api/generate", lambda most: {"prompt": "Why?", "options": {"num_predict": most}}),
    ("/api/v1/chat", lambda most: {"input": "Why?", "max_output_tokens": most}),
    (
        "/v1beta/models/vllm:generateContent",
        lambda most: {"contents": ASKED_OF_GOOGLE, "generationConfig": {"maxOutputTokens": most}},
    ),
]


def refusal_of(answer_tokens: int) -> web.Response:
    message = (
        f"This model's maximum context length is {CONTEXT} tokens. However, you requested {answer_tokens} "
        "output tokens "
        f"and your prompt contains at least {PROMPT} input tokens, for a total of at least {PROMPT + answer_tokens} "
        "tokens. Please reduce the length of the input prompt or the number of requested output tokens."
    )
    error = {"message": message, "type": "BadRequestError", "param": "input_tokens", "code": 400}
    return web.json_response({"error": error}, status=400)


async def answer_as_vllm(request: web.Request) -> web.StreamResponse:
    """Refuse what does not fit beside the prompt, as vLLM does."""
    body = await request.json()
    answer_tokens = max(body.get(name) or 0 for name in ("max_tokens", "max_completion_tokens"))
    if PROMPT + answer_tokens > CONTEXT:
        return refusal_of(answer_tokens)
    if not body.get("stream"):
        message = {"role": "assistant", "content": "Because."}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return web.json_response({"object": "chat.completion", "choices": choices})
    response = await begin_stream(request)
    await response.write(chunk("Because.", "stop") + b"data: [DONE]\n\n")
    return response


@pytest.fixture
async def vllm(near: Gateway, far: Far) -> Far:
    far.play = answer_as_vllm
    far.listing = {"data": [{"id": "big", "max_model_len": CONTEXT, "owned_by": "vllm"}]}
    await attach(near.services, AttachEndpoint(url=far.url, name="vllm"))
    return far


@pytest.mark.slow(cases=7)
@pytest.mark.parametrize("most", LIMITS)
@pytest.mark.parametrize(("path", "body_of"), WAYS)
async def test_what_does_not_fit_is_cut_in_every_dialect(
    near: Gateway, vllm: Far, path: str, body_of: Callable[[int], dict[str, Any]], most: int
) -> None:
    for stream in (False, True):
        address = path.replace("generateContent", "streamGenerateContent") if stream else path
        async with near.http.post(
            near.url + address, json={"model": "vllm", "stream": stream, **body_of(most)}
        ) as reply:
            assert (reply.status, "Because." in await reply.text()) == (200, True)
        first, second = (body for _, body in vllm.posts[-2:])
        cut = {name: ROOM for name, value in first.items() if value == most}
        assert cut
        assert second == {**first, **cut}


async def test_what_fits_is_left_alone(near: Gateway, vllm: Far) -> None:
    body = {"model": "vllm", "messages": ASKED, "max_tokens": ROOM}
    async with near.http.post(f"{near.url}/v1/chat/completions", json=body) as reply:
        assert reply.status == 200
    assert [document["max_tokens"] for _, document in vllm.posts] == [ROOM]


async def test_a_completions_limit_has_to_fit_and_is_refused(near: Gateway, vllm: Far) -> None:
    body = {"model": "vllm", "prompt": "Why?", "max_tokens": 32_000}
    async with near.http.post(f"{near.url}/v1/completions", json=body) as reply:
        status, error = reply.status, (await reply.json())["error"]
    assert (status, error["code"]) == (400, "context_length_exceeded")
    assert f"({PROMPT} in the prompt, 32000 in the completion)" in error["message"]
    assert len(vllm.posts) == 1


async def test_where_little_is_left_the_client_is_told_so_that_it_compacts(
    near: Gateway, vllm: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.gateway.exchange.test_answer_limits.PROMPT", CONTEXT - 100)
    for path, body_of in WAYS:
        vllm.posts.clear()
        async with near.http.post(near.url + path, json={"model": "vllm", "stream": False, **body_of(32_000)}) as reply:
            assert (reply.status, len(vllm.posts)) == (400, 1), path


@pytest.mark.slow
async def test_the_real_clients_get_their_answers(near: Gateway, vllm: Far) -> None:
    messages: Any = ASKED
    async with openai.AsyncOpenAI(base_url=f"{near.url}/v1", api_key="x", max_retries=0) as client:
        chat = await client.chat.completions.create(model="vllm", messages=messages, max_completion_tokens=131_072)
        assert chat.choices[0].message.content == "Because."
        response = await client.responses.create(model="vllm", input="Why?", max_output_tokens=65_536)
        assert response.output_text == "Because."
    async with (
        anthropic.AsyncAnthropic(base_url=near.url, api_key="x", max_retries=0) as claude,
        claude.messages.stream(model="vllm", messages=messages, max_tokens=64_000) as stream,
    ):
        assert await stream.get_final_text() == "Because."
    async with ollama.AsyncClient(host=near.url) as other:
        answer = await other.chat("vllm", messages, options={"num_predict": 131_072})
        assert answer.message.content == "Because."
    assert [body["max_tokens"] for _, body in vllm.posts[3::2]] == [ROOM] * 3


async def test_an_engine_that_goes_on_refusing_is_asked_a_few_times_and_then_heard(near: Gateway, vllm: Far) -> None:
    room = iter(range(20_000, 10_000, -1000))

    async def refuse(_request: web.Request) -> web.StreamResponse:
        message = f"max_tokens is too large: 9. This model supports at most {next(room)} completion tokens"
        return web.json_response({"error": {"message": message, "code": 400}}, status=400)

    vllm.play = refuse
    body = {"model": "vllm", "messages": ASKED, "max_tokens": 32_000}
    async with near.http.post(f"{near.url}/v1/chat/completions", json=body) as reply:
        assert reply.status == 400
        assert "at most 17000" in await reply.text()
    assert [document["max_tokens"] for _, document in vllm.posts] == [32_000, 20_000, 19_000, 18_000]


@pytest.mark.parametrize(
    ("sentence", "limit"),
    [
        ("max_tokens is too large: 131072. This model supports at most 16384 completion tokens.", 16_384),
        ("max_tokens: 131072 > 64000, which is the maximum allowed number of output tokens for it", 64_000),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
        ("`max_tokens` must be less than or equal to `32768`", 32_768),
        ("This model's maximum context length is 16000 tokens. However, you requested 500 output tokens", 4000),
        ("max_tokens must be at least 1", None),
        ("This model's maximum context length is 900 tokens.", None),
        ("Too much.", None),
    ],
)
def test_a_refusal_tells_how_long_an_answer_may_be(sentence: str, limit: int | None) -> None:
    refusal = json.dumps({"error": {"message": sentence}}).encode()
    assert fitting_limit(b'{"max_tokens": 131072}', refusal, 400) == limit
    assert fitting_limit(b'{"max_tokens": 10}', refusal, 400) is None


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b'{"max_tokens": "many"}', b'{"max_tokens": null}', b"{}"])
def test_a_body_without_a_limit_has_nothing_to_cut(body: bytes) -> None:
    assert not limit_changes(body, 1)
