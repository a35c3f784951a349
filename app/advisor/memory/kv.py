"""What a model keeps of the past: keys and values per token, and recurrent state per conversation. All in bytes.

Closed forms after llama.cpp's `llama_kv_cache`, `llama_kv_cache_iswa` and `llama_memory_recurrent`; the oracle test
compares them with what llama.cpp logs, to the byte.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from app.advisor.memory.setting import RunSetting
from app.core.model_facts import AttentionKind, Layer, ModelFacts

CELL_STEP = 256
"""llama.cpp rounds the tokens of a cache up to this many (`GGML_PAD(n_ctx, 256)`)."""
STATE_BYTES = 4
"""Recurrent state is F32, whatever the KV type."""

BLOCKS: dict[str, tuple[int, int]] = {
    "f32": (1, 4),
    "f16": (1, 2),
    "bf16": (1, 2),
    "fp8": (1, 1),
    "openvino-u8": (64, 76),
    "q8_0": (32, 34),
    "q5_1": (32, 24),
    "q5_0": (32, 22),
    "q4_1": (32, 20),
    "q4_0": (32, 18),
    "iq4_nl": (32, 18),
    "mlx-8bit": (64, 68),
    "mlx-4bit": (64, 36),
    "exl-q8": (32, 34),
    "exl-q6": (32, 26),
    "exl-q4": (32, 18),
}
"""Type -> elements and bytes of one block. ggml's are its `ggml_type_size`; MLX adds an F16 scale and bias to each
group of 64; OpenVINO's (as seen with the Guide) two F32 to each token's values, and to each channel of 32 tokens' keys;
ExLlama's quantised caches hold an F16 scale per 32."""

_WINDOWED = (AttentionKind.SLIDING, AttentionKind.CHUNKED)
_KEEPING = (AttentionKind.FULL, *_WINDOWED)


def type_bytes(kv_type: str, elements: int) -> int:
    """Return the bytes of so many elements, whole blocks. Raises KeyError for a type we do not know."""
    block, size = BLOCKS[kv_type]
    return -(-elements // block) * size


def is_quantised(kv_type: str) -> bool:
    """Whether elements share a block; llama.cpp then needs flash attention for the values."""
    return BLOCKS[kv_type][0] > 1


def is_small(kv_type: str) -> bool:
    """Whether an element takes less than two bytes; servers then use their 8-bit floats."""
    block, size = BLOCKS[kv_type]
    return size < 2 * block


def row_bytes(layer: Layer, setting: RunSetting, *, widest: int = 0) -> int:
    """Return the bytes one token takes in one layer; 0 where nothing is kept.

    Without flash attention llama.cpp stores values turned over and as wide as the widest layer's: `widest` elements.
    """
    values = setting.value_type or setting.kv_type
    if layer.attention in {AttentionKind.NONE, AttentionKind.SHARED}:
        return 0
    if layer.attention is AttentionKind.LATENT:
        return type_bytes(setting.kv_type, layer.latent_dim) + type_bytes(setting.kv_type, layer.indexer_dim)
    keys = type_bytes(setting.kv_type, layer.kv_heads * layer.key_dim)
    return keys + type_bytes(values, max(widest, layer.kv_heads * layer.value_dim))


def pad_tokens(tokens: int) -> int:
    """Round a number of tokens up to whole cache steps."""
    return -(-tokens // CELL_STEP) * CELL_STEP


def cache_streams(setting: RunSetting) -> int:
    """Return how many caches stand side by side: one per conversation unless they share."""
    return 1 if setting.is_kv_unified else setting.slots


def cache_cells(layer: Layer, setting: RunSetting) -> int:
    """Return the tokens one layer keeps per stream, as llama.cpp allocates them."""
    full = pad_tokens(setting.total_context if setting.is_kv_unified else setting.context)
    if layer.attention not in _WINDOWED or setting.is_swa_full:
        return full
    sequences = setting.slots if setting.is_kv_unified else 1
    return min(full, pad_tokens(layer.window * sequences + setting.batch))


def widest_values(facts: ModelFacts) -> int:
    """Return the elements of a token's values in the layer that has most."""
    keeping_layers = [layer for layer in decode_layers(facts) if layer.attention in _KEEPING]
    return max((layer.kv_heads * layer.value_dim for layer in keeping_layers), default=0)


def layer_kv(layer: Layer, setting: RunSetting, *, widest: int = 0) -> int:
    """Return the KV bytes of one layer, all conversations. `widest` as for `row_bytes`."""
    row = row_bytes(layer, setting, widest=widest)
    return row * cache_cells(layer, setting) * cache_streams(setting) if row else 0


def layer_state(layer: Layer, setting: RunSetting) -> int:
    """Return the state bytes of one layer, all conversations and rollback copies."""
    elements = layer.conv_elements + layer.state_elements
    return elements * STATE_BYTES * setting.slots * (1 + setting.rollback_copies)


def decode_layers(facts: ModelFacts) -> list[Layer]:
    """Return the layers plain decoding runs; those of multi-token prediction are not loaded."""
    return [layer for layer in facts.layers if not layer.is_draft]


def kv_arithmetic(facts: ModelFacts, setting: RunSetting) -> str:
    """Show the KV sum: "28 x 8192 x 4 x (128 + 128) x f16 + ..."."""
    cache_layers = [layer for layer in decode_layers(facts) if row_bytes(layer, setting)]
    layer_counts = _count_equal(_describe_layer(layer, setting) for layer in cache_layers)
    times = f" x {cache_streams(setting)} slots" if cache_streams(setting) > 1 else ""
    return " + ".join(f"{count} layers x {shape}{times}" for shape, count in layer_counts)


def state_arithmetic(facts: ModelFacts, setting: RunSetting) -> str:
    """Show the sum of the recurrent state."""
    state_layers = [layer for layer in decode_layers(facts) if layer_state(layer, setting)]
    layer_counts = _count_equal(
        f"({layer.conv_elements} + {layer.state_elements}) x {STATE_BYTES} B" for layer in state_layers
    )
    copies = setting.slots * (1 + setting.rollback_copies)
    times = f" x {copies}" if copies > 1 else ""
    return " + ".join(f"{count} layers x {shape}{times}" for shape, count in layer_counts)


def _describe_layer(layer: Layer, setting: RunSetting) -> str:
    tokens = cache_cells(layer, setting)
    if layer.attention is AttentionKind.LATENT:
        index = f" + {layer.indexer_dim}" if layer.indexer_dim else ""
        return f"{tokens} x ({layer.latent_dim}{index}) {setting.kv_type}"
    values = f" {setting.value_type}" if setting.value_type else ""
    width = (
        f"({layer.key_dim} {setting.kv_type} + {layer.value_dim}{values})"
        if values
        else _describe_width(layer, setting)
    )
    return f"{tokens} x {layer.kv_heads} x {width}"


def _describe_width(layer: Layer, setting: RunSetting) -> str:
    return f"({layer.key_dim} + {layer.value_dim}) {setting.kv_type}"


def _count_equal(shapes: Iterable[str]) -> Iterator[tuple[str, int]]:
    ordered_shapes: Sequence[str] = sorted(shapes)
    for shape, same in groupby(ordered_shapes):
        yield shape, len(list(same))
