"""A prompt that does not fit is told in the words of the client's vendor, whichever engine said it, on every way.

Agents look for those words and compact on nothing else.
"""

import json
import re
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web

from app.core.models import AttachEndpoint
from app.gateway.library.attached_endpoints import attach
from engines.api import Feature
from engines.registry import ADAPTERS
from tests.gateway.far import ASKED, Far, ask_near, begin_stream, chunk
from tests.gateway.played import Gateway
from tests.overflow_wordings import WORDINGS, WORDS, Wording

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WAYS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": ASKED}),
    ("/chat/completions", {"messages": ASKED}),
    ("/api/v0/chat/completions", {"messages": ASKED}),
    ("/v1/completions", {"prompt": "Why?"}),
    ("/api/v0/completions", {"prompt": "Why?"}),
    ("/v1/messages", {"messages": ASKED, "max_tokens": 9}),
    (
        "/v1/messages",
        {"messages": ASKED, "max_tokens": 9, "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    ),
    ("/v1/responses", {"input": "Why?"}),
    ("/api/chat", {"messages": ASKED}),
    ("/api/generate", {"prompt": "Why?", "raw": True}),
    ("/api/v1/chat", {"input": "Why?"}),
]
EACH_ENGINE = pytest.mark.parametrize("wording", WORDINGS, ids=[wording.id for wording in WORDINGS])
EACH_WAY = pytest.mark.parametrize(("path", "more"), WAYS)


class Lacking:
    """The adapter of endpoints as if they did little themselves, so that all chats are translated."""

    descriptor = msgspec.structs.replace(
        ADAPTERS["attached"].descriptor, features=frozenset({Feature.JSON_SCHEMA, Feature.API_KEY})
    )


def message_of(answer: str) -> str:
    """Return the sentence of an error, whole or the first of a stream."""
    match = re.search(r'"error"\s*:\s*(\{.*?\}|"(?:[^"\\]|\\.)*")', answer)
    assert match is not None, answer
    error = json.loads(match[1])
    return str(error["message"] if isinstance(error, dict) else error)


@pytest.mark.slow(cases=3)
@EACH_ENGINE
async def test_each_engines_refusal_is_told_in_the_words_of_each_dialect(
    near: Gateway, far: Far, wording: Wording
) -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.json_response(wording.document, status=wording.status)

    far.play = refuse
    for path, more in WAYS:
        for stream in (False, True):
            status, answer = await ask_near(near, path, more, stream=stream)
            assert message_of(answer) == WORDS[path][wording.overflow], (path, answer)
            is_in_stream = stream and path == "/api/v1/chat"
            assert status == (200 if is_in_stream else 400)
            if path.startswith("/v1/") and path != "/v1/messages":
                assert '"code":"context_length_exceeded"' in answer


@pytest.mark.slow(cases=7)
@EACH_WAY
async def test_an_engine_that_says_it_in_its_stream_is_told_so_too(
    near: Gateway, far: Far, path: str, more: dict[str, Any]
) -> None:
    vllm_wording = next(entry for entry in WORDINGS if entry.id == "vLLM")

    async def refuse_late(request: web.Request) -> web.StreamResponse:
        response = await begin_stream(request)
        await response.write(f"data: {json.dumps(vllm_wording.document)}\n\ndata: [DONE]\n\n".encode())
        return response

    far.play = refuse_late
    status, answer = await ask_near(near, path, more, stream=True)
    assert (status, message_of(answer)) == (200, WORDS[path][vllm_wording.overflow])


async def test_chats_that_are_translated_are_told_in_the_same_words(near: Gateway, far: Far) -> None:
    sglang_wording = next(entry for entry in WORDINGS if entry.id == "SGLang, with the answer")

    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.json_response(sglang_wording.document, status=sglang_wording.status)

    far.play = refuse
    object.__setattr__(near.services, "adapters", cast("Any", {**ADAPTERS, "attached": Lacking()}))
    for path in ("/v1/chat/completions", "/api/v0/chat/completions"):
        status, answer = await ask_near(near, path, {"messages": ASKED, "stop": ["."]}, stream=False)
        assert (status, message_of(answer)) == (400, WORDS[path][sglang_wording.overflow])
        assert json.loads(answer)["error"]["param"] == "messages"
        assert far.posts[-1][1]["stream"], "as only what is translated asks for one"


async def test_claude_code_asks_a_nearly_full_vllm_again_with_a_shorter_answer(near: Gateway, far: Far) -> None:
    """As Claude Code does: it asks for 32,000 tokens, and works out from the refusal what little is left."""
    context, prompt = 32768, 32668

    async def vllm(request: web.Request) -> web.StreamResponse:
        max_tokens = (await request.json())["max_tokens"]
        if prompt + max_tokens <= context:
            response = await begin_stream(request)
            await response.write(chunk("Because.", "stop") + b"data: [DONE]\n\n")
            return response
        message = (
            f"This model's maximum context length is {context} tokens. However, you requested {max_tokens} "
            "output tokens "
            f"and your prompt contains at least {prompt} input tokens, for a total of at least {prompt + max_tokens} "
            "tokens. Please reduce the length of the input prompt or the number of requested output tokens."
        )
        error = {"message": message, "type": "BadRequestError", "param": "input_tokens", "code": 400}
        return web.json_response({"error": error}, status=400)

    far.play = vllm
    far.listing = {"data": [{"id": "big", "max_model_len": context, "owned_by": "vllm"}]}
    await attach(near.services, AttachEndpoint(url=far.url, name="vllm"))
    body: dict[str, Any] = {"model": "vllm", "messages": ASKED, "max_tokens": 32000, "stream": True}
    url, headers = f"{near.url}/v1/messages?beta=true", {"anthropic-version": "2023-06-01"}
    async with near.http.post(url, json=body, headers=headers) as reply:
        status, refusal = reply.status, await reply.json()
    assert (status, refusal["type"], refusal["error"]["type"]) == (400, "error", "invalid_request_error")
    counts = re.fullmatch(
        r"input length and `max_tokens` exceed context limit: (\d+) \+ (\d+) > (\d+), decrease input length or "
        r"`max_tokens` and try again",
        refusal["error"]["message"],
    )
    assert counts is not None
    length, most, limit = map(int, counts.groups())
    assert (length, most, limit) == (prompt, 32000, context)
    async with near.http.post(url, json={**body, "max_tokens": limit - length}, headers=headers) as reply:
        assert reply.status == 200
        assert b"Because." in await reply.read()
    assert [document["max_tokens"] for _, document in far.posts] == [32000, limit - length]
