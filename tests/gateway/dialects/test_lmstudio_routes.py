"""LM Studio's routes, in front of a played engine: shapes, errors, conversations, and streams that are left or cut."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from app.core.engines import EngineState, EngineStatus
from app.core.errors import EngineFailed
from app.supervisor.policy import LoadRequest
from tests.gateway.exchange.test_streaming import DONE, dies, event, streams, waits
from tests.gateway.played import Gateway, Play
from tests.gguf_files import TinyLlama
from tests.patience import PATIENCE_S, until

TIMINGS = {"cache_n": 0, "prompt_n": 7, "prompt_ms": 50.0, "predicted_n": 3, "predicted_ms": 60.0}
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
WHOLE = {"id": "x", "choices": [{"finish_reason": "stop"}], "usage": USAGE, "timings": TIMINGS}
END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": USAGE, "timings": TIMINGS}
FINISH = b"data: " + json.dumps(END).encode() + b"\n\n"
CHAT = {"model": "guide", "input": "Hi"}
ASKED = {"model": "guide", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(autouse=True)
def answers(gateway: Gateway) -> None:
    gateway.upstream.play = plays()


def plays() -> Play:
    """Play an engine that answers "Hello" to whatever is asked, streamed if that is asked for."""
    stream = streams(event("Hel"), event("lo"), FINISH, DONE)

    async def play(request: web.Request) -> web.StreamResponse:
        if json.loads(await request.read()).get("stream"):
            return await stream(request)
        return web.json_response(WHOLE)

    return play


async def post(gateway: Gateway, path: str, document: object) -> tuple[int, Any]:
    async with gateway.http.post(f"{gateway.url}{path}", json=document) as reply:
        return reply.status, await reply.json(content_type=None)


async def get(gateway: Gateway, path: str) -> tuple[int, Any]:
    async with gateway.http.get(f"{gateway.url}{path}") as reply:
        return reply.status, await reply.json(content_type=None)


async def stream_events(gateway: Gateway, document: object) -> list[dict[str, Any]]:
    """Ask for a stream of /api/v1/chat and return its events."""
    async with gateway.http.post(f"{gateway.url}/api/v1/chat", json=document) as reply:
        assert reply.status == 200
        assert reply.headers["Content-Type"] == "text/event-stream"
        blocks = (await reply.text()).split("\n\n")
    assert blocks.pop() == ""
    return [json.loads(block.partition("\ndata: ")[2]) for block in blocks]


async def test_models_are_listed_as_zeds_strict_reader_takes_them(gateway: Gateway) -> None:
    status, models = await get(gateway, "/api/v0/models")
    assert status == 200
    assert models["object"] == "list"
    assert [model["id"] for model in models["data"]] == ["guide", "org/embed:q8"]
    assert models["data"][0] == {
        "id": "guide",
        "object": "model",
        "type": "llm",
        "publisher": "local",
        "arch": "",
        "compatibility_type": "gguf",
        "quantization": "",
        "state": "loaded",
        "max_context_length": 2048,
        "loaded_context_length": 4096,
    }
    embedder = models["data"][1]
    assert (embedder["type"], embedder["publisher"], embedder["state"]) == ("embeddings", "org", "not-loaded")
    assert isinstance(embedder["max_context_length"], int)
    assert await get(gateway, "/api/v0/models/guide") == (200, models["data"][0])
    assert await get(gateway, "/api/v0/models/org/embed:q8") == (200, embedder)


async def test_models_of_the_newer_api(gateway: Gateway) -> None:
    status, models = await get(gateway, "/api/v1/models")
    assert status == 200
    guide, embedder = models["models"]
    assert guide["loaded_instances"] == [{"id": "guide", "config": {"context_length": 4096}}]
    assert guide["capabilities"] == {"vision": False, "trained_for_tool_use": False}
    assert (guide["type"], guide["key"], guide["display_name"], guide["format"]) == ("llm", "guide", "Guide", "gguf")
    assert embedder["type"] == "embedding"
    assert embedder["loaded_instances"] == []
    assert not {"architecture", "capabilities", "description"} & set(embedder)


async def test_what_a_file_says_is_listed(gateway: Gateway, tmp_path: Path) -> None:
    TinyLlama().write(tmp_path / "tiny.gguf")
    library: Any = gateway.services.library
    library.list_models()[0] = msgspec.structs.replace(library.list_models()[0], path=str(tmp_path / "tiny.gguf"))
    _, models = await get(gateway, "/api/v1/models")
    guide = models["models"][0]
    assert guide["architecture"] == "llama"
    assert guide["quantization"]["name"]
    assert guide["quantization"]["bits_per_weight"] > 0
    assert guide["params_string"]
    _, card = await get(gateway, "/api/v0/models/guide")
    assert (card["arch"], card["quantization"]) == ("llama", guide["quantization"]["name"])


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
async def test_an_answer_is_the_engines_with_statistics(gateway: Gateway, path: str) -> None:
    status, reply = await post(gateway, f"/api/v0/{path}", {**ASKED, "prompt": "Hi"})
    assert status == 200
    assert {name: reply[name] for name in WHOLE} == WHOLE
    assert reply["stats"] == {
        "tokens_per_second": 50.0,
        "time_to_first_token": 0.05,
        "generation_time": 0.06,
        "stop_reason": "eosFound",
    }
    assert reply["model_info"] == {"arch": "", "quant": "", "format": "gguf", "context_length": 4096}
    assert reply["runtime"]["name"].startswith("llama.cpp-")
    assert reply["runtime"]["supported_formats"] == ["gguf"]


async def test_a_stream_ends_with_the_statistics_of_the_whole_answer(gateway: Gateway) -> None:
    _, whole = await post(gateway, "/api/v0/chat/completions", ASKED)
    async with gateway.http.post(f"{gateway.url}/api/v0/chat/completions", json={**ASKED, "stream": True}) as reply:
        stream = await reply.read()
    *_, last, done_line, rest = stream.split(b"\n\n")
    assert (done_line, rest) == (DONE.strip(), b"")
    end = json.loads(last.removeprefix(b"data: "))
    blocks = ("stats", "model_info", "runtime")
    assert {name: end[name] for name in blocks} == {name: whole[name] for name in blocks}


async def test_embeddings_say_who_made_them(gateway: Gateway) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": [], "usage": {"prompt_tokens": 2, "total_tokens": 2}})

    gateway.upstream.play = play
    status, reply = await post(gateway, "/api/v0/embeddings", {"model": "org/embed:q8", "input": "a"})
    assert status == 200
    assert {"stats", "model_info", "runtime"} <= set(reply)
    assert "tokens_per_second" not in reply["stats"]


async def test_embeddings_have_as_many_dimensions_as_were_asked_for(gateway: Gateway) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"data": [{"embedding": [3.0, 4.0, 1.0]}], "model": "m", "usage": {}})

    gateway.upstream.play = play
    body = {"model": "org/embed:q8", "input": "a", "dimensions": 2}
    _, reply = await post(gateway, "/api/v0/embeddings", body)
    assert reply["data"][0]["embedding"] == [0.6, 0.8]
    assert "model_info" in reply


async def test_the_time_to_keep_a_model_is_passed_on(gateway: Gateway) -> None:
    await post(gateway, "/api/v0/chat/completions", {**ASKED, "ttl": 300})
    await post(gateway, "/api/v1/chat", {**CHAT, "ttl": 60})
    await post(gateway, "/api/v0/chat/completions", ASKED)
    assert [terms.keep_s for terms in gateway.supervisor.terms] == [300, 60, None]


@pytest.mark.parametrize(
    ("path", "document", "status", "code"),
    [
        ("chat/completions", {"model": "gpt-9"}, 404, "model_not_found"),
        ("chat/completions", {"model": "guide", "ttl": 0}, 400, "invalid_value"),
        ("chat/completions", {"model": "org/embed:q8"}, 400, "model_cannot"),
        ("embeddings", {"model": "guide"}, 400, "model_cannot"),
        ("completions", [], 400, "invalid_value"),
        ("nonsense", {}, 404, "route_not_found"),
    ],
)
async def test_mistakes_at_v0_have_openais_shape(
    gateway: Gateway, path: str, document: object, status: int, code: str
) -> None:
    reply_status, reply = await post(gateway, f"/api/v0/{path}", document)
    assert reply_status == status
    assert set(reply["error"]) == {"message", "type", "param", "code"}
    assert reply["error"]["code"] == code
    assert gateway.upstream.bodies == []


async def test_what_a_model_cannot_is_said_in_words(gateway: Gateway) -> None:
    _, reply = await post(gateway, "/api/v1/chat", {**CHAT, "reasoning": "on"})
    assert "has no reasoning setting 'on'" in reply["error"]["message"]
    picture = [{"type": "image", "data_url": "data:image/png;base64,AA"}]
    _, reply = await post(gateway, "/api/v1/chat", {**CHAT, "input": picture})
    assert "no projector" in reply["error"]["message"]


@pytest.mark.parametrize(
    ("path", "document", "status", "kind"),
    [
        ("chat", {"model": "gpt-9", "input": "x"}, 404, "model_not_found"),
        ("chat", {"model": "guide"}, 400, "invalid_request"),
        ("chat", {**CHAT, "nonsense": 1}, 400, "invalid_request"),
        ("chat", {**CHAT, "top_p": 2}, 400, "invalid_request"),
        ("chat", {**CHAT, "max_output_tokens": 0}, 400, "invalid_request"),
        ("chat", {**CHAT, "reasoning": "high"}, 400, "invalid_request"),
        ("chat", {**CHAT, "previous_response_id": "chat_1"}, 400, "invalid_request"),
        ("chat", {**CHAT, "previous_response_id": "resp_1"}, 404, "invalid_request"),
        ("chat", {**CHAT, "integrations": ["mcp/playwright"]}, 400, "not_implemented"),
        (
            "chat",
            {**CHAT, "input": [{"type": "image", "data_url": "data:image/png;base64,AA"}]},
            400,
            "invalid_request",
        ),
        ("models/load", {}, 400, "invalid_request"),
        ("models/load", {"model": "guide", "context_length": "big"}, 400, "invalid_request"),
        ("models/load", {"model": "guide", "num_experts": 4}, 400, "not_implemented"),
        ("models/unload", {"instance_id": "org/embed:q8"}, 404, "model_not_found"),
        ("models/download", {"model": "nobody-has-this"}, 400, "model_not_found"),
        ("nonsense", {}, 404, "invalid_request"),
    ],
)
async def test_mistakes_at_v1_have_lm_studios_shape(
    gateway: Gateway, path: str, document: object, status: int, kind: str
) -> None:
    reply_status, reply = await post(gateway, f"/api/v1/{path}", document)
    assert (reply_status, reply["error"]["type"]) == (status, kind), reply
    assert set(reply["error"]) <= {"type", "message", "code", "param"}
    assert reply["error"]["message"]
    assert gateway.upstream.bodies == []


async def test_bodies_that_are_no_json_are_the_callers_mistake(gateway: Gateway) -> None:
    for path, shape in (("/api/v0/completions", {"message", "type", "param", "code"}), ("/api/v1/chat", None)):
        async with gateway.http.post(f"{gateway.url}{path}", data=b"{\xff") as reply:
            assert reply.status == 400
            error = (await reply.json())["error"]
            assert error["code"] == "invalid_json"
            assert shape is None or set(error) == shape


async def test_downloads_answer_cleanly(gateway: Gateway) -> None:
    assert await post(gateway, "/api/v1/models/download", {"model": "guide"}) == (200, {"status": "already_downloaded"})
    status, reply = await get(gateway, "/api/v1/models/download/status/job_1")
    assert (status, reply["error"]["type"]) == (404, "job_not_found")


async def test_the_sdks_web_sockets_are_refused_at_once(gateway: Gateway) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
    async with gateway.http.get(f"{gateway.url}/system", headers=headers) as reply:
        assert reply.status == 404


async def test_a_model_is_loaded_as_asked_and_unloaded(gateway: Gateway) -> None:
    loads: list[tuple[LoadRequest, bool]] = []

    async def ensure_ready(request: LoadRequest, *, any_options: bool = False) -> EngineStatus:
        loads.append((request, any_options))
        return gateway.supervisor.status()

    supervisor: Any = gateway.supervisor
    supervisor.ensure_ready = ensure_ready
    status, reply = await post(gateway, "/api/v1/models/load", {"model": "guide"})
    assert status == 200
    assert reply.pop("load_time_seconds") >= 0
    assert reply == {"type": "llm", "instance_id": "guide", "status": "loaded"}
    chosen_options = {"context_length": 1024, "flash_attention": True, "eval_batch_size": 256, "echo_load_config": True}
    _, reply = await post(gateway, "/api/v1/models/load", {"model": "GUIDE", **chosen_options})
    assert reply["load_config"] == {"context_length": 4096, "flash_attention": True, "eval_batch_size": 256}
    (plain, any_options), (exact, not_any) = loads
    assert (any_options, not_any) == (True, False)
    assert plain.options.flash_attention is None
    options = exact.options
    assert (options.context, options.flash_attention, options.max_batch_tokens) == (1024, True, 256)
    assert await post(gateway, "/api/v1/models/unload", {"instance_id": "guide"}) == (200, {"instance_id": "guide"})
    assert gateway.supervisor.unloads == [("guide", False)]


async def test_a_pinned_model_stays_and_how_it_goes_is_said(gateway: Gateway) -> None:
    gateway.supervisor.is_pinned = True
    status, reply = await post(gateway, "/api/v1/models/unload", {"instance_id": "guide"})
    assert (status, reply["error"]["code"]) == (409, "model_pinned")
    assert "roundhouse unpin guide" in reply["error"]["message"]
    assert gateway.supervisor.unloads == []


async def test_a_stream_comes_to_the_whole_answer(gateway: Gateway) -> None:
    status, whole = await post(gateway, "/api/v1/chat", CHAT)
    assert status == 200
    assert whole["output"] == [{"type": "message", "content": "Hello"}]
    assert whole["stats"] == {
        "input_tokens": 7,
        "total_output_tokens": 3,
        "reasoning_output_tokens": 0,
        "tokens_per_second": 50.0,
        "time_to_first_token_seconds": 0.05,
    }
    events = await stream_events(gateway, {**CHAT, "stream": True})
    end = events[-1]["result"]
    assert end.pop("response_id") != whole.pop("response_id")
    assert end == whole
    assert [event["type"] for event in events] == [
        "chat.start",
        "prompt_processing.start",
        "prompt_processing.progress",
        "prompt_processing.end",
        "message.start",
        "message.delta",
        "message.delta",
        "message.end",
        "chat.end",
    ]


async def test_a_conversation_goes_on_where_it_was(gateway: Gateway) -> None:
    _, first = await post(gateway, "/api/v1/chat", {**CHAT, "system_prompt": "Be brief."})
    _, again = await post(
        gateway, "/api/v1/chat", {**CHAT, "input": "And?", "previous_response_id": first["response_id"]}
    )
    assert first["response_id"].startswith("resp_")
    assert [
        (message["role"], message["content"]) for message in json.loads(gateway.upstream.bodies[-1])["messages"]
    ] == [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello"), ("user", "And?")]
    events = await stream_events(gateway, {**CHAT, "stream": True, "previous_response_id": again["response_id"]})
    assert len(json.loads(gateway.upstream.bodies[-1])["messages"]) == 6
    assert events[-1]["result"]["response_id"].startswith("resp_")


async def test_what_is_not_to_be_stored_is_not(gateway: Gateway) -> None:
    _, reply = await post(gateway, "/api/v1/chat", {**CHAT, "store": False})
    assert "response_id" not in reply


async def test_loading_is_told_of_before_the_answer(gateway: Gateway) -> None:
    gateway.supervisor.is_loaded = False
    gateway.supervisor.may_load.clear()
    async with gateway.http.post(f"{gateway.url}/api/v1/chat", json={**CHAT, "stream": True}) as reply:
        first = await asyncio.wait_for(reply.content.readuntil(b"model_load.start"), PATIENCE_S)
        assert b"chat.start" in first
        gateway.supervisor.may_load.set()
        rest = await reply.content.read()
    assert rest.index(b"model_load.end") < rest.index(b"prompt_processing.start") < rest.index(b"message.delta")


async def test_how_far_loading_is_comes_from_the_engine(gateway: Gateway) -> None:
    supervisor: Any = gateway.supervisor
    supervisor.may_load.clear()
    loading_engine = EngineStatus(model="guide", engine="llama.cpp", state=EngineState.LOADING, progress=0.5)
    supervisor.list_statuses = lambda: [loading_engine]
    async with gateway.http.post(f"{gateway.url}/api/v1/chat", json={**CHAT, "stream": True}) as reply:
        assert await asyncio.wait_for(reply.content.readuntil(b'"progress":0.5'), PATIENCE_S)


async def test_a_load_that_fails_is_an_error_in_the_stream_and_a_status_without_one(gateway: Gateway) -> None:
    gateway.supervisor.refuse_with = EngineFailed("No memory.", code="out_of_memory")
    events = await stream_events(gateway, {**CHAT, "stream": True})
    assert [event["type"] for event in events][-2:] == ["error", "chat.end"]
    assert events[-2]["error"] == {"type": "internal_error", "message": "No memory.", "code": "out_of_memory"}
    status, reply = await post(gateway, "/api/v1/chat", CHAT)
    assert (status, reply["error"]["code"]) == (502, "out_of_memory")


async def test_an_engine_that_dies_is_told_of_in_each_form(gateway: Gateway) -> None:
    gateway.upstream.play = streams(event("Hel"), then=dies)
    gateway.supervisor.death = EngineFailed("It crashed.", code="crashed")
    events = await stream_events(gateway, {**CHAT, "stream": True})
    assert [event["type"] for event in events][-2:] == ["error", "chat.end"]
    assert events[-2]["error"]["code"] == "crashed"
    assert events[-1]["result"]["output"] == [{"type": "message", "content": "Hel"}]
    status, reply = await post(gateway, "/api/v1/chat", CHAT)
    assert (status, reply["error"]["code"]) == (502, "crashed")
    async with gateway.http.post(f"{gateway.url}/api/v0/chat/completions", json={**ASKED, "stream": True}) as stream:
        last = (await stream.read()).split(b"\n\n")[-2]
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "crashed"


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/api/v0/chat/completions", {**ASKED, "stream": True}),
        ("/api/v1/chat", {**CHAT, "stream": True}),
        ("/api/v1/chat", CHAT),
    ],
)
async def test_a_client_that_leaves_stops_the_engine(gateway: Gateway, path: str, document: object) -> None:
    gateway.upstream.play = streams(event("Hel"), then=waits)
    request = asyncio.ensure_future(read_on(gateway, path, document))
    await asyncio.wait_for(gateway.upstream.arrival.wait(), PATIENCE_S)
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    await asyncio.wait_for(gateway.upstream.disconnect.wait(), PATIENCE_S)
    assert gateway.supervisor.in_flight == 0


async def test_a_client_that_leaves_while_the_model_loads_is_not_waited_for(gateway: Gateway) -> None:
    gateway.supervisor.may_load.clear()
    async with gateway.http.post(f"{gateway.url}/api/v1/chat", json={**CHAT, "stream": True}) as reply:
        await reply.content.readany()
        assert gateway.supervisor.waiter_count == 1
    await until(lambda: not gateway.supervisor.waiter_count)


async def read_on(gateway: Gateway, path: str, document: object) -> None:
    async with gateway.http.post(f"{gateway.url}{path}", json=document) as reply:
        async for _ in reply.content.iter_any():
            pass


async def test_exchanges_are_counted(gateway: Gateway) -> None:
    await post(gateway, "/api/v1/chat", CHAT)
    async with gateway.http.get(f"{gateway.url}/metrics") as reply:
        text = await reply.text()
    assert 'route="lmstudio/chat",model="guide",outcome="ok"' in text
