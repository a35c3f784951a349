"""Tokens per second, decode and prefill, with the interval that holds nine of ten such predictions.

    decode:  t = bytes read / (efficiency x bandwidth) + layers x cost per layer + what the host computes
    prefill: t = 2 x parameters / (share x FLOPS) + attention

A calibration of this machine replaces efficiency and cost per layer. Everything is arithmetic on values: no I/O.

How fast a prompt is read: arithmetic, not memory, sets the pace.

    seconds per token = (2 x parameters + attention) / (share x FLOPS)

The output matrix is computed for the last token only. Weights left in system memory are copied to the GPU once per
batch. A processor's rate follows from its cores and vector extensions.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import exp, hypot, log

import msgspec

from app.advisor.memory.llama_cpp.weights import layer_places
from app.advisor.memory.placement import SYSTEM
from app.advisor.memory.setting import HOST, RunSetting
from app.advisor.memory.weight_sums import REMEMBERED
from app.advisor.speed.families import (
    DEVICES,
    EARLY_BUILD,
    PREFILL,
    PREFILL_EARLY,
    SOFTWARE,
    PrefillTraits,
    SoftwareTraits,
    SpeedDevice,
    devices_in_use,
    has_halved_vectors,
    processor_device,
    software_class,
)
from app.advisor.speed.reads import TokenReads, count_layers, token_reads
from app.core.advice import Calibration, EstimateConfidence, Rate
from app.core.identity import IdentityKey
from app.core.machine import Machine
from app.core.model_facts import AttentionKind, Layer, ModelFacts, WeightGroup, WeightKind
from engines.api.traits import EngineAbility

__all__ = ["decode_rate", "engine_spread", "prefill_rate"]

NVLINK_GAIN = 0.72
PCIE_GAIN = 0.15
"""n GPUs decode n ** gain times as fast: two with NVLink 1.5 to 1.8 times, over PCIe hardly faster
(hardware-fit 4.1, from public multi-GPU reports)."""
HOST_LAYER_S = 100e-6
"""Handing one layer to the processor and back: two PCIe transfers, waking its threads."""
CALIBRATED_SPREAD = 0.14
"""Nine of ten predictions after a calibration are closer; measured by `tests.bench.speed_accuracy`."""
LOOKUP_PAGE_S = 120e-6
"""Reading a row of a table from the drive it is mapped from: the latency of an NVMe drive for a page."""
_MOST_CACHED = 0.5
"""Of the memory that a mapped file may fill before its pages come and go."""
TABLE_SPREAD = 0.5
"""How much wider the interval is for models that look up n-grams. Qwen3.8-Flash-Next wrote 20 to 23 tok/s with
llama.cpp and 38 with Halogen on one chip, 28 to 31 on another."""
_LARGE_TABLE = 10_000_000_000
"""Numbers in a table of n-grams; tables per layer have fewer."""
HOST_SPREAD = 0.9
"""How much wider the interval is when all time is spent on the host: RAM, threads and mapping differ."""


class _TokenTime(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one token, apart; `arithmetic` says how they came about."""

    device_s: float
    layers_s: float
    host_s: float
    arithmetic: str

    @property
    def total_s(self) -> float:
        return self.device_s + self.layers_s + self.host_s


def decode_rate(
    facts: ModelFacts, machine: Machine, setting: RunSetting, *, depth: int = 0, calibration: Calibration | None = None
) -> Rate | None:
    """Return the rate of one conversation with `depth` tokens cached; None when nothing is known of the device."""
    devices = devices_in_use(machine, setting)
    reads = token_reads(facts, setting, depth=depth)
    if not devices or not reads.total_bytes:
        return None
    software = _software_of(setting, devices[0])
    if calibration is not None and calibration.efficiency > 0:
        terms = _terms_from_calibration(reads, calibration, software, processor_device(machine))
        spread, confidence = CALIBRATED_SPREAD, EstimateConfidence.CALIBRATED
    else:
        terms = _predict_terms(reads, devices, setting, software, processor_device(machine))
        spread, confidence = _rate_spread(devices[0], _own_spread(setting, software)), _rate_confidence(devices)
    lookup_s = _lookup_seconds(facts, machine, setting)
    if lookup_s:
        text = f"{terms.arithmetic} + {lookup_s * 1e3:.1f} ms looking up n-grams"
        terms = msgspec.structs.replace(terms, host_s=terms.host_s + lookup_s, arithmetic=text)
    host_share = (terms.host_s - lookup_s) / terms.total_s
    spread = hypot(spread, HOST_SPREAD * host_share, TABLE_SPREAD if lookup_s else 0.0)
    return _build_rate(1 / terms.total_s, spread, confidence, terms.arithmetic)


def _lookup_seconds(facts: ModelFacts, machine: Machine, setting: RunSetting) -> float:
    """Return the seconds that a token waits for rows of a table of n-grams, which every layer looks up.

    The table lies in the system's memory: a graphics card waits for it in each layer, as for layers on the processor.
    Where file and context fill more than half of that memory, pages of it are read from the drive again.
    """
    table_bytes = _large_table_bytes(IdentityKey(facts))
    if not table_bytes:
        return 0.0
    system = next((pool.physical.value for pool in machine.pools if pool.id == SYSTEM or pool.is_unified), None)
    is_own = any(not pool.is_unified and pool.id != SYSTEM for pool in machine.pools) and setting.uses_gpu
    mapped_bytes = table_bytes if is_own else facts.file_bytes
    page_s = LOOKUP_PAGE_S if system is None or mapped_bytes > _MOST_CACHED * system else 0.0
    return len(facts.layers) * ((HOST_LAYER_S if setting.uses_gpu else 0.0) + page_s)


@lru_cache(maxsize=REMEMBERED)
def _large_table_bytes(key: IdentityKey[ModelFacts]) -> int:
    """Return the bytes of a model's tables of n-grams; 0 where it has none."""
    tables = [group for group in key.value.weights if group.kind is WeightKind.LOOKUP_TABLE]
    return sum(group.bytes for group in tables) if sum(group.elements for group in tables) > _LARGE_TABLE else 0


def _predict_terms(
    reads: TokenReads, devices: Sequence[SpeedDevice], setting: RunSetting, software: SoftwareTraits, host: SpeedDevice
) -> _TokenTime:
    read_s = _read_seconds(reads, devices, setting) / software.read_share
    layers_s = reads.plain_layers * software.layer_s + reads.expert_layers * software.expert_layer_s
    return _build_terms(reads, read_s, layers_s, host, _describe_read(reads, devices, software))


def _terms_from_calibration(
    reads: TokenReads, calibration: Calibration, software: SoftwareTraits, host: SpeedDevice
) -> _TokenTime:
    rate = calibration.efficiency * calibration.bandwidth_gb_s * 1e9
    experts = reads.expert_layers * software.expert_layer_s / software.layer_s
    layers_s = (reads.plain_layers + experts) * calibration.layer_seconds
    text = f"{_format_gb(reads)} / ({calibration.efficiency:.2f} x {calibration.bandwidth_gb_s:.0f} GB/s)"
    return _build_terms(reads, (reads.device_bytes + reads.device_cache_bytes) / rate, layers_s, host, text)


def _build_terms(reads: TokenReads, read_s: float, layers_s: float, host: SpeedDevice, read_term: str) -> _TokenTime:
    host_bytes = reads.host_bytes + reads.host_cache_bytes
    efficiency = DEVICES[host.kind].efficiency
    host_s = host_bytes / (efficiency * host.bandwidth) + reads.host_layers * HOST_LAYER_S
    layer_us = layers_s / reads.plain_layers * 1e6 if reads.plain_layers else 0.0
    text = f"{read_term} + {reads.plain_layers:.0f} x {layer_us:.0f} us"
    if host_bytes:
        text += f" + {host_bytes / 1e9:.2f} GB / ({efficiency:.2f} x {host.bandwidth / 1e9:.0f} GB/s) on the processor"
    total_ms = (read_s + layers_s + host_s) * 1e3
    return _TokenTime(device_s=read_s, layers_s=layers_s, host_s=host_s, arithmetic=f"{text} = {total_ms:.1f} ms")


def _read_seconds(reads: TokenReads, devices: Sequence[SpeedDevice], setting: RunSetting) -> float:
    """Return the time reading takes: by turns where each GPU has layers of its own, together where matrices are cut."""
    shares = _device_shares(devices, setting)
    by_turns = sum(share * device_read_seconds(reads, device) for share, device in zip(shares, devices, strict=False))
    if len(devices) == 1 or EngineAbility.SCALES not in setting.engine.abilities:
        return by_turns
    gain = NVLINK_GAIN if all(device.has_nvlink for device in devices) else PCIE_GAIN
    return by_turns / exp(gain * log(len(devices)))


def _device_shares(devices: Sequence[SpeedDevice], setting: RunSetting) -> list[float]:
    weights = list(setting.split[: len(devices)]) or [1.0] * len(devices)
    return [share / (sum(weights) or 1.0) for share in weights]


def device_read_seconds(reads: TokenReads, device: SpeedDevice) -> float:
    """Return the seconds one device would take to read all that lies there, or to unpack it where that takes longer."""
    kind = DEVICES[device.kind]
    read_s = (reads.device_bytes + reads.device_cache_bytes) / (kind.efficiency * device.bandwidth)
    return max(read_s, unpack_seconds(reads, device))


def unpack_seconds(reads: TokenReads, device: SpeedDevice) -> float:
    """Return the least time a device needs to unpack what is read; zero where reading always takes longer."""
    kind = DEVICES[device.kind]
    plain = reads.device_elements - reads.device_k_elements
    operations = kind.operations * plain + kind.k_operations * reads.device_k_elements
    return operations / (device.flops / 2) if device.flops else 0.0


def _describe_read(reads: TokenReads, devices: Sequence[SpeedDevice], software: SoftwareTraits) -> str:
    device = devices[0]
    unpack_s = unpack_seconds(reads, device)
    if len(devices) == 1 and unpack_s and device_read_seconds(reads, device) == unpack_s:
        rate = reads.device_elements / unpack_s
        return f"{reads.device_elements / 1e9:.2f} billion weights unpacked / {rate / 1e9:.1f} billion/s"
    efficiency = DEVICES[device.kind].efficiency * software.read_share
    text = f"{_format_gb(reads)} / ({efficiency:.2f} x {device.bandwidth / 1e9:.0f} GB/s)"
    return f"{text} over {len(devices)} GPUs" if len(devices) > 1 else text


def _format_gb(reads: TokenReads) -> str:
    return f"{(reads.device_bytes + reads.device_cache_bytes) / 1e9:.2f} GB"


def engine_spread(machine: Machine, setting: RunSetting) -> float:
    """Return how far a rate may be off by its engine alone, as a factor minus one.

    The rest of the interval is the device's, and the same for every engine on it. Takes no calibration into account.
    """
    device = next(iter(devices_in_use(machine, setting)), None)
    return _own_spread(setting, SOFTWARE["unknown"] if device is None else _software_of(setting, device))


def _software_of(setting: RunSetting, device: SpeedDevice) -> SoftwareTraits:
    return SOFTWARE[software_class(setting, device.kind, device.architecture)]


def _own_spread(setting: RunSetting, software: SoftwareTraits) -> float:
    """Return the spread of an engine: that of the class it is predicted by, but wider if it has no points there."""
    return software.spread if setting.engine.has_speed_points else max(software.spread, SOFTWARE["unknown"].spread)


def _rate_spread(device: SpeedDevice, engine_own: float) -> float:
    return hypot(DEVICES[device.kind].spread, engine_own) * (2.0 if device.is_assumed else 1.0)


def _rate_confidence(devices: Sequence[SpeedDevice]) -> EstimateConfidence:
    if any(device.is_assumed or device.kind == "unknown" for device in devices):
        return EstimateConfidence.TABLE
    return EstimateConfidence.PREDICTED


def _build_rate(rate: float, spread: float, confidence: EstimateConfidence, arithmetic: str) -> Rate:
    return Rate(
        tokens_per_second=rate,
        low=rate / (1 + spread),
        high=rate * (1 + spread),
        confidence=confidence,
        arithmetic=arithmetic,
    )


CORE_GFLOPS = (
    ("amx_int8", 400.0),
    ("avx512_vnni", 90.0),
    ("avx512f", 70.0),
    ("avx2", 45.0),
    ("i8mm", 60.0),
    ("asimddp", 18.0),
    ("asimd", 5.0),
)
"""Arithmetic of one core on quantised weights by the best extension it has: an i5-6500 and an i9-13900K for AVX2, a
Raspberry Pi 5 and 4 for the last two (rows of speed-public.csv); the others in proportion to their width."""
HALVED_CORE_GFLOPS = 26.0
"""Of a core with AVX that computes 128 bits at a time: the processor of `HALVED_FLOPS`, prompts of 100 tokens."""
PLAIN_CORE_GFLOPS = 2.0
PCIE_BYTES_S = 12e9
"""What copying pageable memory over PCIe 4.0 x16 gives; weights on the host cross it once per batch."""
USUAL_PROMPT = 512
"""Tokens of a prompt where none is told: what scoreboards use."""
_UNIFIED = {"nvidia": "geforce integrated", "amd": "radeon integrated"}
_TENSOR_CORES = frozenset({"geforce", "hbm", "turing"})
_UNCOUNTED = {
    WeightKind.OUTPUT,
    WeightKind.INPUT_EMBEDDING,
    WeightKind.LOOKUP_TABLE,
    WeightKind.PROJECTOR,
    WeightKind.DRAFT,
    WeightKind.NORM,
}
PREFILL_SPREAD = 0.25


def prefill_rate(
    facts: ModelFacts, machine: Machine, setting: RunSetting, *, depth: int = 0, calibration: Calibration | None = None
) -> Rate | None:
    """Return the rate of a prompt of `depth` tokens (0: of usual length); None when nothing is known of the device."""
    devices = devices_in_use(machine, setting)
    depth = depth or USUAL_PROMPT
    operations = prefill_operations(facts, tokens=depth) / depth
    if not devices or not operations:
        return None
    if calibration is not None and calibration.prefill_flops:
        rate, spread, confidence = calibration.prefill_flops, PREFILL_SPREAD, EstimateConfidence.CALIBRATED
    else:
        rate, spread = _arithmetic_rate(facts, machine, setting, devices[0])
        confidence = EstimateConfidence.PREDICTED
    if not rate:
        return None
    copied_s = _host_bytes(facts, setting) / PCIE_BYTES_S / max(1, min(depth, setting.batch))
    seconds = operations / rate + copied_s
    text = f"{operations / 1e9:.1f} GFLOP / {rate / 1e12:.1f} TFLOPS"
    if copied_s:
        text += f" + {copied_s * 1e3:.2f} ms copying weights"
    spread = hypot(spread, copied_s / seconds)
    return Rate(
        tokens_per_second=1 / seconds,
        low=1 / seconds / (1 + spread),
        high=(1 + spread) / seconds,
        confidence=confidence,
        arithmetic=f"{text} = {seconds * 1e3:.2f} ms per token",
    )


def prefill_operations(facts: ModelFacts, *, tokens: int) -> float:
    """Return the floating-point operations of a prompt: two per weight and token, and attention to what came before."""
    return 2 * _prompt_weights(IdentityKey(facts)) * tokens + sum(
        count * _attention_operations(layer, tokens)
        for layer, count in count_layers(facts).items()
        if not layer.is_draft
    )


@lru_cache(maxsize=REMEMBERED)
def _prompt_weights(key: IdentityKey[ModelFacts]) -> float:
    """Return how many weights each token of a prompt is multiplied with, whatever its length."""
    facts = key.value
    return sum(
        (_expert_share(group, facts) if group.kind is WeightKind.EXPERTS else 1.0) * group.elements
        for group in facts.weights
        if group.kind not in _UNCOUNTED
    )


def _expert_share(group: WeightGroup, facts: ModelFacts) -> float:
    """Return the share of experts that a token goes to."""
    layer = facts.layers[group.layer] if group.layer is not None and group.layer < len(facts.layers) else None
    return layer.experts_used / layer.experts if layer and layer.experts else 1.0


def _attention_operations(layer: Layer, tokens: int) -> float:
    """Return what attending costs one layer for the whole prompt: scores and sums over half the tokens on average."""
    if layer.attention is AttentionKind.NONE:
        return 0.0
    seen_tokens = min(layer.window, tokens / 2) if layer.window else tokens / 2
    width = 2 * layer.latent_dim if layer.attention is AttentionKind.LATENT else layer.key_dim + layer.value_dim
    return 2 * layer.heads * width * seen_tokens * tokens


def _arithmetic_rate(
    facts: ModelFacts, machine: Machine, setting: RunSetting, device: SpeedDevice
) -> tuple[float, float]:
    """Return the operations per second that prompts reach, and how far that may be off."""
    if device.vendor == "cpu":
        return _processor_rate(machine), 1.0
    kind = PREFILL.get(prefill_kind(device), PREFILL["unknown"])
    share = kind.share * (PREFILL_EARLY if is_early(setting, device) else 1.0)
    return share * _expert_factor(facts, kind) * device.flops, kind.spread


def prefill_kind(device: SpeedDevice) -> str:
    """Return the class of a device for prompts: chips that share memory differ by maker, as their matrix units do."""
    return _UNIFIED.get(device.vendor, "unknown") if device.kind == "unified" else device.kind


def is_early(setting: RunSetting, device: SpeedDevice) -> bool:
    """Whether the build is of before llama.cpp fed tensor cores with quantised weights as they are."""
    return setting.engine.is_ggml and setting.build < EARLY_BUILD and device.kind in _TENSOR_CORES


def _expert_factor(facts: ModelFacts, kind: PrefillTraits) -> float:
    """Return what is left of the rate: each expert gets few of a batch's tokens, and small matrices keep few busy."""
    return kind.expert_share if any(layer.experts for layer in facts.layers) else 1.0


def _processor_rate(machine: Machine) -> float:
    cores = machine.cpu.usable_cores.value or machine.cpu.physical_cores.value
    flags = machine.cpu.isa.value
    if not cores or flags is None:
        return 0.0
    each = next((gflops for flag, gflops in CORE_GFLOPS if flag in flags), PLAIN_CORE_GFLOPS)
    if has_halved_vectors(machine.cpu):
        each = HALVED_CORE_GFLOPS
    return float(cores) * each * 1e9


def _host_bytes(facts: ModelFacts, setting: RunSetting) -> float:
    """Return the bytes of weights that lie in system memory though a GPU computes the prompt."""
    if not setting.uses_gpu or (setting.gpu_layers is None and not setting.cpu_moe_layers):
        return 0.0
    places = layer_places(facts, setting)
    return float(
        sum(
            group.bytes
            for group in facts.weights
            if group.layer is not None
            and (
                places[group.layer] == HOST
                or (group.kind is WeightKind.EXPERTS and group.layer < setting.cpu_moe_layers)
            )
        )
    )
