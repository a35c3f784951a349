"""Loaded models and their engines: ps, load, unload, logs."""

import time
from collections.abc import Iterator

import click

from app.cli.gateway import connect_gateway, connect_running
from app.cli.loading import load_model as make_ready
from app.cli.loading import resolve_model_name
from app.cli.output import format_table, json_option, show_result, write_json
from app.client.http import GatewayClient, quote_segment
from app.core import words
from app.core.across import HERE
from app.core.engines import EngineStatus
from app.core.errors import BadRequest
from app.core.events import Event, LogLine
from app.core.models import LoadOptions, UnloadModel

_UNLOAD_TIMEOUT_S = 3700.0
"""A little more than the longest drain the settings allow."""


@click.command()
@json_option
def ps(*, as_json: bool) -> None:
    """Show the models that are loaded."""
    show_result("running", connect_running().get("/running", list[EngineStatus]), as_json=as_json, text=_engine_lines)


@click.command()
@click.argument("model")
@click.option("--context", type=click.IntRange(1), help="Tokens of context per request.")
@click.option("--slots", type=click.IntRange(1), help="Requests answered at once.")
@click.option("--threads", type=click.IntRange(1), help="CPU threads.")
@click.option("--gpu-layers", type=click.IntRange(0), help="Layers on the GPU, where the engine can split.")
@click.option("--kv-type", type=click.Choice(["f16", "q8_0", "q4_0", "fp8"]), help="Type of the KV cache.")
@click.option(
    "--gpu-memory-fraction", type=click.FloatRange(0.05, 1), help="Share of GPU memory, where the engine takes one."
)
@click.option("--across", help="Paired machines that hold a part of it, with commas; here: none.")
@json_option
def load(model: str, *, across: str | None, as_json: bool, **option_values: float | str | None) -> None:
    """Load MODEL: a name from `roundhouse list`, or a path to a .gguf file."""
    client = connect_gateway()
    names = None if across is None else tuple(name.strip() for name in across.split(",") if name.strip() != HERE)
    options = LoadOptions(across=names, **option_values)  # type: ignore[arg-type]  # click has checked each option's type
    show_result(
        "engine", make_ready(client, resolve_model_name(client, model), options), as_json=as_json, text=_ready_lines
    )


@click.command()
@click.argument("model")
@click.option("--force", is_flag=True, help="Do not wait for answers in progress.")
@json_option
def unload(model: str, *, force: bool, as_json: bool) -> None:
    """Stop MODEL's engine and free its memory."""
    request = UnloadModel(model=model, force=force)
    last_status = connect_running().post("/unload", request, EngineStatus, timeout_s=_UNLOAD_TIMEOUT_S)
    show_result("engine", last_status, as_json=as_json, text=lambda status: [f"{status.model} is unloaded."])


@click.command()
@click.argument("model", default="")
@click.option("--tail", default=200, show_default=True, type=click.IntRange(0), help="How many earlier lines to show.")
@click.option("-f", "--follow", is_flag=True, help="Keep showing new lines until Ctrl-C.")
@json_option
def logs(model: str, *, tail: int, follow: bool, as_json: bool) -> None:
    """Show the log of MODEL's engine; without MODEL, the logs of all engines."""
    if follow and as_json:
        raise BadRequest("--follow writes text: leave out --json.")
    client = connect_running()
    lines = client.get(f"/logs?model={quote_segment(model)}&tail={tail}", list[LogLine])
    if as_json:
        write_json("logs", lines)
        return
    for line in lines:
        click.echo(_log_text(line))
    if follow:
        _follow_log(client, model)


def _follow_log(client: GatewayClient, model: str) -> None:
    for event in client.stream_events("/events?logs=1", Event):
        if isinstance(event, LogLine) and (not model or event.model == model):
            click.echo(_log_text(event))


def _log_text(line: LogLine) -> str:
    clock = time.strftime("%H:%M:%S", time.localtime(line.at))
    return f"{click.style(clock, dim=True)} {click.style(line.model, dim=True)} {line.text}"


def _ready_lines(status: EngineStatus) -> Iterator[str]:
    took = f" in {words.format_duration(status.load_seconds)}" if status.load_seconds is not None else ""
    context = words.format_tokens(status.context)
    drafts = f", {status.draft} drafts" if status.draft else ""
    yield f"{status.model} is ready{took}: {status.engine} on {status.backend}, context {context}{drafts}."
    yield from filter(None, (status.placement, *status.notes))
    for kind in dict.fromkeys(remedy.kind for remedy in status.mended):
        yield f"To turn this off: roundhouse settings engine.mend_{kind} --reset"


def _engine_lines(engines: list[EngineStatus]) -> Iterator[str]:
    if not engines:
        yield "No model is loaded."
        return
    head = ("MODEL", "ENGINE", "STATE", "CONTEXT", "MEMORY", "IN FLIGHT", "NOTE")
    yield from format_table(head, map(_row, engines))


def _engine_text(status: EngineStatus) -> str:
    """Return the engine with its version and device, where it came so far as to say them."""
    return " ".join(filter(None, (status.engine, status.version, status.backend and f"({status.backend})")))


def _row(status: EngineStatus) -> tuple[str, ...]:
    share = f" {status.progress:.0%}" if status.progress is not None else ""
    return (
        status.model,
        _engine_text(status),
        f"{status.state}{share}",
        words.format_tokens(status.context),
        words.format_bytes(status.memory_bytes),
        str(status.in_flight) + (f" + {status.queued} waiting" if status.queued else ""),
        _note(status),
    )


def _note(status: EngineStatus) -> str:
    if status.failure:
        return status.failure.sentence
    drafts = [f"{status.draft} drafts"] if status.draft else []
    placement = [status.placement] if status.placement else []
    return "; ".join([*(["pinned"] if status.is_pinned else []), *drafts, *placement, *status.notes])
