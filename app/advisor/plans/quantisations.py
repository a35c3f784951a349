"""Which of a model's files an engine may be given on this hardware, and which of them is the better one.

Formats never cross engines. Five bits count as good as sixteen: what published measurements of perplexity say is lost
is half of one per cent, and what further bits cost is a tenth to a third of the speed each, and the memory of a longer
context. Four bits are the usual balance; below them answers suffer.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from app.advisor.choosing import hardware
from app.advisor.choosing.engine_table import EngineTraits
from app.advisor.choosing.formats import FORMAT_NAMES, inner_format, kernel_lack
from app.advisor.choosing.support import explain_unknown
from app.advisor.choosing.targets import capability_of
from app.core.machine import Gpu, Machine
from app.core.model_facts import ModelFacts, WeightKind
from engines.api.traits import ADA, BLACKWELL, MachineKind

FULL = 5.0
"""Bits from which on more are not better: the perplexity rises by less than 1 %.

llama.cpp's table of Llama 2 70B has +0.16 % for Q6_K, +0.40 % for Q5_K_M, +1.20 % for Q4_K_M, +4.72 % for Q3_K_M and
+8.82 % for Q2_K; one of QwQ 32B in EXL2 +0.47 % at 6.0 bits, +0.53 % at 5.0, +1.59 % at 4.5 and +2.79 % at 4.0; one of
a model of 2 billion parameters +0.1 % for Q6_K, +0.6 % for Q5_K_M and +3.2 % for Q4_K_M.
"""
USUAL = 4.0
"""Bits below which a plan says so: Q4-class, the guide's "usual best balance"."""
BEARABLE = 3.0
"""Bits below which a model comes last of all: Llama 3 8B loses 8 % (Q3_K_M) to 11 % (IQ3_M) at three bits, 39 % at two.

llama.cpp's table of Llama 3 8B (tools/perplexity/README.md, with an importance matrix) has +0.91 % for Q5_K_M, +2.4 %
for Q4_K_M, +3.7 % for IQ4_XS, +8.1 % for Q3_K_M, +10.7 % for IQ3_M, +19.7 % for IQ3_XXS and +39 % for Q2_K.
"""
_BEARABLE_IN = {"exl3": 2.2}
"""Trellises lose less: a model of 27 billion parameters is used at 2.2 bits on a card of 12 GB (0xSero's registry,
rtx-3060-12gb, September 2026)."""
_I_QUANT = 0.5
"""What an I-quant stands below its name: less than one bit, which IQ3 would lose to Q2_K."""
BALANCED = "Q4_K_M"

_NAMED: tuple[tuple[str, float | None], ...] = (
    (r"(\d+(?:\.\d+)?)\s*bpw", None),
    (r"(?<![A-Z])I?Q(\d)", None),
    (r"(?<![A-Z])TQ(\d)", None),
    (r"[NM]V?X?FP4|Q4F16|W4A16|AWQ|GPTQ", 4.0),
    (r"FP8|W8A", 8.0),
    (r"(?:INT|FP)(\d+)", None),
    (r"(\d+)-?BIT", None),
    (r"[BF]+P?(16|32)", None),
)
"""Names that state their bits, in the order they are looked for."""

_KEPT: tuple[tuple[str, float], ...] = (
    (r"EXL3 2(?:\.0\d?)?bpw", 0.90),
    (r"EXL3 2\.[1-4]\d*bpw", 0.95),
    (r"EXL3 2\.[5-9]\d*bpw", 0.96),
    (r"EXL3 3\.\d+bpw|EXL3 3bpw", 0.97),
    (r"GGUF I?Q1", 0.50),
    (r"GGUF UD-I?Q2_XXS|GGUF IQ2_X?XS", 0.735),
    (r"GGUF UD-IQ2_M", 0.892),
    (r"GGUF UD-Q2_K_XL", 0.94),
    (r"GGUF (?:UD-)?I?Q2", 0.85),
    (r"GGUF (?:UD-)?IQ3_XXS", 0.96),
    (r"GGUF (?:UD-)?I?Q3", 0.98),
    (r"MLX 2BIT|EXL2 2", 0.70),
    (r"MLX 3BIT|EXL2 3", 0.93),
)
"""Format and quantisation -> the share of a model's quality that it keeps; from four bits on nearly all.

Shares of a score above that of guessing. GGUF: MMLU of Gemma 3 27B in Unsloth's dynamic quantisations (documentation
of Dynamic 2.0: 48.1 for IQ1_M, 59.2 IQ2_XXS, 66.5 IQ2_M, 68.7 Q2_K_XL, 70.9 Q3_K_XL, 71.5 Q4_K_XL, 71.5 in BF16). EXL3:
MMLU of ERNIE 4.5 300B in turboderp's (83.4 at 2.1 bits, 84.0 at 2.5, 84.6 at 3, 86.5 at 4 and as trained); at 2.0 by
its divergence, which doubles. Plain rounding, MLX's, and EXL2 lose more: judged by the perplexity of those rates.
"""
_KEPT_FROM_FOUR_BITS = 0.99
_NAMES_KEPT = 1024
"""Names of quantisations whose bits are looked up once: a plan asks for the same few again and again."""

_WITHOUT_MODEL = {
    "gguf": BALANCED,
    "mlx": "4bit",
    "exl2": "4.0bpw",
    "exl3": "4.0bpw",
    "awq": "4bit",
    "fp8": "FP8",
    "nvfp4": "NVFP4",
    "openvino": "int4",
    "onnx-genai": "int4",
    "mlc": "q4f16_1",
    "safetensors": "BF16",
}
"""What to look for where no model was named: the usual balance of each format."""
_SERVERS = (MachineKind.BLACKWELL_SERVER, MachineKind.NVIDIA_SERVER, MachineKind.INSTINCT)


def nominal_bits(facts: ModelFacts) -> float:
    """Return the bits per weight a quantisation is known by; where its name says none, those its weights have."""
    return nominal_rate(facts.quantization, 0.0) or _bits_of_weights(facts)


@lru_cache(maxsize=_NAMES_KEPT)
def nominal_rate(quantization: str, unknown: float) -> float:
    """Return the bits that the name of a quantisation states; `unknown` where it states none."""
    for pattern, bits in _NAMED:
        match = re.search(pattern, quantization, re.IGNORECASE)
        if match:
            return bits if bits is not None else float(match[1])
    return unknown


@lru_cache(maxsize=_NAMES_KEPT)
def quality_kept(format_name: str, quantization: str) -> float:
    """Return the share of a model's quality that is left in a quantisation, up to 1."""
    if nominal_rate(quantization, 16.0) >= FULL:
        return 1.0
    name = f"{format_name.upper()} {quantization}"
    matches = (share for pattern, share in _KEPT if re.match(pattern, name, re.IGNORECASE))
    return next(matches, _KEPT_FROM_FOUR_BITS)


def comparable_bits(facts: ModelFacts) -> float:
    """Return the bits per weight to compare losses by; I-quants lose more than K-quants of the same name.

    Of what is called four bits Q4_K_M loses 3.2 % of a model of 2 billion parameters, 2.4 % of 8 and 1.2 % of 70, and
    EXL3, of 230 billion, 0.8 %: the larger the model the less, and no difference between the two can be told. IQ4_XS
    loses 3.7 % of that of 8 billion, half as much again.
    """
    bits = nominal_bits(facts)
    return bits - _I_QUANT if re.search(r"(?<![A-Z])IQ\d", facts.quantization, re.IGNORECASE) else bits


def loadable_files(candidates: Iterable[ModelFacts], engine: EngineTraits, gpus: Sequence[Gpu]) -> list[ModelFacts]:
    """Return what the engine loads on these GPUs, the best quality first."""
    mine = [facts for facts in candidates if facts.format in engine.formats and not why_not(facts, engine, gpus)]
    return sorted(mine, key=lambda facts: _quality_order(facts, engine))


def why_not(facts: ModelFacts, engine: EngineTraits, gpus: Sequence[Gpu]) -> str:
    """Say why the engine cannot load a file of its own format: architecture or GPUs; empty when it can."""
    if engine.architectures and facts.architecture not in engine.architectures:
        return f"it does not know the architecture {facts.architecture}"
    unknown = explain_unknown(facts, engine.support)
    if unknown and engine.support is not None:
        return f"its version {engine.support.version} {unknown}"
    if facts.quantization.startswith("bnb"):
        return "bitsandbytes is no longer a part of the engines that could load it"
    scheme = inner_format(facts.format, facts.quantization)
    return next(filter(None, (_kernel_problem(scheme, gpu) for gpu in gpus)), "")


def _kernel_problem(scheme: str, gpu: Gpu) -> str:
    if gpu.vendor == "nvidia":
        return kernel_lack(scheme, compute=hardware.compute_capability(gpu))
    return kernel_lack(scheme, compute=(0, 0), gfx=hardware.gfx_target(gpu)) if gpu.vendor == "amd" else ""


def usual_files(candidates: Sequence[ModelFacts]) -> list[ModelFacts]:
    """Return those of four bits and more, in the order given."""
    return [facts for facts in candidates if nominal_bits(facts) >= USUAL]


def below_usual(candidates: Sequence[ModelFacts]) -> list[ModelFacts]:
    """Return those of less than four bits, in the order given."""
    return [facts for facts in candidates if nominal_bits(facts) < USUAL]


def bearable_files(candidates: Sequence[ModelFacts]) -> list[ModelFacts]:
    """Return those of three bits and more, in the order given."""
    return [facts for facts in candidates if nominal_bits(facts) >= _BEARABLE_IN.get(facts.format, BEARABLE)]


def pick_balanced(candidates: Sequence[ModelFacts]) -> ModelFacts:
    """Return the usual balance: Q4_K_M where there is one, else the smallest of four bits or more, else the largest."""
    good = usual_files(candidates)
    balanced_file = next((facts for facts in good if facts.quantization == BALANCED), None)
    return balanced_file or min(good or candidates, key=lambda facts: facts.file_bytes if good else -facts.file_bytes)


def choose_format(engine: EngineTraits, machine: Machine, gpus: Sequence[Gpu]) -> tuple[str, str]:
    """Return format and quantisation to look for where no model was named: what this hardware has kernels for."""
    format_name = _choose_format_name(engine, machine, gpus)
    return format_name, _WITHOUT_MODEL.get(format_name, "")


def _choose_format_name(engine: EngineTraits, machine: Machine, gpus: Sequence[Gpu]) -> str:
    known_formats = [name for name in engine.formats if name in _WITHOUT_MODEL]
    if "awq" not in known_formats and "fp8" not in known_formats:
        return next(iter(engine.formats), "")
    is_server, least = hardware.machine_kind(machine) in _SERVERS, capability_of(list(gpus))
    preference = ["awq"]
    if least >= BLACKWELL and "nvfp4" in known_formats:
        preference = ["nvfp4"]
    elif is_server and (least >= ADA or _has_fp8(gpus)):
        preference = ["fp8"]
    return next((name for name in preference if name in known_formats), known_formats[-1])


def _has_fp8(gpus: Sequence[Gpu]) -> bool:
    amd = [gpu for gpu in gpus if gpu.vendor == "amd"]
    return bool(amd) and not any(_kernel_problem("fp8", gpu) for gpu in amd)


def format_title(format_name: str) -> str:
    """Return what people call a format."""
    return FORMAT_NAMES.get(format_name, format_name)


def _quality_order(facts: ModelFacts, engine: EngineTraits) -> tuple[float, int, int]:
    bits = nominal_bits(facts)
    size = facts.file_bytes if bits >= FULL else -facts.file_bytes
    return -min(bits, FULL), engine.formats.index(facts.format), size


def _bits_of_weights(facts: ModelFacts) -> float:
    groups = [group for group in facts.weights if group.kind is not WeightKind.PROJECTOR]
    elements = sum(group.elements for group in groups)
    return 8 * sum(group.bytes for group in groups) / elements if elements else 0.0
