"""What one token makes the machine read, and how many kernels it takes: the input of every estimate of speed.

Decoding reads each weight it needs once: all of attention, shared parts and the output matrix, of the experts those
chosen, of the input embedding one row. Then the cache at the present depth, and recurrent state, which is also written.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from app.advisor.memory.llama_cpp.weights import layer_places
from app.advisor.memory.setting import HOST, RunSetting
from app.advisor.memory.weight_sums import REMEMBERED
from app.core.identity import IdentityKey
from app.core.model_facts import AttentionKind, Layer, ModelFacts, WeightGroup, WeightKind

KV_BYTES = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
}
"""Bytes per cached number (ggml's block sizes)."""
K_TYPES = frozenset({"Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"})
"""Types whose scales are packed themselves: the costliest to unpack of those in wide use."""
STATE_BYTES = 2 * 4
"""Recurrent state is F32, read and written for every token."""

KERNELS_ATTENTION = 7
"""Rotating queries and keys, storing keys and values, the attention itself, reshaping, the residual sum."""
KERNELS_FEED_FORWARD = 2
"""The gate's activation and the residual sum; the matrices and norms are counted by their tensors."""
KERNELS_EXPERTS = 8
"""Softmax, choosing, gathering and normalising weights, scaling and summing what the experts gave."""
KERNELS_SHARED = 5
"""Gate, up, down, activation and sum of experts that every token takes."""
KERNELS_CONVOLUTION = 5
"""A short convolution: two gates, its tail joined and kept, the convolution."""
KERNELS_RECURRENT = 12
"""A recurrence besides: splitting, norms of queries and keys, decay and step, the update, the state kept, the gate."""
KERNELS_PLAIN_LAYER = 18
"""A Llama layer by the same count: 7 matrices, 2 norms and 9 besides. What "one layer" means in a calibration."""

_PARTLY_READ = frozenset(
    {
        WeightKind.EXPERTS,
        WeightKind.INPUT_EMBEDDING,
        WeightKind.LOOKUP_TABLE,
        WeightKind.PROJECTOR,
        WeightKind.DRAFT,
    }
)
"""Of experts those chosen; the others not at all for plain text, but for a tied embedding: it is the output matrix."""


class TokenReads(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes per token by where they lie, with the numbers and kernels that go with them.

    `plain_layers` counts kernels in units of a Llama layer; `expert_layers` are those that choose among experts.
    """

    device_bytes: float
    host_bytes: float
    device_cache_bytes: float
    host_cache_bytes: float
    device_elements: float
    """Numbers in the weights read, and of those the ones in K-quants."""
    device_k_elements: float
    plain_layers: float
    expert_layers: int
    host_layers: int
    """Layers with any part on the host: the GPU waits for the processor once in each."""

    @property
    def total_bytes(self) -> float:
        """All that is read for one token."""
        return self.device_bytes + self.host_bytes + self.device_cache_bytes + self.host_cache_bytes


def token_reads(facts: ModelFacts, setting: RunSetting, *, depth: int) -> TokenReads:
    """Return what decoding one token at `depth` cached tokens reads, by place. A processor alone is its own device."""
    on_host = _on_host(facts, setting)
    experts_away = setting.cpu_moe_layers if setting.uses_gpu else 0
    whole = _whole_reads(IdentityKey(facts))
    reads = whole if not experts_away and not any(on_host) else _part_reads(facts, whole, on_host, experts_away)
    cache_by_layer = {
        layer: cache_bytes(layer, facts.layers, depth=depth, kv_type=setting.kv_type) for layer in count_layers(facts)
    }
    cache = sum(count * cache_by_layer[layer] for layer, count in count_layers(facts).items())
    host_cache = sum(
        cache_by_layer[layer] for layer, is_on_host in zip(facts.layers, on_host, strict=False) if is_on_host
    )
    return msgspec.structs.replace(reads, device_cache_bytes=cache - host_cache, host_cache_bytes=host_cache)


def count_layers(facts: ModelFacts) -> Counter[Layer]:
    """Return how many layers there are of each shape: a model of eighty has two or three. Not to be changed."""
    return _count_layers(IdentityKey(facts))


@lru_cache(maxsize=REMEMBERED)
def _count_layers(key: IdentityKey[ModelFacts]) -> Counter[Layer]:
    return Counter(key.value.layers)


@lru_cache(maxsize=REMEMBERED)
def _whole_reads(key: IdentityKey[ModelFacts]) -> TokenReads:
    """Return what is read of the weights where nothing lies on the host: the same whatever the context."""
    facts = key.value
    shares = [(group, _share_read(group, facts) if group.kind in _PARTLY_READ else 1.0) for group in facts.weights]
    return TokenReads(
        device_bytes=sum(share * group.bytes for group, share in shares),
        host_bytes=0.0,
        device_cache_bytes=0.0,
        host_cache_bytes=0.0,
        device_elements=sum(share * group.elements for group, share in shares),
        device_k_elements=sum(share * group.elements for group, share in shares if group.type in K_TYPES),
        plain_layers=kernel_count(facts) / KERNELS_PLAIN_LAYER,
        expert_layers=sum(layer.experts > 0 for layer in _plain_layers(facts)),
        host_layers=0,
    )


def _part_reads(facts: ModelFacts, whole: TokenReads, on_host: Sequence[bool], experts_away: int) -> TokenReads:
    """Return the same where a part of the weights lies on the host."""
    host = elements = k_elements = 0.0
    waits: set[int] = set()
    for group in facts.weights:
        share = _share_read(group, facts) if group.kind in _PARTLY_READ else 1.0
        if share and _is_on_host(group, on_host, experts_away):
            host += share * group.bytes
            elements += share * group.elements
            k_elements += share * group.elements * (group.type in K_TYPES)
            waits.add(group.layer if group.layer is not None else len(facts.layers))
    return msgspec.structs.replace(
        whole,
        device_bytes=whole.device_bytes - host,
        host_bytes=host,
        device_elements=whole.device_elements - elements,
        device_k_elements=whole.device_k_elements - k_elements,
        host_layers=len(waits),
    )


def cache_bytes(layer: Layer, layers: Iterable[Layer], *, depth: int, kv_type: str) -> float:
    """Return the bytes of keys, values and state one layer reads for one token at that depth."""
    if layer.is_draft:
        return 0.0
    state = STATE_BYTES * (layer.conv_elements + layer.state_elements)
    if layer.attention is AttentionKind.NONE:
        return float(state)
    window = layer.window
    if layer.attention is AttentionKind.SHARED:  # it reads another layer's; the most of them slide where any does
        window = min((other.window for other in layers if other.window), default=0)
    tokens = min(depth, window) if window else depth
    width = layer.latent_dim + layer.indexer_dim
    if layer.attention is not AttentionKind.LATENT:
        width = layer.kv_heads * (layer.key_dim + layer.value_dim)
    return state + tokens * width * KV_BYTES.get(kv_type, KV_BYTES["f16"])


def kernel_count(facts: ModelFacts) -> float:
    """Return how many kernels one token takes: the usual matrices of each layer, its norms, and what it needs besides.

    Tensors are not counted: one file fuses matrices that another splits, biases are added where they fall due, and
    formats but GGUF keep scales apart.
    """
    norms = sum(group.tensors for group in facts.weights if group.kind is WeightKind.NORM and group.layer is not None)
    shared_count = sum(group.kind is WeightKind.SHARED_EXPERTS for group in facts.weights)
    layers = sum(_matrix_count(layer) + _kernels_besides(layer) for layer in _plain_layers(facts))
    return (
        norms
        + layers
        + (KERNELS_SHARED if shared_count else 0) * sum(layer.experts > 0 for layer in _plain_layers(facts))
    )


def _matrix_count(layer: Layer) -> int:
    """Return how many matrices such a layer usually has: q, k, v, o; gate, up, down, router; those of a recurrence."""
    count = 4 if layer.attention is not AttentionKind.NONE else 0
    count += (4 if layer.experts else 3) if layer.feed_forward else 0
    if layer.state_elements:
        return count + 7
    return count + (3 if layer.conv_elements else 0)


def _kernels_besides(layer: Layer) -> int:
    count = KERNELS_FEED_FORWARD if layer.feed_forward else 0
    count += KERNELS_EXPERTS if layer.experts else 0
    count += KERNELS_CONVOLUTION if layer.conv_elements else 0
    count += KERNELS_RECURRENT if layer.state_elements else 0
    return count + (KERNELS_ATTENTION if layer.attention is not AttentionKind.NONE else 0)


def _plain_layers(facts: ModelFacts) -> list[Layer]:
    return [layer for layer in facts.layers if not layer.is_draft]


def _on_host(facts: ModelFacts, setting: RunSetting) -> list[bool]:
    """Return for every block, and last for the output, whether the processor computes what a GPU might."""
    if not setting.uses_gpu or setting.gpu_layers is None:
        return [False] * (len(facts.layers) + 1)
    return [place == HOST for place in layer_places(facts, setting)]


def _is_on_host(group: WeightGroup, on_host: Sequence[bool], experts_away: int) -> bool:
    if group.layer is None or group.layer >= len(on_host):
        return on_host[-1]
    return on_host[group.layer] or (group.kind is WeightKind.EXPERTS and group.layer < experts_away)


def _share_read(group: WeightGroup, facts: ModelFacts) -> float:
    """Return the part of a group that one token reads, 0 to 1, for the kinds not read in full."""
    if group.kind is WeightKind.EXPERTS:
        layer = facts.layers[group.layer] if group.layer is not None and group.layer < len(facts.layers) else None
        return layer.experts_used / layer.experts if layer and layer.experts else 1.0
    if group.kind is WeightKind.INPUT_EMBEDDING and facts.tied_embeddings and group.elements:
        return min(1.0, facts.hidden * facts.vocabulary / group.elements)
    return 0.0
