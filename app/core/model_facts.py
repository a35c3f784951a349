"""What a model is made of, read from its files or its shape: all that memory and speed depend on. Nothing is guessed.

One `ModelFacts` for every format, so that the advisor knows layers and bytes and never a file.
"""

from enum import StrEnum

import msgspec

from app.core.machine import Confidence


class AttentionKind(StrEnum):
    """What a layer keeps of the past."""

    FULL = "full"
    """Keys and values of every token (MHA, GQA, MQA)."""
    SLIDING = "sliding"
    """Keys and values of the last `window` tokens."""
    CHUNKED = "chunked"
    """Keys and values of the current chunk of `window` tokens (Llama 4)."""
    LATENT = "latent"
    """One compressed vector of `latent_dim` per token (MLA)."""
    SHARED = "shared"
    """Reads another layer's keys and values and keeps none (Gemma 3n, YOCO)."""
    NONE = "none"
    """No attention: a recurrent layer, or feed-forward only."""


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One block. Counts of heads, widths in elements; `conv_elements` and `state_elements` are F32 per sequence.

    A layer may attend and recur at once (Falcon-H1).
    """

    attention: AttentionKind = AttentionKind.FULL
    heads: int = 0
    kv_heads: int = 0
    key_dim: int = 0
    value_dim: int = 0
    window: int = 0
    latent_dim: int = 0
    """kv_lora_rank + rope dimensions: what an absorbed MLA caches per token."""
    indexer_dim: int = 0
    """Extra key per token of a sparse-attention indexer (DeepSeek V3.2)."""
    conv_elements: int = 0
    state_elements: int = 0
    feed_forward: int = 0
    """Width of the dense feed-forward part, or of one expert when `experts` > 0."""
    experts: int = 0
    experts_used: int = 0
    is_draft: bool = False
    """A multi-token-prediction layer: not part of plain decoding."""


class WeightKind(StrEnum):
    """What a tensor is for; placement and how often it is read depend on it."""

    INPUT_EMBEDDING = "input_embedding"
    LOOKUP_TABLE = "lookup_table"
    """Rows that are looked up beside the embedding: one per layer (Gemma), or per n-gram. Never multiplied with."""
    OUTPUT = "output"
    ATTENTION = "attention"
    FEED_FORWARD = "feed_forward"
    EXPERTS = "experts"
    """Routed experts: `experts_used` of `experts` are read per token."""
    SHARED_EXPERTS = "shared_experts"
    ROUTER = "router"
    RECURRENT = "recurrent"
    NORM = "norm"
    DRAFT = "draft"
    PROJECTOR = "projector"
    OTHER = "other"


class WeightGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Tensors of one kind, layer and type. `layer` is None outside the blocks; `bytes` without padding."""

    kind: WeightKind
    layer: int | None
    type: str
    """A GGML type ("Q4_K"), a safetensors dtype ("BF16"), or a scheme ("4-bit g64")."""
    tensors: int
    elements: int
    bytes: int
    padded_bytes: int
    """With each tensor padded to the file's alignment (GGUF); else as `bytes`."""


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One model in one format and quantisation. Widths are elements, sizes bytes, contexts tokens."""

    name: str
    format: str
    """An `engines.api.ModelFormat` value."""
    architecture: str
    """llama.cpp's name for it ("qwen3moe"); a `model_type` where llama.cpp has none; empty where nobody knows."""
    quantization: str
    model_types: list[str] = []
    """What its configuration calls it, or may: where only the architecture is known there are several."""
    class_names: list[str] = []
    """`architectures` of its configuration."""
    tokenizer: str = ""
    """llama.cpp's name of how its texts are split ("qwen2"); empty where the file has none."""
    layers: list[Layer]
    weights: list[WeightGroup]
    hidden: int
    vocabulary: int
    file_bytes: int
    parameters: int
    active_parameters: int
    """Parameters read for one token: all but the experts not chosen and the input embedding's other rows."""
    tied_embeddings: bool = False
    """The output matrix is the input embedding."""
    trained_context: int | None = None
    chat_template: str = ""
    base_model: str = ""
    """The repository it says it was made from ("Qwen/Qwen3-8B"); nobody checked that."""
    tool_template: str = ""
    """A second template, which GGUF files may have for conversations with tools."""
    capabilities: list[str] = []
    """Of "chat", "tools", "thinking", "vision", "audio", "embedding", "rerank", "infill"."""
    needs_remote_code: bool = False
    alignment: int = 32
    confidence: Confidence = Confidence.MEASURED
    """MEASURED from headers, DERIVED from a configuration, TABLE from the shapes we ship."""
    source: str = ""

    def __hash__(self) -> int:
        """Return a hash by a few figures: lists have none, and facts are a part of what settings are kept by."""
        return hash((self.name, self.format, self.quantization, self.file_bytes, self.parameters))

    @property
    def has_draft_head(self) -> bool:
        """Whether the file carries layers for multi-token prediction, with their weights."""
        has_weights = any(group.kind is WeightKind.DRAFT for group in self.weights)
        return has_weights and any(layer.is_draft for layer in self.layers)


def bit_rate_name(bits: float) -> str:
    """Return how an ExLlama quantisation of so many bits per weight is called everywhere: "4.0bpw", "2.05bpw"."""
    rounded_bits = round(bits, 2)
    return f"{rounded_bits:.1f}bpw" if rounded_bits == round(bits, 1) else f"{rounded_bits:.2f}bpw"
