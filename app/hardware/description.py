"""A machine from a few lines of JSON, so that any computer can be planned for, not only this one.

    {"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 64,
     "gpus": [{"name": "RTX 3090", "vram_gb": 24, "count": 2, "compute_capability": "8.6", "nvlink": true}]}

Everything may be missing: what a name tells (memory, bandwidth, compute capability, sharing of memory) comes from the
device table, the rest stays unknown or is assumed, and each fact says which. A saved machine (`roundhouse machine
--json`) and a doctor report are read as they are.

What people and other programs write in a description of a machine, in the one form the rest reads.

"64 GB" is a figure, "RTX 4090" a GPU, "2x RTX 3090" two of them, null the same as nothing. What cannot be understood is
left as it is, for the types to refuse.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from app.core.errors import BadRequest, quote_value
from app.core.machine import Confidence, Cpu, Fact, Gpu, Machine, Memory, Npu, OperatingSystem
from app.hardware import devices
from app.hardware.facts import derived_fact, unknown_fact
from app.hardware.macos.gpus import metal_share
from app.hardware.pools import with_pools

GIB = 1 << 30
_SOURCE = "description"
_LIMIT_BYTES = 4 << 20
_MAX_GPUS = 4096
_MAX_FIGURE = 1e7  # ten petabytes: more than any machine, less than what overflows
_OS_NAMES = {"linux": "Linux", "windows": "Windows", "macos": "macOS"}
_OS_WORDS = (
    (r"wsl|subsystem", "linux"),
    (r"mac|darwin|os ?x\b|sonoma|sequoia|tahoe", "macos"),
    (r"win|^nt$", "windows"),
    (r"linux|gnu|posix|ubuntu|debian|mint|pop!?_?os|fedora|red ?hat|rhel|centos|rocky|alma|suse|arch|manjaro", "linux"),
    (r"nix|gentoo|alpine|kali|steamos|l4t|jetpack|dgx ?os|raspbian|raspberry|proxmox|unraid|amazon", "linux"),
)
_TEGRA = r"\bjetson\b|\borin\b|\bxavier\b|\bthor\b|\btegra\b|nvgpu|\bdgx spark\b"
"""NVIDIA's chips with GPU and processor in one; `(nvgpu)` ends the names their driver gives."""
_VENDORS = (
    (r"nvidia|geforce|\brtx\b|\bgtx\b|quadro|tesla|\b[abhl]\d{2,3}s?\b|\bgb?\d{2,3}\b", "nvidia"),
    (_TEGRA, "nvidia"),
    (r"amd|radeon|instinct|\bmi\d{2,3}|\brx ?\d", "amd"),
    (r"intel|\barc\b|iris", "intel"),
    (r"apple|\bm\d\b", "apple"),
    (r"qualcomm|adreno|snapdragon", "qualcomm"),
)
_TEGRA_COMPUTE = {"xavier": "7.2", "orin": "8.7", "thor": "11.0"}
"""Compute capability by chip (NVIDIA's table of CUDA GPUs), for names that leave open which board it is."""
_OS_RESERVE = {"linux": 2 * GIB, "windows": 4 * GIB, "macos": 4 * GIB}
"""Memory a system with its usual programs holds; assumed, since nobody can be asked."""
_LEAST_FREE = {"linux": 0.5, "windows": 0.5, "macos": 0.68}
"""The share that is free at least: of a Mac's 8 GB five to six are left (insiderllm.com, 2026); assumed for others."""
_SERVER_GPU_RESERVE = GIB // 2
_DESKTOP_GPU_RESERVE = GIB
"""What driver and display hold of a card: 300 to 1500 MiB on those that drive a monitor."""


class GpuDescription(msgspec.Struct, frozen=True, kw_only=True):
    """`count` equal cards. Memory in GiB as sold, bandwidth in GB/s, rate in dense FP16 TFLOPS."""

    name: str = ""
    vendor: str = ""
    vram_gb: float | None = None
    free_vram_gb: float | None = None
    count: int = 1
    compute_capability: str | float | None = None
    nvlink: bool | None = None
    integrated: bool | None = None
    bandwidth_gb_s: float | None = None
    fp16_tflops: float | None = None
    cores: int | None = None


class CpuDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The processor. `isa` lists vector extensions as Linux names them ("avx2", "avx512f", "amx_int8")."""

    model: str = ""
    cores: int | None = None
    isa: list[str] | None = None


class MachineDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The whole computer; the module docstring has an example. Names that begin with an underscore are notes."""

    os: str = ""
    architecture: str = ""
    cpu: str | CpuDescription = ""
    cores: int | None = None
    isa: list[str] | None = None
    ram_gb: float | None = None
    free_ram_gb: float | None = None
    ram_bandwidth_gb_s: float | None = None
    gpus: list[GpuDescription] = []
    unified: bool | None = None
    npu: bool | str = False


class _MachineDocument(msgspec.Struct):
    """What `roundhouse machine --json` and a doctor report have in common: the machine below a name."""

    machine: Machine


def machine_from(raw: bytes) -> Machine:
    """Return the machine that JSON describes. Raises BadRequest (code machine_invalid) with what is wrong in it."""
    if len(raw) > _LIMIT_BYTES:
        raise _invalid_description("it is larger than any description of a computer")
    try:
        shape = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _invalid_description(f"it is not JSON ({error})") from error
    if not isinstance(shape, dict):
        raise _invalid_description("it is not a JSON object")
    try:
        saved_machine = _parse_saved(shape)
        if saved_machine is not None:
            return saved_machine
        fields = tidy_description(shape)
        _check_names(fields)
        return _build_machine(msgspec.convert(fields, MachineDescription))
    except msgspec.ValidationError as error:
        raise _invalid_description(str(error)) from error


def _check_names(fields: Mapping[str, Any]) -> None:
    """Raise BadRequest for a name that means nothing here: a figure that was misspelt would be passed over."""
    cards = fields.get("gpus", [])
    parts: list[tuple[str, object, type[msgspec.Struct]]] = [
        ("", fields, MachineDescription),
        (" of the processor", fields.get("cpu"), CpuDescription),
        *((" of a GPU", card, GpuDescription) for card in (cards if isinstance(cards, list) else [])),
    ]
    for where, part, kind in parts:
        if isinstance(part, Mapping):
            for name in sorted(part.keys() - set(kind.__struct_fields__)):
                if not name.startswith("_"):
                    raise _unknown_name(name, where, kind)


def _unknown_name(name: str, where: str, kind: type[msgspec.Struct]) -> BadRequest:
    near = difflib.get_close_matches(name, kind.__struct_fields__, n=1, cutoff=0.5)
    suggestion = f"; did you mean {near[0]!r}?" if near else ""
    known_names = ", ".join(kind.__struct_fields__)
    return BadRequest(
        f"The machine description cannot be used: {quote_value(name)} is no field{where}{suggestion or '.'}",
        hint=f"There are {known_names}. Names that begin with an underscore are notes.",
        code="machine_invalid",
    )


def _parse_saved(shape: dict[str, Any]) -> Machine | None:
    """Return the machine of a saved one or of a report; None when this is a description."""
    if isinstance(shape.get("machine"), dict):
        return msgspec.convert(shape, _MachineDocument).machine
    inside = shape.get("machine") or shape.get("data") or shape
    if isinstance(inside, dict) and {"cpu", "memory", "probes"} <= set(inside):
        return msgspec.convert(inside, Machine)
    return None


def _invalid_description(what: str) -> BadRequest:
    return BadRequest(
        f"The machine description cannot be used: {what}.",
        hint='The minimum is {"os": "linux", "ram_gb": 32, "gpus": [{"name": "RTX 3090", "count": 1}]}.',
        code="machine_invalid",
    )


def _build_machine(description: MachineDescription) -> Machine:
    _check_figures(description)
    system, cpu = _guess_system(description), _build_cpu(description)
    gpus = [
        gpu
        for number, card in enumerate(_list_cards(description))
        for gpu in _build_gpus(card, number, description, system)
    ]
    memory = _build_memory(description, system, gpus, cpu)
    gpus = [_with_shared_memory(gpu, memory, system) for gpu in gpus]
    return with_pools(
        Machine(
            os=_parse_system(description, system),
            cpu=cpu,
            memory=memory,
            gpus=gpus,
            probes=[],
            probed_at=0.0,
            npus=_build_npus(description),
        )
    )


def _check_figures(description: MachineDescription) -> None:
    figures = [description.ram_gb, description.free_ram_gb, description.ram_bandwidth_gb_s, description.cores]
    for card in description.gpus:
        figures += [card.vram_gb, card.free_vram_gb, card.bandwidth_gb_s, card.fp16_tflops, card.cores]
    if any(figure is not None and not 0 < figure < _MAX_FIGURE for figure in figures):
        raise _invalid_description("a figure in it is zero, negative or impossible")
    if not all(card.count > 0 for card in description.gpus) or sum(card.count for card in description.gpus) > _MAX_GPUS:
        raise _invalid_description(f"its number of GPUs is not plausible; 1 to {_MAX_GPUS} can be planned for")


def _guess_system(description: MachineDescription) -> str:
    """Return "linux", "windows" or "macos"; what is not said follows from the chips, else it is Linux."""
    lower_name = description.os.lower()
    system = next((name for pattern, name in _OS_WORDS if re.search(pattern, lower_name)), "")
    if lower_name and not system:
        raise _invalid_description(
            f"there is no operating system called {description.os!r}; there are linux, windows and macos"
        )
    names = " ".join([_cpu_name(description), *(card.name for card in description.gpus)])
    return system or ("macos" if _guess_vendor(names) == "apple" else "linux")


def _parse_system(description: MachineDescription, system: str) -> OperatingSystem:
    apple = system == "macos" and not re.search(r"intel|xeon", _cpu_name(description), re.IGNORECASE)
    arm = apple or re.search(
        r"snapdragon|ampere altra|graviton|grace|cortex|raspberry|gb10|spark|jetson|orin|xavier|thor",
        _all_names(description),
    )
    architecture = description.architecture or ("arm64" if arm else "x86_64")
    return OperatingSystem(
        name=_user_fact(_OS_NAMES[system]),
        version=_user_fact(description.os or _OS_NAMES[system]),
        kernel=_absent_fact(),
        architecture=_user_fact(architecture),
        environment=_user_fact("wsl" if "wsl" in description.os.lower() else "bare"),
    )


def _all_names(description: MachineDescription) -> str:
    return " ".join([_cpu_name(description), *(card.name for card in description.gpus)]).lower()


def _cpu_name(description: MachineDescription) -> str:
    return description.cpu if isinstance(description.cpu, str) else description.cpu.model


def _build_cpu(description: MachineDescription) -> Cpu:
    detail = description.cpu if isinstance(description.cpu, CpuDescription) else CpuDescription()
    cores, isa = detail.cores or description.cores, detail.isa or description.isa
    core_count: Fact[int] = _user_fact(cores) if cores else _absent_fact()
    return Cpu(
        model=_user_fact(_cpu_name(description)) if _cpu_name(description) else _absent_fact(),
        vendor=_absent_fact(),
        physical_cores=core_count,
        performance_cores=core_count,
        logical_cores=_absent_fact(),
        usable_cores=_user_fact(float(cores)) if cores else _absent_fact(),
        isa=_user_fact([flag.lower() for flag in isa]) if isa else _absent_fact(),
    )


def _list_cards(description: MachineDescription) -> list[GpuDescription]:
    """Return the GPUs told, or the one that comes with the processor (Apple, Strix Halo, Snapdragon)."""
    if description.gpus:
        return description.gpus
    chip = devices.find_device(_cpu_name(description), memory_gb=description.ram_gb)
    if chip is None or not chip.is_unified or chip.kind == "sbc":
        return []
    return [GpuDescription(name=_cpu_name(description), integrated=True)]


def _build_gpus(card: GpuDescription, number: int, description: MachineDescription, system: str) -> list[Gpu]:
    device = _find_device(card, card.vram_gb or (description.ram_gb if card.integrated else None))
    is_shared = _is_shared(card, device, description)
    vram = None if is_shared and not card.vram_gb else card.vram_gb or (device.memory_gb if device else None)
    template = Gpu(
        id="",
        vendor=card.vendor.lower() or (device.vendor if device else "") or _guess_vendor(card.name) or "unknown",
        name=_user_fact(card.name) if card.name else _absent_fact(),
        memory_total=_bytes_fact(vram, table=card.vram_gb is None),
        memory_free=_free_vram(card, vram, system, description),
        driver=_absent_fact(),
        compute=_compute_fact(card, device),
        integrated=_user_fact(is_shared),
        bandwidth_gb_s=_rate_fact(card.bandwidth_gb_s, "GB/s"),
        fp16_tflops=_rate_fact(card.fp16_tflops, "TFLOPS"),
        cores=_user_fact(card.cores) if card.cores else _absent_fact(),
        nvlink=_user_fact(card.nvlink) if card.nvlink is not None else _absent_fact(),
    )
    completed_gpu = devices.fill_from_table(template, device=device)
    return [msgspec.structs.replace(completed_gpu, id=f"gpu{number}.{index}") for index in range(card.count)]


def _find_device(card: GpuDescription, memory_gb: float | None) -> devices.DeviceRow | None:
    name = card.name
    if card.nvlink:  # the module with NVLink, where a card of the same name has none
        module = devices.find_device(f"{name} SXM", memory_gb=memory_gb, cores=card.cores)
        if module and "SXM" in module.name:
            return module
    return devices.find_device(name, memory_gb=memory_gb, cores=card.cores)


def _compute_fact(card: GpuDescription, device: devices.DeviceRow | None) -> Fact[str]:
    if card.compute_capability is not None:
        return _user_fact(str(card.compute_capability))
    chip = re.search("|".join(_TEGRA_COMPUTE), card.name.lower()) if device is None else None
    if chip is None:
        return _absent_fact()
    return Fact(value=_TEGRA_COMPUTE[chip[0]], source="NVIDIA's table of CUDA GPUs", confidence=Confidence.TABLE)


def _is_shared(card: GpuDescription, device: devices.DeviceRow | None, description: MachineDescription) -> bool:
    if card.integrated is not None:
        return card.integrated
    if device is not None:
        return device.is_unified
    return description.unified is True or re.search(_TEGRA, card.name.lower()) is not None


def _free_vram(card: GpuDescription, vram: float | None, system: str, description: MachineDescription) -> Fact[int]:
    if card.free_vram_gb is not None:
        return _bytes_fact(card.free_vram_gb, table=False)
    if vram is None:
        return _absent_fact()
    is_server = system == "linux" and sum(other.count for other in description.gpus) > 1
    reserve = _SERVER_GPU_RESERVE if is_server else _DESKTOP_GPU_RESERVE
    free = max(int(vram * GIB) - reserve, int(vram * GIB) // 2)
    return derived_fact(free, _SOURCE, unit="B", note="assumed: all but what driver and display hold")


def _build_memory(description: MachineDescription, system: str, gpus: list[Gpu], cpu: Cpu) -> Memory:
    shared_gpus = [gpu for gpu in gpus if gpu.integrated.value]
    is_unified = description.unified if description.unified is not None else bool(shared_gpus)
    ram = description.ram_gb or max(
        (gpu.memory_total.value / GIB for gpu in shared_gpus if gpu.memory_total.value), default=None
    )
    bandwidth = [gpu.bandwidth_gb_s for gpu in shared_gpus if gpu.bandwidth_gb_s.value]
    name = cpu.model.value or ""
    chip = devices.find_device(name, memory_gb=description.ram_gb) or devices.memory_of(name)
    if not bandwidth and chip and chip.kind in {"unified-soc", "igpu", "sbc", "cpu-memory"}:
        bandwidth = [devices.bandwidth_fact(chip)]
    return Memory(
        total=_bytes_fact(ram, table=description.ram_gb is None),
        available=_free_ram(description, ram, system),
        limit=_absent_fact(),
        swap_total=_absent_fact(),
        unified=_user_fact(is_unified),
        bandwidth_gb_s=_rate_fact(description.ram_bandwidth_gb_s, "GB/s"),
        theoretical_gb_s=bandwidth[0] if bandwidth else _rate_fact(None, "GB/s"),
    )


def _free_ram(description: MachineDescription, ram: float | None, system: str) -> Fact[int]:
    if description.free_ram_gb is not None:
        return _bytes_fact(description.free_ram_gb, table=False)
    if ram is None:
        return _absent_fact()
    total = int(ram * GIB)
    free = max(total - _OS_RESERVE[system], int(total * _LEAST_FREE[system]))
    return derived_fact(free, _SOURCE, unit="B", note="assumed: all but what the system itself usually holds")


def _with_shared_memory(gpu: Gpu, memory: Memory, system: str) -> Gpu:
    """Return a GPU without memory of its own with the share of system memory it may use."""
    total = memory.total.value
    if not gpu.integrated.value or not total:
        return gpu
    share = metal_share(total) if system == "macos" else total
    note = "Metal's default: 2/3 of memory, 3/4 above 36 GiB" if system == "macos" else "shares system memory"
    free = min(share, memory.available.value or share)
    return msgspec.structs.replace(
        gpu,
        memory_total=derived_fact(share, _SOURCE, unit="B", note=note),
        memory_free=derived_fact(free, _SOURCE, unit="B", note="of system memory"),
    )


def _build_npus(description: MachineDescription) -> list[Npu]:
    if not description.npu:
        return []
    name = description.npu if isinstance(description.npu, str) else "NPU"
    return [
        Npu(
            id="npu0",
            vendor=_guess_vendor(f"{name} {_cpu_name(description)}") or "unknown",
            name=_user_fact(name),
            driver=_absent_fact(),
        )
    ]


def _guess_vendor(name: str) -> str:
    lower_name = name.lower()
    return next((vendor for pattern, vendor in _VENDORS if re.search(pattern, lower_name)), "")


def _bytes_fact(gib: float | None, *, table: bool) -> Fact[int]:
    if gib is None:
        return unknown_fact(_SOURCE, "It was not told.", unit="B")
    confidence = Confidence.TABLE if table else Confidence.MEASURED
    return Fact(value=int(gib * GIB), unit="B", source="device table" if table else _SOURCE, confidence=confidence)


def _rate_fact(value: float | None, unit: str) -> Fact[float]:
    if value is None:
        return unknown_fact(_SOURCE, "It was not told.", unit=unit)
    return Fact(value=value, unit=unit, source=_SOURCE, confidence=Confidence.MEASURED)


def _user_fact(value: Any) -> Fact[Any]:  # noqa: ANN401 -- a fact of any type
    return Fact(value=value, source=_SOURCE, confidence=Confidence.MEASURED)


def _absent_fact() -> Fact[Any]:
    return unknown_fact(_SOURCE, "It was not told.")


_ALIASES = {"gpu": "gpus", "ram": "ram_gb", "memory_gb": "ram_gb", "system": "os", "isa_extensions": "isa"}
_GPU_ALIASES = {"vram": "vram_gb", "memory_gb": "vram_gb", "cc": "compute_capability", "model": "name"}
_FIGURES = frozenset({"ram_gb", "free_ram_gb", "ram_bandwidth_gb_s", "cores"})
_GPU_FIGURES = frozenset({"vram_gb", "free_vram_gb", "count", "bandwidth_gb_s", "fp16_tflops", "cores"})
_YES_OR_NO = {"yes": True, "true": True, "no": False, "false": False}
_PER_GIB = {"t": 1024.0, "m": 1 / 1024}
_FIGURE = re.compile(r"(\d+(?:\.\d+)?) *(?:([tgm])i?b|gb/s|tflops|cores)?", re.IGNORECASE)
_COUNT_FIRST = re.compile(r"(\d{1,4}) ?[x\xd7*] ?(?=[a-z])(.+)", re.IGNORECASE)
_COUNT_LAST = re.compile(r"(.+?) ?\(?\b[x\xd7*] ?(\d{1,4})\)?", re.IGNORECASE)
_CAPABILITY = re.compile(r"(?:sm|compute)_?(\d{1,2})(\d)[af]?", re.IGNORECASE)


def tidy_description(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description with its names, figures and lists of GPUs in the documented form."""
    fields = _parse_figures(_canonical_names(description, _ALIASES), _FIGURES, ("unified",))
    if isinstance(fields.get("cpu"), Mapping):
        fields["cpu"] = _parse_figures(_canonical_names(fields["cpu"], {"name": "model"}), frozenset({"cores"}), ())
    if "gpus" in fields:
        cards = fields["gpus"]
        fields["gpus"] = [
            _parse_card(card) for card in (cards if isinstance(cards, list) else [cards]) if card is not None
        ]
    return fields


def _canonical_names(description: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields by their documented names, without those that say nothing; a documented name counts first."""
    canonical_names = {
        re.sub(r"[ -]", "_", name.lower()): value for name, value in description.items() if value is not None
    }
    return {aliases[name]: value for name, value in canonical_names.items() if name in aliases} | {
        name: value for name, value in canonical_names.items() if name not in aliases
    }


def _parse_figures(fields: dict[str, Any], figures: frozenset[str], choices: tuple[str, ...]) -> dict[str, Any]:
    return fields | {
        **{name: _parse_figure(fields[name]) for name in figures & set(fields)},
        **{name: _parse_yes_or_no(fields[name]) for name in choices if name in fields},
    }


def _parse_figure(value: object) -> object:
    """Return the number of "24", "24GB" (GiB) or "1 TB"; whole numbers whole."""
    figure_match = _FIGURE.fullmatch(value.strip()) if isinstance(value, str) else None
    if figure_match is None:
        return value
    number = float(figure_match[1]) * _PER_GIB.get((figure_match[2] or "").lower(), 1.0)
    return int(number) if number.is_integer() else number


def _parse_yes_or_no(value: object) -> object:
    return _YES_OR_NO.get(value.strip().lower(), value) if isinstance(value, str) else value


def _parse_card(description: object) -> object:
    if isinstance(description, str):
        description = {"name": description}
    if not isinstance(description, Mapping):
        return description
    card = _parse_figures(_canonical_names(description, _GPU_ALIASES), _GPU_FIGURES, ("nvlink", "integrated"))
    if isinstance(card.get("compute_capability"), str):
        card["compute_capability"] = _CAPABILITY.sub(r"\1.\2", card["compute_capability"].strip())
    return _split_count(card)


def _split_count(card: dict[str, Any]) -> dict[str, Any]:
    """Return the card with the count its name tells ("2x RTX 3090"); one that is told beside it counts more."""
    name = card.get("name")
    first = _COUNT_FIRST.fullmatch(name.strip()) if isinstance(name, str) else None
    last = _COUNT_LAST.fullmatch(name.strip()) if isinstance(name, str) and first is None else None
    if first:
        return {"count": int(first[1]), **card, "name": first[2]}
    return {"count": int(last[2]), **card, "name": last[1]} if last else card
