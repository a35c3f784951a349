"""`roundhouse connect`: the tools on this computer, and wiring one to the endpoint."""

from collections.abc import Iterator

import click

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, show_result
from app.client.http import GatewayClient
from app.core.errors import BadRequest
from app.core.tools import ToolChange, ToolInfo, ToolProbe, WireTool

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_PROBE_TIMEOUT_S = 330.0
"""A little more than the gateway's own patience."""


@click.command("connect")
@click.argument("name", required=False, default="")
@click.option("--model", default="", help="The model to use; by default, the first of your own.")
@click.option("--dry-run", is_flag=True, help="Show what would change, without changing anything.")
@click.option("--undo", is_flag=True, help="Restore the tool's file.")
@click.option("--probe", is_flag=True, help="Ask the endpoint for one token as the tool would.")
@json_option
def connect(*, name: str, model: str, dry_run: bool, undo: bool, probe: bool, as_json: bool) -> None:  # noqa: PLR0913 -- each is an option
    """Connect a tool you use to the endpoint: Continue, Zed, Claude Code, Codex and others.

    Without NAME, list the tools. The change is shown first, the original file is kept, and --undo restores it.
    TRIED names the version that was run against the endpoint; "never" follows the tool's documentation.
    """
    if sum((dry_run, undo, probe)) > 1:
        raise BadRequest("Choose one of --dry-run, --undo and --probe.")
    if not name:
        if dry_run or undo or probe or model:
            raise BadRequest("Say which tool.", hint="`roundhouse connect` lists them.")
        show_result("tools", connect_gateway().get("/tools", list[ToolInfo]), as_json=as_json, text=_tool_lines)
    elif probe:
        result = connect_gateway().post(
            _path(name, "probe"), WireTool(model=model), ToolProbe, timeout_s=_PROBE_TIMEOUT_S
        )
        show_result("probe", result, as_json=as_json, text=_probe_lines)
    else:
        change = _change_tool(connect_gateway(), name, model, _action_of(dry_run=dry_run, undo=undo))
        show_result("change", change, as_json=as_json, text=_undo_lines if undo else _change_lines)


def _action_of(*, dry_run: bool, undo: bool) -> str:
    return "undo" if undo else "preview" if dry_run else "connect"


def _path(name: str, verb: str) -> str:
    return f"/tools/{name.casefold().replace(' ', '-')}/{verb}"


def _change_tool(client: GatewayClient, name: str, model: str, verb: str) -> ToolChange:
    return client.post(_path(name, verb), None if verb == "undo" else WireTool(model=model), ToolChange)


def _tool_lines(tools: list[ToolInfo]) -> Iterator[str]:
    yield from format_table(("NAME", "TOOL", "FOUND", "WIRED", "LAUNCH", "TRIED", "NOTE"), map(_row, tools))


def _row(tool: ToolInfo) -> tuple[str, ...]:
    wired_model = ("yes, " + tool.model if tool.model else "yes") if tool.wired else "no" if tool.file else "by hand"
    launch, tried_version = "yes" if tool.launch else "no", tool.tried or "never"
    return (
        tool.id,
        tool.name,
        "yes" if tool.found else "no",
        wired_model,
        launch,
        tried_version,
        tool.problem or tool.file,
    )


def _diff_lines(change: ToolChange) -> Iterator[str]:
    for line in change.diff.splitlines():
        yield click.style(line, fg=_COLOURS.get(line[:1]))


def _undo_lines(change: ToolChange) -> Iterator[str]:
    yield from _diff_lines(change)
    yield f"{change.name}'s settings were restored."


def _change_lines(change: ToolChange) -> Iterator[str]:
    yield from _diff_lines(change)
    for number, step in enumerate(change.steps, 1):
        yield f"{number}. {step}"
    for value in change.values:
        yield f"   {value.name}: " + value.value.replace("\n", "\n     ")
    if change.is_written:
        yield f"{change.file} was written. {change.afterwards}"
    elif change.diff:
        yield "Nothing has been written yet."
    elif not change.steps:
        yield f"{change.name} needs no change."


def _probe_lines(probe: ToolProbe) -> Iterator[str]:
    yield f"{probe.sentence} ({probe.seconds:.1f} s)"
