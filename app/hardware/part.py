"""What one probe family found. Everything is optional: a family that crashed costs only its own facts."""

from typing import Any

import msgspec

from app.core.machine import Cpu, Fact, Gpu, Memory, Npu, OperatingSystem


class ProbePart(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`absent` says why there was nothing to ask; `raw` is the record of what was looked at."""

    os: OperatingSystem | None = None
    cpu: Cpu | None = None
    memory: Memory | None = None
    gpus: list[Gpu] = []
    npus: list[Npu] = []
    limits: list[Fact[str]] = []
    bandwidth_gb_s: Fact[float] | None = None
    absent: str = ""
    raw: dict[str, Any] = {}
