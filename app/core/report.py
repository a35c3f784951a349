"""What `roundhouse doctor` writes: the report of a machine, which tests replay, and the bundle around it."""

from typing import Any

import msgspec

from app.core.machine import Machine


class EngineBuild(msgspec.Struct, frozen=True, kw_only=True):
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
    engines: list[EngineBuild]
    machine: Machine
    raw: dict[str, Any]


class BundleFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a bundle: its name, with forward slashes, why it is in there, and what it says."""

    name: str
    why: str
    text: str


class DiagnosticBundle(msgspec.Struct, frozen=True, kw_only=True):
    """What helps to find out what went wrong, free of secrets and words. The first file lists the others."""

    made_at: float
    application: str
    files: list[BundleFile]
