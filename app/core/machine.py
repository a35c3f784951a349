"""What is known about the computer, with where each figure comes from.

An unknown figure is absent (`Fact.value is None`), never zero: a guess that looks like a measurement is how peers
came to refuse models that fit.
"""

from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Confidence(StrEnum):
    """How far a fact can be trusted."""

    MEASURED = "measured"
    """Read from the operating system or the driver just now."""
    DERIVED = "derived"
    """Computed from measured facts by a stated rule."""
    TABLE = "table"
    """Looked up by product name."""
    UNKNOWN = "unknown"


class Fact(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One value with its unit, its source (a path or API name), and how far to trust it.

    `note` says why a value is unknown, or what limited it.
    """

    value: T | None = None
    unit: str = ""
    source: str = ""
    confidence: Confidence = Confidence.UNKNOWN
    note: str = ""


class OperatingSystem(msgspec.Struct, frozen=True, kw_only=True):
    """Name ("Linux", "macOS", "Windows"), version, kernel, architecture ("x86_64", "arm64"), and what surrounds it."""

    name: Fact[str]
    version: Fact[str]
    kernel: Fact[str]
    architecture: Fact[str]
    environment: Fact[str]
    """"bare", "vm", "container", "wsl": where this system runs."""


class Cpu(msgspec.Struct, frozen=True, kw_only=True):
    """The processor. `isa` lists the vector extensions engines care about, lower case."""

    model: Fact[str]
    vendor: Fact[str]
    physical_cores: Fact[int]
    performance_cores: Fact[int]
    logical_cores: Fact[int]
    usable_cores: Fact[float]
    """Cores this process may really use: least of affinity mask and cgroup quota."""
    isa: Fact[list[str]]


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """System memory in bytes. `limit` is the lowest cgroup limit above us, when there is one."""

    total: Fact[int]
    available: Fact[int]
    limit: Fact[int]
    swap_total: Fact[int]
    unified: Fact[bool]
    """True when the GPU shares this memory (Apple silicon, APUs, GB10)."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One graphics or compute device. `id` is stable: a PCI address, UUID or registry id."""

    id: str
    vendor: str
    """"nvidia", "amd", "intel", "apple"."""
    name: Fact[str]
    memory_total: Fact[int]
    memory_free: Fact[int]
    driver: Fact[str]
    compute: Fact[str]
    """CUDA compute capability ("12.0"), gfx target ("gfx1151"), Metal family or empty."""
    integrated: Fact[bool]


class ProbeReport(msgspec.Struct, frozen=True, kw_only=True):
    """How one probe child ended: "ok", "absent", "timeout", "crashed", with the seconds it took."""

    name: str
    outcome: str
    seconds: float
    detail: str = ""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Everything found, at `probed_at` (Unix seconds)."""

    os: OperatingSystem
    cpu: Cpu
    memory: Memory
    gpus: list[Gpu]
    probes: list[ProbeReport]
    probed_at: float
