"""Tools of a Responses request that are run here: MCP servers and the search of vector stores, with a played engine."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from openai import AsyncOpenAI
from openai.types.responses import (
    ResponseFileSearchToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from openai.types.responses.response_output_item import McpApprovalRequest, McpCall, McpListTools

from app.core.keys import NewKey, Scope
from app.core.mcp import HostCall, HostCancel, HostOrder, McpPermission, SetMcpPermission
from app.gateway.exchange import client_stream
from app.gateway.mcp.host import McpHost
from app.gateway.mcp.servers import McpServers
from tests.gateway.admin.conftest import Api
from tests.gateway.admin.test_chat_tools import CALLED, wish
from tests.gateway.admin.test_collections import add as add_collection
from tests.gateway.admin.test_collections import play as play_models
from tests.gateway.admin.test_mcp import add, fake_server
from tests.gateway.dialects.test_ollama_generation import END, says, streams
from tests.gateway.dialects.test_responses_routes import ASKED, call, create_response, events, text_of
from tests.gateway.played import Gateway, Play
from tests.patience import PATIENCE_S, until

FAKE = {"type": "mcp", "server_label": "fake", "require_approval": "never"}
SEARCH = {"type": "file_search"}
ECHO = wish("fake__echo", {"text": "noon"})


@pytest.fixture
def environ() -> dict[str, str]:
    return {"ROUNDHOUSE_RESPONSES_MCP_SERVERS": "fake"}


@pytest.fixture
def api(gateway: Gateway) -> Api:
    return Api(gateway)


def in_turns(*answers: list[bytes]) -> Play:
    """Play an engine that gives one answer after the other, and the last again and again."""
    answers_left = list(answers)

    async def play(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("embeddings"):
            return await play_models(request)
        parts = answers_left.pop(0) if len(answers_left) > 1 else answers_left[0]
        return await streams(*parts)(request)

    return play


async def count_letters(request: web.Request) -> web.Response:
    """Play an engine that shows prompts and counts their letters."""
    body = json.loads(await request.read())
    if "tokenize" in request.path:
        return web.json_response({"tokens": list(range(len(body["content"])))})
    return web.json_response({"prompt": json.dumps(body)})


async def allow(api: Api, *tools: str, server: str = "fake") -> None:
    await api.call("POST", f"/mcp/servers/{server}/start", Any)
    for tool in tools:
        permission = SetMcpPermission(permission=McpPermission.ALLOW)
        await api.call("POST", f"/mcp/servers/{server}/tools/{tool}/permission", Any, permission)


def bodies(gateway: Gateway) -> list[dict[str, Any]]:
    """Return what the engine was asked to answer."""
    return [body for body in map(json.loads, gateway.upstream.bodies) if "messages" in body]


def kinds(response: dict[str, Any]) -> list[str]:
    return [item["type"] for item in response["output"]]


async def test_a_tool_is_called_and_the_model_goes_on(gateway: Gateway, api: Api) -> None:
    await add(api, "fake", fake_server())
    await allow(api, "echo")
    gateway.upstream.play = in_turns([says("Let me see."), ECHO, CALLED], [says("It is noon."), END])
    response = await create_response(gateway, tools=[FAKE])
    assert kinds(response) == ["mcp_list_tools", "message", "mcp_call", "message"]
    tool_list, _, tool_call, _ = response["output"]
    assert (tool_list["server_label"], tool_list["error"]) == ("fake", None)
    echo = next(tool for tool in tool_list["tools"] if tool["name"] == "echo")
    assert echo["input_schema"]["required"] == ["text"]
    assert {key: tool_call[key] for key in ("name", "arguments", "output", "error", "status", "server_label")} == {
        "name": "echo",
        "arguments": '{"text": "noon"}',
        "output": "noon",
        "error": None,
        "status": "completed",
        "server_label": "fake",
    }
    assert text_of(response) == "Let me see.It is noon."
    assert response["status"] == "completed"
    first, second = bodies(gateway)
    assert "fake__echo" in {tool["function"]["name"] for tool in first["tools"]}
    call_message, result = second["messages"][-2:]
    assert call_message["tool_calls"][0]["function"] == {"name": "fake__echo", "arguments": '{"text": "noon"}'}
    assert (call_message["content"], result["role"], result["content"]) == ("Let me see.", "tool", "noon")
    lines = gateway.services.metrics.format_exposition([])
    assert 'roundhouse_requests_total{route="responses",model="guide",outcome="ok"} 2' in lines


@pytest.mark.slow
async def test_the_events_have_the_dialects_names_and_order(gateway: Gateway, api: Api) -> None:
    await add(api, "fake", fake_server())
    await allow(api, "echo", "fail")
    gateway.upstream.play = in_turns([ECHO, wish("fake__fail", index=1), CALLED], [says("So."), END])
    stream = [each async for each in events(gateway, tools=[FAKE])]
    assert [each["sequence_number"] for each in stream] == list(range(len(stream)))
    assert [each["type"].removeprefix("response.") for each in stream] == [
        *("created", "in_progress"),
        *("output_item.added", "mcp_list_tools.in_progress", "mcp_list_tools.completed", "output_item.done"),
        *("output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done"),
        *("mcp_call.completed", "output_item.done"),
        *("output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done"),
        *("mcp_call.failed", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done"),
        *("output_item.done", "completed"),
    ]
    indexes = [each["output_index"] for each in stream if each["type"] == "response.output_item.done"]
    assert indexes == [0, 1, 2, 3]
    final = stream[-1]["response"]
    assert [item["id"] for item in final["output"]] == [
        each["item"]["id"] for each in stream if each["type"] == "response.output_item.done"
    ]
    failed_item = final["output"][2]
    assert (failed_item["status"], failed_item["output"], failed_item["error"]["type"]) == (
        "failed",
        None,
        "mcp_tool_execution_error",
    )
    assert bodies(gateway)[1]["messages"][-1]["content"].endswith(failed_item["error"]["content"][0]["text"])
    kept_response = (await call(gateway, "GET", f"/{final['id']}"))[1]
    assert kept_response["output"] == final["output"]


async def test_a_call_that_nobody_allowed_waits_for_an_approval(gateway: Gateway, api: Api) -> None:
    await add(api, "fake", fake_server())
    gateway.upstream.play = in_turns([ECHO, CALLED], [says("It is noon."), END])
    first = await create_response(gateway, tools=[FAKE])
    assert kinds(first) == ["mcp_list_tools", "mcp_approval_request"]
    approval_request = first["output"][1]
    assert (approval_request["name"], approval_request["arguments"]) == ("echo", '{"text": "noon"}')
    assert len(bodies(gateway)) == 1
    answer = {"type": "mcp_approval_response", "approval_request_id": approval_request["id"], "approve": True}
    second = await create_response(gateway, tools=[FAKE], input=[answer], previous_response_id=first["id"])
    assert kinds(second) == ["mcp_call", "message"], "the servers' tools are known"
    assert second["output"][0]["approval_request_id"] == approval_request["id"]
    assert bodies(gateway)[1]["messages"][-1]["content"] == "noon"
    status, error = await call(
        gateway, "POST", "", {**ASKED, "input": [answer], "previous_response_id": first["id"], "tools": []}
    )
    assert (status, error["error"]["code"]) == (400, "invalid_tools")


@pytest.mark.slow
async def test_an_approval_comes_back_without_a_stored_response(gateway: Gateway, api: Api) -> None:
    await add(api, "fake", fake_server())
    await allow(api, "echo")
    gateway.upstream.play = in_turns([ECHO, CALLED], [says("Without it, then."), END])
    tool = {**FAKE, "require_approval": {"never": {"tool_names": ["fail"]}}}
    first = await create_response(gateway, tools=[tool], store=False)
    approval_request = first["output"][-1]
    assert approval_request["type"] == "mcp_approval_request", (
        "the program wants to be asked, though the person allowed it"
    )
    refusal = {
        "type": "mcp_approval_response",
        "approval_request_id": approval_request["id"],
        "approve": False,
        "reason": "Not now.",
    }
    question = {"role": "user", "content": "Hi"}
    second = await create_response(gateway, tools=[tool], store=False, input=[question, *first["output"], refusal])
    assert kinds(second) == ["message"]
    assert bodies(gateway)[1]["messages"][-1]["content"].endswith("Do without it. Not now.")
    status, error = await call(gateway, "POST", "", {**ASKED, "input": [refusal], "tools": [tool]})
    assert (status, error["error"]["code"]) == (400, "approval_request_not_found")


async def test_an_approval_is_for_the_call_that_it_was_asked_for(gateway: Gateway, api: Api) -> None:
    await add(api, "fake", fake_server())
    gateway.upstream.play = in_turns([ECHO, CALLED], [says("Yes."), END])
    first = await create_response(gateway, tools=[FAKE], store=False)
    approval_request = {**first["output"][-1], "arguments": '{"text": "midnight"}'}
    answer = {"type": "mcp_approval_response", "approval_request_id": approval_request["id"], "approve": True}
    second = await create_response(gateway, tools=[FAKE], store=False, input=[approval_request, answer])
    assert kinds(second)[-1] == "mcp_approval_request"
    assert second["output"][-1]["arguments"] == '{"text": "midnight"}'
    assert len(bodies(gateway)) == 1, "nothing was called, and the model was not asked"


@pytest.mark.slow
async def test_a_tool_described_otherwise_than_when_it_was_allowed_asks_again(gateway: Gateway, api: Api) -> None:
    await add(api, "fake", fake_server("turncoat"))
    await allow(api, "echo")
    gateway.upstream.play = in_turns([ECHO, CALLED], [ECHO, CALLED], [says("Yes."), END])
    response = await create_response(gateway, tools=[FAKE])
    assert kinds(response) == ["mcp_list_tools", "mcp_call", "mcp_approval_request"]
    answer = {"type": "mcp_approval_response", "approval_request_id": response["output"][-1]["id"], "approve": True}
    again = await create_response(gateway, tools=[FAKE], input=[answer], previous_response_id=response["id"])
    assert kinds(again) == ["mcp_list_tools", "mcp_call", "message"], "the list is told again: it is another"


@pytest.mark.parametrize(
    ("tool", "status", "code"),
    [
        ({"server_label": "other"}, 403, "mcp_server_not_served"),
        ({"server_label": ""}, 400, "invalid_tools"),
        ({"server_label": "fake", "server_url": "https://mcp.example.org/mcp"}, 400, "mcp_server_url"),
        ({"server_label": "fake", "authorization": "secret"}, 400, "unsupported_parameter"),
        ({"server_label": "fake", "headers": {"a": "b"}}, 400, "unsupported_parameter"),
        ({"server_label": "fake", "connector_id": "connector_gmail"}, 400, "unsupported_parameter"),
        ({"server_label": "fake", "require_approval": "sometimes"}, 400, "invalid_tools"),
        ({"server_label": "fake", "allowed_tools": 3}, 400, "invalid_tools"),
    ],
)
async def test_what_a_program_may_not_use_is_refused(
    gateway: Gateway, api: Api, tool: dict[str, Any], status: int, code: str
) -> None:
    await add(api, "fake", fake_server())
    reply_status, error = await call(gateway, "POST", "", {**ASKED, "tools": [{"type": "mcp", **tool}]})
    assert (reply_status, error["error"]["code"]) == (status, code)
    assert error["error"]["message"]
    assert not gateway.upstream.bodies
    twice = await call(gateway, "POST", "", {**ASKED, "tools": [FAKE, FAKE]})
    assert twice[0] == 400


@pytest.mark.parametrize(
    "item",
    [
        {"type": "mcp_approval_response"},
        {"type": "mcp_approval_request", "id": "mcpr_1"},
        {"type": "mcp_call", "id": "mcp_1"},
        {"type": "mcp_list_tools", "tools": []},
        {"type": "file_search_call", "results": [{"text": 7}]},
    ],
)
async def test_an_item_that_is_none_is_refused_with_a_sentence(gateway: Gateway, item: dict[str, Any]) -> None:
    status, error = await call(gateway, "POST", "", {**ASKED, "input": [item], "tools": []})
    assert (status, error["error"]["code"]) == (400, "invalid_value")
    assert "`input[0]` is not as expected" in error["error"]["message"]


@pytest.mark.slow
async def test_only_the_tools_that_both_let_are_offered(gateway: Gateway, api: Api) -> None:
    await add(api, "fake", fake_server())
    await api.call("POST", "/mcp/servers/fake/start", Any)
    block = SetMcpPermission(permission=McpPermission.BLOCK)
    await api.call("POST", "/mcp/servers/fake/tools/fail/permission", Any, block)
    gateway.upstream.play = in_turns([says("Hello"), END])
    own = {"type": "function", "name": "fake__echo", "parameters": {"type": "object"}}
    tool = {**FAKE, "allowed_tools": {"tool_names": ["echo", "fail"]}}
    await create_response(gateway, tools=[tool, own])
    names = [each["function"]["name"] for each in bodies(gateway)[0]["tools"]]
    assert sorted(names) == ["fake__echo", "fake__echo_2"], "the program's own function keeps its name"
    await create_response(
        gateway, tools=[{**FAKE, "allowed_tools": ["echo"]}], tool_choice={"type": "mcp", "server_label": "fake"}
    )
    assert [each["function"]["name"] for each in bodies(gateway)[1]["tools"]] == ["fake__echo"]


@pytest.mark.slow
async def test_the_tools_count_as_input(gateway: Gateway, api: Api) -> None:
    await add(api, "fake", fake_server())
    gateway.upstream.play = count_letters
    body = {**ASKED, "tools": []}
    _, without = await call(gateway, "POST", "/input_tokens", body)
    _, count = await call(gateway, "POST", "/input_tokens", {**body, "tools": [FAKE]})
    assert count["input_tokens"] > without["input_tokens"]


@pytest.mark.slow
async def test_a_server_that_does_not_start_is_told_and_the_model_goes_on(gateway: Gateway, api: Api) -> None:
    await add(api, "fake", fake_server("crash"))
    gateway.upstream.play = in_turns([says("Hello"), END])
    response = await create_response(gateway, tools=[FAKE])
    assert kinds(response) == ["mcp_list_tools", "message"]
    assert "fake" in response["output"][0]["error"]
    kinds_seen = [each["type"] async for each in events(gateway, tools=[FAKE])]
    assert "response.mcp_list_tools.failed" in kinds_seen


@pytest.mark.slow
async def test_a_functions_call_ends_the_response_and_its_result_goes_on(gateway: Gateway, api: Api) -> None:
    await add(api, "fake", fake_server())
    await allow(api, "echo")
    look = {"type": "function", "name": "look", "parameters": {"type": "object"}}
    gateway.upstream.play = in_turns([ECHO, wish("look", index=1), CALLED], [says("Seen."), END])
    first = await create_response(gateway, tools=[FAKE, look])
    assert kinds(first) == ["mcp_list_tools", "function_call", "mcp_call"]
    result = {"type": "function_call_output", "call_id": first["output"][1]["call_id"], "output": "A wall."}
    second = await create_response(gateway, tools=[FAKE, look], input=[result], previous_response_id=first["id"])
    assert text_of(second) == "Seen."
    contents = [each.get("content") for each in bodies(gateway)[1]["messages"]]
    assert {"A wall.", "noon"} <= {each for each in contents if each}


@pytest.mark.slow
async def test_a_call_that_is_required_is_required_once(gateway: Gateway, api: Api) -> None:
    await add(api, "fake", fake_server())
    await allow(api, "echo")
    gateway.upstream.play = in_turns([ECHO, CALLED], [ECHO, CALLED], [says("Enough."), END])
    response = await create_response(gateway, tools=[FAKE], tool_choice="required")
    assert (kinds(response)[-1], response["tool_choice"]) == ("message", "required")
    assert [body.get("tool_choice", "auto") for body in bodies(gateway)] == ["required", "auto", "auto"]


@pytest.mark.slow
async def test_no_more_calls_are_made_than_the_request_allows(gateway: Gateway, api: Api) -> None:
    await add(api, "fake", fake_server())
    await allow(api, "echo")
    gateway.upstream.play = in_turns([ECHO, wish("fake__echo", {"text": "two"}, index=1), CALLED], [says("Yes."), END])
    response = await create_response(gateway, tools=[FAKE], max_tool_calls=1)
    assert kinds(response) == ["mcp_list_tools", "mcp_call", "message"]
    assert "tools" not in bodies(gateway)[1]


@pytest.mark.slow
async def test_a_model_that_never_stops_calling_is_stopped(
    gateway: Gateway, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(api, "fake", fake_server())
    await allow(api, "echo")
    monkeypatch.setattr("app.gateway.exchange.tool_rounds.MOST_ROUNDS", 2)
    gateway.upstream.play = in_turns([ECHO, CALLED])
    status, error = await call(gateway, "POST", "", {**ASKED, "tools": [FAKE]})
    assert (status, error["error"]["code"]) == (502, "tool_loop")
    *_, last = [each async for each in events(gateway, tools=[FAKE])]
    assert last["type"] == "response.failed"


@pytest.mark.slow
async def test_a_call_that_takes_too_long_is_a_failed_call(
    gateway: Gateway, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(api, "fake", fake_server())
    await allow(api, "wait")
    monkeypatch.setattr(McpServers.call_tool, "__kwdefaults__", {"limit_s": 0.3})
    monkeypatch.setattr(client_stream, "EVERY_S", 0.05)
    gateway.upstream.play = in_turns([wish("fake__wait"), CALLED], [says("Then not."), END])
    async with gateway.http.post(
        f"{gateway.url}/v1/responses", json={**ASKED, "stream": True, "tools": [FAKE]}
    ) as reply:
        text = await reply.text()
    call_events = text[text.index("mcp_call_arguments.done") : text.index("mcp_call.failed")]
    assert ": still loading" in call_events, "the client is told that it goes on"
    assert "did not answer within" in text
    assert '"response.completed"' in text


@pytest.mark.slow
async def test_a_client_that_leaves_calls_its_call_off(
    gateway: Gateway, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent_types: list[type[object]] = []
    send = McpHost._send

    def note(self: McpHost, message: HostOrder | HostCall | HostCancel) -> None:
        sent_types.append(type(message))
        send(self, message)

    monkeypatch.setattr(McpHost, "_send", note)
    await add(api, "fake", fake_server())
    await allow(api, "wait")
    gateway.upstream.play = in_turns([wish("fake__wait"), CALLED])
    body = {**ASKED, "stream": True, "tools": [FAKE]}
    reply = await gateway.http.post(f"{gateway.url}/v1/responses", json=body)
    await until(lambda: sent_types[-1:] == [HostCall])
    reply.close()
    await until(lambda: sent_types[-1:] == [HostCancel])


@pytest.mark.slow
async def test_a_response_that_is_stopped_in_a_call_says_so(gateway: Gateway, api: Api) -> None:
    await add(api, "fake", fake_server())
    await allow(api, "wait")
    gateway.upstream.play = in_turns([wish("fake__wait"), CALLED])
    stream = events(gateway, tools=[FAKE])
    async with asyncio.timeout(PATIENCE_S):
        async for each in stream:
            if each["type"] == "response.created":
                name = each["response"]["id"]
            if each["type"] == "response.mcp_call.in_progress":
                break
        status, cancelled_response = await call(gateway, "POST", f"/{name}/cancel")
        *_, last = [each async for each in stream]
    assert (status, cancelled_response["status"]) == (200, "cancelled")
    assert last["type"] == "response.failed"
    assert cancelled_response["output"][-1]["status"] == "incomplete"


async def test_with_a_key_nobody_lets_programs_use_servers(gateway: Gateway, api: Api) -> None:
    await api.call("PATCH", "/settings", Any, {"chats.tool_servers": ["fake"]})
    api.token = gateway.services.keys.make_key(NewKey(name="manager", scopes=[Scope.MANAGE])).key
    for name in ("responses.mcp_servers", "chats.tool_servers"):
        assert await api.expect_refusal("PATCH", "/settings", {name: ["fake"]}) == (403, "mcp_needs_person")


@pytest.fixture
async def store(api: Api, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A collection that programs may search."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "trains.md").write_text("# Trains\n\nThe locomotive stood in the roundhouse.\n")
    (folder / "bread.txt").write_text("Yeast makes the dough rise.\n")
    api.gateway.upstream.play = play_models
    collection = await add_collection(api, "Docs", folder, is_served=True)
    return collection.id


LOOK_UP = wish("file_search", {"queries": ["Where did the locomotive stand?", "yeast"]})


async def test_files_are_searched_and_cited(gateway: Gateway, api: Api, store: str) -> None:
    gateway.upstream.play = in_turns([LOOK_UP, CALLED], [says("In the roundhouse [1]"), says(", it says [7]."), END])
    tool = {**SEARCH, "vector_store_ids": [store], "max_num_results": 3}
    response = await create_response(gateway, tools=[tool], include=["file_search_call.results"])
    search, message = response["output"]
    assert (search["status"], search["queries"]) == ("completed", ["Where did the locomotive stand?", "yeast"])
    names = {result["filename"] for result in search["results"]}
    assert names == {"trains.md", "bread.txt"}
    first = search["results"][0]
    assert 0 < first["score"] <= 1
    (citation,) = message["content"][0]["annotations"]
    assert citation == {
        "type": "file_citation",
        "file_id": first["file_id"],
        "filename": first["filename"],
        "index": len("In the roundhouse [1]"),
    }
    content = bodies(gateway)[1]["messages"][-1]["content"]
    assert '<passage number="1"' in content
    assert first["text"].strip() in content
    assert api is not None


async def test_results_are_told_only_to_those_who_ask_and_the_conversation_keeps_them(
    gateway: Gateway, api: Api, store: str
) -> None:
    gateway.upstream.play = in_turns([LOOK_UP, CALLED], [says("In the roundhouse [1]."), END])
    tool = {**SEARCH, "vector_store_ids": [store]}
    stream = [each async for each in events(gateway, tools=[tool])]
    assert [each["type"].removeprefix("response.") for each in stream] == [
        *("created", "in_progress", "output_item.added", "file_search_call.in_progress"),
        *("file_search_call.searching", "file_search_call.completed", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta", "output_text.annotation.added"),
        *("output_text.done", "content_part.done", "output_item.done", "completed"),
    ]
    response = stream[-1]["response"]
    assert response["output"][0]["results"] is None
    assert (await call(gateway, "GET", f"/{response['id']}"))[1]["output"] == response["output"]
    with_results = await call(gateway, "GET", f"/{response['id']}?include[]=file_search_call.results")
    assert with_results[1]["output"][0]["results"]
    again = await create_response(gateway, tools=[tool], input="Sure?", previous_response_id=response["id"])
    assert any('<passage number="1"' in (each.get("content") or "") for each in bodies(gateway)[-1]["messages"])
    assert again["output"][0]["content"][0]["annotations"], "what was found before can be cited still"
    assert api is not None


async def test_a_search_goes_by_filters_and_threshold(gateway: Gateway, api: Api, store: str) -> None:
    gateway.upstream.play = in_turns([LOOK_UP, CALLED], [says("Nothing."), END])
    none = {**SEARCH, "vector_store_ids": [store], "filters": {"type": "eq", "key": "year", "value": 2026}}
    response = await create_response(gateway, tools=[none], include=["file_search_call.results"])
    assert response["output"][0]["results"] == []
    assert "Nothing was found" in bodies(gateway)[1]["messages"][-1]["content"]
    assert api is not None


async def test_a_search_for_nothing_comes_to_nothing(gateway: Gateway, api: Api, store: str) -> None:
    tool = {**SEARCH, "vector_store_ids": [store]}
    gateway.upstream.play = in_turns([wish("file_search", {"queries": [" "]}), CALLED], [says("Hm."), END])
    response = await create_response(gateway, tools=[tool], include=["file_search_call.results"])
    assert (response["output"][0]["results"], text_of(response)) == ([], "Hm.")
    assert api is not None


@pytest.mark.parametrize(
    ("tool", "status", "code"),
    [
        ({"vector_store_ids": ["nobody"]}, 404, "vector_store_not_found"),
        ({}, 400, "invalid_tools"),
        ({"vector_store_ids": ["a"], "max_num_results": 51}, 400, "invalid_tools"),
        ({"vector_store_ids": ["a"], "filters": {"type": "like", "key": "a"}}, 400, "invalid_value"),
        ({"vector_store_ids": ["a"], "ranking_options": {"score_threshold": 2}}, 400, "invalid_tools"),
    ],
)
async def test_a_search_that_cannot_be_done_is_refused(
    gateway: Gateway, tool: dict[str, Any], status: int, code: str
) -> None:
    reply_status, error = await call(gateway, "POST", "", {**ASKED, "tools": [{**SEARCH, **tool}]})
    assert (reply_status, error["error"]["code"]) == (status, code)
    assert not gateway.upstream.bodies


async def test_a_key_searches_only_its_own_stores(gateway: Gateway, store: str) -> None:
    key = gateway.services.keys.make_key(NewKey(name="one", scopes=[Scope.INFERENCE])).key
    gateway.services.settings.change_values({"gateway.require_key": True})
    body = {**ASKED, "tools": [{**SEARCH, "vector_store_ids": [store]}]}
    async with gateway.http.post(
        f"{gateway.url}/v1/responses", json=body, headers={"Authorization": f"Bearer {key}"}
    ) as reply:
        assert reply.status == 404


@pytest.mark.slow
async def test_openais_own_client_reads_all_of_it(gateway: Gateway, api: Api, store: str) -> None:
    await add(api, "fake", fake_server())
    await allow(api, "echo")
    tools: Any = [FAKE, {**SEARCH, "vector_store_ids": [store]}]
    rounds = ([ECHO, CALLED], [LOOK_UP, CALLED], [says("In the roundhouse [1]."), END])
    gateway.upstream.play = in_turns(*rounds)
    async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="any", max_retries=0) as client:
        whole = await client.responses.create(
            model="guide", input="Hi", tools=tools, include=["file_search_call.results"]
        )
        tool_list, tool_call, search, message = whole.output
        assert isinstance(tool_list, McpListTools)
        assert isinstance(tool_call, McpCall)
        assert isinstance(search, ResponseFileSearchToolCall)
        assert isinstance(message, ResponseOutputMessage)
        assert (tool_call.output, tool_call.status) == ("noon", "completed")
        assert search.results
        assert isinstance(message.content[0], ResponseOutputText)
        assert message.content[0].annotations[0].type == "file_citation"
        assert whole.usage is not None
        assert (whole.usage.output_tokens, whole.usage.input_tokens) == (2, 7), "rounds without a count have none"
        gateway.upstream.play = in_turns(*rounds)
        async with client.responses.stream(model="guide", input="Hi", tools=tools) as stream:
            seen_types = [event.type async for event in stream]
            final = await stream.get_final_response()
        assert [item.type for item in final.output] == [item.type for item in whole.output]
        assert "response.mcp_call.completed" in seen_types
        gateway.upstream.play = in_turns([wish("fake__fail"), CALLED], [says("Yes."), END])
        first = await client.responses.create(model="guide", input="Hi", tools=tools)
        approval_request = first.output[-1]
        assert isinstance(approval_request, McpApprovalRequest)
        answer: Any = {"type": "mcp_approval_response", "approval_request_id": approval_request.id, "approve": True}
        second = await client.responses.create(
            model="guide", input=[answer], tools=tools, previous_response_id=first.id
        )
        failed_item = second.output[0]
        assert isinstance(failed_item, McpCall)
        assert (failed_item.status, failed_item.approval_request_id) == ("failed", approval_request.id)
        assert failed_item.error is not None
