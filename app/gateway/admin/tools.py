"""Other programs on this computer: which are here, and wiring them to the endpoint.

What reads and edits their files is imported when it is first asked for: the gateway must be there at once.

What other programs are wired to: this endpoint and its models; and whether it answers when asked as they ask.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace

import aiohttp
import msgspec

from app.config.paths import Home, Paths
from app.connect.connections import ToolConnections, find_tool
from app.connect.document_paths import Plain
from app.connect.tool import KEY, RUN_KEY, ClientTool, WiringTarget
from app.core.tools import ToolChange, ToolInfo, ToolLaunch, ToolProbe, WireTool
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable
from app.gateway.entry.guard import asks_for_keys
from app.gateway.loading.wiring import wiring_of
from app.gateway.services import Identity

routes = RouteTable()


@routes.add("GET", "/tools")
async def list_tools(call: AdminCall[None, NoQuery]) -> list[ToolInfo]:
    """List the tools that can use the endpoint, those found here first."""
    return await asyncio.to_thread(
        connections(call.services.paths, call.services.home).list_tools, call.services.identity.url
    )


@routes.add("POST", "/tools/{id}/preview")
async def preview(call: AdminCall[WireTool, NoQuery]) -> ToolChange:
    """Show what wiring a tool would change."""
    tool_wiring = await wiring_of(call.services, find_tool(call.names["id"]), call.body.model)
    return await asyncio.to_thread(
        connections(call.services.paths, call.services.home).preview, call.names["id"], tool_wiring
    )


@routes.add("POST", "/tools/{id}/connect")
async def connect(call: AdminCall[WireTool, NoQuery]) -> ToolChange:
    """Wire a tool to the endpoint.

    Once begun, the file is written whether or not the caller stays.
    """
    tool_wiring = await wiring_of(call.services, find_tool(call.names["id"]), call.body.model)
    return await asyncio.to_thread(
        connections(call.services.paths, call.services.home).connect, call.names["id"], tool_wiring
    )


@routes.add("POST", "/tools/{id}/undo")
async def undo(call: AdminCall[None, NoQuery]) -> ToolChange:
    """Put a tool's file back as it was."""
    return await asyncio.to_thread(connections(call.services.paths, call.services.home).undo, call.names["id"])


@routes.add("POST", "/tools/{id}/launch")
async def launch(call: AdminCall[WireTool, NoQuery]) -> ToolLaunch:
    """Say how a tool is started wired for one run, without a change of its files."""
    services, tool = call.services, find_tool(call.names["id"])
    target = await wiring_of(services, tool, call.body.model)
    needs_key = asks_for_keys(services.identity.host, services.settings)
    return tool.launch(replace(target, key=RUN_KEY) if needs_key else target)


@routes.add("POST", "/tools/{id}/probe")
async def try_out(call: AdminCall[WireTool, NoQuery]) -> ToolProbe:
    """Ask the endpoint for one token as a tool would.

    For the model that is named, else the one it is wired to, else the usual one.
    """
    tool = find_tool(call.names["id"])
    model = call.body.model or await asyncio.to_thread(
        connections(call.services.paths, call.services.home).current_model, tool.id
    )
    return await probe(call.services.http, call.services.identity, tool, await wiring_of(call.services, tool, model))


_PATIENCE_S = 300.0
"""As long as the most patient tools wait for an answer's head: the model may have to be loaded first."""
_SAID = 300
"""Characters of a refusal that are passed on."""
_OK, _UNAUTHORISED, _NOT_FOUND = 200, 401, 404


def connections(paths: Paths, home: Home) -> ToolConnections:
    """Return the tools of the person the gateway runs as."""
    return ToolConnections(home, paths.data / "connect")


async def probe(http: aiohttp.ClientSession, identity: Identity, tool: ClientTool, target: WiringTarget) -> ToolProbe:
    """Ask our own endpoint for one token as a tool does, and for one of code where it has that completed."""
    began, model, completion = time.monotonic(), target.model, target.completion
    path = tool.request_path(model)
    status, body = await _send_request(http, identity, tool, path, tool.request_body(model))
    sentence = _sentence(tool, model, status, body)
    if status == _OK and tool.completes is not None and completion is not None:
        request = tool.request_body(completion.name, tool.completes)
        status, body = await _send_request(http, identity, tool, tool.completes, request)
        sentence += " " + _completion_sentence(tool.completes, completion.name, status, body)
    return ToolProbe(
        id=tool.id,
        ok=status == _OK,
        route=path,
        model=model,
        status=status,
        sentence=sentence,
        seconds=round(time.monotonic() - began, 3),
    )


def _completion_sentence(route: str, model: str, status: int, body: str) -> str:
    if status == _OK:
        return f"{model} completed code on {route}."
    return f"{model} completed no code on {route}: {_message(body) or body or 'nothing answered'}"


async def _send_request(
    http: aiohttp.ClientSession, identity: Identity, tool: ClientTool, path: str, body: Mapping[str, Plain]
) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {KEY}", **tool.headers}
    limit = aiohttp.ClientTimeout(total=_PATIENCE_S)
    url = identity.url + path
    try:
        async with http.post(url, json=body, headers=headers, timeout=limit) as reply:
            return reply.status, (await reply.text(errors="replace"))[:_SAID]
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        return 0, str(error) or type(error).__name__


def _sentence(tool: ClientTool, model: str, status: int, body: str) -> str:
    if status == _OK:
        return f"{model} answered on {tool.request_path(model)}, as {tool.name} asks."
    if status == _UNAUTHORISED:
        return f"The endpoint requires a key: put one of yours where {tool.name} has {KEY!r}."
    if status == _NOT_FOUND and "model_not_found" not in body:
        return f"This endpoint has no {tool.route}, which {tool.name} needs."
    return f"{tool.route} refused: {_message(body) or body or 'nothing answered'}"


class _Inner(msgspec.Struct, frozen=True):
    message: str = ""


class _Refusal(msgspec.Struct, frozen=True):
    error: _Inner


def _message(body: str) -> str:
    try:
        return msgspec.json.decode(body, type=_Refusal).error.message
    except msgspec.MsgspecError:
        return ""
