"""A Hugging Face configuration in GGUF's terms, so that one set of rules describes the layers of both.

What one number cannot say (lists of layer types, hybrids, latent attention) is put into per-layer lists here.
"""

from collections.abc import Callable, Sequence
from typing import Any

from app.hub.facts.architectures import Recurrence, rule_for
from app.hub.facts.hf_fields import ARCHITECTURES, DEFAULTS, FIELDS
from app.hub.facts.json_text import Object
from app.hub.facts.metadata import MAX_COUNT, MAX_LAYERS, Metadata
from app.hub.gguf.values import Value, corrupt

_TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config", "language_model")
_SLIDING = ("sliding", "chunked")
_RECURRENT = ("linear_attention", "mamba", "conv", "recurrent")


def text_part(config: Object) -> Object:
    """Return the part of a multimodal configuration that describes the language model; else all of it."""
    for name in _TEXT_PARTS:
        inner = config.get(name)
        if isinstance(inner, dict) and inner:
            return text_part({key: value for key, value in config.items() if key not in _TEXT_PARTS} | inner)
    return config


def metadata_of(config: Object) -> Metadata:
    """Return what a configuration says, in GGUF's keys. Raises BadRequest (model_corrupt) for impossible figures."""
    text = text_part(config)
    model_type = _text(text, "model_type") or "unknown"
    text = {**DEFAULTS.get(model_type, {}), **{key: value for key, value in text.items() if value is not None}}
    architecture = ARCHITECTURES.get(model_type, model_type)
    keys: dict[str, Value] = {}
    for key, names in FIELDS.items():
        value = next((text[name] for name in names if _is_usable(text.get(name))), None)
        if value is not None:
            keys[key] = value
    _without_unused_window(text, keys)
    model = _Model(text, architecture, keys)
    for rule in _RULES:
        rule(model)
    named = {f"{architecture}.{key}": value for key, value in keys.items()}
    return Metadata({"general.architecture": architecture, **named})


def _is_usable(value: object) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, list):
        return 0 < len(value) <= MAX_LAYERS and all(type(item) is int for item in value)
    return isinstance(value, int)


def number(config: Object, name: str, default: int = 0) -> int:
    """Return a count from a configuration, or the default for anything else. Raises BadRequest if it is impossible."""
    value = config.get(name)
    if type(value) is not int:
        return default
    if not 0 <= value <= MAX_COUNT:
        raise corrupt("its configuration states an impossible number")
    return value


def _text(config: Object, name: str) -> str:
    value = config.get(name)
    return value if isinstance(value, str) else ""


def _without_unused_window(config: Object, keys: dict[str, Value]) -> None:
    if config.get("use_sliding_window") is False:
        keys.pop("attention.sliding_window", None)


class _Model:
    """One configuration, what it is called, and the keys found so far."""

    def __init__(self, config: Object, architecture: str, keys: dict[str, Value]) -> None:
        self.config = config
        self.architecture = architecture
        self.keys = keys

    def number(self, name: str, default: int = 0) -> int:
        """Return a count, or the default if it is none."""
        return number(self.config, name, default)

    def text(self, name: str) -> str:
        """Return a text, or an empty one."""
        return _text(self.config, name)

    def texts(self, name: str) -> list[str]:
        """Return a list of texts, or an empty one."""
        value = self.config.get(name)
        return [item for item in value[:MAX_LAYERS] if isinstance(item, str)] if isinstance(value, list) else []

    def count(self) -> int:
        """Return how many blocks there are."""
        value = self.keys.get("block_count", 0)
        count = value if isinstance(value, int) else 0
        if not 0 <= count <= MAX_LAYERS:
            raise corrupt("it claims more layers than any model has")
        return count

    def recurs(self, flags: list[bool]) -> None:
        """Say which layers keep a state, as the architecture's rule expects it."""
        if rule_for(self.architecture).recurrence is Recurrence.INTERVAL:
            self.keys["attention.recurrent_layers"] = flags
            return
        heads = self.keys.get("attention.head_count_kv", self.keys.get("attention.head_count", 0))
        plain = heads if isinstance(heads, int) else 0
        self.keys["attention.head_count_kv"] = [0 if flag else plain for flag in flags]


def _layer_types(model: _Model) -> None:
    """Put a list of layer types, in its many spellings, into per-layer lists."""
    types = model.texts("layer_types") or model.texts("layers_block_type")
    if not types:
        return
    if any(kind.startswith(_SLIDING) for kind in types):
        model.keys["attention.sliding_window_pattern"] = [kind.startswith(_SLIDING) for kind in types]
    elif "attention.sliding_window" in model.keys and not model.number("sliding_window_pattern"):
        model.keys["attention.sliding_window_pattern"] = [False] * len(types)
    if any(kind.startswith(_RECURRENT) for kind in types):
        model.recurs([kind.startswith(_RECURRENT) for kind in types])


def _every_nth_full(model: _Model) -> None:
    """Older configurations count: every n-th layer keeps all tokens."""
    pattern = model.number("sliding_window_pattern")
    if pattern and "attention.sliding_window_pattern" not in model.keys:
        model.keys["attention.sliding_window_pattern"] = pattern


def _no_rope_layers(model: _Model) -> None:
    """Llama 4: layers with rotary positions keep chunks, those without keep everything."""
    layers = model.config.get("no_rope_layers")
    is_listed = model.architecture == "llama4" and "attention.sliding_window_pattern" not in model.keys
    if is_listed and isinstance(layers, list) and layers:
        model.keys["attention.sliding_window_pattern"] = [bool(flag) for flag in layers[:MAX_LAYERS]]


def _latent(model: _Model) -> None:
    """DeepSeek's attention: one compressed vector and one rotary key per token, for all heads."""
    rank, rope = model.number("kv_lora_rank"), model.number("qk_rope_head_dim")
    if not rank or model.architecture in ("minicpm3", "plm"):
        return
    plain = model.number("qk_nope_head_dim") + rope
    model.keys |= {
        "attention.key_length": rank + rope,
        "attention.value_length": rank,
        "attention.key_length_mla": plain,
        "attention.value_length_mla": model.number("v_head_dim"),
        "attention.head_count_kv": 1,
    }


def _decompressed(model: _Model) -> None:
    """MiniCPM3 and PLM compress their weights and not their cache: every head's keys and values are kept."""
    if model.architecture not in ("minicpm3", "plm"):
        return
    nope, rope = model.number("qk_nope_head_dim"), model.number("qk_rope_head_dim")
    hidden, heads = model.number("hidden_size"), model.number("num_attention_heads", 1)
    model.keys["attention.key_length"] = nope + rope
    model.keys["attention.value_length"] = model.number("v_head_dim") or hidden // max(1, heads)


def _two_head_sizes(model: _Model) -> None:
    """Gemma 4: layers that keep everything have larger and fewer heads than those that slide."""
    wide = model.number("global_head_dim")
    if model.architecture != "gemma4" or not wide:
        return
    narrow = model.number("head_dim")
    model.keys |= {
        "attention.key_length": wide,
        "attention.value_length": wide,
        "attention.key_length_swa": narrow,
        "attention.value_length_swa": narrow,
    }
    slides = model.keys.get("attention.sliding_window_pattern")
    heads, fewer = model.number("num_key_value_heads"), model.number("num_global_key_value_heads")
    if fewer and isinstance(slides, list):
        model.keys["attention.head_count_kv"] = [heads if flag else fewer for flag in slides]


def _inner_width(model: _Model) -> None:
    """Find the width inside a recurrent layer: stated, a multiple of the hidden width, or heads times their width."""
    if "ssm.state_size" not in model.keys:
        return
    hidden = model.number("hidden_size") or model.number("d_model")
    by_heads = model.number("linear_num_value_heads") * model.number("linear_value_head_dim")
    by_heads = by_heads or model.number("mamba_num_heads") * model.number("mamba_head_dim")
    by_heads = by_heads or model.number("mamba_n_heads") * model.number("mamba_d_head")
    expanded = hidden * (model.number("mamba_expand") or model.number("expand", 2))
    is_mamba = model.architecture in ("mamba", "mamba2")
    own = model.number("intermediate_size") if is_mamba else model.number("mamba_d_ssm")
    model.keys["ssm.inner_size"] = by_heads or own or expanded
    if is_mamba:
        model.keys["attention.head_count"] = 0
    if model.architecture in ("mamba", "jamba"):
        model.keys.pop("ssm.group_count", None)


def _jamba(model: _Model) -> None:
    """One layer in `attn_layer_period` attends."""
    period = model.number("attn_layer_period")
    if model.architecture == "jamba" and period:
        offset = model.number("attn_layer_offset")
        model.recurs([index % period != offset for index in range(model.count())])


def _nemotron_h(model: _Model) -> None:
    """One letter per layer: M recurs, * attends, - and E are feed-forward only."""
    pattern = model.text("hybrid_override_pattern")[:MAX_LAYERS]
    if not pattern:
        return
    heads, width = model.number("num_key_value_heads"), model.number("intermediate_size")
    model.keys["attention.head_count_kv"] = [heads if letter == "*" else 0 for letter in pattern]
    model.keys["feed_forward_length"] = [width if letter in "-E" else 0 for letter in pattern]


def _kimi_linear(model: _Model) -> None:
    """Layers that attend are numbered from one; the others keep a delta net's state."""
    linear = model.config.get("linear_attn_config")
    if not isinstance(linear, dict):
        return
    attends = linear.get("full_attn_layers")
    model.keys["kda.head_dim"] = number(linear, "head_dim")
    model.keys["ssm.conv_kernel"] = number(linear, "short_conv_kernel_size")
    if isinstance(attends, list):
        attends = attends[:MAX_LAYERS]
        model.recurs([index + 1 not in attends for index in range(model.count())])


def _lfm2(model: _Model) -> None:
    """Older files list the layers that attend; the feed-forward width may be rounded from two thirds."""
    attends = model.config.get("full_attn_idxs")
    if model.architecture.startswith("lfm2") and isinstance(attends, list) and "layer_types" not in model.config:
        attends = attends[:MAX_LAYERS]
        model.recurs([index not in attends for index in range(model.count())])
    if model.config.get("block_auto_adjust_ff_dim") is True:
        width, multiple = model.number("block_ff_dim") * 2 // 3, max(1, model.number("block_multiple_of", 256))
        model.keys["feed_forward_length"] = -(-width // multiple) * multiple


def _rwkv(model: _Model) -> None:
    head = model.number("head_size") or model.number("head_dim")
    if model.architecture.startswith("rwkv") and head:
        model.keys |= {"wkv.head_size": head, "attention.head_count": 0}


def _one_kv_head(model: _Model) -> None:
    """Falcon and StarCoder say it with a flag."""
    if model.config.get("multi_query") is True and "attention.head_count_kv" not in model.keys:
        model.keys["attention.head_count_kv"] = 1


def _draft_layers(model: _Model) -> None:
    """GGUF counts draft layers among the blocks; their place in per-layer lists is theirs to fill."""
    extra = model.number("num_nextn_predict_layers") or model.number("mtp_num_hidden_layers")
    count = model.count()
    if not extra or count + extra > MAX_LAYERS:
        return
    for key, value in model.keys.items():
        if isinstance(value, list) and len(value) == count:
            model.keys[key] = [*value, *[value[-1]] * extra]
    model.keys["block_count"] = count + extra


_Rule = Callable[[_Model], None]
_RULES: Sequence[_Rule] = (
    _one_kv_head,
    _layer_types,
    _every_nth_full,
    _no_rope_layers,
    _latent,
    _decompressed,
    _two_head_sizes,
    _inner_width,
    _jamba,
    _nemotron_h,
    _kimi_linear,
    _lfm2,
    _rwkv,
    _draft_layers,
)
"""In this order: later ones refine what earlier ones said."""


def flag(config: Object, name: str, *, default: bool = False) -> bool:
    """Return a yes or no from a configuration."""
    value: Any = config.get(name)
    return value if isinstance(value, bool) else default
