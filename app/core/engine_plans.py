"""What would be run to serve a model: every command, on every computer, before anything is started."""

import msgspec

from app.core.models import LoadOptions


class EnginePlanRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask what `engine` would be started with. With `nodes`, over several computers, the first of which answers."""

    model: str
    nodes: list[str] = []
    tensor_parallel: int = 1
    options: LoadOptions = LoadOptions()


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One process. `command` is as a shell takes it; keys and private files are named, not shown."""

    machine: str
    role: str
    command: str
    env: dict[str, str] = {}


class EnginePlan(msgspec.Struct, frozen=True, kw_only=True):
    """All processes in the order they start, where the answer comes from, and what to know."""

    engine: str
    steps: list[PlannedStep]
    base_url: str
    files: list[str] = []
    """Private files written beside them."""
    notes: list[str] = []
