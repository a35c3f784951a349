"""What is known about the computer, with where each figure comes from.

An unknown figure is absent (`Fact.value is None`), never zero: a guess that looks like a measurement is how peers
came to refuse models that fit.

What `roundhouse doctor` writes: the report of a machine, which tests replay, and the bundle around it.
"""

from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec

from app.core.confinement import ConfinementReport

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
    cache_bytes: Fact[int] = Fact(unit="B")
    """Last-level cache, all of it: the bandwidth probe must read past it."""
    vector_bits: Fact[int] = Fact(unit="bit")
    """What its vector units take at once, where that is narrower than AVX's registers; unknown elsewhere."""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """System memory in bytes. `limit` is the lowest cgroup limit above us, when there is one."""

    total: Fact[int]
    available: Fact[int]
    limit: Fact[int]
    swap_total: Fact[int]
    unified: Fact[bool]
    """True when the GPU shares this memory (Apple silicon, APUs, GB10)."""
    bandwidth_gb_s: Fact[float] = Fact(unit="GB/s")
    """What reading it really gives, all usable cores together; 1 GB/s = 10^9 bytes per second."""
    theoretical_gb_s: Fact[float] = Fact(unit="GB/s")
    """Channels x width x transfer rate, where the firmware or a table of chips says."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One graphics or compute device. `id` is stable: a PCI address ("0000:01:00.0"), else UUID, else registry id.

    A MIG instance is a Gpu of its own with the parent's address in `partition_of`; the parent is then not listed.
    """

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
    uuid: str = ""
    architecture: Fact[str] = Fact()
    """The vendor's family: "Ada Lovelace", "RDNA3", "Xe2", "M4"."""
    bandwidth_gb_s: Fact[float] = Fact(unit="GB/s")
    """Of its memory, by the driver's bus width and clock or by the device table."""
    fp16_tflops: Fact[float] = Fact(unit="TFLOPS")
    """Dense FP16 matrix rate with FP32 accumulation."""
    cores: Fact[int] = Fact()
    """GPU cores as Apple counts them; it tells chips of one name apart."""
    addressable: dict[str, Fact[int]] = {}
    """Bytes each backend ("cuda", "rocm", "vulkan", "metal", "sycl") can allocate, where it differs from the total."""
    drives_display: Fact[bool] = Fact()
    nvlink: Fact[bool] = Fact()
    pcie_width: Fact[int] = Fact()
    """The widest link the slot and card agree on; an idle card runs narrower and that means nothing."""
    partition_of: str = ""
    pool: str = ""
    """`Pool.id` of the memory it uses."""
    carve_out: Fact[int] = Fact(unit="B")
    """Bytes set aside for integrated graphics at start-up: part of `memory_total`, and no part of system memory."""


class Npu(msgspec.Struct, frozen=True, kw_only=True):
    """A neural processor engines can be pointed at (Intel, AMD, Qualcomm). Apple's is none: no LLM engine uses it."""

    id: str
    vendor: str
    name: Fact[str]
    driver: Fact[str]


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """One physical pool of memory, in bytes. Unified machines have one, whoever uses it: offload frees nothing there.

    Three figures, never one: what there is, what the accelerator may address, and what is free now.
    """

    id: str
    """"system", or the id of the GPU whose memory it is."""
    name: str
    physical: Fact[int]
    addressable: Fact[int]
    """By the backend the best engine here uses; per backend: `Gpu.addressable`."""
    free: Fact[int]
    gpus: list[str] = []
    """Ids of the GPUs that compute on it; empty for system memory only the processor uses."""
    is_unified: bool = False


class EngineDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device as an engine lists it. The engine has the last word on what it can use."""

    engine: str
    name: str
    memory_total: int | None = None
    memory_free: int | None = None
    gpu: str = ""
    """`Gpu.id` it was matched with; empty when no probe found it."""
    difference: str = ""
    """In words, where it and the probes disagree."""


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
    npus: list[Npu] = []
    pools: list[Pool] = []
    """System memory first, then each GPU's own."""
    limits: list[Fact[str]] = []
    """What narrows what can be used, one sentence each: CUDA_VISIBLE_DEVICES, a control group, Rosetta."""
    engine_devices: list[EngineDevice] = []


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
    confinement: ConfinementReport | None = None
    """Whether engines are confined here; None in reports of before."""


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
