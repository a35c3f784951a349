"""What narrows what can be used on Linux, one sentence each: variables, control groups, ulimits, WSL, containers.

Which GPUs a variable such as CUDA_VISIBLE_DEVICES hides from engines, where that can be told.

UUIDs name cards. Numbers do so only among equal cards, or when CUDA was told to count by PCI address: by default it
counts the fastest first, and nobody but CUDA knows which that is. What cannot be told is not guessed.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from app.config.environment import device_variables
from app.core.machine import Cpu, Fact, Gpu, Memory, OperatingSystem
from app.hardware.evidence import Evidence, NoAnswer
from app.hardware.facts import is_there, measured_fact

_GIB = 1 << 30
_MIB = 1 << 20

_HIDING = {
    "CUDA_VISIBLE_DEVICES": "NVIDIA GPUs",
    "HIP_VISIBLE_DEVICES": "AMD GPUs",
    "ROCR_VISIBLE_DEVICES": "AMD GPUs",
    "GPU_DEVICE_ORDINAL": "AMD GPUs",
    "ONEAPI_DEVICE_SELECTOR": "Intel GPUs",
    "ZE_AFFINITY_MASK": "Intel GPUs",
    "GGML_VK_VISIBLE_DEVICES": "Vulkan devices",
}
"""Variable -> what it hides from engines."""


class Ulimits(msgspec.Struct, frozen=True, kw_only=True):
    """This process's limits in bytes; None where there is none."""

    address_space: int | None = None
    locked_memory: int | None = None


def read_variables(evidence: Evidence) -> dict[str, str]:
    """Return the variables that decide which devices engines see."""
    try:
        return evidence.read_table("environment", dict[str, str], device_variables)
    except NoAnswer:
        return {}


def read_limits(evidence: Evidence, system: OperatingSystem, cpu: Cpu, memory: Memory) -> list[Fact[str]]:
    """Return every limit that applies to this process."""
    return [
        *variable_limits(evidence),
        *_memory_limits(memory),
        *_processor_limits(cpu),
        *_ulimit_facts(evidence),
        *_wsl_limits(evidence, system, memory),
    ]


def variable_limits(evidence: Evidence) -> Iterator[Fact[str]]:
    """Yield what variables hide from engines, or make of devices; they mean the same on every system."""
    for name, value in sorted(read_variables(evidence).items()):
        if name in _HIDING:
            yield measured_fact(f'{name}="{value}" decides which {_HIDING[name]} engines see, and their numbers.', name)
        elif name == "HSA_OVERRIDE_GFX_VERSION":
            yield measured_fact(f'{name}="{value}" makes ROCm treat every AMD GPU as that version.', name)


def _memory_limits(memory: Memory) -> Iterator[Fact[str]]:
    if memory.limit.value is not None and memory.total.value:
        allowed_gib, total_gib = memory.limit.value / _GIB, memory.total.value / _GIB
        yield measured_fact(
            f"A control group allows {allowed_gib:.1f} of {total_gib:.1f} GiB of memory.", memory.limit.source
        )


def _processor_limits(cpu: Cpu) -> Iterator[Fact[str]]:
    usable, total = cpu.usable_cores.value, cpu.logical_cores.value
    if usable is None or total is None or usable >= total:
        return
    how = "A control group" if cpu.usable_cores.source.startswith("cgroup") else "This process's affinity"
    yield measured_fact(f"{how} allows {usable:g} of {total} processors.", cpu.usable_cores.source)


def _ulimit_facts(evidence: Evidence) -> Iterator[Fact[str]]:
    try:
        ulimits = evidence.read_table("ulimits", Ulimits, _read_ulimits)
    except NoAnswer:
        return
    if ulimits.address_space is not None:
        size = ulimits.address_space / _GIB
        yield measured_fact(
            f"Programs may use {size:.1f} GiB of addresses: no larger model can be loaded.", "ulimit -v"
        )
    if ulimits.locked_memory is not None:
        size = ulimits.locked_memory / _MIB
        yield measured_fact(
            f"Programs may lock {size:g} MiB: a model cannot be kept from being swapped out.", "ulimit -l"
        )


def _read_ulimits() -> Ulimits:
    if sys.platform == "win32":
        raise NoAnswer("Windows has no such limits.")
    import resource  # noqa: PLC0415 -- Windows has none

    def soft(which: int) -> int | None:
        limit, _ = resource.getrlimit(which)
        return None if limit == resource.RLIM_INFINITY else limit

    return Ulimits(address_space=soft(resource.RLIMIT_AS), locked_memory=soft(resource.RLIMIT_MEMLOCK))


def _wsl_limits(evidence: Evidence, system: OperatingSystem, memory: Memory) -> Iterator[Fact[str]]:
    if system.environment.value != "wsl":
        return
    size = (memory.total.value or 0) / _GIB
    yield measured_fact(
        f"WSL gives Linux {size:.1f} GiB of this computer's memory; .wslconfig sets how much.", "/proc/version"
    )
    if not is_there(evidence.root / "dev/dxg"):
        yield measured_fact(
            "WSL provides no GPU: there is no /dev/dxg. WSL 2 and a current driver are needed.", "/dev/dxg"
        )


_BY_BACKEND = {
    "cuda": ("CUDA_VISIBLE_DEVICES",),
    "rocm": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
}


def with_hidden(gpus: Sequence[Gpu], backend: str, variables: Mapping[str, str]) -> list[Gpu]:
    """Return the GPUs; what a variable hides from `backend` ("cuda", "rocm") has nothing addressable there."""
    for name in _BY_BACKEND[backend]:
        if name in variables:
            by_address = variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
            hidden_ids = _ids_to_hide(gpus, variables[name], by_address=by_address)
            gpus = [_hide_gpu(gpu, backend, name) if gpu.id in hidden_ids else gpu for gpu in gpus]
    return list(gpus)


def _hide_gpu(gpu: Gpu, backend: str, variable: str) -> Gpu:
    nothing = measured_fact(0, variable, unit="B", note=f"{variable} hides it from engines.")
    return msgspec.structs.replace(gpu, addressable={**gpu.addressable, backend: nothing})


def _ids_to_hide(gpus: Sequence[Gpu], value: str, *, by_address: bool) -> set[str]:
    selectors = [part.strip() for part in value.split(",") if part.strip()]
    if not selectors or selectors[0].startswith("-"):  # the first that names nothing ends the list
        return {gpu.id for gpu in gpus}
    if all(part.isdecimal() for part in selectors):
        return _ids_not_listed(gpus, selectors, by_address=by_address)
    if all(part.startswith(("GPU-", "MIG-")) for part in selectors):
        return {gpu.id for gpu in gpus if not any(gpu.uuid.startswith(part) for part in selectors)}
    return set()


def _ids_not_listed(gpus: Sequence[Gpu], numbers: Sequence[str], *, by_address: bool) -> set[str]:
    are_equal = len({gpu.name.value for gpu in gpus}) == 1
    if not are_equal and not by_address:
        return set()
    return {gpu.id for number, gpu in enumerate(gpus) if str(number) not in numbers}
