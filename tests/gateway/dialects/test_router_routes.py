"""llama-server's router: the list with states and contexts, loading and unloading, events and properties."""

import asyncio
import json
from typing import Any

import pytest

from app.core.engines import EngineState, EngineStatus
from app.core.errors import EngineFailed
from app.core.events import EngineChanged
from app.core.keys import NewKey, Scope
from app.supervisor.policy import LoadRequest
from tests.gateway.played import Gateway
from tests.patience import PATIENCE_S, until


async def get(gateway: Gateway, path: str) -> Any:  # noqa: ANN401 -- a document
    async with gateway.http.get(f"{gateway.url}{path}") as reply:
        assert reply.status == 200
        return await reply.json()


async def post(gateway: Gateway, path: str, document: object, **headers: str) -> tuple[int, Any]:
    async with gateway.http.post(f"{gateway.url}{path}", json=document, headers=headers) as reply:
        return reply.status, await reply.json()


@pytest.mark.parametrize("path", ["/v1/models", "/models"])
async def test_the_list_tells_context_in_every_servers_words(gateway: Gateway, path: str) -> None:
    gateway.services.settings.change_values({"models.context": 1024})
    guide, embed = (await get(gateway, path))["data"]
    assert guide["id"] == "guide"
    loaded_context = guide["loaded_context_length"]
    assert loaded_context
    contexts = (guide["context_length"], guide["max_model_len"], guide["meta"]["n_ctx"])
    assert contexts == (loaded_context, loaded_context, loaded_context)
    assert guide["max_context_length"] == guide["meta"]["n_ctx_train"] == 2048
    assert (guide["status"]["value"], guide["source"]) == ("loaded", "preset")
    assert embed["status"] == {"value": "unloaded"}
    assert embed["loaded_context_length"] is None
    assert embed["context_length"] == embed["max_model_len"] == min(1024, embed["max_context_length"] or 1024)
    assert guide["architecture"] == {"input_modalities": ["text"], "output_modalities": ["text"]}


async def test_one_model_is_told_as_in_the_list(gateway: Gateway) -> None:
    data = (await get(gateway, "/v1/models"))["data"]
    for card in data:
        assert await get(gateway, f"/v1/models/{card['id']}") == card


async def test_properties_of_the_router_and_of_a_model(gateway: Gateway) -> None:
    router = await get(gateway, "/props")
    assert (router["role"], router["models_autoload"]) == ("router", True)
    props = await get(gateway, "/props?model=guide&autoload=false")
    (guide, _) = (await get(gateway, "/models"))["data"]
    assert props["default_generation_settings"]["n_ctx"] == guide["context_length"]
    assert props["model_alias"] == props["model_path"] == "guide", "where the file lies is not told"
    assert props["modalities"] == {"vision": False, "audio": False}
    async with gateway.http.get(f"{gateway.url}/props?model=gpt-9") as reply:
        assert reply.status == 404


async def test_a_model_is_loaded_in_the_background(gateway: Gateway) -> None:
    loads: list[str] = []

    async def ensure_ready(request: LoadRequest, *, any_options: bool = False) -> EngineStatus:
        assert any_options
        loads.append(request.source.name)
        raise EngineFailed("There is no room.", code="out_of_memory")

    supervisor: Any = gateway.supervisor
    supervisor.ensure_ready = ensure_ready
    status, answer = await post(gateway, "/models/load", {"model": "org/embed:q8"})
    assert (status, answer) == (200, {"success": True}), "what came of it the list says"
    await until(lambda: loads == ["org/embed:q8"])


async def test_what_cannot_be_loaded_or_unloaded_is_said(gateway: Gateway) -> None:
    for path in ("/models/load", "/models/unload"):
        assert (await post(gateway, path, {"model": "gpt-9"}))[0] == 404
        assert (await post(gateway, path, {}))[0] == 400
    status, refusal = await post(gateway, "/models/unload", {"model": "org/embed:q8"})
    assert (status, refusal["error"]["code"]) == (400, "model_not_loaded")


async def test_a_key_that_may_only_ask_may_not_load(gateway: Gateway) -> None:
    key = gateway.services.keys.make_key(NewKey(name="asks", scopes=[Scope.INFERENCE])).key
    gateway.services.settings.change_values({"gateway.require_key": True})
    for path in ("/models/load", "/models/unload"):
        assert (await post(gateway, path, {"model": "guide"}, Authorization=f"Bearer {key}"))[0] == 403


async def test_events_follow_a_load(gateway: Gateway) -> None:
    async with gateway.http.get(f"{gateway.url}/models/sse") as reply:
        assert reply.headers["Content-Type"] == "text/event-stream"
        await reply.content.readuntil(b"\n\n")
        for state, progress in ((EngineState.LOADING, 0.5), (EngineState.READY, None), (EngineState.READY, None)):
            status = EngineStatus(model="org/embed:q8", engine="llama.cpp", state=state, progress=progress)
            gateway.services.events.publish(EngineChanged(status=status))
            await asyncio.sleep(0)
        stopped_engine = EngineStatus(model="org/embed:q8", engine="llama.cpp", state=EngineState.STOPPED)
        gateway.services.events.publish(EngineChanged(status=stopped_engine))
        async with asyncio.timeout(PATIENCE_S):
            events = [json.loads((await reply.content.readuntil(b"\n\n")).removeprefix(b"data: ")) for _ in range(2)]
    assert {event["model"] for event in events} == {"org/embed:q8"}
    assert events[-1]["data"]["status"] in {"loaded", "unloaded"}
