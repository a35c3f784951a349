"""`roundhouse mcp`: servers whose tools models may call, and Roundhouse's own tools for agents."""

import shlex
import sys
import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, report_errors, show_result
from app.client.http import GatewayClient, quote_segment
from app.core.errors import BadRequest, Conflict, EngineFailed
from app.core.mcp import (
    BuiltinServer,
    McpCall,
    McpImportResult,
    McpPermission,
    McpResult,
    McpServer,
    McpServerPatch,
    McpServerSettings,
    McpServersImport,
    McpServerState,
    McpTool,
    NewMcpServer,
    SetMcpPermission,
)

_START_S = 150.0
"""A runner downloads the server's package first."""
_CALL_S = 150.0
_POLL_S = 0.5
_LONGEST_SENTENCE = 160
_RUNNERS = frozenset({"npx", "bunx", "uvx", "pipx"})


@click.group("mcp", invoke_without_command=True)
@json_option
@click.pass_context
def mcp(ctx: click.Context, *, as_json: bool) -> None:
    """List the servers of tools (Model Context Protocol), change them, or offer Roundhouse's own tools to agents."""
    if ctx.invoked_subcommand is None:
        _show_servers(connect_gateway().get("/mcp/servers", list[McpServer]), as_json=as_json)


@mcp.command("list")
@click.option("--tools", "with_tools", is_flag=True, help="Start each server and list its tools.")
@json_option
def list_servers(*, with_tools: bool, as_json: bool) -> None:
    """List the servers whose tools `roundhouse run MODEL --mcp NAME` may call."""
    client = connect_gateway()
    servers = client.get("/mcp/servers", list[McpServer])
    if with_tools:
        servers = [
            _start(client, server.name) if server.is_enabled and server.is_confirmed else server for server in servers
        ]
    _show_servers(servers, as_json=as_json)


@mcp.command("add")
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--builtin",
    type=click.Choice([each.value for each in BuiltinServer]),
    help="A server that comes with Roundhouse, instead of a command.",
)
@click.option("--url", default="", help="The address of a server that runs elsewhere, instead of a command.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="Sent with each request to --url.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable of its environment.")
@click.option(
    "--folder",
    "folders",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A folder it may read and change.",
)
@click.option("--network", is_flag=True, help="Let it connect to other computers, over HTTP and HTTPS.")
@json_option
def add_server(  # noqa: PLR0913 -- one option each
    *,
    name: str,
    command: tuple[str, ...],
    builtin: str | None,
    url: str,
    headers: tuple[str, ...],
    variables: tuple[str, ...],
    folders: tuple[Path, ...],
    network: bool,
    as_json: bool,
) -> None:
    """Add the server NAME: what starts it comes after --, or its address with --url.

    On Linux it can read and change only the folders that its command names or --folder gives. Of those that come with
    Roundhouse, `calculator` also knows dates, `files` reads the folders of --folder and changes nothing, `pictures` has
    an attached endpoint draw in chats, `python` runs programs that the model writes, without network, and `web-search`
    asks the SearXNG of --env SEARXNG_URL=ADDRESS, or Brave with --env BRAVE_API_KEY=KEY.
    """
    settings = McpServerSettings(
        builtin=None if builtin is None else BuiltinServer(builtin),
        command=command[0] if command else "",
        args=list(command[1:]),
        env=_read_pairs(variables, "--env"),
        url=url,
        headers=_read_pairs(headers, "--header"),
        folders=[str(folder.resolve()) for folder in folders],
        network=network,
    )
    settings.check()
    client = connect_gateway()
    server = client.post("/mcp/servers", NewMcpServer(name=name, settings=settings), McpServer)
    if Path(settings.command).stem in _RUNNERS and not network:
        print_note(f"{settings.command} downloads its package when it starts, which needs --network.")
    show_result("server", server, as_json=as_json, text=lambda new_server: [f"{new_server.name} was added."])


@mcp.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def import_servers(*, file: Path, as_json: bool) -> None:
    """Add the servers of FILE, the mcp.json of another program; those that are here stay as they are."""
    request = McpServersImport(text=file.read_text(encoding="utf-8", errors="replace"))
    result = connect_gateway().post("/mcp/servers/import", request, McpImportResult)
    show_result("imported", result, as_json=as_json, text=_import_lines)


@mcp.command("confirm")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def confirm_server(*, name: str, yes: bool, as_json: bool) -> None:
    """Confirm the server NAME that a program added with an access key, after seeing its command."""
    client = connect_gateway()
    server = client.get(f"/mcp/servers/{quote_segment(name)}", McpServer)
    if not yes:
        click.echo(_describe_start(server), err=True)
        click.confirm("Let it run on this computer?", abort=True, err=True)
    _change(client, name, McpServerPatch(is_confirmed=True), as_json=as_json)


@mcp.command("sign-in")
@click.argument("name")
@click.option("--no-browser", is_flag=True, help="Only print the page's address.")
@json_option
def sign_in(*, name: str, no_browser: bool, as_json: bool) -> None:
    """Sign in to the server NAME: its own page opens in the browser, and this waits until you are done."""
    client = connect_gateway()
    server = _start(client, name, may_wait=True)
    if server.state is McpServerState.SIGN_IN:
        print_note(f"Sign in here: {server.sign_in_url}")
        if not no_browser:
            webbrowser.open(server.sign_in_url)
        server = _wait_for_sign_in(client, name)
    show_result("server", server, as_json=as_json, text=lambda ready: _server_lines([ready]))


def _wait_for_sign_in(client: GatewayClient, name: str) -> McpServer:
    while True:
        server = client.get(f"/mcp/servers/{quote_segment(name)}", McpServer)
        if server.state is McpServerState.READY:
            return server
        if server.state is not McpServerState.SIGN_IN:
            raise EngineFailed(server.problem or f"{name} was stopped.", code="mcp_sign_in")
        time.sleep(_POLL_S)


@mcp.command("enable")
@click.argument("name")
@json_option
def enable_server(*, name: str, as_json: bool) -> None:
    """Switch the server NAME on."""
    _change(connect_gateway(), name, McpServerPatch(is_enabled=True), as_json=as_json)


@mcp.command("disable")
@click.argument("name")
@json_option
def disable_server(*, name: str, as_json: bool) -> None:
    """Switch the server NAME off."""
    _change(connect_gateway(), name, McpServerPatch(is_enabled=False), as_json=as_json)


@mcp.command("remove")
@click.argument("name")
@json_option
def remove_server(*, name: str, as_json: bool) -> None:
    """Remove the server NAME, and what was allowed of it."""
    client = connect_gateway()
    server = client.get(f"/mcp/servers/{quote_segment(name)}", McpServer)
    client.delete(f"/mcp/servers/{quote_segment(name)}")
    show_result("removed", server, as_json=as_json, text=lambda old_server: [f"{old_server.name} was removed."])


@mcp.command("tools")
@click.argument("name")
@json_option
def list_tools(*, name: str, as_json: bool) -> None:
    """Start the server NAME and list its tools, and whether models may call them."""
    server = _start(connect_gateway(), name)
    show_result("tools", server.tools, as_json=as_json, text=_tool_lines)


@mcp.command("allow")
@click.argument("name")
@click.argument("tool")
@json_option
def allow_tool(*, name: str, tool: str, as_json: bool) -> None:
    """Let models call TOOL of the server NAME without asking, for as long as it is described as now."""
    _set_permission(name, tool, McpPermission.ALLOW, as_json=as_json)


@mcp.command("block")
@click.argument("name")
@click.argument("tool")
@json_option
def block_tool(*, name: str, tool: str, as_json: bool) -> None:
    """Never offer TOOL of the server NAME to models."""
    _set_permission(name, tool, McpPermission.BLOCK, as_json=as_json)


@mcp.command("ask")
@click.argument("name")
@click.argument("tool")
@json_option
def ask_before_tool(*, name: str, tool: str, as_json: bool) -> None:
    """Have every call of TOOL of the server NAME confirmed."""
    _set_permission(name, tool, McpPermission.ASK, as_json=as_json)


@mcp.command("call")
@click.argument("name")
@click.argument("tool")
@click.argument("arguments", default="{}")
@json_option
def call_tool(*, name: str, tool: str, arguments: str, as_json: bool) -> None:
    """Call TOOL of the server NAME yourself, with ARGUMENTS as a JSON object."""
    try:
        values = msgspec.json.decode(arguments, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise BadRequest(f"The arguments are no JSON object: {error}", code="invalid_value") from error
    client = connect_gateway()
    _start(client, name)
    result = client.post(f"{_tool_path(name, tool)}/call", McpCall(arguments=values), McpResult, timeout_s=_CALL_S)
    show_result("result", result, as_json=as_json, text=lambda answer: [answer.text])
    if result.is_error:
        sys.exit(1)


@mcp.command("serve")
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65_535),
    help="Serve this port of this computer instead of standard input and output; 0 takes a free one.",
)
@click.option("--read-only", is_flag=True, help="Without the tools that download, load, unload and ask.")
@report_errors
def serve_mcp(*, port: int | None, read_only: bool) -> None:
    """Serve tools: status, list_models, plan, estimate, search, pull, load, unload and ask.

    An agent starts this command by itself: its settings name `roundhouse` with the arguments `mcp serve`. With --http
    it runs until Ctrl-C, and every request needs an access key with the scope manage.
    """
    from app.mcp_server import server  # noqa: PLC0415 -- a second of imports that no other command needs

    if port is None:
        server.serve_stdio(connect_gateway, is_read_only=read_only)
        return
    server.serve_http(connect_gateway, port, is_read_only=read_only, announce=_announce_address)


def _announce_address(address: str) -> None:
    print_note(f"Serving {address}. Ctrl-C stops it.")


def _show_servers(servers: list[McpServer], *, as_json: bool) -> None:
    show_result("servers", servers, as_json=as_json, text=_server_lines)


def _start(client: GatewayClient, name: str, *, may_wait: bool = False) -> McpServer:
    """Start a server. Raises Conflict for one that waits for a person, unless it `may_wait`."""
    server = client.post(f"/mcp/servers/{quote_segment(name)}/start", None, McpServer, timeout_s=_START_S)
    if server.state is McpServerState.SIGN_IN and not may_wait:
        raise Conflict(
            f"{name} asks you to sign in.", hint=f"`roundhouse mcp sign-in {name}` opens its page.", code="mcp_sign_in"
        )
    return server


def _change(client: GatewayClient, name: str, patch: McpServerPatch, *, as_json: bool) -> None:
    server = client.patch(f"/mcp/servers/{quote_segment(name)}", patch, McpServer)
    show_result("server", server, as_json=as_json, text=lambda changed_server: _server_lines([changed_server]))


def _set_permission(name: str, tool: str, permission: McpPermission, *, as_json: bool) -> None:
    client = connect_gateway()
    _start(client, name)
    request = SetMcpPermission(permission=permission)
    changed_tool = client.post(f"{_tool_path(name, tool)}/permission", request, McpTool)
    show_result("tool", changed_tool, as_json=as_json, text=lambda judged_tool: _tool_lines([judged_tool]))


def _tool_path(name: str, tool: str) -> str:
    return f"/mcp/servers/{quote_segment(name)}/tools/{quote_segment(tool)}"


def _read_pairs(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    split = [pair.partition("=") for pair in pairs]
    if any(not name or not mark for name, mark, _ in split):
        raise BadRequest(f"{option} takes NAME=VALUE.", code="invalid_value")
    return {name: value for name, _, value in split}


def _server_lines(servers: list[McpServer]) -> Iterator[str]:
    if not servers:
        yield "There are no MCP servers. `roundhouse mcp add` adds one."
        return
    yield from format_table(("NAME", "STATE", "TOOLS", "REACHES", "STARTED BY"), map(_server_row, servers))


def _server_row(server: McpServer) -> tuple[str, ...]:
    state = server.state.value if server.is_enabled else "off"
    if not server.is_confirmed:
        state = "not confirmed"
    if server.problem or server.lack:
        state = f"{state}: {server.problem or server.lack}"
    return (server.name, state, str(len(server.tools) or "-"), describe_reach(server), _describe_start(server))


def describe_reach(server: McpServer) -> str:
    """Return what a server can reach, in a few words."""
    if server.url:
        return "what its computer has"
    if not server.is_confined:
        return "all that you can"
    network = "network" if server.network else "no network"
    return ", ".join([network, *server.folders])


def _describe_start(server: McpServer) -> str:
    if server.builtin is not None:
        return f"built in: {server.builtin}"
    return server.url or shlex.join([server.command, *server.args])


def _tool_lines(tools: list[McpTool]) -> Iterator[str]:
    rows = [(tool.about.name, describe_permission(tool), _first_sentence(tool.about.description)) for tool in tools]
    yield from format_table(("TOOL", "MODELS", "DOES"), rows)


def _first_sentence(text: str) -> str:
    sentence = " ".join(text.split()).split(". ")[0]
    return sentence if len(sentence) <= _LONGEST_SENTENCE else f"{sentence[:_LONGEST_SENTENCE]}…"


def describe_permission(tool: McpTool) -> str:
    """Return whether models may call a tool, in a few words."""
    if tool.has_changed:
        return "ask: changed since you allowed it"
    return {McpPermission.ASK: "ask", McpPermission.ALLOW: "may call", McpPermission.BLOCK: "blocked"}[tool.permission]


def _import_lines(result: McpImportResult) -> Iterator[str]:
    yield f"Added: {', '.join(result.added) or 'none'}."
    if result.skipped:
        yield f"Left out, since they are here already or cannot be started: {', '.join(result.skipped)}."
