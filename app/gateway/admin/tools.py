"""Other programs on this computer: which are here, and wiring them to the endpoint.

What reads and edits their files is imported when it is first asked for: the gateway must be there at once.

What other programs are wired to: this endpoint and its models; and whether it answers when asked as they ask.
"""

import asyncio
import time

import aiohttp
import msgspec

from app.config.paths import Home, Paths
from app.connect.connections import ToolConnections, find_tool
from app.connect.tool import KEY, USUAL_CONTEXT, ClientTool, WiredModel, WiringTarget
from app.core.capabilities import Capability
from app.core.errors import NotFound
from app.core.models import ModelInfo
from app.core.tools import ToolChange, ToolInfo, ToolLaunch, ToolProbe, WireTool
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable
from app.gateway.loading.capabilities import with_capabilities
from app.gateway.loading.launch import find_model
from app.gateway.services import Identity, Services

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
    tool_wiring = await wiring(call.services, call.body.model)
    return await asyncio.to_thread(
        connections(call.services.paths, call.services.home).preview, call.names["id"], tool_wiring
    )


@routes.add("POST", "/tools/{id}/connect")
async def connect(call: AdminCall[WireTool, NoQuery]) -> ToolChange:
    """Wire a tool to the endpoint.

    Once begun, the file is written whether or not the caller stays.
    """
    tool_wiring = await wiring(call.services, call.body.model)
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
    return find_tool(call.names["id"]).launch(await wiring(call.services, call.body.model))


@routes.add("POST", "/tools/{id}/probe")
async def try_out(call: AdminCall[WireTool, NoQuery]) -> ToolProbe:
    """Ask the endpoint for one token as a tool would.

    For the model that is named, else the one it is wired to, else the usual one.
    """
    tool = call.names["id"]
    model = call.body.model or await asyncio.to_thread(
        connections(call.services.paths, call.services.home).current_model, tool
    )
    tool_wiring = await wiring(call.services, model)
    return await probe(call.services.http, call.services.identity, tool, tool_wiring.model)


_PATIENCE_S = 300.0
"""As long as the most patient tools wait for an answer's head: the model may have to be loaded first."""
_SAID = 300
"""Characters of a refusal that are passed on."""
_OK, _UNAUTHORISED, _NOT_FOUND = 200, 401, 404


def connections(paths: Paths, home: Home) -> ToolConnections:
    """Return the tools of the person the gateway runs as."""
    return ToolConnections(home, paths.data / "connect")


async def wiring(services: Services, model: str = "") -> WiringTarget:
    """Return what a tool is wired to: `model`, else the usual one, and after it the others that chat.

    Raises NotFound for a model that is not there, or that cannot chat.
    """
    listed = await asyncio.to_thread(services.library.list_models)
    usable = [info for info in listed if info.chats and not info.problem]
    first = (await find_model(services, model)) if model else _usual(usable)
    if not first.chats:
        raise NotFound(f"{first.title} is not a chat model.", hint="Choose another model.", code="model_cannot")
    others = [info for info in usable if info.name != first.name]
    most = services.settings.get_int("models.context")
    able = await with_capabilities(services, [first, *others])
    served = tuple(
        WiredModel(
            info.name,
            _context(info, most),
            sees=Capability.VISION in info.capabilities,
            calls_tools=Capability.TOOLS in info.capabilities,
        )
        for info in able
    )
    return WiringTarget(services.identity.url, served)


def _usual(usable: list[ModelInfo]) -> ModelInfo:
    """Return the first model of the person's own; the built-in one only when there is no other."""
    if not usable:
        raise NotFound("There is no model to connect a tool to.", hint="Add one first.", code="model_not_found")
    return min(usable, key=lambda info: info.is_builtin)


def _context(info: ModelInfo, most: int) -> int:
    """Return what a tool may count on: what is loaded here, or all that an attached endpoint takes."""
    usual = info.trained_context or USUAL_CONTEXT
    return usual if info.attached else min(usual, most)


async def probe(http: aiohttp.ClientSession, identity: Identity, name: str, model: str) -> ToolProbe:
    """Ask our own endpoint for one token as the tool `name` does. Raises NotFound for an unknown tool."""
    tool, began = find_tool(name), time.monotonic()
    status, body = await _send_request(http, identity, tool, model)
    return ToolProbe(
        id=tool.id,
        ok=status == _OK,
        route=tool.request_path(model),
        model=model,
        status=status,
        sentence=_sentence(tool, model, status, body),
        seconds=round(time.monotonic() - began, 3),
    )


async def _send_request(
    http: aiohttp.ClientSession, identity: Identity, tool: ClientTool, model: str
) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {KEY}", **tool.headers}
    limit = aiohttp.ClientTimeout(total=_PATIENCE_S)
    url = identity.url + tool.request_path(model)
    try:
        async with http.post(url, json=tool.request_body(model), headers=headers, timeout=limit) as reply:
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
