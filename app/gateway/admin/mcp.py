"""MCP servers over HTTP. Who comes with a key adds a server only as a proposal: a person has to confirm its command."""

from msgspec.structs import replace

from app.core.errors import Forbidden
from app.core.mcp import (
    BuiltinServer,
    McpCall,
    McpImportResult,
    McpPermission,
    McpResult,
    McpServer,
    McpServerPatch,
    McpServersImport,
    McpTool,
    NewMcpServer,
    SetMcpPermission,
)
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable
from app.gateway.loading.able_models import find_lack
from app.gateway.services import Services
from engines.api import Route

routes = RouteTable()


@routes.add("GET", "/mcp/servers")
async def list_servers(call: AdminCall[None, NoQuery]) -> list[McpServer]:
    """List the MCP servers with their tools, as far as they have been started."""
    return [await _with_lack(call.services, server) for server in await call.mcp.list_servers()]


@routes.add("GET", "/mcp/servers/{server}")
async def read_server(call: AdminCall[None, NoQuery]) -> McpServer:
    """Return one MCP server."""
    return await _with_lack(call.services, await call.mcp.read_server(call.names["server"]))


@routes.add("POST", "/mcp/servers")
async def save_server(call: AdminCall[NewMcpServer, NoQuery]) -> McpServer:
    """Add an MCP server, or set the one of that name anew."""
    is_unconfirmed = bool(call.key_name)
    settings = replace(call.body.settings, unconfirmed=is_unconfirmed)
    return await _with_lack(call.services, await call.mcp.save_server(call.body.name, settings))


@routes.add("POST", "/mcp/servers/import")
async def import_servers(call: AdminCall[McpServersImport, NoQuery]) -> McpImportResult:
    """Add the MCP servers of another program's file."""
    return await call.mcp.import_servers(call.body.text, is_confirmed=not call.key_name)


@routes.add("PATCH", "/mcp/servers/{server}")
async def change_server(call: AdminCall[McpServerPatch, NoQuery]) -> McpServer:
    """Switch an MCP server on or off, confirm it, or change what it may reach."""
    widens = call.body.is_confirmed or call.body.folders is not None or call.body.network is not None
    if call.key_name and widens:
        raise Forbidden(
            "With a key, an MCP server can be switched on and off, and no more.",
            hint="Confirm it in the window, or with `roundhouse mcp confirm` on this computer.",
            code="mcp_needs_person",
        )
    return await _with_lack(call.services, await call.mcp.change_server(call.names["server"], call.body))


@routes.add("DELETE", "/mcp/servers/{server}")
async def remove_server(call: AdminCall[None, NoQuery]) -> None:
    """End an MCP server and forget it."""
    await call.mcp.remove_server(call.names["server"])


@routes.add("POST", "/mcp/servers/{server}/start")
async def start_server(call: AdminCall[None, NoQuery]) -> McpServer:
    """Start an MCP server and return it with its tools."""
    return await _with_lack(call.services, await call.mcp.start_server(call.names["server"]))


@routes.add("POST", "/mcp/servers/{server}/tools/{tool}/permission")
async def set_permission(call: AdminCall[SetMcpPermission, NoQuery]) -> McpTool:
    """Allow a tool as it is described now, block it, or have a person asked before each call."""
    if call.key_name and call.body.permission is McpPermission.ALLOW:
        raise Forbidden(
            "With a key, tools can be blocked, and not allowed.",
            hint="Allow it in the window, or with `roundhouse mcp allow` on this computer.",
            code="mcp_needs_person",
        )
    return await call.mcp.set_permission(call.names["server"], call.names["tool"], call.body.permission)


@routes.add("POST", "/mcp/servers/{server}/tools/{tool}/call")
async def call_tool(call: AdminCall[McpCall, NoQuery]) -> McpResult:
    """Call a tool with arguments that a person typed."""
    if call.key_name:
        raise Forbidden(
            "With a key, tools cannot be called.", hint="Use the window, or `roundhouse mcp call` on this computer.",
            code="mcp_needs_person",
        )  # fmt: skip
    return await call.mcp.call_tool(call.names["server"], call.names["tool"], call.body.arguments)


async def _with_lack(services: Services, server: McpServer) -> McpServer:
    """Return a server with what its tools need and this computer has not: pictures take an endpoint that draws."""
    if server.builtin is not BuiltinServer.PICTURES:
        return server
    return replace(server, lack=await find_lack(services, Route.IMAGES))
