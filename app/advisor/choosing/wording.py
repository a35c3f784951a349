"""The choice in words: one sentence, and one reason per fact with its value and where it was read."""

from collections import Counter

from app.advisor.choosing.hardware import machine_kind, probes_without_answer
from app.core import words
from app.core.engines import EngineInfo, Reason
from app.core.machine import Fact, Gpu, Machine
from engines.api.traits import MachineKind

CPU = "cpu"
BACKENDS = {
    "cpu": "the processor",
    "metal": "Metal",
    "cuda": "CUDA",
    "rocm": "ROCm",
    "vulkan": "Vulkan",
    "sycl": "SYCL",
    "directml": "DirectML",
    "npu": "the NPU",
    "gpu": "the GPU",
}
SUBJECTS = {
    MachineKind.APPLE: "Apple silicon",
    MachineKind.BLACKWELL_SERVER: "NVIDIA Blackwell server GPUs",
    MachineKind.NVIDIA_SERVER: "NVIDIA data-centre GPUs",
    MachineKind.INSTINCT: "AMD Instinct accelerators",
    MachineKind.MIXED: "cards of several makers",
    MachineKind.RTX_MANY: "more than four NVIDIA RTX cards",
    MachineKind.RTX_FEW: "two to four NVIDIA RTX cards",
    MachineKind.RTX_ONE: "one NVIDIA RTX card",
    MachineKind.RTX_SMALL: "an NVIDIA RTX card with little memory",
    MachineKind.NVIDIA_UNIFIED: "an NVIDIA chip that shares memory with its processor",
    MachineKind.JETSON: "an NVIDIA Jetson",
    MachineKind.TURING_FEW: "several NVIDIA cards of the Turing generation",
    MachineKind.NVIDIA_OLDER: "other NVIDIA GPUs",
    MachineKind.ARC: "Intel Arc GPUs",
    MachineKind.RADEON: "AMD Radeon GPUs",
    MachineKind.AMD_APU: "an AMD processor with a GPU inside",
    MachineKind.SNAPDRAGON: "Snapdragon processors",
    MachineKind.INTEL_CPU: "Intel Xeon and Core Ultra processors",
    MachineKind.INTEL_MAC: "Intel Macs",
    MachineKind.BOARD: "small boards",
    MachineKind.CPU_SERVER: "servers without a GPU",
    MachineKind.CPU: "any processor",
}
_VECTORS = (
    ("avx512f", "AVX-512"),
    ("avx2", "AVX2"),
    ("avx", "AVX"),
    ("sse4_2", "SSE4.2"),
    ("sve", "SVE"),
    ("asimd", "NEON"),
)
"""Instruction sets, widest first, by the names people know."""


_AnyFact = Fact[int] | Fact[float] | Fact[str] | Fact[list[str]]
_BASE_PROBE = "base"
"""The probe that reads processor and memory; the others look for GPUs."""


def choice_sentence(machine: Machine, engine: EngineInfo, *, because: str) -> str:
    """Return the whole choice in one sentence."""
    is_on_cpu = engine.backend == CPU
    place = "the CPU" if is_on_cpu else f"the GPU ({BACKENDS.get(engine.backend, engine.backend)})"
    what = _describe_processor(machine) if is_on_cpu else _describe_accelerator(machine)
    return f"{engine.name} on {place}, because {because}; {what}."


def machine_subject(machine: Machine) -> str:
    """Return the machine's kind in words: "one NVIDIA RTX card"."""
    return SUBJECTS[machine_kind(machine)]


def machine_summary(machine: Machine) -> str:
    """Return the machine in a few words: "NVIDIA GeForce RTX 4090, AMD Ryzen 9 7950X, 64.0 GiB of memory"."""
    cpu, total = machine.cpu.model.value, memory_bytes(machine)
    count_by_name = Counter(gpu_name(gpu) for gpu in machine.gpus if gpu.name.value != cpu)
    cards = [name if count == 1 else f"{count} x {name}" for name, count in count_by_name.items()]
    memory = f"{words.format_bytes(total)} of memory" if total is not None else ""
    return ", ".join(filter(None, [*cards, cpu, memory])) or "an unknown machine"


def gpu_names(machine: Machine) -> str:
    """Return the GPUs by name: "the Apple M3", "2 x NVIDIA RTX A4000 and the Intel UHD Graphics"; empty for none."""
    count_by_name = Counter(gpu_name(gpu) for gpu in machine.gpus)
    counted_names = [f"the {name}" if count == 1 else f"{count} x {name}" for name, count in count_by_name.items()]
    return join_words(counted_names)


def choice_reasons(machine: Machine) -> list[Reason]:
    """Return every fact the choice rests on, unknown ones said to be unknown."""
    return [*_gpu_reasons(machine), *_cpu_reasons(machine), _memory_reason(machine)]


def processor_reasons(machine: Machine) -> list[Reason]:
    """Return what the choice rests on where the processor computes."""
    return [*_cpu_reasons(machine), _memory_reason(machine)]


def _describe_processor(machine: Machine) -> str:
    cores, vector = _usable_cores(machine), _widest_vector(machine)
    core_words = "an unknown number of cores" if cores is None else _count_cores(cores)
    total = memory_bytes(machine)
    memory = "an unknown amount of memory" if total is None else f"{words.format_bytes(total)} of memory"
    return f"{core_words}{f' with {vector}' if vector else ''} and {memory}"


def _describe_accelerator(machine: Machine) -> str:
    shared_bytes = memory_bytes(machine)
    if machine.memory.unified.value is True:
        return (
            f"it shares {words.format_bytes(shared_bytes)} of memory"
            if shared_bytes
            else "how much memory it shares is unknown"
        )
    gpu_bytes = [gpu.memory_total.value for gpu in machine.gpus if gpu.memory_total.value is not None]
    return (
        f"{words.format_bytes(sum(gpu_bytes))} of GPU memory" if gpu_bytes else "how much memory the GPU has is unknown"
    )


def memory_bytes(machine: Machine) -> int | None:
    """Return the memory this system may use: the least of what there is and what a control group allows."""
    known_bytes = [fact.value for fact in (machine.memory.total, machine.memory.limit) if fact.value is not None]
    return min(known_bytes) if known_bytes else None


def _usable_cores(machine: Machine) -> float | None:
    """Return the cores that count for decoding: physical ones, as far as this process may use them."""
    core_counts = [
        fact.value for fact in (machine.cpu.physical_cores, machine.cpu.usable_cores) if fact.value is not None
    ]
    return min(core_counts) if core_counts else None


def _count_cores(cores: float) -> str:
    return "1 core" if cores == 1 else f"{cores:g} cores"


def _widest_vector(machine: Machine) -> str:
    isa = machine.cpu.isa.value or []
    return next((name for flag, name in _VECTORS if flag in isa), "")


def _gpu_reasons(machine: Machine) -> list[Reason]:
    present = [_gpu_reason(gpu) for gpu in machine.gpus]
    failed_gpus = [
        Reason(text=f"Looking for hardware with {probe!r} gave no answer.", value="unknown", source=probe)
        for probe in probes_without_answer(machine)
    ]
    if present or failed_gpus:
        return [*present, *failed_gpus]
    probe_names = ", ".join(probe.name for probe in machine.probes if probe.name != _BASE_PROBE)
    return [Reason(text="No GPU was found.", value="0", source=probe_names)]


def _gpu_reason(gpu: Gpu) -> Reason:
    memory = words.format_bytes(gpu.memory_total.value)
    compute = gpu.compute.value or "unknown"
    return Reason(
        text=f"There is a GPU: {gpu_name(gpu)}, memory {memory}, compute level {compute}.",
        value=gpu_name(gpu),
        source=gpu.name.source,
    )


def _cpu_reasons(machine: Machine) -> list[Reason]:
    cpu, cores = machine.cpu, _usable_cores(machine)
    core_words = None if cores is None else _count_cores(cores)
    return [
        _fact_reason("The processor is {}.", "Which processor it has is unknown.", cpu.model.value, cpu.model),
        _fact_reason(
            "It has {} to use.",
            "How many cores it may use is unknown.",
            core_words,
            cpu.usable_cores if cpu.usable_cores.source else cpu.physical_cores,
        ),
        _fact_reason(
            "Its widest vector instructions are {}.",
            "Which vector instructions it has is unknown.",
            _widest_vector(machine) or None,
            cpu.isa,
        ),
    ]


def _memory_reason(machine: Machine) -> Reason:
    total, limit = memory_bytes(machine), machine.memory.limit
    binding_fact = limit if limit.value is not None and limit.value == total else machine.memory.total
    size = None if total is None else words.format_bytes(total)
    return _fact_reason("There are {} of memory.", "How much memory there is is unknown.", size, binding_fact)


def _fact_reason(known_value: str, unknown: str, value: str | None, fact: _AnyFact) -> Reason:
    if value is None:
        return Reason(text=f"{unknown} {fact.note}".strip(), value="unknown", source=fact.source)
    return Reason(text=known_value.format(value), value=value, source=fact.source)


def gpu_name(gpu: Gpu) -> str:
    """Return what the GPU is called."""
    return gpu.name.value or f"unnamed {gpu.vendor} GPU"


def join_words(parts: list[str]) -> str:
    """Return parts as prose: "a, b and c"."""
    return parts[0] if len(parts) == 1 else " and ".join([", ".join(parts[:-1]), parts[-1]]) if parts else ""
