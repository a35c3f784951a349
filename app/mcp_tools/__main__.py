"""One of the built-in servers: `python -m app.mcp_tools`. Which one comes as a line of JSON (`HostOrder`)."""

import os
from collections.abc import Sequence

import msgspec

from app.core.mcp import BuiltinServer, HostOrder
from app.mcp_host.lines import read_line
from app.mcp_tools import calculator, files, pictures, python_code
from app.mcp_tools.toolbox import BuiltinTool, ToolServer


def main() -> None:
    """Serve the tools of one server until our input ends."""
    order = msgspec.json.decode(read_line(), type=HostOrder)
    if order.builtin is not None:
        ToolServer(order.builtin.value, list_tools(order.builtin, order.folders)).serve_calls()
    os._exit(0)  # a call may go on, and nobody waits for it


def list_tools(kind: BuiltinServer, folders: Sequence[str]) -> Sequence[BuiltinTool]:
    """Return the tools of one server."""
    match kind:
        case BuiltinServer.CALCULATOR:
            return calculator.TOOLS
        case BuiltinServer.FILES:
            return files.make_tools(folders)
        case BuiltinServer.PICTURES:
            return pictures.TOOLS
        case BuiltinServer.PYTHON:
            return python_code.TOOLS
        case BuiltinServer.WEB_SEARCH:
            from app.mcp_tools import web_search  # noqa: PLC0415 -- its HTTP client takes longer to import than the rest

            return web_search.TOOLS


if __name__ == "__main__":
    main()
