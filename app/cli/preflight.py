"""`roundhouse preflight`: how a model would do with a coding agent on this computer, before the two are connected."""

from collections.abc import Iterator
from urllib.parse import urlencode

import click

from app.cli.bench import measure_benchmark
from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, show_result
from app.core import words
from app.core.benchmarks import StartBenchmark, tool_benchmark
from app.core.tool_prompts import ToolPreflight

_START_S = 60.0
"""Looking for the model on a drive that slept."""


@click.command()
@click.argument("tool", required=False, default="")
@click.argument("model", required=False, default="")
@click.option(
    "--measure",
    is_flag=True,
    help="Send a prompt of that size, and tasks that need tools, for real; takes minutes on a slow computer.",
)
@click.option("--keep-disturbed", is_flag=True, help="With --measure: go on while other programs are busy.")
@json_option
def preflight(tool: str, model: str, *, measure: bool, keep_disturbed: bool, as_json: bool) -> None:
    """Say how MODEL would do with TOOL here: how soon it answers the first prompt, and the context it needs.

    Prompts are as large as those that the real programs sent when they were recorded, in tokens. Without TOOL, all
    tools are listed; without MODEL, your usual one is meant. Times are predicted until you measure them.
    """
    client = connect_gateway()
    path = f"/preflights?{urlencode({'tool': tool, 'model': model})}"
    preflights = client.get(path, list[ToolPreflight], timeout_s=_START_S)
    if measure and not tool:
        raise click.UsageError("Name the tool whose prompt is to be sent.")
    if measure:
        settings = tool_benchmark(preflights[0].tool)
        measure_benchmark(
            client, StartBenchmark(model=preflights[0].model, settings=settings, keeps_disturbed=keep_disturbed)
        )
        preflights = client.get(path, list[ToolPreflight], timeout_s=_START_S)
    show_result("preflights", preflights, as_json=as_json, text=_sentence_lines if tool else _table_lines)


def _sentence_lines(preflights: list[ToolPreflight]) -> Iterator[str]:
    for part in preflights:
        yield part.sentence


def _table_lines(preflights: list[ToolPreflight]) -> Iterator[str]:
    yield from (f"Model: {model}" for model in dict.fromkeys(part.model for part in preflights))
    rows = [
        (
            part.tool,
            part.version,
            str(part.prompt_tokens),
            str(part.tools),
            "-" if part.cold_s is None else words.format_duration(part.cold_s),
            "-" if part.warm_s is None else words.format_duration(part.warm_s),
            "measured" if part.is_measured else "" if part.cold_s is None else "predicted",
            str(part.context_needed),
            _verdict(part),
        )
        for part in preflights
    ]
    head = ("TOOL", "VERSION", "PROMPT", "TOOLS", "FIRST ANSWER", "LATER ONES", "", "CONTEXT NEEDED", "")
    yield from format_table(head, rows)


def _verdict(part: ToolPreflight) -> str:
    """Return what stands in the way, in a few words; empty for nothing."""
    obstacles: list[str] = []
    if part.largest_context is not None and part.largest_context < part.context_needed:
        obstacles.append(f"at most {part.largest_context} here")
    elif part.context is not None and part.context < part.context_needed:
        obstacles.append(f"set to {part.context}")
    if part.tools and not part.calls_tools:
        obstacles.append("calls no tools")
    if part.tools and part.tool_tasks:
        obstacles.append(f"{part.valid_calls} of {part.tool_tasks} calls valid")
    if part.suggestion:
        obstacles.append(f"use {part.suggestion}")
    return ", ".join(obstacles)
