"""Where an engine would compute on a machine, and in plain words why it would not run there at all."""

from app.advisor.choosing import hardware
from app.advisor.choosing.engine_table import NOWHERE, EngineTraits
from app.core.machine import Gpu, Machine
from engines.api.traits import AMPERE, ARM, WINDOWS, X86, EngineAbility, EngineTarget, Version


def gpus_for(machine: Machine, engine: EngineTraits) -> list[Gpu]:
    """Return the GPUs an engine would use, the largest first; none when it computes on the processor."""
    engine_target = find_target(machine, engine)
    if not engine_target.vendors:
        return []
    gpus = hardware.all_gpus(machine) if engine.runs_everywhere else hardware.main_gpus(machine)
    fitting_gpus = [gpu for gpu in gpus if _fits_gpu(engine_target, gpu)]
    return sorted(fitting_gpus, key=lambda gpu: -(gpu.memory_total.value or 0))


def find_target(machine: Machine, engine: EngineTraits) -> EngineTarget:
    """Return where the engine computes: the machine's main GPUs, else its processor; NOWHERE if it cannot run."""
    possible = [candidate for candidate in engine.targets if _is_published(candidate, machine)]
    if hardware.is_apple_silicon(machine):  # the chip has a GPU, also where no probe found it
        possible = [candidate for candidate in possible if "apple" in candidate.vendors] or possible
        return next(iter(possible), NOWHERE)
    gpus = hardware.all_gpus(machine) if engine.runs_everywhere else hardware.main_gpus(machine)
    # One that computes on every card comes before one that computes on some.
    on_gpu = [
        candidate
        for candidate in possible
        if candidate.vendors and gpus and all(_fits_gpu(candidate, gpu) for gpu in gpus)
    ]
    on_gpu = on_gpu or [
        candidate for candidate in possible if candidate.vendors and any(_fits_gpu(candidate, gpu) for gpu in gpus)
    ]
    if on_gpu:
        return _largest_target(on_gpu, gpus)
    npus = {npu.vendor for npu in machine.npus}
    on_npu = next(
        (candidate for candidate in possible if candidate.backend == "npu" and npus.intersection(candidate.vendors)),
        None,
    )
    if on_npu is not None:
        return on_npu
    return next(
        (candidate for candidate in possible if not candidate.vendors and _has_vectors(candidate, machine)), NOWHERE
    )


def explain_lack(machine: Machine, engine: EngineTraits) -> str:
    """Say why the engine cannot run on this machine; empty when it can."""
    if find_target(machine, engine) is not NOWHERE:
        return ""
    if not engine.targets:
        return engine.limits
    system = machine.os.name.value
    if system == WINDOWS and EngineAbility.WSL in engine.abilities and hardware.main_gpus(machine):
        return f"{engine.name} does not exist for Windows itself; it runs in WSL 2, the Linux inside Windows."
    return f"{engine.name} needs {engine.needs}; {_what_is_here(machine, engine)}."


def capability_of(gpus: list[Gpu]) -> Version:
    """Return the least compute capability among NVIDIA cards; (0, 0) without any."""
    return min((hardware.compute_capability(gpu) for gpu in gpus), default=(0, 0))


def _is_published(candidate: EngineTarget, machine: Machine) -> bool:
    if not candidate.systems:
        return True
    return machine.os.name.value in candidate.systems and processor_architecture(machine) in candidate.architectures


def processor_architecture(machine: Machine) -> str:
    """Return what the processor is, also when we run translated on it; empty for others and when it is unknown."""
    if hardware.is_arm(machine) or hardware.is_translated(machine):
        return ARM
    return X86 if hardware.is_x86(machine) else ""


def _fits_gpu(candidate: EngineTarget, gpu: Gpu) -> bool:
    if gpu.vendor not in candidate.vendors:
        return False
    if gpu.vendor == "nvidia":
        return hardware.compute_capability(gpu) >= candidate.compute
    return not candidate.gfx or hardware.gfx_target(gpu) in candidate.gfx


def _has_vectors(candidate: EngineTarget, machine: Machine) -> bool:
    """Whether the processor has the vectors asked for, or wider ones; unknown ones are no reason to refuse."""
    isa = machine.cpu.isa.value
    return not candidate.isa or isa is None or candidate.isa in isa or "avx512f" in isa


def _largest_target(possible: list[EngineTarget], gpus: list[Gpu]) -> EngineTarget:
    """Return the target that may allocate most: drivers of one AMD chip differ by a third in what they let be used."""
    if any(gpu.vendor != "amd" for gpu in gpus):
        return possible[0]
    return max(possible, key=lambda candidate: _addressable_sum(candidate, gpus))


def _addressable_sum(candidate: EngineTarget, gpus: list[Gpu]) -> int:
    sizes = [gpu.addressable.get(candidate.backend, gpu.memory_total) for gpu in gpus]
    return sum(fact.value or 0 for fact in sizes)


def _what_is_here(machine: Machine, engine: EngineTraits) -> str:
    wants_nvidia = any("nvidia" in candidate.vendors for candidate in engine.targets)
    cards = [gpu for gpu in machine.gpus if gpu.vendor == "nvidia"]
    if wants_nvidia and cards:
        best = max(cards, key=hardware.compute_capability)
        capability = hardware.compute_capability(best)
        has_capability = f"has {capability[0]}.{capability[1]}" if capability > (0, 0) else "has an unknown capability"
        if capability < _least_capability(engine):
            return f"the {best.name.value or 'NVIDIA GPU'} {has_capability}"
    names = list(dict.fromkeys(f"the {gpu.name.value}" for gpu in machine.gpus if gpu.name.value))[:2]
    system = machine.os.name.value or "a system that is unknown"
    processor = machine.os.architecture.value or "unknown"
    with_gpus = f" with {' and '.join(names)}" if names else " without a GPU"
    return f"this is {system} on {processor}{with_gpus}"


def _least_capability(engine: EngineTraits) -> Version:
    return min((candidate.compute for candidate in engine.targets if "nvidia" in candidate.vendors), default=AMPERE)
