"""Follows a job of the service that measures something: its stages as notes, its end, Ctrl-C, and the way back."""

from typing import TypeVar

from app.cli.output import print_note
from app.client.http import GatewayClient
from app.core.errors import EngineFailed
from app.core.events import (
    BenchmarkChanged,
    DraftTrialChanged,
    Event,
    QuantizeChanged,
    RaceChanged,
    TrialChanged,
    TuneChanged,
)
from app.core.models import ModelSettings, list_changes

J = TypeVar("J", BenchmarkChanged, DraftTrialChanged, QuantizeChanged, RaceChanged, TrialChanged, TuneChanged)
_MOST_S = 24 * 3600.0
"""Many rounds of a large model on a slow processor."""


def follow_job(client: GatewayClient, kind: type[J], *, stop: str) -> J:
    """Return a job's last event; Ctrl-C stops it at the address `stop`. Raises EngineFailed with what went wrong."""
    stage = ""
    try:
        for event in client.stream_events("/events", Event, timeout_s=_MOST_S):
            if not isinstance(event, kind):
                continue
            if event.done and event.error:
                raise EngineFailed(event.error, code=event.code)
            if event.done:
                return event
            step = event.stage.partition(":")[0]  # how busy others are changes every second
            if step != stage:
                print_note(event.stage)
            stage = step
    except KeyboardInterrupt:
        client.delete(stop)
        raise
    raise EngineFailed("The service ended before the measurement did.", code="measurement_failed")


def print_undo(model: str, before: ModelSettings, after: ModelSettings) -> None:
    """Say which command sets a model as it was before a measurement changed it."""
    values = {name: getattr(before, name) for name in list_changes(before, after)}
    options = [
        f"--unset {name}" if value is None else f"--{name.replace('_', '-')} {value}" for name, value in values.items()
    ]
    print_note(f"To undo: roundhouse tune {model} {' '.join(options)}")
