"""What an engine's process takes besides the model: interpreter, libraries, vocabulary, driver context.

These are measured or reported figures, not formulas, so they are never called exact. Each says where it is from; after
a load the truth replaces them.
"""

from collections.abc import Iterator

from app.advisor.memory.setting import HOST, MemoryComponent, MemoryPart, RunSetting
from app.core.advice import EstimateConfidence
from app.core.model_facts import ModelFacts, WeightKind

MIB = 1024 * 1024
_GB = 1_000_000_000

WORKER = 34 * MIB
"""Resident size of our llama.cpp worker with a model of no size, less its buffers. Measured with xllamacpp
2026.10.11549 on Linux x86-64."""
TOKEN = 430
"""Bytes per entry of the vocabulary, with one merge each: 61 MiB more for 150,000 entries, measured likewise."""

CUDA_SMALL, CUDA_LARGE = (8 * _GB, 154 * MIB), (24 * _GB, 453 * MIB)
"""CUDA context and cuBLAS as reported for a laptop GPU of 8 GB and for an RTX 4090: it grows with the multiprocessors,
for which memory stands here."""
HIP = 100 * MIB
HIP_WORKSPACE = 190 * MIB
"""Reported for Strix Halo: about 100 MiB idle; long prompts add hipBLAS's workspace and an F16 copy of a matrix."""
VULKAN = 100 * MIB
VULKAN_PREFILL = 80 * MIB
"""Reported: 100 to 220 MiB, the upper end after long prompts."""
METAL = 50 * MIB
SYCL = 300 * MIB
"""Assumed: no report found. Metal's is called small."""


def runtime_parts(facts: ModelFacts, setting: RunSetting) -> Iterator[MemoryPart]:
    """Yield what llama.cpp's process takes in system memory and on each GPU it uses."""
    process = WORKER + TOKEN * facts.vocabulary
    shift = setting.runtime_shift
    shift_note = "" if shift is None else f" {shift / MIB:+.0f} MiB as earlier loads here showed"
    yield MemoryPart(
        place=HOST,
        component=MemoryComponent.RUNTIME,
        bytes=max(0, process + (shift or 0)),
        confidence=EstimateConfidence.PREDICTED if shift is None else EstimateConfidence.MEASURED,
        arithmetic=f"{WORKER // MIB} MiB process + {TOKEN} B x {facts.vocabulary} tokens of vocabulary{shift_note}",
    )
    if setting.uses_gpu:
        for place in range(setting.gpus):
            yield MemoryPart(
                place=place,
                component=MemoryComponent.RUNTIME,
                bytes=gpu_runtime(facts, setting, place=place),
                confidence=EstimateConfidence.TABLE,
                arithmetic=f"what {setting.backend} takes per GPU",
            )


def gpu_runtime(facts: ModelFacts, setting: RunSetting, *, place: int) -> int:
    """Return the bytes a backend takes on one GPU for itself."""
    if setting.backend == "cuda":
        return cuda_context(setting.gpu_memory[place] if place < len(setting.gpu_memory) else None)
    if setting.backend == "rocm":
        return HIP + ((HIP_WORKSPACE + largest_matrix(facts) * 2) if setting.prefills else 0)
    if setting.backend == "vulkan":
        return VULKAN + (VULKAN_PREFILL if setting.prefills else 0)
    return SYCL if setting.backend == "sycl" else METAL


def cuda_context(gpu_memory: int | None) -> int:
    """Return CUDA's own share on a GPU of so many bytes: between two reported cards in proportion, no more beyond."""
    (small, low), (large, high) = CUDA_SMALL, CUDA_LARGE
    if gpu_memory is None:
        return high
    return int(low + share_between(gpu_memory, small, large) * (high - low))


def share_between(value: float, low: float, high: float) -> float:
    """Return how far a value lies from one bound to the other: 0 up to `low`, 1 from `high` on."""
    return min(1.0, max(0.0, (value - low) / (high - low)))


def largest_matrix(facts: ModelFacts) -> int:
    """Return the elements of the largest matrix a prompt is multiplied with, experts one by one."""
    inside = [group for group in facts.weights if group.layer is not None and group.tensors]
    sizes = [group.elements // group.tensors // _piece_count(group.kind, facts, group.layer) for group in inside]
    return max(sizes, default=0)


def _piece_count(kind: WeightKind, facts: ModelFacts, layer: int | None) -> int:
    if kind is not WeightKind.EXPERTS or layer is None:
        return 1
    return max(1, facts.layers[layer].experts)
