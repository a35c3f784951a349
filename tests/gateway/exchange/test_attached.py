"""A model that an endpoint elsewhere serves: what goes wrong there is told in every dialect, nothing is done twice."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.core.engines import EngineState
from app.core.models import AttachEndpoint
from app.gateway.admin.routes import ENDPOINTS
from app.gateway.exchange.connections import address_of
from app.gateway.library.attached_endpoints import attach
from app.network import egress as door_module
from app.supervisor import dialing
from tests.gateway.far import ASKED, DIALECTS, Far, ask_near, begin_stream, chunk
from tests.gateway.played import Gateway
from tests.patience import PATIENCE_S, until


@DIALECTS
async def test_every_dialect_is_answered_by_the_endpoint_under_its_own_name_and_key(
    near: Gateway, far: Far, path: str, more: dict[str, Any]
) -> None:
    status, answer = await ask_near(near, path, more, stream=True)
    assert status == 200
    assert "Because." in answer
    ((route, body),) = far.posts
    assert (route, body["model"]) == ("/v1/chat/completions", "big")
    assert set(far.keys) == {"Bearer sk-far"}


@DIALECTS
async def test_an_endpoint_that_dies_in_the_middle_is_told_in_the_stream(
    near: Gateway, far: Far, path: str, more: dict[str, Any]
) -> None:
    far.play = far.die_in_the_middle
    body = json.dumps({"model": "distant", "stream": True, **more}).encode()
    async with near.http.post(near.url + path, data=body) as reply:
        assert reply.status == 200
        text = ""
        while "Bec" not in text:
            text += (await reply.content.readany()).decode()
        far.may_die.set()
        text = await reply.text()
    assert "error" in text
    assert "cut off" in text
    assert len(far.posts) == 1


@DIALECTS
async def test_work_that_may_have_begun_there_is_not_asked_for_again(
    near: Gateway, far: Far, path: str, more: dict[str, Any]
) -> None:
    far.play = far.die_at_once
    status, answer = await ask_near(near, path, more, stream=False)
    assert status >= 500 or "error" in answer
    assert "cut off" in answer
    assert len(far.posts) == 1


@DIALECTS
async def test_an_endpoint_that_is_away_is_told_by_its_address(
    near: Gateway, far: Far, path: str, more: dict[str, Any]
) -> None:
    far.is_up = False
    status, answer = await ask_near(near, path, more, stream=False)
    assert status >= 500
    assert "answers 500 when asked for its models" in answer
    assert far.posts == []
    far.is_up = True
    assert (await ask_near(near, path, more, stream=True))[0] == 200, "it is used again as soon as it is back"


async def test_one_that_went_away_after_it_was_looked_at_is_told_too(near: Gateway, far: Far) -> None:
    more = {"messages": ASKED}
    assert (await ask_near(near, "/v1/chat/completions", more, stream=True))[0] == 200
    library = near.services.library
    model = library.find_model("distant")
    lost_endpoint = {**json.loads(Path(model.path).read_text()), "url": "http://127.0.0.1:9/v1"}  # noqa: ASYNC240 -- a line
    assert lost_endpoint["served_as"] == "big"
    await near.services.supervisor.unload_model("distant")
    Path(model.path).write_text(json.dumps(lost_endpoint))  # noqa: ASYNC240 -- as above
    library.look_again()
    near.services.recent._entries.clear()
    status, answer = await ask_near(near, "/v1/chat/completions", more, stream=False)
    assert (status, "127.0.0.1:9 does not answer" in answer) == (502, True)


@pytest.mark.parametrize(("status", "expected_status"), [(400, 400), (429, 429), (503, 503), (302, 502)])
async def test_what_the_endpoint_says_itself_is_passed_on(
    near: Gateway, far: Far, status: int, expected_status: int
) -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        headers = {"Location": "http://169.254.169.254/"} if status == 302 else {}
        return web.json_response({"error": {"message": "Not today.", "type": "x"}}, status=status, headers=headers)

    far.play = refuse
    reply_status, answer = await ask_near(near, "/v1/chat/completions", {"messages": ASKED}, stream=False)
    assert reply_status == expected_status
    assert ("Not today." in answer) == (status != 302)
    assert len(far.posts) == 1


@DIALECTS
@pytest.mark.parametrize("stream", [True, False])
async def test_a_tgi_that_finds_a_prompt_too_long_is_understood_in_every_dialect(
    near: Gateway, far: Far, path: str, more: dict[str, Any], *, stream: bool
) -> None:
    sentence = "Input validation error: `inputs` must have less than 1024 tokens. Given: 1872"

    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": sentence, "error_type": "validation"}, status=422)

    far.play = refuse
    status, answer = await ask_near(near, path, more, stream=stream)
    assert (status == 400) or (stream and "error" in answer)
    assert "1872" in answer
    assert "1024" in answer
    assert "`inputs`" not in answer, "in its dialect's own words"
    assert len(far.posts) == 1


@pytest.mark.slow(cases=7)
@DIALECTS
@pytest.mark.parametrize("wait", ["7", "Wed, 21 Oct 2026 07:28:00 GMT", None])
async def test_an_endpoint_that_asks_for_patience_is_heard_in_every_dialect(
    near: Gateway, far: Far, path: str, more: dict[str, Any], wait: str | None
) -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        headers = {} if wait is None else {"Retry-After": wait}
        return web.json_response({"error": {"message": "Slowly."}}, status=429, headers=headers)

    far.play = refuse
    async with near.http.post(near.url + path, json={"model": "distant", "stream": False, **more}) as reply:
        assert (reply.status, reply.headers.get("Retry-After")) == (429, wait)
        body = await reply.json()
    assert "Slowly." in str(body["error"])
    if path in {"/v1/messages", "/v1/chat/completions", "/v1/responses"}:
        assert body["error"]["type"] == "rate_limit_error"
    assert len(far.posts) == 1


async def test_an_endpoint_that_asks_for_patience_before_a_stream_of_ollamas_is_heard(near: Gateway, far: Far) -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.json_response(
            {"error": {"message": "Slowly.", "code": 429}}, status=429, headers={"Retry-After": "7"}
        )

    far.play = refuse
    for path, more in (("/api/chat", {"messages": ASKED}), ("/api/generate", {"prompt": "Why?"})):
        async with near.http.post(near.url + path, json={"model": "distant", **more}) as reply:
            assert (reply.status, reply.headers.get("Retry-After")) == (429, "7")
            assert await reply.json() == {"error": "Slowly."}


async def test_a_slow_stream_passes_as_it_comes_and_ends_with_its_client(near: Gateway, far: Far) -> None:
    goes_on = asyncio.Event()

    async def slowly(request: web.Request) -> web.StreamResponse:
        response = await begin_stream(request)
        await response.write(chunk("one"))
        await goes_on.wait()
        await response.write(chunk("two"))
        await asyncio.Event().wait()
        return response

    far.play = slowly
    body = {"model": "distant", "stream": True, "messages": ASKED}
    async with near.http.post(f"{near.url}/v1/chat/completions", json=body) as reply:
        assert await reply.content.readany() == chunk("one")
        goes_on.set()
        assert await reply.content.readany() == chunk("two")
        reply.close()
    await asyncio.wait_for(far.disconnect.wait(), PATIENCE_S)
    await until(lambda: not any(status.in_flight for status in near.services.supervisor.list_statuses()))


async def test_going_offline_breaks_off_an_answer_from_another_computer(
    near: Gateway, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loopback stands for another computer here: nothing else can be reached in a test."""

    async def begin(request: web.Request) -> web.StreamResponse:
        response = await begin_stream(request)
        await response.write(chunk("one"))
        await asyncio.Event().wait()
        return response

    far.play = begin
    body = {"model": "distant", "stream": True, "messages": ASKED}
    with monkeypatch.context() as elsewhere:
        for module in (door_module, dialing):
            elsewhere.setattr(module, "is_this_computer", lambda _host: False)
        address_of.cache_clear()
        async with near.http.post(f"{near.url}/v1/chat/completions", json=body) as reply:
            assert await reply.content.readany() == chunk("one")
            headers = {"Authorization": "Bearer token"}
            settings = f"{near.url}/roundhouse/v1/settings"
            async with near.http.patch(settings, json={"network.offline": True}, headers=headers) as change_reply:
                assert change_reply.status == 200
            assert b"error" in await reply.content.read()
        status, answer = await ask_near(near, "/v1/chat/completions", {"messages": ASKED}, stream=False)
    address_of.cache_clear()
    assert (status, "offline" in answer) == (409, True)
    assert len(far.posts) == 1


async def test_tools_and_thinking_reach_the_endpoint_whatever_is_known_of_it(near: Gateway, far: Far) -> None:
    async with near.http.post(f"{near.url}/api/show", json={"model": "distant"}) as reply:
        assert (await reply.json())["capabilities"] == ["completion", "tools"]
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    more = {"messages": ASKED, "tools": [tool], "think": True}
    assert (await ask_near(near, "/api/chat", more, stream=True))[0] == 200
    assert far.posts[-1][1]["tools"][0]["function"]["name"] == "look"


async def test_one_that_is_let_go_is_looked_at_no_more(near: Gateway, far: Far) -> None:
    await ask_near(near, "/api/chat", {"messages": ASKED}, stream=True)
    headers = {"Authorization": "Bearer token"}
    record = Path(near.services.library.find_model("distant").path)
    async with near.http.delete(f"{near.url}/roundhouse/v1/models/distant", headers=headers) as reply:
        assert reply.status == 204
    assert near.services.supervisor.list_statuses() == []
    assert not await asyncio.to_thread(record.with_suffix(".key").exists)
    assert (await ask_near(near, "/api/chat", {"messages": ASKED}, stream=True))[0] == 404


async def test_attaching_again_with_another_key_counts_from_the_next_request_on(near: Gateway, far: Far) -> None:
    await ask_near(near, "/api/chat", {"messages": ASKED}, stream=True)
    await attach(near.services, AttachEndpoint(url=far.url, name="distant", key="sk-new"))
    await ask_near(near, "/api/chat", {"messages": ASKED}, stream=True)
    assert far.keys[-1] == "Bearer sk-new"


async def test_nothing_is_loaded_and_nothing_is_watched_that_nobody_uses(near: Gateway, far: Far) -> None:
    looks = far.looks
    assert near.services.supervisor.list_statuses() == []
    assert far.looks == looks
    await ask_near(near, "/api/chat", {"messages": ASKED}, stream=True)
    (status,) = near.services.supervisor.list_statuses()
    assert (status.engine, status.state, status.pid) == ("attached", EngineState.READY, None)


async def test_only_who_may_manage_can_attach(near: Gateway, far: Far) -> None:
    assert len([endpoint for endpoint in ENDPOINTS if endpoint.path.startswith("/attached")]) == 4
    async with near.http.post(f"{near.url}/roundhouse/v1/attached", json={"url": far.url}) as reply:
        assert reply.status == 401
