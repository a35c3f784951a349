"""Every team's engine as an endpoint that runs already: listed, asked, and its refusals understood, in every dialect.

Played: how each lists its models, streams and refuses, as its sources have it. None of them was run.
"""

import json
import re
from typing import Any

import msgspec
import pytest
from aiohttp import web

from app.core.models import AttachEndpoint
from app.gateway.library.attached_endpoints import attach
from tests.gateway.far import WAYS, Far, begin_stream
from tests.gateway.played import Gateway

Document = dict[str, Any]


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """One engine's ways. `more` is what it adds to a chunk, `says` to a choice, `delta` to what is new in it."""

    id: str
    card: Document
    context: int | None = None
    more: Document = {}
    says: Document = {}
    delta: Document = {}
    field: bytes = b"data: "
    before: bytes = b""
    tells_usage: bool = True
    refuses: Document
    status: int = 400

    @property
    def listing(self) -> Document:
        """What `/v1/models` answers."""
        return {"object": "list", "data": [{"id": self.id, "object": "model", "created": 1, **self.card}]}

    def event(self, *choices: Document, **more: object) -> bytes:
        """Return one event of a stream."""
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": self.id, "choices": choices}
        return self.field + json.dumps({**chunk, **self.more, **more}).encode() + b"\n\n"

    def stream(self) -> bytes:
        """Return a whole answer."""
        first = {"index": 0, "delta": {"role": "assistant", "content": "", **self.delta}, "finish_reason": None}
        word = {"index": 0, "delta": {"content": "Because.", **self.delta}, "finish_reason": None, **self.says}
        last = {"index": 0, "delta": {"content": "", **self.delta}, "finish_reason": "stop", **self.says}
        counts = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        usage = self.event(usage=counts) if self.tells_usage else b""
        return (
            self.before + self.event(first) + self.event(word) + self.event(last) + usage + self.field + b"[DONE]\n\n"
        )


def fastapi(message: str) -> Document:
    return {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}


PERMISSION = [{"id": "modelperm-1", "object": "model_permission", "allow_sampling": True, "is_blocking": False}]
TOO_LONG = (
    "This model's maximum context length is 1024 tokens. However, your request has 1872 input tokens. Please reduce "
    "the length of the input messages."
)
ENGINES = {
    "vllm": Engine(
        id="Qwen/Qwen3-8B",
        card={"owned_by": "vllm", "root": "Qwen/Qwen3-8B", "max_model_len": 1024, "permission": PERMISSION},
        context=1024,
        says={"logprobs": None, "stop_reason": None, "token_ids": None},
        refuses={"error": {"message": TOO_LONG, "type": "BadRequestError", "param": "input_tokens", "code": 400}},
    ),
    "sglang": Engine(
        id="default",
        card={"owned_by": "sglang", "root": "default", "max_model_len": 1024},
        context=1024,
        says={"logprobs": None, "matched_stop": None},
        delta={"reasoning_content": None, "tool_calls": None},
        refuses=fastapi("The input (1872 tokens) is longer than the model's context length (1024 tokens)."),
    ),
    "lmdeploy": Engine(
        id="internlm3",
        card={"owned_by": "lmdeploy", "root": "internlm3", "permission": PERMISSION},
        says={"logprobs": None, "output_ids": None},
        delta={"reasoning_content": None, "tool_calls": None, "gen_tokens": None},
        refuses=fastapi(TOO_LONG),
    ),
    "tensorrt-llm": Engine(
        id="tinyllama",
        card={"owned_by": "tensorrt_llm"},
        says={"logprobs": None, "stop_reason": None, "disaggregated_params": None},
        delta={"reasoning_content": None, "tool_calls": []},
        refuses=fastapi(TOO_LONG),
    ),
    "tgi": Engine(
        id="tgi-model",
        card={"owned_by": "tgi-model", "created": 0},
        more={"system_fingerprint": "3.3.7-sha", "usage": None},
        says={"logprobs": None},
        field=b"data:",
        tells_usage=False,
        refuses={
            "error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 1872",
            "error_type": "validation",
        },
        status=422,
    ),
    "mlc-llm": Engine(
        id="dist/Llama-3-8B-Instruct-q4f16_1-MLC",
        card={"owned_by": "MLC-LLM"},
        more={"system_fingerprint": "", "usage": None},
        says={"logprobs": None},
        refuses={"error": {"message": TOO_LONG, "type": "invalid_request_error", "code": None}},
    ),
    "dynamo": Engine(
        id="Qwen/Qwen3-0.6B",
        card={"owned_by": "nvidia", "context_window": 1024},
        context=1024,
        says={"logprobs": None},
        refuses={"message": TOO_LONG, "type": "Bad Request", "code": 400},
    ),
}
EACH = pytest.mark.parametrize("engine", ENGINES.values(), ids=list(ENGINES))


@pytest.fixture
async def team(near: Gateway, far: Far, engine: Engine) -> Gateway:
    """The gateway with the engine attached under the name "team"."""
    far.listing = engine.listing
    (model,) = await attach(near.services, AttachEndpoint(url=far.url, name="team"))
    assert (model.name, model.served_as, model.trained_context) == ("team", engine.id, engine.context)
    return near


async def ask_team(team: Gateway, path: str, more: Document, *, stream: bool) -> tuple[int, str]:
    body = json.dumps({"model": "team", "stream": stream, **more}).encode()
    async with team.http.post(team.url + path, data=body) as reply:
        return reply.status, await reply.text()


def is_error(text: str) -> bool:
    return re.search(r'"error"\s*:\s*["{]', text) is not None


@EACH
async def test_it_answers_under_its_own_name_in_every_dialect(team: Gateway, far: Far, engine: Engine) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = await begin_stream(request)
        await response.write(engine.stream())
        return response

    far.play = answer
    for path, more in WAYS:
        status, reply_body = await ask_team(team, path, more, stream=True)
        assert (status, "Because." in reply_body, is_error(reply_body)) == (200, True, False), reply_body
    assert {(route, body["model"]) for route, body in far.posts} == {("/v1/chat/completions", engine.id)}


@pytest.mark.slow(cases=5)
@EACH
async def test_a_prompt_it_has_no_room_for_is_the_callers_to_mend(team: Gateway, far: Far, engine: Engine) -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.json_response(engine.refuses, status=engine.status)

    far.play = refuse
    for path, more in WAYS:
        status, answer = await ask_team(team, path, more, stream=False)
        assert (status, "1872" in answer, "1024" in answer) == (400, True, True), answer
