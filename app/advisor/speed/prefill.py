"""How fast a prompt is read: arithmetic, not memory, sets the pace.

    seconds per token = (2 x parameters + attention) / (share x FLOPS)

The output matrix is computed for the last token only. Weights left in system memory are copied to the GPU once per
batch. A processor's rate follows from its cores and vector extensions.
"""

from math import hypot

from app.advisor.memory.llama_cpp.layer_split import layer_places
from app.advisor.memory.setting import HOST, RunSetting
from app.advisor.speed.device import SpeedDevice, devices_in_use
from app.advisor.speed.families import EARLY_BUILD, PREFILL, PREFILL_EARLY, PrefillTraits
from app.core.advice import Calibration, EstimateConfidence, Rate
from app.core.machine import Machine
from app.core.model_facts import AttentionKind, Layer, ModelFacts, WeightGroup, WeightKind

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
PLAIN_CORE_GFLOPS = 2.0
PCIE_BYTES_S = 12e9
"""What copying pageable memory over PCIe 4.0 x16 gives; weights on the host cross it once per batch."""
USUAL_PROMPT = 512
"""Tokens of a prompt where none is told: what scoreboards use."""
_UNIFIED = {"nvidia": "geforce integrated", "amd": "radeon integrated"}
_TENSOR_CORES = frozenset({"geforce", "hbm", "turing"})
_UNCOUNTED = {WeightKind.OUTPUT, WeightKind.INPUT_EMBEDDING, WeightKind.PROJECTOR, WeightKind.DRAFT, WeightKind.NORM}
CALIBRATED_SPREAD = 0.25


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
        rate, spread, confidence = calibration.prefill_flops, CALIBRATED_SPREAD, EstimateConfidence.CALIBRATED
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
    weights = sum(
        (_expert_share(group, facts) if group.kind is WeightKind.EXPERTS else 1.0) * group.elements
        for group in facts.weights
        if group.kind not in _UNCOUNTED
    )
    return 2 * weights * tokens + sum(
        _attention_operations(layer, tokens) for layer in facts.layers if not layer.is_draft
    )


def _expert_share(group: WeightGroup, facts: ModelFacts) -> float:
    """Return the share of experts that a token goes to."""
    layer = facts.layers[group.layer] if group.layer is not None and group.layer < len(facts.layers) else None
    return layer.experts_used / layer.experts if layer and layer.experts else 1.0


def _attention_operations(layer: Layer, tokens: int) -> float:
    """Return what attending costs one layer for the whole prompt: scores and sums over half the tokens on average."""
    if layer.attention is AttentionKind.NONE:
        return 0.0
    seen = min(layer.window, tokens / 2) if layer.window else tokens / 2
    width = 2 * layer.latent_dim if layer.attention is AttentionKind.LATENT else layer.key_dim + layer.value_dim
    return 2 * layer.heads * width * seen * tokens


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
    return float(cores) * each * 1e9


def _host_bytes(facts: ModelFacts, setting: RunSetting) -> float:
    """Return the bytes of weights that lie in system memory though a GPU computes the prompt."""
    if not setting.uses_gpu:
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
