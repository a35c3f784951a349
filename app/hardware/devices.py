"""The device table: memory, bandwidth and matrix rate of chips and cards by product name, each with its source.

Names are compared word by word, never by substring: a laptop "4090" is not the desktop card, and cards of one name are
told apart by their memory, Apple's chips by their GPU cores.
"""

import csv
import re
from collections.abc import Iterator
from functools import cache

import msgspec

from app.config.paths import RESOURCES
from app.core.machine import Confidence, Fact, Gpu

_NOISE = frozenset(
    {
        "nvidia",
        "geforce",
        "amd",
        "radeon",
        "intel",
        "apple",
        "qualcomm",
        "ati",
        "corporation",
        "gpu",
        "graphics",
        "graphic",
        "generation",
        "edition",
        "adapter",
        "r",
        "tm",
        "c",
        "w",
        "with",
        "desktop",
        "workstation",
        "integrated",
        "gddr6",
        "gddr5",
        "gddr6x",
        "hbm3",
        "hbm3e",
        "hbm2",
        "hbm2e",
        "mac",
        "mini",
        "studio",
        "macbook",
        "imac",
        "developer",
        "kit",
        "nvl72",
        "processor",
        "cpu",
        "vf",
        "oam",
    }
)
"""Words that name the maker or say nothing. A memory type counts only where the table itself tells it apart."""
_OPTIONAL = frozenset(
    {
        "rtx",
        "gtx",
        "rx",
        "arc",
        "tesla",
        "quadro",
        "instinct",
        "pcie",
        "sxm",
        "ryzen",
        "ai",
        "core",
        "ultra",
        "per",
        "dgx",
        "hgx",
        "spark",
        "jetson",
        "blackwell",
    }
)
"""Words people leave out. Without them a name still matches if nothing else can be meant."""
_MEMORY = re.compile(r"\b(\d+(?:\.\d+)?) ?g(?:i?b)\b")
_CORES = re.compile(r"\b(\d+)[- ]?(?:c\b|gpu cores?|core|gpu\b)")
_MEMORY_SLACK = 0.12
"""A driver tells a little less than the box says (24,564 of 24,576 MiB; ECC takes a sixteenth)."""


class DeviceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row. Memory in GiB as sold (None: configurable), bandwidth in GB/s, rate in dense FP16 TFLOPS.

    `compute` is a CUDA capability or a gfx target. `bus_bits` x `rate_gbps` / 8 is the bandwidth where both are known.
    """

    name: str
    vendor: str
    kind: str
    architecture: str
    compute: str
    memory_gb: float | None
    bus_bits: int | None
    rate_gbps: float | None
    bandwidth_gb_s: float
    fp16_tflops: float | None
    cores: int | None
    nvlink: bool
    source: str

    @property
    def is_unified(self) -> bool:
        """Whether it computes on system memory."""
        return self.kind in {"unified-soc", "igpu", "sbc"}


@cache
def device_table() -> tuple[DeviceRow, ...]:
    """Return every row. Raises ValueError when the table that ships is damaged: a mistake of ours."""
    with (RESOURCES / "devices.csv").open(encoding="utf-8", newline="") as file:
        return tuple(_parse_row(row) for row in csv.DictReader(file))


def find_device(name: str, *, memory_gb: float | None = None, cores: int | None = None) -> DeviceRow | None:
    """Return the device of that name, or None: a near miss is no match.

    `memory_gb` (GiB) and `cores` (GPU cores) choose among variants; both are read from the name when it has them.
    """
    lower_name = name.lower()
    memory_gb = memory_gb if memory_gb is not None else _search_number(_MEMORY, lower_name)
    cores = cores if cores is not None else _to_int(_search_number(_CORES, lower_name))
    # A driver that knows only the family says "130V/140V".
    rows = _rows_called(lower_name) or next(filter(None, map(_rows_by_words, [name, *name.split("/")])), [])
    return _pick_variant(_same_kind(rows, lower_name), memory_gb, cores)


def _rows_called(lower_name: str) -> list[DeviceRow]:
    return [device for device in device_table() if device.name.lower() == lower_name]


def _rows_by_words(name: str) -> list[DeviceRow]:
    query = _significant_words(name)
    exact = [device for device, words in _word_index() if words == query] if query else []
    if exact or not query - _OPTIONAL:
        return exact
    return [device for device, words in _word_index() if words - _OPTIONAL == query - _OPTIONAL]


_PROCESSORS = (
    (r"epyc 9\w\w5", "EPYC 9005 Turin 12ch DDR5-6000"),
    (r"epyc 9\w\w4", "EPYC 9004 Genoa 12ch DDR5-4800"),
    (r"epyc 7\w\w3", "EPYC 7003 Milan 8ch DDR4-3200"),
    (r"epyc 7\w\w2", "EPYC 7002 Rome 8ch DDR4-3200"),
    (r"threadripper pro 9\d\d5wx", "Threadripper Pro 9000WX 8ch DDR5-6400"),
    (r"threadripper pro 7\d\d5wx", "Threadripper Pro 7000WX 8ch DDR5-5200"),
    (r"threadripper 9\d\d0x", "Threadripper 9000 4ch DDR5-6400"),
    (r"threadripper 7\d\d0x", "Threadripper 7000 4ch DDR5-5200"),
    (r"threadripper 3\d\d0x", "Threadripper 3000 4ch DDR4-3200"),
    (r"xeon 6\d\d\dp|xeon 69", "Xeon 6 Granite Rapids-AP 12ch DDR5-6400"),
    (r"xeon 6[57]", "Xeon 6 Granite Rapids-SP 8ch DDR5-6400"),
    (r"xeon.* [3-8]5\d\d", "Xeon Emerald Rapids 8ch DDR5-5600"),
    (r"xeon.* [3-9]4\d\d", "Xeon Sapphire Rapids 8ch DDR5-4800"),
    (r"xeon.* [3-8]3\d\d", "Xeon Ice Lake 8ch DDR4-3200"),
    (r"xeon.* [3-8][12]\d\d", "Xeon Scalable 6ch DDR4-2933"),
    (r"ampere altra", "Ampere Altra 8ch DDR4-3200"),
    (r"graviton ?4", "AWS Graviton4 12ch DDR5-5600"),
    (r"graviton ?3", "AWS Graviton3 8ch DDR5-4800"),
    (r"raspberry pi 5|bcm2712", "Raspberry Pi 5 (LPDDR4X-4267, 32-bit)"),
    (r"raspberry pi (?:4|400)\b|bcm2711", "Raspberry Pi 4 (LPDDR4-3200, 32-bit)"),
    (r"nvidia grace", "NVIDIA Grace (LPDDR5X, 480 GB)"),
    (r"snapdragon x elite|\bx1e", "Qualcomm Snapdragon X Elite (X1E) LPDDR5X-8448"),
    (r"snapdragon x plus|\bx1p", "Qualcomm Snapdragon X Plus (X1P) LPDDR5X-8448"),
    (r"core ultra \d+ 2\d\dv", "Intel Core Ultra 200V (Arc 140V) LPDDR5X-8533"),
    (r"core ultra \d+ 2\d\dk?f?$", "CPU dual-channel DDR5-6400"),
    (r"core ultra", "CPU dual-channel DDR5-5600"),
    (r"i[3579]-1[234]\d\d\d", "CPU dual-channel DDR5-4800"),
    (r"i[3579]-(?:[6789]|1[01])\d\d\d", "CPU dual-channel DDR4-2666"),
    (r"ryzen .*\b7[23]30u", "CPU dual-channel DDR4-3200"),
    (r"ryzen .*\b(?:9\d{3}|8\d{3}|7\d{3})\w*", "CPU dual-channel DDR5-5600"),
    (r"ryzen ai", "CPU dual-channel DDR5-5600"),
    (r"ryzen .*\b[3456]\d{3}\w*", "CPU dual-channel DDR4-3200"),
)
"""Processor -> the memory its makers specify at most, all channels filled. The first that matches counts."""


def memory_of(processor: str) -> DeviceRow | None:
    """Return the memory a processor is made for; None where its name says too little. Laptops may have less."""
    lower_name = re.sub(r"\((?:r|tm)\)|®|™", "", processor.lower())
    name = next((name for pattern, name in _PROCESSORS if re.search(pattern, lower_name)), None)
    return next((device for device in device_table() if device.name == name), None)


def bandwidth_fact(device: DeviceRow) -> Fact[float]:
    """Return the memory bandwidth as a fact of the table."""
    return Fact(value=device.bandwidth_gb_s, unit="GB/s", source=_row_source(device), confidence=Confidence.TABLE)


def fill_from_table(gpu: Gpu, *, device: DeviceRow | None = None) -> Gpu:
    """Return the GPU with what the table knows filled in where the drivers said nothing; `device` if it is known."""
    total = gpu.memory_total.value
    memory_gb = total / (1 << 30) if total else None
    device = device or find_device(gpu.name.value or "", memory_gb=memory_gb, cores=gpu.cores.value)
    if device is None:
        return gpu
    return msgspec.structs.replace(
        gpu,
        architecture=_fill_fact(gpu.architecture, device.architecture or None, device),
        bandwidth_gb_s=_fill_fact(gpu.bandwidth_gb_s, device.bandwidth_gb_s, device),
        fp16_tflops=_fill_fact(gpu.fp16_tflops, device.fp16_tflops, device),
        compute=_fill_fact(gpu.compute, device.compute or None, device),
        nvlink=_fill_fact(gpu.nvlink, device.nvlink if gpu.vendor == "nvidia" else None, device),
        cores=_fill_fact(gpu.cores, device.cores, device),
    )


def _fill_fact(fact: Fact, known_value: object, device: DeviceRow) -> Fact:  # type: ignore[type-arg]
    if fact.value is not None or known_value is None:
        return fact
    return Fact(value=known_value, unit=fact.unit, source=_row_source(device), confidence=Confidence.TABLE)


def _row_source(device: DeviceRow) -> str:
    return f"device table: {device.name}"


def _pick_variant(rows: list[DeviceRow], memory_gb: float | None, cores: int | None) -> DeviceRow | None:
    """Return the variant with that memory and those cores; without any of them the slowest, so as not to promise."""
    if cores is not None and any(device.cores for device in rows):
        rows = [device for device in rows if device.cores == cores] or rows
    if memory_gb is not None and len(rows) > 1:
        near = [device for device in rows if device.memory_gb and _is_near(device.memory_gb, memory_gb)]
        unified_devices = [device for device in rows if device.is_unified]
        least_gb = memory_gb / (1 + _MEMORY_SLACK)
        roomy = [device for device in unified_devices if not device.memory_gb or device.memory_gb >= least_gb]
        rows = near or roomy or unified_devices  # a chip is sold with its largest memory at most
    return min(rows, key=lambda device: (device.bandwidth_gb_s, device.fp16_tflops or 0), default=None)


def _is_near(sold_gb: float, reported_gb: float) -> bool:
    return abs(sold_gb - reported_gb) <= _MEMORY_SLACK * sold_gb


def _same_kind(rows: list[DeviceRow], name: str) -> list[DeviceRow]:
    """Keep laptop chips for names that say so, and the others for those that do not."""
    says_laptop = "laptop" in name or "mobile" in name or "max-q" in name
    same = [device for device in rows if (device.kind == "laptop-gpu") == says_laptop]
    return same or rows


@cache
def _word_index() -> tuple[tuple[DeviceRow, frozenset[str]], ...]:
    return tuple((device, words) for device in device_table() for words in _name_words(device))


def _name_words(device: DeviceRow) -> Iterator[frozenset[str]]:
    """Yield the name, and for a processor with graphics also each part: "Radeon 890M" alone, the processor alone."""
    yield _significant_words(device.name)
    inside = re.search(r"\(([^)]*)\)", device.name)
    if inside and device.vendor != "apple":
        before, after = device.name[: inside.start()], device.name[inside.end() :]
        yield _significant_words(before)
        if not re.search(r"LPDDR|DDR|bit|per GPU", inside[1]):
            yield _significant_words(inside[1])
            yield _significant_words(inside[1] + after)


def _significant_words(name: str) -> frozenset[str]:
    """Return the telling words of a name, memory sizes and core counts taken out."""
    lower_name = _CORES.sub(" ", _MEMORY.sub(" ", name.lower().replace("(tm)", " ").replace("(r)", " ")))
    lower_name = re.sub(r"\bmax-q\b", " maxq ", lower_name)
    lower_name = re.sub(r"\bmacbook (?:pro|air)\b", " ", lower_name)  # the computer; its chip may be a Pro too
    lower_name = re.sub(r"\b(rtx|gtx|rx)(\d)", r"\1 \2", lower_name)
    lower_name = re.sub(r"(\d{4})(ti|super|xtx|xt|gre|d)\b", r"\1 \2", lower_name)
    lower_name = re.sub(
        r"\b(?:agx )?thor\b(?: t5000)?", "agx thor t5000", lower_name
    )  # the kit is sold without the number
    lower_name = re.sub(r"\bsxm\d\b", "sxm", lower_name)
    lower_name = re.sub(r"\bh100\b(?=.*hbm3\b)", "h100 sxm", lower_name)  # NVML names the SXM module by its memory
    lower_name = re.sub(r"\b\d+p\+\d+e\+", " ", lower_name)
    lower_name = re.sub(r"\b(?:lp)?ddr\dx?-?\d*\b|\b\d+ ?(?:gb/s|w)\b", " ", lower_name)
    return frozenset(re.findall(r"[a-z0-9.+]+", lower_name)) - _NOISE - {"laptop", "mobile"}


def _search_number(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    return float(match[1]) if match else None


def _to_int(number: float | None) -> int | None:
    return None if number is None else int(number)


def _parse_row(row: dict[str, str]) -> DeviceRow:
    return DeviceRow(
        name=row["name"],
        vendor=row["vendor"],
        kind=row["kind"],
        architecture=row["architecture"],
        compute=row["compute"],
        memory_gb=float(row["memory_gb"]) if row["memory_gb"] else None,
        bus_bits=int(row["bus_bits"]) if row["bus_bits"] else None,
        rate_gbps=float(row["rate_gbps"]) if row["rate_gbps"] else None,
        bandwidth_gb_s=float(row["bandwidth_gb_s"]),
        fp16_tflops=float(row["fp16_tflops"]) if row["fp16_tflops"] else None,
        cores=int(row["cores"]) if row["cores"] else None,
        nvlink=row["nvlink"] == "yes",
        source=row["source"],
    )
