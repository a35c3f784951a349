"""Computers in a few words, for tests of the advisor."""

from dataclasses import dataclass

from app.core.engines import EngineInfo
from app.core.machine import Confidence, Cpu, Fact, Gpu, Machine, Memory, OperatingSystem, ProbeReport, T
from tests.unit.advisor.engines import ENGINES

GIB = 1024**3
GPU_PROBE = "nvidia"


def fact(value: T | None, source: str = "read here", note: str = "") -> Fact[T]:
    confidence = Confidence.UNKNOWN if value is None else Confidence.MEASURED
    return Fact(value=value, source=source, confidence=confidence, note=note)


def gpu(
    vendor: str, name: str | None, compute: str | None = None, *, gib: float | None = 24, is_integrated: bool = False
) -> Gpu:
    memory = None if gib is None else round(gib * GIB)
    return Gpu(
        id=f"{vendor}-{name}",
        vendor=vendor,
        name=fact(name, "NVML"),
        memory_total=fact(memory),
        memory_free=fact(memory),
        driver=fact("1"),
        compute=fact(compute),
        integrated=fact(is_integrated),
    )


@dataclass(frozen=True)
class Box:
    """A computer in a few words."""

    gpus: tuple[Gpu, ...] = ()
    system: str = "Linux"
    architecture: str = "x86_64"
    cpu: str | None = "AMD Ryzen 9 7950X"
    cores: int | None = 16
    usable: float | None = 16.0
    isa: tuple[str, ...] | None = ("avx", "avx2", "avx512f")
    gib: float | None = 64
    limit_gib: float | None = None
    has_unified_memory: bool | None = False
    gpu_probe: str = "ok"

    def machine(self) -> Machine:
        return Machine(
            os=OperatingSystem(
                name=fact(self.system),
                version=fact("1"),
                kernel=fact("1"),
                architecture=fact(self.architecture),
                environment=fact("bare"),
            ),
            cpu=Cpu(
                model=fact(self.cpu, "/proc/cpuinfo"),
                vendor=fact("x"),
                physical_cores=fact(self.cores, "topology"),
                performance_cores=fact(self.cores),
                logical_cores=fact(self.cores),
                usable_cores=fact(self.usable, "affinity"),
                isa=fact(list(self.isa) if self.isa is not None else None, "/proc/cpuinfo", "Not looked for."),
            ),
            memory=Memory(
                total=fact(self._bytes(self.gib), "/proc/meminfo"),
                available=fact(self._bytes(self.gib)),
                limit=fact(self._bytes(self.limit_gib), "cgroup"),
                swap_total=fact(0),
                unified=fact(self.has_unified_memory),
            ),
            gpus=list(self.gpus),
            probes=[
                ProbeReport(name="base", outcome="ok", seconds=0.1),
                ProbeReport(name=GPU_PROBE, outcome=self.gpu_probe, seconds=0.1),
            ],
            probed_at=0.0,
        )

    @staticmethod
    def _bytes(gib: float | None) -> int | None:
        return None if gib is None else round(gib * GIB)


def engine(engine_id: str, backend: str = "cpu", *, is_installed: bool = True) -> EngineInfo:
    return EngineInfo(
        id=engine_id,
        name=ENGINES[engine_id].name,
        licence="MIT",
        homepage="https://example.org",
        formats=["gguf"],
        installed=is_installed,
        backend=backend,
    )
