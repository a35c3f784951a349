"""Loaded models and their engines: ps, load, unload, logs."""

import time
from collections.abc import Iterator

import click

from app.cli.gateway import connected, running
from app.cli.loading import load as make_ready
from app.cli.loading import named
from app.cli.output import json_option, show, table, write_json
from app.client.http import Client, segment
from app.core import words
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
    show("running", running().get("/running", list[EngineStatus]), as_json=as_json, text=_lines)


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
@json_option
def load(model: str, *, as_json: bool, **chosen: float | str | None) -> None:
    """Load MODEL: a name from `roundhouse list`, or a path to a .gguf file."""
    client = connected()
    options = LoadOptions(**chosen)  # type: ignore[arg-type]  # click has checked each option's type
    show("engine", make_ready(client, named(client, model), options), as_json=as_json, text=_ready)


@click.command()
@click.argument("model")
@click.option("--force", is_flag=True, help="Do not wait for answers in progress.")
@json_option
def unload(model: str, *, force: bool, as_json: bool) -> None:
    """Stop MODEL's engine and free its memory."""
    request = UnloadModel(model=model, force=force)
    stopped = running().post("/unload", request, EngineStatus, timeout_s=_UNLOAD_TIMEOUT_S)
    show("engine", stopped, as_json=as_json, text=lambda found: [f"{found.model} is unloaded."])


@click.command()
@click.argument("model", default="")
@click.option("--tail", default=200, show_default=True, type=click.IntRange(0), help="How many earlier lines to show.")
@click.option("-f", "--follow", is_flag=True, help="Keep showing new lines until Ctrl-C.")
@json_option
def logs(model: str, *, tail: int, follow: bool, as_json: bool) -> None:
    """Show the log of MODEL's engine; without MODEL, the logs of all engines."""
    if follow and as_json:
        raise BadRequest("--follow writes text: leave out --json.")
    client = running()
    lines = client.get(f"/logs?model={segment(model)}&tail={tail}", list[LogLine])
    if as_json:
        write_json("logs", lines)
        return
    for line in lines:
        click.echo(_log(line))
    if follow:
        _follow(client, model)


def _follow(client: Client, model: str) -> None:
    for event in client.stream("/events?logs=1", Event):
        if isinstance(event, LogLine) and (not model or event.model == model):
            click.echo(_log(event))


def _log(line: LogLine) -> str:
    clock = time.strftime("%H:%M:%S", time.localtime(line.at))
    return f"{click.style(clock, dim=True)} {click.style(line.model, dim=True)} {line.text}"


def _ready(status: EngineStatus) -> Iterator[str]:
    took = f" in {words.seconds(status.load_seconds)}" if status.load_seconds is not None else ""
    yield f"{status.model} is ready{took}: {status.engine} on {status.backend}, context {words.tokens(status.context)}."
    yield from status.notes
    for kind in dict.fromkeys(applied.kind for applied in status.mended):
        yield f"To turn this off: roundhouse settings engine.mend_{kind} --reset"


def _lines(engines: list[EngineStatus]) -> Iterator[str]:
    if not engines:
        yield "No model is loaded."
        return
    head = ("MODEL", "ENGINE", "STATE", "CONTEXT", "MEMORY", "IN FLIGHT", "NOTE")
    yield from table(head, map(_row, engines))


def _engine(status: EngineStatus) -> str:
    """Return the engine with its version and device, where it came so far as to say them."""
    return " ".join(filter(None, (status.engine, status.version, status.backend and f"({status.backend})")))


def _row(status: EngineStatus) -> tuple[str, ...]:
    share = f" {status.progress:.0%}" if status.progress is not None else ""
    return (
        status.model,
        _engine(status),
        f"{status.state}{share}",
        words.tokens(status.context),
        words.size(status.memory_bytes),
        str(status.in_flight) + (f" + {status.queued} waiting" if status.queued else ""),
        _note(status),
    )


def _note(status: EngineStatus) -> str:
    if status.failure:
        return status.failure.sentence
    return "; ".join([*(["pinned"] if status.is_pinned else []), *status.notes])
