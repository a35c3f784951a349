"""Make a model ready while showing how far it is. Used by every command that needs one."""

import sys
from pathlib import Path

import click

from app.client.http import GatewayClient
from app.core.engines import EngineState, EngineStatus
from app.core.errors import EngineFailed
from app.core.events import EngineChanged, Event
from app.core.models import LoadModel, LoadOptions, ModelInfo, RegisterModel

_LOAD_TIMEOUT_S = 3600.0


def resolve_model_name(client: GatewayClient, model: str) -> str:
    """Return the name to ask for: a path to a file is listed where it lies first."""
    if model.endswith(".gguf") and Path(model).expanduser().is_file():
        path = str(Path(model).expanduser().resolve())
        return client.post("/models", RegisterModel(path=path), ModelInfo).name
    return model


def load_model(client: GatewayClient, model: str, options: LoadOptions | None = None) -> EngineStatus:
    """Make `model` ready and return its status. Shows progress on stderr when that is a terminal."""
    request = LoadModel(model=model, options=options or LoadOptions(), wait=False)
    first_status = client.post("/load", request, EngineStatus)
    if first_status.state is not EngineState.READY and sys.stderr.isatty():
        _follow_load(client, first_status.model)
    wait = LoadModel(model=model, options=request.options, wait=True)
    try:
        return client.post("/load", wait, EngineStatus, timeout_s=_LOAD_TIMEOUT_S)
    except EngineFailed:
        _print_remedies(client, first_status.model)
        raise


def _print_remedies(client: GatewayClient, model: str) -> None:
    """Write what may help as commands to try, on stderr: the error itself follows."""
    failures = [
        status.failure
        for status in client.get("/running", list[EngineStatus])
        if status.model == model and status.failure
    ]
    for remedy in (remedy for failure in failures for remedy in failure.remedies if remedy.command):
        click.echo(f"{remedy.label}: {remedy.command}", err=True)


def _follow_load(client: GatewayClient, model: str) -> None:
    for event in client.stream_events("/events", Event, timeout_s=_LOAD_TIMEOUT_S):
        if not isinstance(event, EngineChanged) or event.status.model != model:
            continue
        if event.status.state not in {EngineState.STARTING, EngineState.LOADING}:
            break
        _paint(event.status)
    click.echo("\r\x1b[K", err=True, nl=False)


def _paint(status: EngineStatus) -> None:
    share = "" if status.progress is None else f" {status.progress:.0%}"
    click.echo(f"\r\x1b[K{status.stage or 'Loading'}{share}", err=True, nl=False)
