"""`roundhouse mcp`: Roundhouse's tools for agents, over the Model Context Protocol."""

import click

from app.cli.gateway import connect_gateway
from app.cli.output import print_note, report_errors


@click.group("mcp")
def mcp() -> None:
    """Let agents manage models over the Model Context Protocol (MCP)."""


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
