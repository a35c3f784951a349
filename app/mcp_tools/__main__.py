"""One of the built-in servers: `python -m app.mcp_tools calculator`, `files FOLDER...`, `pictures`, `python`..."""

import sys
from collections.abc import Sequence

from app.core.mcp import BuiltinServer
from app.mcp_tools import calculator, files, pictures, python_code, web_search
from app.mcp_tools.toolbox import BuiltinTool, serve


def main(argv: Sequence[str]) -> None:
    """Serve the tools of one server until our input ends."""
    kind, *folders = argv
    serve(kind, list_tools(BuiltinServer(kind), folders))


def list_tools(kind: BuiltinServer, folders: Sequence[str]) -> Sequence[BuiltinTool]:
    """Return the tools of one server."""
    if kind is BuiltinServer.FILES:
        return files.make_tools(folders)
    return {
        BuiltinServer.CALCULATOR: calculator.TOOLS,
        BuiltinServer.PICTURES: pictures.TOOLS,
        BuiltinServer.PYTHON: python_code.TOOLS,
        BuiltinServer.WEB_SEARCH: web_search.TOOLS,
    }[kind]


if __name__ == "__main__":
    main(sys.argv[1:])
