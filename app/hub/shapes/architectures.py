"""From metadata to a tensor table: which tensors an architecture has is data, `resources/shapes/architectures.toml`.

The words in which tensor templates state dimensions, computed from the metadata of one layer.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache

import msgspec

from app.config.paths import RESOURCES
from app.core.model_facts import AttentionKind, Layer
from app.hub.facts.layers import layers_of
from app.hub.facts.metadata import Metadata, Value


class LayerWidths:
    """The dimensions and the conditions of one layer; outside the blocks those of the first.

    Raises KeyError for a word that is none.
    """

    def __init__(self, metadata: Metadata, layer: Layer, *, index: int, has: frozenset[str]) -> None:
        self.metadata = metadata
        self.layer = layer
        self.index = index
        self._has = has

    def size_of(self, expression: str) -> int:
        """Return the value of "embd", "12", "2*q" or "rope/2"; 0 where a file states nothing to divide by."""
        if "*" in expression:
            left_factor, right = expression.split("*")
            return self.size_of(left_factor) * self.size_of(right)
        if "/" in expression:
            dividend, divisor = map(self.size_of, expression.split("/"))
            return dividend // divisor if divisor else 0
        return int(expression) if expression.isdigit() else self._word_value(expression)

    def all_hold(self, conditions: str) -> bool:
        """Whether all conditions of "moe&!tied" hold."""
        return all(self._condition_holds(condition) for condition in conditions.split("&"))

    def _condition_holds(self, condition: str) -> bool:
        if condition.startswith("!"):
            return not self._condition_holds(condition[1:])
        rule = _CONDITIONS.get(condition)
        return condition in self._has if rule is None else rule(self)

    def _word_value(self, word: str) -> int:
        key = _KEYS.get(word)
        if key is not None:
            return self.metadata.read_number(key)
        return _WORDS[word](self)

    def layer_number(self, key: str, default: int = 0) -> int:
        """Return a figure of this layer from the metadata."""
        numbers = self.metadata.per_layer(key, default)
        return numbers[self.index] if numbers else default


def widths_of(values: Mapping[str, Value], has: frozenset[str]) -> list[LayerWidths]:
    """Return the widths of every layer of a model."""
    metadata = Metadata(values)
    layers = layers_of(metadata)
    return [LayerWidths(metadata, layer, index=index, has=has) for index, layer in enumerate(layers)]


_KEYS = {
    "embd": "embedding_length",
    "vocab": "vocab_size",
    "context": "context_length",
    "rope": "rope.dimension_count",
    "experts": "expert_count",
    "full_head": "attention.key_length",
    "q_rank": "attention.q_lora_rank",
    "kv_rank": "attention.kv_lora_rank",
    "inner": "ssm.inner_size",
    "state": "ssm.state_size",
    "conv": "ssm.conv_kernel",
    "ranks": "ssm.time_step_rank",
    "groups": "ssm.group_count",
    "kda_head": "kda.head_dim",
    "short_conv": "shortconv.l_cache",
    "per_layer": "embedding_length_per_layer_input",
    "decay_rank": "attention.decay_lora_rank",
    "rate_rank": "attention.iclr_lora_rank",
    "gate_rank": "attention.gate_lora_rank",
}
"""Words that are one key."""


def _as_int(value: Value | None) -> int:
    return value if isinstance(value, int) else 0


def _key_width(at: LayerWidths) -> int:
    return at.metadata.read_number("attention.key_length_mla") or at.layer.key_dim


def _value_width(at: LayerWidths) -> int:
    return at.metadata.read_number("attention.value_length_mla") or at.layer.value_dim


def _expert_ff(at: LayerWidths) -> int:
    return at.layer_number("expert_feed_forward_length") or at.layer_number("feed_forward_length")


def _shared_ff(at: LayerWidths) -> int:
    stated_width = at.layer_number("expert_shared_feed_forward_length")
    return stated_width or _expert_ff(at) * max(1, at.metadata.read_number("expert_shared_count"))


def _value_rank(at: LayerWidths) -> int:
    """Return the rank of RWKV-7's value mixing; the first layer, which has nothing to mix, takes another's."""
    return at.metadata.read_number("attention.value_residual_mix_lora_rank") if at.index else at.size_of("rate_rank")


def _mamba2_conv(at: LayerWidths) -> int:
    return at.size_of("inner") + 2 * at.size_of("groups") * at.size_of("state")


_WORDS: dict[str, Callable[[LayerWidths], int]] = {
    "types": lambda at: _as_int(at.metadata.values.get("tokenizer.ggml.token_type_count")),
    "value_rank": _value_rank,
    "heads": lambda at: at.layer.heads,
    "kv": lambda at: at.layer.kv_heads,
    "head": lambda at: at.layer.key_dim,
    "q": lambda at: at.layer.heads * at.layer.key_dim,
    "k": lambda at: at.layer.kv_heads * at.layer.key_dim,
    "v": lambda at: at.layer.kv_heads * at.layer.value_dim,
    "o": lambda at: at.layer.heads * at.layer.value_dim,
    "qkv": lambda at: at.size_of("q") + at.size_of("k") + at.size_of("v"),
    "ff": lambda at: at.layer_number("feed_forward_length"),
    "expert_ff": _expert_ff,
    "shared_ff": _shared_ff,
    "expert_in": lambda at: at.metadata.read_number("moe_latent_size") or at.size_of("embd"),
    "mla_q": lambda at: at.layer.heads * _key_width(at),
    "mla_o": lambda at: at.layer.heads * _value_width(at),
    "mla_value": _value_width,
    "mla_kv": lambda at: at.layer.heads * (at.size_of("nope") + _value_width(at)),
    "nope": lambda at: _key_width(at) - at.size_of("rope"),
    "latent": lambda at: at.size_of("kv_rank") + at.size_of("rope"),
    "mamba_x": lambda at: at.size_of("ranks") + 2 * at.size_of("state"),
    "mamba2_conv": _mamba2_conv,
    "mamba2_in": lambda at: at.size_of("inner") + _mamba2_conv(at) + at.size_of("ranks"),
    "kda": lambda at: at.size_of("kda_head") * at.layer.heads,
    "per_layer_all": lambda at: at.size_of("per_layer") * at.metadata.block_count,
}
"""Words that are computed; the names and shapes are those of llama.cpp's `load_arch_tensors`."""

_CONDITIONS: dict[str, Callable[[LayerWidths], bool]] = {
    "moe": lambda at: at.layer.experts > 0,
    "dense": lambda at: at.layer.experts == 0,
    "attends": lambda at: at.layer.attention is not AttentionKind.NONE,
    "recurs": lambda at: at.layer.conv_elements > 0 or at.layer.state_elements > 0,
    "ff": lambda at: at.layer_number("feed_forward_length") > 0,
    "draft": lambda at: at.layer.is_draft,
    "own_kv": lambda at: at.layer.attention is not AttentionKind.SHARED,
    "own_v": lambda at: at.layer.window > 0 or not at.all_hold("values_are_keys"),
}


SHAPES = RESOURCES / "shapes"


class TensorOutline(msgspec.Struct, frozen=True):
    """A tensor before it has a type: name, and shape with the innermost dimension first."""

    name: str
    shape: tuple[int, ...]


class Architecture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parts outside and in each block, and metadata that all its models share."""

    outside: str = ""
    block: str = ""
    keys: dict[str, object] = {}
    like: str = ""


class _ArchitectureFile(msgspec.Struct, frozen=True):
    keys: dict[str, str]
    parts: dict[str, tuple[tuple[str, tuple[str, ...]], ...]]
    architectures: dict[str, Architecture]


def architecture_names() -> list[str]:
    """Return the architectures that can be outlined."""
    return list(_read_file().architectures)


def short_keys() -> Mapping[str, str]:
    """Return the short words of the model table with the metadata keys they stand for."""
    return _read_file().keys


def find_architecture(name: str) -> Architecture:
    """Return an architecture, with what it takes from another. Raises KeyError."""
    own_template = _read_file().architectures[name]
    if not own_template.like:
        return own_template
    base = find_architecture(own_template.like)
    return Architecture(outside=base.outside, block=base.block, keys=own_template.keys or base.keys)


def build_outlines(values: Mapping[str, Value], has: frozenset[str]) -> list[TensorOutline]:
    """Return the tensors of a model. `has` names its options, such as "tied". Raises KeyError for an unknown word."""
    template = find_architecture(str(values["general.architecture"]))
    layers = widths_of(values, has)
    outside = [TensorOutline(name, shape) for name, shape in _template_lines(template.outside, layers[0])]
    blocks = [
        TensorOutline(f"blk.{layer.index}.{name}", shape)
        for layer in layers
        for name, shape in _template_lines(template.block, layer)
    ]
    return [*outside, *blocks]


def _template_lines(template: str, widths: LayerWidths) -> Iterator[tuple[str, tuple[int, ...]]]:
    parts = _read_file().parts
    for item in template.split():
        part, _, condition = item.partition("@")
        if condition and not widths.all_hold(condition):
            continue
        for name, dimensions in parts[part]:
            yield name, tuple(widths.size_of(dimension) for dimension in dimensions)


@cache
def _read_file() -> _ArchitectureFile:
    raw = tomllib.loads((SHAPES / "architectures.toml").read_text(encoding="utf-8"))
    keys, parts = raw.pop("keys"), raw.pop("parts")
    return _ArchitectureFile(
        keys=keys,
        parts={name: tuple(_parse_line(line) for line in text.split(";")) for name, text in parts.items()},
        architectures=msgspec.convert(raw, dict[str, Architecture]),
    )


def _parse_line(line: str) -> tuple[str, tuple[str, ...]]:
    name, *dimensions = line.split()
    return name, tuple(dimensions)
