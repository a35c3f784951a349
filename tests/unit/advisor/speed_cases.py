"""Machines and launches in a few words, for tests of speed."""

import json

import msgspec

from app.core.machine import Confidence, Fact, Machine
from app.hardware.description import machine_from
from tests.unit.advisor.engines import setting_for

CUDA = setting_for(backend="cuda")
CPU = setting_for(backend="cpu")


def make_machine(**fields: object) -> Machine:
    return machine_from(json.dumps(fields).encode())


def with_card(name: str, *, count: int = 1, **more: object) -> Machine:
    card = {field: more.pop(field) for field in ("vram_gb", "vendor") if field in more}
    return make_machine(os="linux", gpus=[{"name": name, "count": count, **card}], **more)


def with_memory(machine: Machine, *, measured_gb_s: float | None = None, by_parts: float | None = None) -> Machine:
    memory = msgspec.structs.replace(
        machine.memory,
        bandwidth_gb_s=Fact(value=measured_gb_s, confidence=Confidence.MEASURED) if measured_gb_s else Fact(),
        theoretical_gb_s=Fact(value=by_parts, confidence=Confidence.DERIVED) if by_parts else Fact(),
    )
    return msgspec.structs.replace(machine, memory=memory)
