"""Servers of tools over HTTP: added, started, called, allowed, and held to what a person gave them."""

import asyncio
import json
import os
import socket
import stat
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from app.config.paths import Paths
from app.core.errors import StorageFault
from app.core.events import Event, McpServersChanged
from app.core.keys import NewKey, Scope
from app.core.mcp import (
    MOST_TOOLS,
    BuiltinServer,
    HostOrder,
    McpCall,
    McpImportResult,
    McpPermission,
    McpResult,
    McpServer,
    McpServerPatch,
    McpServerSettings,
    McpServersImport,
    McpServerState,
    McpToolDescription,
    NewMcpServer,
    tools_by_function,
)
from app.gateway.hosting.reach import can_confine
from app.gateway.mcp import host, servers
from app.gateway.mcp.host import McpHost
from app.gateway.mcp.launch import confine_server, script_folders
from app.gateway.mcp.servers import McpServers
from tests.fake_mcp import server as fake
from tests.gateway.admin.conftest import Api
from tests.patience import PATIENCE_S

needs_confinement = pytest.mark.skipif(not can_confine(), reason="this system confines nothing")


def fake_server(*faults: str, **more: object) -> McpServerSettings:
    return McpServerSettings(command=sys.executable, args=[fake.__file__, *faults], **more)  # type: ignore[arg-type]


async def add(api: Api, name: str, settings: McpServerSettings) -> McpServer:
    return await api.call("POST", "/mcp/servers", McpServer, NewMcpServer(name=name, settings=settings))


async def start(api: Api, name: str) -> McpServer:
    return await api.call("POST", f"/mcp/servers/{name}/start", McpServer)


async def call(api: Api, name: str, tool: str, **arguments: object) -> McpResult:
    return await api.call(
        "POST", f"/mcp/servers/{name}/tools/{tool}/call", McpResult, McpCall(arguments=dict(arguments))
    )


def test_a_script_that_npm_installed_reads_the_packages_beside_it(tmp_path: Path) -> None:
    package = tmp_path / "node_modules" / "@scope" / "server"
    (package / "dist").mkdir(parents=True)
    (package / "package.json").touch()
    (package / "dist" / "index.js").touch()
    settings = McpServerSettings(command="node", args=[str(package / "dist" / "index.js"), "stdio"])
    assert list(script_folders(settings)) == [(tmp_path / "node_modules").resolve()]


@pytest.mark.slow
async def test_a_server_is_added_started_called_and_removed(
    api: Api, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_server = await add(api, "fake", fake_server(env={"API_KEY": "secret"}))
    assert (new_server.state, new_server.tools, new_server.env) == (McpServerState.STOPPED, [], ["API_KEY"])
    assert stat.S_IMODE(paths.mcp_file.stat().st_mode) == 0o600
    ready = await start(api, "fake")
    assert ready.state is McpServerState.READY
    assert [tool.about.name for tool in ready.tools] == list(fake.TOOLS)
    assert ready.tools[0].about.schema == fake.TEXT
    assert (await call(api, "fake", "echo", text="hello")).text == "hello"
    await results_are_bounded_and_named(api)
    monkeypatch.setattr(McpServers.call_tool, "__kwdefaults__", {"limit_s": 0.3})
    assert await api.expect_refusal("POST", "/mcp/servers/fake/tools/wait/call", McpCall()) == (502, "mcp_call_timeout")
    monkeypatch.undo()
    assert await api.expect_refusal("POST", "/mcp/servers/fake/tools/die/call", McpCall()) == (502, "mcp_server_failed")
    assert (await call(api, "fake", "echo", text="again")).text == "again"  # it was started once more
    assert (await api.raw("DELETE", "/mcp/servers/fake"))[0] == 204
    assert await api.call("GET", "/mcp/servers", list[McpServer]) == []
    assert b"secret" not in paths.mcp_file.read_bytes()
    assert await api.expect_refusal("POST", "/mcp/servers/fake/start") == (404, "mcp_server_not_found")


async def results_are_bounded_and_named(api: Api) -> None:
    flood = await call(api, "fake", "flood")
    assert flood.was_cut
    assert len(flood.text) < 101_000
    failed_result = await call(api, "fake", "fail")
    assert (failed_result.text, failed_result.is_error) == ("It broke.", True)
    assert (await call(api, "fake", "picture")).text == "[image/png: not shown to the model]"
    assert await api.expect_refusal("POST", "/mcp/servers/fake/tools/nothing/call", McpCall()) == (
        404,
        "mcp_tool_not_found",
    )


@pytest.mark.slow
async def test_a_server_that_does_not_start_says_why(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for fault in ("crash", "mute", "noise", "many"):
        await add(api, fault, fake_server(fault))
    await add(api, "missing", McpServerSettings(command="no-such-program"))
    crash, many = await asyncio.gather(*(api.raw("POST", f"/mcp/servers/{name}/start") for name in ("crash", "many")))
    assert (crash[0], b"crash ended." in crash[1], b"I have no licence file" in crash[1]) == (502, True, True)
    assert len(msgspec.json.decode(many[1], type=McpServer).tools) == MOST_TOOLS
    monkeypatch.setattr(host, "READY_S", 0.5)
    mute, noise = await asyncio.gather(*(api.raw("POST", f"/mcp/servers/{name}/start") for name in ("mute", "noise")))
    assert (mute[0], noise[0]) == (502, 502)
    assert b"did not become ready" in mute[1]
    assert await api.expect_refusal("POST", "/mcp/servers/missing/start") == (404, "mcp_command_not_found")
    by_name = {server.name: server for server in await api.call("GET", "/mcp/servers", list[McpServer])}
    assert {name for name, server in by_name.items() if server.state is McpServerState.FAILED} == set(by_name) - {
        "many"
    }
    assert all(server.problem for server in by_name.values() if server.state is McpServerState.FAILED)


@pytest.mark.slow
async def test_a_server_that_is_removed_while_it_starts_is_ended(api: Api) -> None:
    await add(api, "fake", fake_server("mute"))
    start_task = asyncio.create_task(api.raw("POST", "/mcp/servers/fake/start"))
    await wait_for(lambda: api.call("GET", "/mcp/servers/fake", McpServer), McpServerState.STARTING)
    assert (await api.raw("DELETE", "/mcp/servers/fake"))[0] == 204
    status, body = await start_task
    assert (status, b"was stopped" in body) == (502, True)


async def wait_for(read: Callable[[], Awaitable[McpServer]], state: McpServerState) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await read()).state is not state:  # noqa: ASYNC110 -- what another program would do
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_servers_that_reach_other_computers_end_when_nothing_may_go_out(paths: Paths, api: Api) -> None:
    own = McpServers(paths, api.gateway.services.events)
    for name, has_network in (("here", False), ("out", True)):
        await own.save_server(name, fake_server(network=has_network))
        await own.start_server(name)
    own.cut_connections()
    await wait_for(lambda: own.read_server("out"), McpServerState.STOPPED)
    assert (await own.read_server("here")).state is McpServerState.READY
    await own.close()


async def test_a_tool_that_is_described_otherwise_than_when_it_was_allowed_asks_again(
    paths: Paths, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = [McpToolDescription(name=name, description="Does as it says.") for name in ("keep", "change", "stop")]

    async def start_host(self: McpHost, launch: object, order: object) -> bool:
        del launch, order
        self._listener.take_tools(tools)
        return True

    monkeypatch.setattr(McpHost, "start", start_host)
    monkeypatch.setattr(McpHost, "is_running", True)
    own = McpServers(paths, api.gateway.services.events)
    await own.save_server("fake", fake_server())
    await own.start_server("fake")
    for tool in ("keep", "change"):
        assert (await own.set_permission("fake", tool, McpPermission.ALLOW)).permission is McpPermission.ALLOW
    await own.set_permission("fake", "stop", McpPermission.BLOCK)
    tools[1:] = [replace(tool, description="Does something else.") for tool in tools[1:]]
    again = McpServers(paths, api.gateway.services.events)
    tools_by_name = {tool.about.name: tool for tool in (await again.start_server("fake")).tools}
    assert {name: tool.permission for name, tool in tools_by_name.items()} == {
        "keep": McpPermission.ALLOW,
        "change": McpPermission.ASK,
        "stop": McpPermission.BLOCK,
    }
    assert [name for name, tool in tools_by_name.items() if tool.has_changed] == ["change"]


async def test_a_server_that_is_off_or_was_not_confirmed_does_not_start(api: Api) -> None:
    await add(api, "fake", fake_server())
    await api.call("PATCH", "/mcp/servers/fake", McpServer, McpServerPatch(is_enabled=False))
    assert await api.expect_refusal("POST", "/mcp/servers/fake/start") == (409, "mcp_disabled")
    assert (await add(api, "other", fake_server(unconfirmed=True))).is_confirmed  # a person adds it


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"command": "x", "url": "http://a"},
        {"url": "ftp://a"},
        {"command": "x", "folders": ["relative"]},
        {"command": "x", "args": [1]},
        {"command": "x", "other": 1},
        {"command": "x" * 5000},
    ],
)
async def test_what_cannot_be_a_server_is_refused(api: Api, settings: dict[str, object]) -> None:
    assert (await api.raw("POST", "/mcp/servers", {"name": "a", "settings": settings}))[0] == 400
    assert (await api.raw("POST", "/mcp/servers", {"name": "../a", "settings": {"command": "x"}}))[0] == 400


async def test_servers_of_other_programs_are_imported_once(api: Api) -> None:
    entries = {
        "time": {"command": "uvx", "args": ["mcp-server-time"], "type": "stdio", "autoApprove": ["x"]},
        "web": {"url": "https://mcp.example/mcp", "headers": {"Authorization": "Bearer s"}, "disabled": True},
        "broken": {"args": []},
    }
    body = McpServersImport(text=json.dumps({"mcpServers": entries, "other": 1}))
    first = await api.call("POST", "/mcp/servers/import", McpImportResult, body)
    assert first == McpImportResult(added=["time", "web"], skipped=["broken"])
    again = await api.call("POST", "/mcp/servers/import", McpImportResult, body)
    assert again == McpImportResult(added=[], skipped=["time", "web", "broken"])
    time, web = await api.call("GET", "/mcp/servers", list[McpServer])
    assert (time.args, web.is_enabled, web.headers) == (["mcp-server-time"], False, ["Authorization"])
    for text in ("", "[]", "{}", '{"mcpServers": {"a": 1}}'):
        assert (await api.raw("POST", "/mcp/servers/import", McpServersImport(text=text)))[0] == 400


async def test_who_comes_with_a_key_only_proposes(api: Api) -> None:
    key = api.gateway.services.keys.make_key(NewKey(name="agent", scopes=[Scope.MANAGE])).key
    program = Api(api.gateway, token=key)
    assert not (await add(program, "fake", fake_server())).is_confirmed
    assert await api.expect_refusal("POST", "/mcp/servers/fake/start") == (403, "mcp_unconfirmed")
    body = McpServersImport(text=json.dumps({"mcpServers": {"other": {"command": "x"}}}))
    await program.call("POST", "/mcp/servers/import", McpImportResult, body)
    assert not (await api.call("GET", "/mcp/servers/other", McpServer)).is_confirmed
    refusal = (403, "mcp_needs_person")
    for patch in (McpServerPatch(is_confirmed=True), McpServerPatch(network=True), McpServerPatch(folders=["/"])):
        assert await program.expect_refusal("PATCH", "/mcp/servers/fake", patch) == refusal
    await program.call("PATCH", "/mcp/servers/fake", McpServer, McpServerPatch(is_enabled=False))
    tool = "/mcp/servers/fake/tools/echo"
    assert await program.expect_refusal("POST", f"{tool}/call", McpCall()) == refusal
    assert await program.expect_refusal("POST", f"{tool}/permission", {"permission": "allow"}) == refusal
    confirmed_server = await api.call("PATCH", "/mcp/servers/fake", McpServer, McpServerPatch(is_confirmed=True))
    assert (confirmed_server.is_confirmed, confirmed_server.is_enabled) == (True, False)


async def test_windows_hear_of_changes(api: Api) -> None:
    async with api.events("/events", Event) as events:
        await add(api, "fake", fake_server())
        async for event in events:
            if isinstance(event, McpServersChanged):
                break


async def test_a_file_with_mistakes_stops_nothing_and_is_not_overwritten(api: Api, paths: Paths) -> None:
    paths.mcp_file.write_text('{"mcpServers": {')
    broken_servers = McpServers(paths, api.gateway.services.events)
    for attempt in (broken_servers.list_servers(), broken_servers.save_server("a", McpServerSettings(command="x"))):
        with pytest.raises(StorageFault, match="has a mistake"):
            await attempt
    assert paths.mcp_file.read_text() == '{"mcpServers": {'


@needs_confinement
async def test_a_server_reaches_only_what_it_was_given(api: Api, tmp_path: Path) -> None:
    given_folder, named_folder, other, project = (tmp_path / name for name in ("given", "named", "other", "project"))
    for folder in (given_folder, named_folder, other, project):
        folder.mkdir()
        (folder / "file").write_text("words")
    (project / "package.json").touch()
    (project / "build").mkdir()
    (project / "build" / "index.js").touch()
    settings = fake_server(str(named_folder), str(project / "build" / "index.js"), folders=[str(given_folder)])
    await add(api, "fake", settings)
    assert (await start(api, "fake")).is_confined
    with socket.create_server(("127.0.0.1", 0)) as listener:
        reach = json.loads(
            (
                await call(
                    api,
                    "fake",
                    "escape",
                    reads={
                        folder.name: str(folder / "file") for folder in (given_folder, named_folder, other, project)
                    },
                    writes={
                        f"write {folder.name}": str(folder / "new")
                        for folder in (given_folder, named_folder, other, project)
                    },
                    port=listener.getsockname()[1],
                )
            ).text
        )
    assert reach == {
        "given": True,
        "named": True,
        "other": False,
        "project": True,
        "write given": True,
        "write named": True,
        "write other": False,
        "write project": False,
        "port": False,
    }


@pytest.mark.slow
async def test_nothing_is_left_of_a_server_when_the_gateway_ends(paths: Paths, api: Api) -> None:
    own = McpServers(paths, api.gateway.services.events)
    await own.save_server("fake", fake_server())
    await own.start_server("fake")
    hosts = [running_server.host for running_server in own._running_servers.values()]
    (process,) = [running_server._process for running_server in hosts if running_server is not None]
    assert process is not None
    pid = process.pid
    await own.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    await asyncio.sleep(0)


async def test_a_calculator_comes_with_the_product(api: Api) -> None:
    await add(api, "sums", McpServerSettings(builtin=BuiltinServer.CALCULATOR))
    ready = await start(api, "sums")
    assert ready.builtin is BuiltinServer.CALCULATOR
    assert [tool.about.name for tool in ready.tools] == ["calculate", "now", "days_between", "add_to_date"]
    assert (await call(api, "sums", "calculate", expression="2 ** 10")).text == "1024"
    assert (await call(api, "sums", "calculate", expression="2 **")).is_error


@needs_confinement
async def test_built_in_files_are_read_and_never_changed(api: Api, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("milk", "utf-8")
    (tmp_path / "secret.txt").write_text("secret", "utf-8")
    await add(api, "notes", McpServerSettings(builtin=BuiltinServer.FILES, folders=[str(folder)]))
    assert (await call(api, "notes", "read_file", path="a.txt")).text == "1: milk"
    assert (await call(api, "notes", "read_file", path=str(tmp_path / "secret.txt"))).is_error
    rules = confine_server(
        McpServerSettings(builtin=BuiltinServer.FILES, folders=[str(folder)]), HostOrder(), tmp_path / "home"
    )
    assert str(folder) in rules.read
    assert rules.write == (str(tmp_path / "home"),)


@pytest.mark.slow
@needs_confinement
async def test_python_that_a_model_writes_reaches_nothing(api: Api, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("password", "utf-8")
    await add(api, "code", McpServerSettings(builtin=BuiltinServer.PYTHON))
    assert (await call(api, "code", "run_python", code="print(6 * 7)")).text == "42\n"
    for escape in (
        f"print(open({str(tmp_path / 'secret.txt')!r}).read())",
        f"open({str(tmp_path / 'new.txt')!r}, 'w')",
        f"import socket; socket.create_connection(('127.0.0.1', {api.gateway.port}), 2)",
    ):
        result = await call(api, "code", "run_python", code=escape)
        assert (result.is_error, "password" in result.text) == (True, False), result.text
    assert not (tmp_path / "new.txt").exists()


async def test_python_is_not_run_where_nothing_confines_it(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "can_confine", lambda: False)
    await add(api, "code", McpServerSettings(builtin=BuiltinServer.PYTHON))
    assert await api.expect_refusal("POST", "/mcp/servers/code/start") == (403, "mcp_not_confined")


@pytest.mark.parametrize(
    "settings",
    [
        McpServerSettings(builtin=BuiltinServer.FILES),
        McpServerSettings(builtin=BuiltinServer.WEB_SEARCH),
        McpServerSettings(builtin=BuiltinServer.WEB_SEARCH, env={"SEARXNG_URL": "file:///etc"}),
        McpServerSettings(builtin=BuiltinServer.CALCULATOR, command="x"),
    ],
)
async def test_what_a_built_in_server_lacks_is_said(api: Api, settings: McpServerSettings) -> None:
    assert await api.expect_refusal("POST", "/mcp/servers", NewMcpServer(name="a", settings=settings)) == (
        400,
        "invalid_value",
    )


@pytest.mark.slow
async def test_a_search_is_noted_as_a_connection_and_reaches_its_port(api: Api, tmp_path: Path) -> None:
    settings = McpServerSettings(builtin=BuiltinServer.WEB_SEARCH, env={"SEARXNG_URL": "http://127.0.0.1:8888"})
    new_server = await add(api, "search", settings)
    assert (new_server.network, new_server.env) == (True, ["SEARXNG_URL"])
    rules = confine_server(settings, HostOrder(), tmp_path)
    assert [port.first for port in rules.connect] == [53, 80, 443, 8888]
    result = await call(api, "search", "search_web", query="x")
    assert (result.is_error, "could not be reached" in result.text) == (True, True)


async def test_a_server_that_asks_for_secrets_gets_none(api: Api) -> None:
    await add(api, "fake", fake_server())
    outcome = await call(api, "fake", "nosy")
    assert outcome.is_error
    assert (await call(api, "fake", "echo", text="still here")).text == "still here"


@pytest.mark.slow
async def test_names_and_schemas_that_are_none_harm_nobody(api: Api) -> None:
    await add(api, "odd", fake_server("odd"))
    tools = {tool.about.name: tool for tool in (await start(api, "odd")).tools}
    assert "deep" in tools
    names = tools_by_function(tools.values())
    assert len(names) == len(tools)
    assert all(
        len(name) <= 64 and name.isascii() and name.replace("_", "").replace("-", "").isalnum() for name in names
    )
