"""Other programs on this computer: which are here, and wiring them to the endpoint.

What reads and edits their files is imported when it is first asked for: the gateway must be there at once.
"""

import asyncio

from app.core.tools import ToolChange, ToolInfo, ToolProbe, WireTool
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable

routes = RouteTable()


@routes.add("GET", "/tools")
async def list_tools(call: AdminCall[None, NoQuery]) -> list[ToolInfo]:
    """List the tools that can use the endpoint, those found here first."""
    from app.gateway.wiring import connections  # noqa: PLC0415 -- see above

    return await asyncio.to_thread(
        connections(call.services.paths, call.services.home).list_tools, call.services.identity.url
    )


@routes.add("POST", "/tools/{id}/preview")
async def preview(call: AdminCall[WireTool, NoQuery]) -> ToolChange:
    """Show what wiring a tool would change."""
    from app.gateway.wiring import connections, wiring  # noqa: PLC0415 -- see above

    tool_wiring = await wiring(call.services, call.body.model)
    return await asyncio.to_thread(
        connections(call.services.paths, call.services.home).preview, call.names["id"], tool_wiring
    )


@routes.add("POST", "/tools/{id}/connect")
async def connect(call: AdminCall[WireTool, NoQuery]) -> ToolChange:
    """Wire a tool to the endpoint.

    Once begun, the file is written whether or not the caller stays.
    """
    from app.gateway.wiring import connections, wiring  # noqa: PLC0415 -- see above

    tool_wiring = await wiring(call.services, call.body.model)
    return await asyncio.to_thread(
        connections(call.services.paths, call.services.home).connect, call.names["id"], tool_wiring
    )


@routes.add("POST", "/tools/{id}/undo")
async def undo(call: AdminCall[None, NoQuery]) -> ToolChange:
    """Put a tool's file back as it was."""
    from app.gateway.wiring import connections  # noqa: PLC0415 -- see above

    return await asyncio.to_thread(connections(call.services.paths, call.services.home).undo, call.names["id"])


@routes.add("POST", "/tools/{id}/probe")
async def try_out(call: AdminCall[WireTool, NoQuery]) -> ToolProbe:
    """Ask the endpoint for one token as a tool would.

    For the model that is named, else the one it is wired to, else the usual one.
    """
    from app.gateway.wiring import connections, probe, wiring  # noqa: PLC0415 -- see above

    tool = call.names["id"]
    model = call.body.model or await asyncio.to_thread(
        connections(call.services.paths, call.services.home).current_model, tool
    )
    tool_wiring = await wiring(call.services, model)
    return await probe(call.services.http, call.services.identity, tool, tool_wiring.model)
