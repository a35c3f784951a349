"""From metadata to one `Layer` per block, by the rules llama.cpp allocates its caches by.

State sizes follow `llama_hparams::n_embd_r` and `n_embd_s`: a convolution's tail and a matrix per recurrent layer
and sequence.

How many parameters a model has, and how many of them one token reads.
"""

from collections.abc import Sequence

import msgspec

from app.core.model_facts import AttentionKind, Layer, WeightGroup, WeightKind
from app.hub.facts.architectures import ArchitectureRule, Recurrence, WindowRule, rule_for
from app.hub.facts.metadata import Metadata
from app.hub.gguf.values import MAX_NUMBER, corrupt_error


def layers_of(metadata: Metadata, expert_blocks: frozenset[int] | None = None) -> list[Layer]:
    """Return the blocks in their order. Raises BadRequest (model_corrupt) for impossible figures.

    `expert_blocks` are those whose tensors include experts; without a tensor table the keys have to tell.
    """
    reader = _LayerReader(metadata, expert_blocks)
    layers = [reader.build_layer(index) for index in range(metadata.block_count)]
    if any(figure > MAX_NUMBER for layer in layers for figure in _layer_figures(layer)):
        raise corrupt_error("a layer has an impossible size")
    return layers


def _layer_figures(layer: Layer) -> list[int]:
    return [value for value in msgspec.structs.astuple(layer) if type(value) is int]


class _LayerReader:
    """What holds for all layers, read once."""

    def __init__(self, metadata: Metadata, expert_blocks: frozenset[int] | None) -> None:
        self.rule = rule_for(metadata.architecture)
        self.heads = metadata.per_layer("attention.head_count")
        self.kv_heads = metadata.per_layer("attention.head_count_kv", self.heads)
        self.feed_forward = metadata.per_layer("feed_forward_length")
        self.window, self.is_full = _read_windows(metadata, self.rule)
        self.widths, self.widths_sliding = _head_widths(metadata, max(self.heads, default=0))
        self.recurs = _recurrent_flags(metadata, self.rule, self.kv_heads, self.feed_forward)
        self.conv, self.state = _state_sizes(metadata)
        self.first_draft = metadata.block_count - metadata.read_number("nextn_predict_layers")
        self.kv_layers = _layers_with_kv(metadata, self.rule, self.first_draft)
        self.is_latent = bool(
            metadata.read_number("attention.kv_lora_rank") and metadata.has_key("attention.key_length_mla")
        )
        self.indexer = metadata.read_number("attention.indexer.key_length")
        self.experts = _read_experts(metadata, self.feed_forward, expert_blocks)

    def build_layer(self, index: int) -> Layer:
        """Return the block of that number."""
        is_draft = index >= self.first_draft
        recurs = self.recurs[index] and not is_draft
        kind = self._attention_kind(index, recurs=recurs, is_draft=is_draft)
        attends = kind is not AttentionKind.NONE or not self.rule.is_cached
        key, value = self.widths if self.is_full[index] or is_draft else self.widths_sliding
        feed_forward, experts, used_experts = self.experts[index]
        return Layer(
            attention=kind,
            heads=self.heads[index],
            kv_heads=self.kv_heads[index] if attends else 0,
            key_dim=key if attends else 0,
            value_dim=value if attends else 0,
            window=self.window if kind in (AttentionKind.SLIDING, AttentionKind.CHUNKED) else 0,
            latent_dim=key if kind is AttentionKind.LATENT else 0,
            indexer_dim=self.indexer if kind is AttentionKind.LATENT else 0,
            conv_elements=self.conv if recurs else 0,
            state_elements=self.state if recurs else 0,
            feed_forward=feed_forward,
            experts=experts,
            experts_used=used_experts,
            is_draft=is_draft,
        )

    def _attention_kind(self, index: int, *, recurs: bool, is_draft: bool) -> AttentionKind:
        recurrence = self.rule.recurrence
        if not self.rule.is_cached or recurrence is Recurrence.ALL or self.kv_heads[index] == 0:
            return AttentionKind.NONE
        if recurs and recurrence is not Recurrence.BOTH:
            return AttentionKind.NONE
        if index >= self.kv_layers and not is_draft:
            return AttentionKind.SHARED
        if self.is_latent:
            return AttentionKind.LATENT
        if self.is_full[index] or is_draft:
            return AttentionKind.FULL
        return AttentionKind.CHUNKED if self.rule.window is WindowRule.CHUNKED else AttentionKind.SLIDING


def _read_windows(metadata: Metadata, rule: ArchitectureRule) -> tuple[int, list[bool]]:
    """Return the window and, per layer, whether it keeps all tokens."""
    count, window = metadata.block_count, _window_tokens(metadata, rule)
    is_per_layer = metadata.is_list("attention.sliding_window_pattern")
    is_usual = rule.window is not WindowRule.NEVER and rule.sliding_blocks in (0, count)
    if window == 0 or not (is_per_layer or is_usual):
        return 0, [True] * count
    if is_per_layer:
        return window, [not slides for slides in metadata.per_layer("attention.sliding_window_pattern")]
    pattern = metadata.read_number("attention.sliding_window_pattern", rule.pattern)
    last = 0 if rule.full_first else pattern - 1
    return window, [pattern != 0 and index % pattern == last for index in range(count)]


def _window_tokens(metadata: Metadata, rule: ArchitectureRule) -> int:
    """Return the window, or 0 for none. A file that states 0 has none."""
    usual = 0 if rule.window is WindowRule.IF_STATED else rule.window_tokens
    stated_window = metadata.read_number("attention.sliding_window", usual)
    return rule.window_tokens if stated_window and rule.is_window_fixed else stated_window


def _head_widths(metadata: Metadata, heads: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return key and value widths of a head, in full layers and in sliding ones."""
    usual = metadata.read_number("embedding_length") // heads if heads else 0
    key = metadata.read_number("attention.key_length", usual)
    value = metadata.read_number("attention.value_length", usual)
    sliding_layers = (
        metadata.read_number("attention.key_length_swa", key),
        metadata.read_number("attention.value_length_swa", value),
    )
    return (key, value), sliding_layers


def _recurrent_flags(
    metadata: Metadata, rule: ArchitectureRule, kv_heads: list[int], feed_forward: list[int]
) -> list[bool]:
    count = metadata.block_count
    if metadata.is_list("attention.recurrent_layers"):
        return [bool(flag) for flag in metadata.per_layer("attention.recurrent_layers")]
    if rule.recurrence in (Recurrence.ALL, Recurrence.BOTH):
        return [True] * count
    if rule.recurrence is Recurrence.INTERVAL:
        interval = metadata.read_number("full_attention_interval", 4) or 4
        return [(index + 1) % interval != 0 for index in range(count)]
    if rule.recurrence is Recurrence.NO_KV_HEADS:
        return [heads == 0 for heads in kv_heads]
    if rule.recurrence is Recurrence.NO_KV_HEADS_NOR_FEED_FORWARD:
        return [heads == 0 and width == 0 for heads, width in zip(kv_heads, feed_forward, strict=True)]
    return [False] * count


def _state_sizes(metadata: Metadata) -> tuple[int, int]:
    """Return elements of the convolution's tail and of the state, per recurrent layer and sequence."""
    hidden_size = metadata.read_number("embedding_length")
    if head := metadata.read_number("wkv.head_size"):
        return metadata.read_number("token_shift_count", 2) * hidden_size, hidden_size * head
    if length := metadata.read_number("shortconv.l_cache"):
        return hidden_size * (length - 1), 0
    tail = max(0, metadata.read_number("ssm.conv_kernel") - 1)
    if head := metadata.read_number("kda.head_dim"):
        inner = head * metadata.read_number("attention.head_count")
        return 3 * tail * inner, head * inner
    inner, state = metadata.read_number("ssm.inner_size"), metadata.read_number("ssm.state_size")
    return tail * (inner + 2 * metadata.read_number("ssm.group_count") * state), state * inner


def _layers_with_kv(metadata: Metadata, rule: ArchitectureRule, first_draft: int) -> int:
    """Return how many layers from the start keep keys and values of their own."""
    if metadata.has_key("attention.shared_kv_layers"):
        return max(0, first_draft - metadata.read_number("attention.shared_kv_layers"))
    return rule.kv_from_start or first_draft


def _read_experts(
    metadata: Metadata, feed_forward: list[int], blocks: frozenset[int] | None
) -> list[tuple[int, int, int]]:
    """Return per layer the feed-forward width, the experts and how many of them a token uses."""
    count, used_experts = metadata.read_number("expert_count"), metadata.read_number("expert_used_count")
    expert_blocks = blocks if blocks is not None else _expert_blocks(metadata)
    widths = metadata.per_layer("expert_feed_forward_length", feed_forward)
    return [
        (widths[index] or feed_forward[index], count, min(used_experts, count))
        if count and index in expert_blocks
        else (feed_forward[index], 0, 0)
        for index in range(metadata.block_count)
    ]


def _expert_blocks(metadata: Metadata) -> frozenset[int]:
    dense = metadata.read_number("leading_dense_block_count")
    step = metadata.read_number("interleave_moe_layer_step", 1) or 1
    return frozenset(index for index in range(dense, metadata.block_count) if (index + 1) % step == 0)


_NOT_READ = frozenset({WeightKind.DRAFT, WeightKind.PROJECTOR})
"""Plain decoding of text touches neither."""


def active_parameters(
    groups: Sequence[WeightGroup], layers: Sequence[Layer], *, rows: int, tied_elements: int = 0
) -> int:
    """Return the parameters read for one token.

    All but the experts not chosen and the input embedding, of which one row of `rows` is read; `tied` is the size of
    the part of it that is read again, whole, as the output matrix. Raises BadRequest (model_corrupt).
    """
    total = tied_elements + sum(_read_share(group, layers, rows) for group in groups)
    if total > MAX_NUMBER:
        raise corrupt_error("it claims more parameters than any model has")
    return total


def _read_share(group: WeightGroup, layers: Sequence[Layer], rows: int) -> int:
    if group.kind in _NOT_READ:
        return 0
    if group.kind in {WeightKind.INPUT_EMBEDDING, WeightKind.LOOKUP_TABLE}:
        return group.elements // max(1, rows)
    if group.kind is WeightKind.EXPERTS and group.layer is not None and group.layer < len(layers):
        layer = layers[group.layer]
        return group.elements * layer.experts_used // layer.experts if layer.experts else group.elements
    return group.elements
