"""llama-server's own routes, and OpenAI's beside chat, on a socket in front of a played engine."""

import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiohttp import web

from app.core.engines import EngineState, EngineStatus
from app.core.models import ModelInfo
from tests.gateway.exchange.test_streaming import streams
from tests.gateway.played import Gateway
from tests.patience import until


@pytest.fixture(autouse=True)
def answers(gateway: Gateway) -> None:
    async def play(request: web.Request) -> web.StreamResponse:
        return web.json_response({"path": request.path, "content": "x", "stop": True})

    gateway.upstream.play = play


async def post(gateway: Gateway, path: str, **body: object) -> tuple[int, Any]:
    async with gateway.http.post(gateway.url + path, json=body) as reply:
        return reply.status, await reply.json(content_type=None)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/infill", {"input_prefix": "a", "input_suffix": "b"}),
        ("/tokenize", {"content": "a"}),
        ("/detokenize", {"tokens": [1]}),
        ("/apply-template", {"messages": []}),
    ],
)
async def test_the_model_in_use_is_meant_when_none_is_named(gateway: Gateway, path: str, body: dict[str, Any]) -> None:
    status, answer = await post(gateway, path, **body)
    assert (status, answer["path"]) == (200, path)
    assert json.loads(gateway.upstream.bodies[0]) == {**body, "model": "guide"}


async def test_an_engine_with_vllms_words_for_a_text_is_asked_in_them(gateway: Gateway) -> None:
    descriptor = gateway.services.adapters["vllm"].descriptor
    played_engine = SimpleNamespace(descriptor=msgspec.structs.replace(descriptor, id="llama.cpp"))
    object.__setattr__(gateway.services, "adapters", {"llama.cpp": played_engine})

    async def play(request: web.Request) -> web.StreamResponse:
        is_text = "prompt" in await request.json()
        return web.json_response({"count": 1, "tokens": [7]} if is_text else {"prompt": "Hello"})

    gateway.upstream.play = play
    assert (await post(gateway, "/tokenize", content="Hello", add_special=True))[1]["tokens"] == [7]
    body = json.loads(gateway.upstream.bodies[0])
    assert (body["prompt"], body["add_special_tokens"]) == ("Hello", True)
    assert (await post(gateway, "/detokenize", tokens=[7]))[1] == {"content": "Hello"}


@pytest.mark.parametrize("path", ["/infill", "/tokenize", "/detokenize", "/apply-template"])
async def test_what_is_missing_is_said_in_openais_shape(gateway: Gateway, path: str) -> None:
    status, answer = await post(gateway, path, model="guide")
    assert (status, answer["error"]["type"], answer["error"]["code"]) == (400, "invalid_request_error", "invalid_value")


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/tokenize", {"model": "nobody", "content": "a"}, 404, "model_not_found"),
        ("/infill", {"model": "org/embed:q8", "input_prefix": "", "input_suffix": ""}, 400, "model_cannot"),
        ("/rerank", {"model": "guide", "query": "a", "documents": ["b"]}, 400, "model_cannot"),
        ("/v1/rerank", {"model": "guide", "query": 3}, 400, "invalid_value"),
        ("/v1/rerank", {"model": "guide", "query": "a", "documents": ["b"], "top_n": -1}, 400, "invalid_value"),
        ("/v1/rerank", {"model": "guide", "query": "a", "documents": ["b"], "top_n": "1"}, 400, "invalid_value"),
        ("/v2/rerank", {"model": "guide", "query": "a", "documents": ["b"]}, 400, "model_cannot"),
        ("/detokenize", {"tokens": [-1]}, 400, "invalid_value"),
        ("/detokenize", {"tokens": [2**70]}, 400, "invalid_value"),
        ("/v1/responses/compact", {"model": "guide", "input": "a"}, 404, "route_not_found"),
        ("/v1/completions", {"model": "guide", "prompt": "a", "best_of": 2}, 400, "unsupported_parameter"),
    ],
)
async def test_refusals_are_in_openais_shape(
    gateway: Gateway, path: str, body: dict[str, Any], status: int, code: str
) -> None:
    reply_status, document = await post(gateway, path, **body)
    assert (reply_status, document["error"]["code"]) == (status, code)
    assert {"message", "type", "param", "code"} <= set(document["error"])


async def test_a_suffix_goes_to_infill_and_is_counted_as_a_completion(gateway: Gateway) -> None:
    status, answer = await post(gateway, "/v1/completions", model="guide", prompt="a", suffix="b", max_tokens=2)
    assert (status, answer["object"], answer["choices"][0]["text"]) == (200, "text_completion", "x")
    assert json.loads(gateway.upstream.bodies[0]) == {
        "model": "guide",
        "input_prefix": "a",
        "input_suffix": "b",
        "n_predict": 2,
    }
    lines = gateway.services.metrics.format_exposition([]).splitlines()
    assert 'roundhouse_requests_total{route="completions",model="guide",outcome="ok"} 1' in lines


@pytest.mark.parametrize(
    "wrong",
    [
        {"logprobs": 6},
        {"logprobs": -1},
        {"temperature": 9},
        {"top_p": 3},
        {"presence_penalty": -3},
        {"max_tokens": 0},
        {"max_tokens": -5},
        {"n": 0},
        {"stop": 5},
        {"logit_bias": {"1": 500}},
        {"logit_bias": {"1": "x"}},
        {"logit_bias": 5},
    ],
)
@pytest.mark.parametrize("path", ["/v1/completions", "/api/v0/completions"])
async def test_a_completion_beyond_the_limits_is_refused_by_its_field(
    gateway: Gateway, path: str, wrong: dict[str, object]
) -> None:
    status, answer = await post(gateway, path, model="guide", prompt="a", **wrong)
    assert (status, answer["error"]["code"]) == (400, "invalid_value")
    assert str(answer["error"]["param"]).startswith(next(iter(wrong)))
    assert not gateway.upstream.bodies


@pytest.mark.parametrize(
    ("client_fields", "engine_fields"),
    [
        ({"max_tokens": -1, "logprobs": 5, "logit_bias": {"1": -100, "x": False}, "stop": None}, {}),
        ({"max_tokens": 2.0, "logit_bias": [[1, 5], ["a", False]], "logprobs": True, "stop": ["a"]}, {}),
        ({"stop": ["", "a"]}, {"stop": ["a"]}),
        ({"stop": "", "logprobs": 0}, {"stop": [], "logprobs": 1}),
    ],
)
async def test_a_completion_within_them_is_sent_as_it_came(
    gateway: Gateway, client_fields: dict[str, object], engine_fields: dict[str, object]
) -> None:
    assert (await post(gateway, "/v1/completions", model="guide", prompt="a", **client_fields))[0] == 200
    assert json.loads(gateway.upstream.bodies[0]) == {"model": "guide", "prompt": "a", **client_fields, **engine_fields}


async def test_an_infill_stream_ends_as_llama_server_ends_it(gateway: Gateway) -> None:
    chunks = b'data: {"content":"x","stop":false}\n\n', b'data: {"content":"","stop":true,"stop_type":"eos"}\n\n'
    gateway.upstream.play = streams(*chunks)
    body = {"input_prefix": "a", "input_suffix": "b", "stream": True}
    async with gateway.http.post(f"{gateway.url}/infill", json=body) as reply:
        assert await reply.read() == b"".join(chunks)
    metric_line = 'roundhouse_requests_total{route="infill",model="guide",outcome="ok"} 1'
    await until(lambda: metric_line in gateway.services.metrics.format_exposition([]).splitlines())


async def test_health_has_both_its_names(gateway: Gateway) -> None:
    for path in ("/health", "/v1/health"):
        async with gateway.http.get(gateway.url + path) as reply:
            assert (await reply.json())["status"] == "ok"


async def test_the_model_chosen_for_chats_goes_before_one_that_failed(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed_engine = EngineStatus(model="guide", engine="llama.cpp", state=EngineState.FAILED)
    other = ModelInfo(name="other", title="Other", path="other.gguf", format="gguf", size_bytes=1)
    gateway.services.settings.change_values({"models.default": "other"})
    models = [*gateway.services.library.list_models(), other]
    monkeypatch.setattr(gateway.supervisor, "list_statuses", lambda: [failed_engine])
    monkeypatch.setattr(gateway.services.library, "list_models", lambda: models)
    assert (await post(gateway, "/tokenize", content="a"))[0] == 200
    assert gateway.supervisor.load_requests[0].source.name == "other"
