"""Engines that load a whole model and grow its cache as needed: MLX, ExLlama, OpenVINO, ONNX Runtime GenAI, MLC.

One row per engine says what it keeps where; none of them can be asked the way llama.cpp can, so only weights and KV are
exact and the rest is called predicted.
"""

from collections.abc import Iterator

import msgspec

from app.advisor.memory import kv
from app.advisor.memory.runtime import MIB, cuda_context
from app.advisor.memory.setting import HOST, Component, Part, Setting
from app.core.advice import EstimateConfidence
from app.core.model_facts import ModelFacts, WeightKind

HALF = 2
"""Activations and logits are F16 or BF16."""
GIB = 1024 * MIB


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """How one engine uses memory."""

    kv_types: dict[str, str] = {}
    """What it makes of a KV type asked for; else it keeps F16."""
    cache_step: int = kv.CELL_STEP
    """Tokens its cache grows by."""
    chunk: int = 2048
    """Tokens of a prompt computed at once."""
    computes_all_logits: bool = False
    """Whether a chunk's logits are all computed."""
    embedding_on_host: bool = False
    process: int = 0
    """System memory of interpreter and libraries. From the size of what the wheels load; not measured with a model."""
    device: int = 0
    """Taken on the GPU besides the driver's context (allocator, kernels)."""


_QUANTISED_MLX = {"q8_0": "mlx-8bit", "q4_0": "mlx-4bit"}
_QUANTISED_EXL = {"q8_0": "exl-q8", "q5_1": "exl-q6", "q4_0": "exl-q4"}
MLX = Library(kv_types=_QUANTISED_MLX, computes_all_logits=True, process=300 * MIB)
EXLLAMA = Library(kv_types=_QUANTISED_EXL, embedding_on_host=True, process=2 * GIB, device=256 * MIB)
OPENVINO = Library(kv_types={"q8_0": "u8"}, chunk=256, process=400 * MIB)
ONNX = Library(chunk=512, process=200 * MIB)

LIBRARIES: dict[str, Library] = {
    "mlx-lm": MLX,
    "mlx-vlm": msgspec.structs.replace(MLX, process=700 * MIB),
    "exllamav2": EXLLAMA,
    "exllamav3": EXLLAMA,
    "openvino": OPENVINO,
    "onnxruntime-genai": ONNX,
    "mlc-llm": Library(process=400 * MIB),
}
"""MLX: `mlx_lm.generate` of 0.28 computes the logits of a prompt's last 2,048 tokens at once (the published peaks hold
them). ExLlama: caches of 8, 6 and 4 bits, the embedding in system memory. OpenVINO: KV of 8 bits if asked for."""


def parts(facts: ModelFacts, setting: Setting) -> list[Part]:
    """Return what such an engine takes, place by place."""
    library = LIBRARIES[setting.engine]
    return [
        *_weight_parts(facts, setting, library),
        *_cache_parts(facts, setting, library),
        *_spread(setting, Component.COMPUTE, _working_set(facts, setting, library), "the working set of a prompt"),
        *_runtime_parts(setting, library),
    ]


def devices(setting: Setting) -> list[int]:
    """Return the places that compute."""
    return list(range(setting.gpus)) if setting.uses_gpu else [HOST]


def _weight_parts(facts: ModelFacts, setting: Setting, library: Library) -> Iterator[Part]:
    loaded = [group for group in facts.weights if group.kind is not WeightKind.DRAFT]
    aside = [group for group in loaded if library.embedding_on_host and group.kind is WeightKind.INPUT_EMBEDDING]
    on_host = sum(group.bytes for group in aside)
    total = sum(group.bytes for group in loaded)
    stays = on_host if facts.tied_embeddings else 0  # a tied matrix is needed on the GPU as well
    yield from _spread(setting, Component.WEIGHTS, total - on_host + stays, f"{sum(g.tensors for g in loaded)} tensors")
    if on_host:
        yield Part(place=HOST, component=Component.WEIGHTS, bytes=on_host, arithmetic="the embedding")


def _cache_parts(facts: ModelFacts, setting: Setting, library: Library) -> Iterator[Part]:
    native = msgspec.structs.replace(setting, kv_type=library.kv_types.get(setting.kv_type, "f16"), value_type="")
    tokens = setting.cache_tokens or cache_tokens(setting, library)
    layers = kv.cached_layers(facts)
    held = sum(kv.row_bytes(layer, native) * _kept(layer.window, setting, tokens) for layer in layers)
    yield from _spread(setting, Component.KV, held, f"{tokens} tokens of {native.kv_type}")
    state = sum(kv.layer_state(layer, setting) for layer in layers)
    yield from _spread(setting, Component.STATE, state, kv.state_arithmetic(facts, setting))


def _kept(window: int, setting: Setting, tokens: int) -> int:
    return min(tokens, (window + setting.batch) * setting.slots) if window else tokens


def cache_tokens(setting: Setting, library: Library) -> int:
    """Return the tokens the cache holds for all conversations, in whole steps."""
    step = library.cache_step
    return -(-setting.context // step) * step * setting.slots


def _working_set(facts: ModelFacts, setting: Setting, library: Library) -> int:
    """Return what a prompt's chunk needs: its logits, or the widest feed-forward part, whichever is more."""
    tokens = min(library.chunk, setting.context)
    widest = max((max(1, layer.experts_used) * layer.feed_forward for layer in facts.layers), default=0)
    activations = (3 * widest + 5 * facts.hidden) * tokens * HALF
    logits = (facts.vocabulary + facts.hidden) * tokens * HALF
    return max(activations, logits) if library.computes_all_logits else activations


def _runtime_parts(setting: Setting, library: Library) -> Iterator[Part]:
    yield _guessed(HOST, library.process, "interpreter and libraries")
    if setting.uses_gpu and setting.backend == "cuda":
        for place in range(setting.gpus):
            known = setting.gpu_memory[place] if place < len(setting.gpu_memory) else None
            yield _guessed(place, cuda_context(known) + library.device, "CUDA's context and the allocator's spare")


def _guessed(place: int, size: int, arithmetic: str) -> Part:
    confidence = EstimateConfidence.TABLE
    return Part(place=place, component=Component.RUNTIME, bytes=size, confidence=confidence, arithmetic=arithmetic)


def _spread(setting: Setting, component: Component, size: int, arithmetic: str) -> Iterator[Part]:
    """Yield a component in even shares over the places that compute."""
    places = devices(setting)
    is_exact = component in {Component.WEIGHTS, Component.KV, Component.STATE}
    confidence = EstimateConfidence.EXACT if is_exact else EstimateConfidence.PREDICTED
    for place in places:
        share = size // len(places)
        yield Part(place=place, component=component, bytes=share, confidence=confidence, arithmetic=arithmetic)
