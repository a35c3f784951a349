"""From a model's layers to the graph llama.cpp reserves memory for: which recipe each block follows, and its widths.

Widths come from the layers, and where they do not say (a shared expert's, a low rank), from the weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from app.advisor.memory import kv
from app.advisor.memory.llama_cpp import recipes
from app.advisor.memory.llama_cpp.recipes import NONE, TensorGraph
from app.advisor.memory.llama_cpp.traits import GraphTrait, has_trait
from app.advisor.memory.setting import RunSetting
from app.advisor.memory.weight_sums import weight_sums
from app.core.model_facts import AttentionKind, Layer, ModelFacts, WeightKind

FLOAT = 4
HALF = 2
HEAD = 128
"""Width of a delta net's heads in every model so far."""
MAMBA_HEAD = 64
STATES = (16, 32, 64, 128, 256)
"""Usual widths of a Mamba 2 state."""
LAYER_INPUTS = ("gemma3n", "gemma4")
ROTATION = 64
"""Heads are rotated if their width is a multiple of this; values by a matrix of this width."""
GATED = 2.5
"""A feed-forward part with a gate has three matrices, one without has two."""
OF_CACHE = ("mask", "krot")
"""Inputs that each cache has of its own."""
REPEATS = 3
"""Of layers that are alike, so many in a row show all that the allocator does with them."""


class GraphBlock(NamedTuple):
    """One layer as steps with their widths in bytes. `window` tells which of the inputs it reads; 0 for all tokens."""

    recipe: str
    widths: Mapping[str, int]
    window: int


def build_blocks(facts: ModelFacts, setting: RunSetting, tokens: int) -> list[GraphBlock]:
    """Return the blocks in order, for so many tokens at once."""
    sums = weight_sums(facts)
    by_index = {
        index: _build_block(_Context(facts, setting, tokens, facts.layers[index], sums.layers[index].elements))
        for index in set(sums.alike)
    }
    layer_blocks = [by_index[sums.alike[index]] for index, layer in enumerate(facts.layers) if not layer.is_draft]
    return _with_layer_inputs(facts, layer_blocks, tokens)


def layer_inputs(facts: ModelFacts) -> int:
    """Return the elements of all layers' own inputs per token (Gemma 3n and 4): from the rows besides the embedding."""
    table_elements = sum(group.elements for group in facts.weights if group.kind is WeightKind.LOOKUP_TABLE)
    rows = table_elements // max(1, facts.vocabulary)
    return rows if rows >= len(facts.layers) and facts.architecture in LAYER_INPUTS else 0


def _with_layer_inputs(facts: ModelFacts, sequence: Sequence[GraphBlock], tokens: int) -> list[GraphBlock]:
    own = layer_inputs(facts)
    if not own:
        return list(sequence)
    widths = {"P": own * tokens * FLOAT, "PL": own // len(facts.layers) * tokens * FLOAT}
    first, *others = [block._replace(widths={**block.widths, **widths}) for block in sequence]
    if has_trait(facts.architecture, GraphTrait.FOUR_STREAMS):
        return [
            _four_stream_block(first, is_first=True),
            *(_four_stream_block(block, is_first=False) for block in others),
        ]
    recipe = f"{first.recipe}; {recipes.PER_LAYER_FIRST}; {recipes.PER_LAYER}"
    return [first._replace(recipe=recipe), *(_append_recipe(block, recipes.PER_LAYER) for block in others)]


def _append_recipe(block: GraphBlock, recipe: str) -> GraphBlock:
    return block._replace(recipe=f"{block.recipe}; {recipe}")


def _four_stream_block(block: GraphBlock, *, is_first: bool) -> GraphBlock:
    """Return a block of Gemma 3n: attention and feed-forward part on one of four streams, which then are corrected."""
    attention = block.recipe.partition("h E n; ")[2].partition("; n E o;")[0]
    parts = [recipes.PREDICT, attention, recipes.LAUREL, recipes.SPARSE_GATED, recipes.CORRECT]
    start = [recipes.STACK] if is_first else []
    once = [recipes.PER_LAYER_FIRST] if is_first else []
    return block._replace(recipe="; ".join([*start, *parts, *once, recipes.MERGE]))


def shorten_runs(sequence: Sequence[GraphBlock]) -> list[GraphBlock]:
    """Return the blocks with long runs of the same cut: more of them change nothing."""
    blocks: list[GraphBlock] = []
    for block in sequence:
        if len(blocks) < REPEATS or any(before is not block for before in blocks[-REPEATS:]):
            blocks.append(block)
    return blocks


class _Context(NamedTuple):
    facts: ModelFacts
    setting: RunSetting
    tokens: int
    layer: Layer
    elements: Mapping[WeightKind, int]


def _build_block(context: _Context) -> GraphBlock:
    layer = context.layer
    name = context.facts.architecture
    parts = (
        [*_token_mixer_steps(context), *_feed_forward_steps(context)]
        if not has_trait(name, GraphTrait.PARALLEL)
        else [*_parallel_steps(context)]
    )
    widths = {word: count * context.tokens * FLOAT for word, count in _block_widths(context).items()}
    widths |= _odd_widths(context)
    return GraphBlock("; ".join(parts), widths, layer.window)


def _token_mixer_steps(context: _Context) -> Iterator[str]:
    """Yield how tokens see each other: attention, recurrence, both, or neither."""
    name, layer = context.facts.architecture, context.layer
    if has_trait(name, GraphTrait.BOTH):
        attention = _attention_recipe(context)
        yield f"{recipes.NORM}; {attention}; a = o; {recipes.NORM}; {recipes.BESIDE_MAMBA2}; {recipes.ADD}"
        return
    has_state = bool(layer.conv_elements or layer.state_elements)
    attends = layer.attention is not AttentionKind.NONE
    if not has_state and not attends:
        return
    yield "h = x" if has_trait(name, GraphTrait.POST_NORM) else recipes.NORM
    if has_state:
        yield _recurrence_recipe(context)
    if attends:
        yield _attention_recipe(context)
        if has_trait(name, GraphTrait.ROUTED_BY_INPUT):
            yield _router_recipe(name).replace(" h", " x")
        yield recipes.OUT
    yield recipes.SANDWICH if _is_normed_after(name) else recipes.ADD


def _feed_forward_steps(context: _Context) -> Iterator[str]:
    name, layer = context.facts.architecture, context.layer
    if not layer.feed_forward and not layer.experts:
        return
    if not (layer.experts and has_trait(name, GraphTrait.EXPERTS_BESIDE)):
        yield "h = x" if has_trait(name, GraphTrait.POST_NORM) else recipes.NORM
    yield _feed_forward(context)
    yield recipes.SANDWICH if _is_normed_after(name) else recipes.ADD


def _parallel_steps(context: _Context) -> Iterator[str]:
    attention, undone_parts = _attention_parts(context)
    yield recipes.NORM
    yield attention
    yield "a = o"
    if has_trait(context.facts.architecture, GraphTrait.TWO_NORMS):
        yield recipes.NORM
    yield _feed_forward(context)
    yield undone_parts.replace("o O o", "a O a")
    yield recipes.ADD_BOTH


def _attention_recipe(context: _Context) -> str:
    return "; ".join(_attention_parts(context))


def _attention_parts(context: _Context) -> tuple[str, str]:
    """Return attention up to its heads' result, and what undoes the rotation of a quantised cache."""
    name, setting, layer = context.facts.architecture, context.setting, context.layer
    if layer.attention is AttentionKind.LATENT:
        return _latent_attention(context), ""
    is_fused = has_trait(name, GraphTrait.FUSED_QKV)
    turns = bool(rotation_width(layer, setting))
    recipe = _fused_recipe(name, setting, turns=turns) if is_fused else _separate_recipe(name, turns=turns)
    store_recipe = recipes.STORED_FUSED if is_fused and setting.flash_attention and not turns else recipes.STORED
    result = recipes.FLASH if setting.flash_attention else recipes.SCORES
    return f"{recipe}; {store_recipe}; {result}", recipes.UNROTATED if turns else ""


def _fused_recipe(name: str, setting: RunSetting, *, turns: bool) -> str:
    if not setting.flash_attention:
        return recipes.FUSED_QKV_APART
    if has_trait(name, GraphTrait.NORMED_HEADS):
        return recipes.FUSED_QKV_NORMED_ROTATED if turns else recipes.FUSED_QKV_NORMED
    return recipes.FUSED_QKV_ROTATED if turns else recipes.FUSED_QKV


def _separate_recipe(name: str, *, turns: bool) -> str:
    """Return the projections in the order they are made, each followed by what is done to it."""
    is_normed = has_trait(name, GraphTrait.NORMED_HEADS)
    query = recipes.QUERY_NORMED if is_normed else recipes.QUERY
    key = recipes.KEY_NORMED if is_normed else recipes.KEY
    value = recipes.VALUE_NORMED if has_trait(name, GraphTrait.NORMED_VALUES) else recipes.VALUE
    if turns:
        query, key = f"{query}; {recipes.TURN_QUERY}", f"{key}; {recipes.TURN_KEY}"
        value = f"{value}; {recipes.TURN_VALUE}"
    return "; ".join([query, key, value] if has_trait(name, GraphTrait.KEYS_FIRST) else [query, value, key])


def _latent_attention(context: _Context) -> str:
    query = recipes.LATENT_Q if _query_rank(context) else recipes.LATENT_Q_FULL
    recipe = recipes.LATENT_FLASH if context.setting.flash_attention else recipes.LATENT_SCORES
    return f"{query}; {recipes.LATENT_KEYS}; {recipe}"


def rotation_width(layer: Layer, setting: RunSetting) -> int:
    """Return the width of the matrix that rotates keys for a quantised cache; 0 where none does."""
    if not setting.flash_attention or not kv.is_quantised(setting.kv_type) or layer.key_dim % ROTATION:
        return 0
    return layer.key_dim & -layer.key_dim


def _recurrence_recipe(context: _Context) -> str:
    name, layer = context.facts.architecture, context.layer
    if not layer.state_elements:
        return recipes.SHORT_CONV
    if has_trait(name, GraphTrait.REPEATED_KEYS):
        return recipes.DELTA_REPEATED
    if has_trait(name, GraphTrait.DELTA):
        return recipes.DELTA
    return recipes.MAMBA if has_trait(name, GraphTrait.MAMBA) else recipes.MAMBA2


def _is_normed_after(name: str) -> bool:
    return has_trait(name, GraphTrait.POST_NORM) or has_trait(name, GraphTrait.SANDWICH)


def _feed_forward(context: _Context) -> str:
    name, layer = context.facts.architecture, context.layer
    if layer.experts:
        return _expert_recipe(context)
    if has_trait(name, GraphTrait.FUSED_GATE):
        return recipes.FUSED_GATED
    dense = context.elements.get(WeightKind.FEED_FORWARD, 0)
    is_gated = dense >= GATED * layer.feed_forward * context.facts.hidden
    return recipes.GATED if is_gated or not dense else recipes.UNGATED


def _expert_recipe(context: _Context) -> str:
    name = context.facts.architecture
    more = [recipes.MORE_EXPERTS] * max(0, context.layer.experts_used - 2)
    if has_trait(name, GraphTrait.EXPERTS_BESIDE):
        return recipes.EXPERTS_BESIDE.replace("...", "; ".join(more))
    first = recipes.WEIGHTED_FIRST if has_trait(name, GraphTrait.WEIGHTED_FIRST) else recipes.EXPERTS
    if not _has_gated_experts(context):
        first, more = recipes.UNGATED_EXPERTS, [*[recipes.MORE_UNGATED] * len(more), recipes.UNGATED_EXPERTS_OUT]
    parts = [first, *more] if has_trait(name, GraphTrait.ROUTED_BY_INPUT) else [_router_recipe(name), first, *more]
    if context.elements.get(WeightKind.SHARED_EXPERTS):
        parts.append(recipes.SHARED_EXPERTS)
    return "; ".join([*parts, recipes.MERGED])


def _router_recipe(name: str) -> str:
    router = recipes.ROUTER_BIASED if has_trait(name, GraphTrait.BIASED_ROUTER) else recipes.ROUTER
    return router if has_trait(name, GraphTrait.RAW_WEIGHTS) else f"{router}; {recipes.WEIGHTS_NORMED}"


def _has_gated_experts(context: _Context) -> bool:
    layer = context.layer
    width = context.elements.get(WeightKind.EXPERTS, 0) // max(1, layer.experts * layer.feed_forward)
    return not width or width >= GATED * context.facts.hidden


def _expert_width(context: _Context) -> int:
    """Return the elements that go into an ungated expert: the hidden state's, or fewer."""
    layer = context.layer
    width = context.elements.get(WeightKind.EXPERTS, 0) // max(1, layer.experts * layer.feed_forward)
    return min(context.facts.hidden, width // 2)


def _query_rank(context: _Context) -> int:
    """Return the low rank of a latent attention's queries; 0 where they are full. From its weights."""
    layer, hidden_size = context.layer, context.facts.hidden
    latent, rotated_dim = layer.value_dim, layer.latent_dim - layer.value_dim
    own = 2 * rotated_dim
    rest = hidden_size * (latent + rotated_dim) + layer.heads * own * (2 * latent + hidden_size)
    rest_elements = context.elements.get(WeightKind.ATTENTION, 0) - rest
    rank = rest_elements // max(1, hidden_size + layer.heads * (own + rotated_dim))
    return rank if 0 < rank < hidden_size else 0


def _block_widths(context: _Context) -> dict[str, int]:
    """Return elements per token by word."""
    layer, hidden_size = context.layer, context.facts.hidden
    query, key, value = layer.heads * layer.key_dim, layer.kv_heads * layer.key_dim, layer.kv_heads * layer.value_dim
    wide = layer.feed_forward
    shared_width = context.elements.get(WeightKind.SHARED_EXPERTS, 0) // max(1, 3 * hidden_size)
    expert_count = max(1, layer.experts_used)
    widths = {
        "E": hidden_size,
        "E3": 3 * hidden_size,
        "E4": 4 * hidden_size,
        "Q": query,
        "K": key,
        "V": value,
        "O": layer.heads * layer.value_dim,
        "QKV": query + key + value,
        "F": wide,
        "F2": 2 * wide,
        "X": layer.experts,
        "W": expert_count,
        "W1": 1,
        "LE": _expert_width(context),
        "LX": expert_count * _expert_width(context),
        "FX": expert_count * wide,
        "EX": expert_count * hidden_size,
        "FS": shared_width,
        "FX2": 2 * expert_count * wide,
        "FD": context.elements.get(WeightKind.FEED_FORWARD, 0) // max(1, 3 * hidden_size),
    }
    if layer.attention is AttentionKind.LATENT:
        widths |= _latent_widths(context)
    return widths | _recurrent_widths(context)


def _latent_widths(context: _Context) -> dict[str, int]:
    layer = context.layer
    latent, heads = layer.value_dim, layer.heads
    rotated_dim = layer.latent_dim - latent
    return {
        "QR": _query_rank(context),
        "QF": heads * 3 * rotated_dim,
        "L": latent,
        "R": rotated_dim,
        "LR": latent + rotated_dim,
        "HL": heads * latent,
        "HR": heads * rotated_dim,
        "HLR": heads * (latent + rotated_dim),
        "HV": heads * 2 * rotated_dim,
    }


def _recurrent_widths(context: _Context) -> dict[str, int]:
    layer = context.layer
    if not layer.state_elements:
        return {}
    channels = layer.conv_elements // 3
    if has_trait(context.facts.architecture, GraphTrait.DELTA):
        inner = layer.state_elements // HEAD
        heads = inner // HEAD
        return {"C": channels, "I": inner, "D": (channels - inner) // 2, "H": heads, "H2": 2 * heads}
    if has_trait(context.facts.architecture, GraphTrait.MAMBA):
        state = layer.state_elements // max(1, channels)
        return {"C": channels, "I": channels, "I2": 2 * channels, "B": context.facts.hidden // 16 + 2 * state}
    inner = _inner_width(context, channels)
    heads = inner // MAMBA_HEAD
    return {"C": channels, "I": inner, "H": heads, "ZX": inner + channels + heads}


def _inner_width(context: _Context, channels: int) -> int:
    """Return the inner width of a Mamba 2 layer. state x inner is known; its weights tell which of the usual states.

    They are hidden x (inner + channels + heads) into it and inner x hidden out of it.
    """
    weights = context.elements.get(WeightKind.RECURRENT, 0) // max(1, context.facts.hidden)
    about = (weights - channels) / 2
    return min((context.layer.state_elements // state for state in STATES), key=lambda inner: abs(inner - about))


def _odd_widths(context: _Context) -> dict[str, int]:
    """Return bytes of what is not so many elements per token."""
    setting, layer, tokens = context.setting, context.layer, context.tokens
    channels = layer.conv_elements // 3 if layer.state_elements else 0
    tail = layer.conv_elements * FLOAT * setting.slots
    inner = _block_widths(context).get("I", 0)
    return {
        "VC": kv.cache_cells(layer, setting) * kv.cache_streams(setting) * layer.value_dim * HALF,
        "S": kv.cache_cells(layer, setting) * tokens * layer.heads * FLOAT,
        "C0": channels * tokens * FLOAT + tail,
        "E0": context.facts.hidden * tokens * FLOAT + tail,
        "ST": layer.state_elements * FLOAT * setting.slots,
        "SX": layer.state_elements * FLOAT * (setting.slots - 1),
        "IS": inner * tokens * FLOAT + layer.state_elements * FLOAT * setting.slots,
    }


BLOCK_OUTPUTS = ("x", "s", "i")
"""What one block leaves to the next: the hidden state, the streams, and the layers' own inputs."""


def add_blocks(sequence: Sequence[GraphBlock], graph: TensorGraph, names: dict[str, int]) -> None:
    """Add the blocks to a graph. `names` holds the inputs and "x", which it leaves as what the last block makes."""
    for block in sequence:
        tensor_names = {**names, **{word: names.get(f"{word} {block.window}", NONE) for word in OF_CACHE}}
        for step in recipes.parse_recipe(block.recipe):
            if step.width == recipes.SAME:
                tensor_names[step.name] = tensor_names[step.sources[0]]
                continue
            sources = [tensor_names[source] for source in step.sources if tensor_names.get(source, NONE) != NONE]
            size = block.widths[step.width] if step.width else 0
            tensor = graph.add_tensor(size, sources, over=tensor_names.get(step.over, NONE))
            if step.name:
                tensor_names[step.name] = tensor
        names |= {word: tensor_names[word] for word in BLOCK_OUTPUTS if word in tensor_names}
