"""The report of one examination of a machine: what `roundhouse doctor` writes and tests replay."""

from typing import Any

import msgspec

from app.core.machine import Machine


class EngineVersion(msgspec.Struct, frozen=True, kw_only=True):
    """An installed engine: its id, version, and the backend and build it was made with."""

    id: str
    version: str
    backend: str = ""
    build: str = ""


class DoctorReport(msgspec.Struct, frozen=True, kw_only=True):
    """One examination. `raw` is a fixture's raw tables as `app.hardware.evidence` describes them."""

    format: int
    made_at: float
    application: str
    engines: list[EngineVersion]
    machine: Machine
    raw: dict[str, Any]
