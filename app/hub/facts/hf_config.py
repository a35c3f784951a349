"""A Hugging Face configuration in GGUF's terms, so that one set of rules describes the layers of both.

What one number cannot say (lists of layer types, hybrids, latent attention) is put into per-layer lists here.

Hugging Face's names for what GGUF metadata says: one table of fields, one of architectures, and known defaults.

A configuration leaves out what its class in the transformers library fills in; DEFAULTS has those that matter.
"""

from collections.abc import Callable, Sequence
from typing import Any

from app.hub.facts.architectures import Recurrence, rule_for
from app.hub.facts.json_text import Object
from app.hub.facts.metadata import MAX_COUNT, MAX_LAYERS, Metadata
from app.hub.gguf.values import Value, corrupt_error

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
    model_type = _read_text(text, "model_type") or "unknown"
    text = {**DEFAULTS.get(model_type, {}), **{key: value for key, value in text.items() if value is not None}}
    architecture = ARCHITECTURES.get(model_type, model_type)
    keys: dict[str, Value] = {}
    for key, names in FIELDS.items():
        value = next((text[name] for name in names if _is_usable(text.get(name))), None)
        if value is not None:
            keys[key] = value
    _without_unused_window(text, keys)
    model = _ConfigModel(text, architecture, keys)
    for rule in _RULES:
        rule(model)
    values = {f"{architecture}.{key}": value for key, value in keys.items()}
    return Metadata({"general.architecture": architecture, **values})


def _is_usable(value: object) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, list):
        return 0 < len(value) <= MAX_LAYERS and all(type(item) is int for item in value)
    return isinstance(value, int)


def model_types_of(architecture: str) -> list[str]:
    """Return what configurations may call an architecture of llama.cpp, also where it is a part of another model."""
    if not architecture:
        return []
    names = [
        *(name for name, known_architecture in ARCHITECTURES.items() if known_architecture == architecture),
        architecture,
    ]
    parts = [name.removesuffix("_text").removesuffix("_moe") for name in names]
    return list(dict.fromkeys([*names, *parts]))


def read_count(config: Object, name: str, default: int = 0) -> int:
    """Return a count from a configuration, or the default for anything else. Raises BadRequest if it is impossible."""
    value = config.get(name)
    if type(value) is not int:
        return default
    if not 0 <= value <= MAX_COUNT:
        raise corrupt_error("its configuration states an impossible number")
    return value


def _read_text(config: Object, name: str) -> str:
    value = config.get(name)
    return value if isinstance(value, str) else ""


def _without_unused_window(config: Object, keys: dict[str, Value]) -> None:
    if config.get("use_sliding_window") is False:
        keys.pop("attention.sliding_window", None)


class _ConfigModel:
    """One configuration, what it is called, and the keys found so far."""

    def __init__(self, config: Object, architecture: str, keys: dict[str, Value]) -> None:
        self.config = config
        self.architecture = architecture
        self.keys = keys

    def read_count(self, name: str, default: int = 0) -> int:
        """Return a count, or the default if it is none."""
        return read_count(self.config, name, default)

    def read_text(self, name: str) -> str:
        """Return a text, or an empty one."""
        return _read_text(self.config, name)

    def read_texts(self, name: str) -> list[str]:
        """Return a list of texts, or an empty one."""
        value = self.config.get(name)
        return [item for item in value[:MAX_LAYERS] if isinstance(item, str)] if isinstance(value, list) else []

    def block_count(self) -> int:
        """Return how many blocks there are."""
        value = self.keys.get("block_count", 0)
        count = value if isinstance(value, int) else 0
        if not 0 <= count <= MAX_LAYERS:
            raise corrupt_error("it claims more layers than any model has")
        return count

    def set_recurrent(self, flags: list[bool]) -> None:
        """Say which layers keep a state, as the architecture's rule expects it."""
        if rule_for(self.architecture).recurrence is Recurrence.INTERVAL:
            self.keys["attention.recurrent_layers"] = flags
            return
        heads = self.keys.get("attention.head_count_kv", self.keys.get("attention.head_count", 0))
        plain = heads if isinstance(heads, int) else 0
        self.keys["attention.head_count_kv"] = [0 if flag else plain for flag in flags]


def _layer_types(model: _ConfigModel) -> None:
    """Put a list of layer types, in its many spellings, into per-layer lists."""
    types = model.read_texts("layer_types") or model.read_texts("layers_block_type")
    if not types:
        return
    if any(kind.startswith(_SLIDING) for kind in types):
        model.keys["attention.sliding_window_pattern"] = [kind.startswith(_SLIDING) for kind in types]
    elif "attention.sliding_window" in model.keys and not model.read_count("sliding_window_pattern"):
        model.keys["attention.sliding_window_pattern"] = [False] * len(types)
    if any(kind.startswith(_RECURRENT) for kind in types):
        model.set_recurrent([kind.startswith(_RECURRENT) for kind in types])


def _every_nth_full(model: _ConfigModel) -> None:
    """Older configurations count: every n-th layer keeps all tokens."""
    pattern = model.read_count("sliding_window_pattern")
    if pattern and "attention.sliding_window_pattern" not in model.keys:
        model.keys["attention.sliding_window_pattern"] = pattern


def _no_rope_layers(model: _ConfigModel) -> None:
    """Llama 4: layers with rotary positions keep chunks, those without keep everything."""
    layers = model.config.get("no_rope_layers")
    is_listed = model.architecture == "llama4" and "attention.sliding_window_pattern" not in model.keys
    if is_listed and isinstance(layers, list) and layers:
        model.keys["attention.sliding_window_pattern"] = [bool(flag) for flag in layers[:MAX_LAYERS]]


def _apply_latent(model: _ConfigModel) -> None:
    """DeepSeek's attention: one compressed vector and one rotary key per token, for all heads."""
    rank, rope = model.read_count("kv_lora_rank"), model.read_count("qk_rope_head_dim")
    if not rank or model.architecture in ("minicpm3", "plm"):
        return
    plain = model.read_count("qk_nope_head_dim") + rope
    model.keys |= {
        "attention.key_length": rank + rope,
        "attention.value_length": rank,
        "attention.key_length_mla": plain,
        "attention.value_length_mla": model.read_count("v_head_dim"),
        "attention.head_count_kv": 1,
    }


def _apply_full_heads(model: _ConfigModel) -> None:
    """MiniCPM3 and PLM compress their weights and not their cache: every head's keys and values are kept."""
    if model.architecture not in ("minicpm3", "plm"):
        return
    nope, rope = model.read_count("qk_nope_head_dim"), model.read_count("qk_rope_head_dim")
    hidden_size, heads = model.read_count("hidden_size"), model.read_count("num_attention_heads", 1)
    model.keys["attention.key_length"] = nope + rope
    model.keys["attention.value_length"] = model.read_count("v_head_dim") or hidden_size // max(1, heads)


def _two_head_sizes(model: _ConfigModel) -> None:
    """Gemma 4: layers that keep everything have larger and fewer heads than those that slide."""
    wide = model.read_count("global_head_dim")
    if model.architecture != "gemma4" or not wide:
        return
    narrow = model.read_count("head_dim")
    model.keys |= {
        "attention.key_length": wide,
        "attention.value_length": wide,
        "attention.key_length_swa": narrow,
        "attention.value_length_swa": narrow,
    }
    slides = model.keys.get("attention.sliding_window_pattern")
    heads, fewer = model.read_count("num_key_value_heads"), model.read_count("num_global_key_value_heads")
    if fewer and isinstance(slides, list):
        model.keys["attention.head_count_kv"] = [heads if flag else fewer for flag in slides]


def _inner_width(model: _ConfigModel) -> None:
    """Find the width inside a recurrent layer: stated, a multiple of the hidden width, or heads times their width."""
    if "ssm.state_size" not in model.keys:
        return
    hidden_size = model.read_count("hidden_size") or model.read_count("d_model")
    by_heads = model.read_count("linear_num_value_heads") * model.read_count("linear_value_head_dim")
    by_heads = by_heads or model.read_count("mamba_num_heads") * model.read_count("mamba_head_dim")
    by_heads = by_heads or model.read_count("mamba_n_heads") * model.read_count("mamba_d_head")
    expanded_size = hidden_size * (model.read_count("mamba_expand") or model.read_count("expand", 2))
    is_mamba = model.architecture in ("mamba", "mamba2")
    own = model.read_count("intermediate_size") if is_mamba else model.read_count("mamba_d_ssm")
    model.keys["ssm.inner_size"] = by_heads or own or expanded_size
    if is_mamba:
        model.keys["attention.head_count"] = 0
    if model.architecture in ("mamba", "jamba"):
        model.keys.pop("ssm.group_count", None)


def _apply_jamba(model: _ConfigModel) -> None:
    """One layer in `attn_layer_period` attends."""
    period = model.read_count("attn_layer_period")
    if model.architecture == "jamba" and period:
        offset = model.read_count("attn_layer_offset")
        model.set_recurrent([index % period != offset for index in range(model.block_count())])


def _nemotron_h(model: _ConfigModel) -> None:
    """One letter per layer: M recurs, * attends, - and E are feed-forward only."""
    pattern = model.read_text("hybrid_override_pattern")[:MAX_LAYERS]
    if not pattern:
        return
    heads, width = model.read_count("num_key_value_heads"), model.read_count("intermediate_size")
    model.keys["attention.head_count_kv"] = [heads if letter == "*" else 0 for letter in pattern]
    model.keys["feed_forward_length"] = [width if letter in "-E" else 0 for letter in pattern]


def _kimi_linear(model: _ConfigModel) -> None:
    """Layers that attend are numbered from one; the others keep a delta net's state."""
    linear = model.config.get("linear_attn_config")
    if not isinstance(linear, dict):
        return
    attends = linear.get("full_attn_layers")
    model.keys["kda.head_dim"] = read_count(linear, "head_dim")
    model.keys["ssm.conv_kernel"] = read_count(linear, "short_conv_kernel_size")
    if isinstance(attends, list):
        attends = attends[:MAX_LAYERS]
        model.set_recurrent([index + 1 not in attends for index in range(model.block_count())])


def _apply_lfm2(model: _ConfigModel) -> None:
    """Older files list the layers that attend; the feed-forward width may be rounded from two thirds."""
    attends = model.config.get("full_attn_idxs")
    if model.architecture.startswith("lfm2") and isinstance(attends, list) and "layer_types" not in model.config:
        attends = attends[:MAX_LAYERS]
        model.set_recurrent([index not in attends for index in range(model.block_count())])
    if model.config.get("block_auto_adjust_ff_dim") is True:
        width, multiple = model.read_count("block_ff_dim") * 2 // 3, max(1, model.read_count("block_multiple_of", 256))
        model.keys["feed_forward_length"] = -(-width // multiple) * multiple


def _apply_rwkv(model: _ConfigModel) -> None:
    head = model.read_count("head_size") or model.read_count("head_dim")
    if model.architecture.startswith("rwkv") and head:
        model.keys |= {"wkv.head_size": head, "attention.head_count": 0}


def _one_kv_head(model: _ConfigModel) -> None:
    """Falcon and StarCoder say it with a flag."""
    if model.config.get("multi_query") is True and "attention.head_count_kv" not in model.keys:
        model.keys["attention.head_count_kv"] = 1


def _draft_layers(model: _ConfigModel) -> None:
    """GGUF counts draft layers among the blocks; their place in per-layer lists is theirs to fill."""
    extra = model.read_count("num_nextn_predict_layers") or model.read_count("mtp_num_hidden_layers")
    count = model.block_count()
    if not extra or count + extra > MAX_LAYERS:
        return
    for key, value in model.keys.items():
        if isinstance(value, list) and len(value) == count:
            model.keys[key] = [*value, *[value[-1]] * extra]
    model.keys["block_count"] = count + extra


_Rule = Callable[[_ConfigModel], None]
_RULES: Sequence[_Rule] = (
    _one_kv_head,
    _layer_types,
    _every_nth_full,
    _no_rope_layers,
    _apply_latent,
    _apply_full_heads,
    _two_head_sizes,
    _inner_width,
    _apply_jamba,
    _nemotron_h,
    _kimi_linear,
    _apply_lfm2,
    _apply_rwkv,
    _draft_layers,
)
"""In this order: later ones refine what earlier ones said."""


def read_flag(config: Object, name: str, *, default: bool = False) -> bool:
    """Return a yes or no from a configuration."""
    value: Any = config.get(name)
    return value if isinstance(value, bool) else default


ARCHITECTURES: dict[str, str] = {
    "mistral": "llama",
    "mixtral": "llama",
    "ministral": "llama",
    "ministral3": "mistral3",
    "mistral3": "mistral3",
    "mistral4": "mistral4",
    "pixtral": "llama",
    "yi": "llama",
    "llama4_text": "llama4",
    "mllama": "llama",
    "mllama_text_model": "llama",
    "gpt_oss": "gpt-oss",
    "qwen2_moe": "qwen2moe",
    "qwen2_vl": "qwen2vl",
    "qwen2_vl_text": "qwen2vl",
    "qwen2_5_vl": "qwen2vl",
    "qwen2_5_vl_text": "qwen2vl",
    "qwen3_moe": "qwen3moe",
    "qwen3_next": "qwen3next",
    "qwen3_vl": "qwen3vl",
    "qwen3_vl_text": "qwen3vl",
    "qwen3_vl_moe": "qwen3vlmoe",
    "qwen3_vl_moe_text": "qwen3vlmoe",
    "qwen3_5": "qwen35",
    "qwen3_5_text": "qwen35",
    "qwen3_5_moe": "qwen35moe",
    "qwen3_5_moe_text": "qwen35moe",
    "gemma3_text": "gemma3",
    "gemma3n_text": "gemma3n",
    "gemma4_text": "gemma4",
    "phi": "phi2",
    "phi3_v": "phi3",
    "phi4mm": "phi3",
    "cohere": "command-r",
    "cohere2_moe": "cohere2moe",
    "granitemoeshared": "granitemoe",
    "granitemoehybrid": "granitehybrid",
    "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2",
    "deepseek_v32": "deepseek32",
    "kimi_k2": "deepseek2",
    "glm4_moe": "glm4moe",
    "glm4_moe_lite": "deepseek2",
    "glm4v_text": "glm4",
    "glm4v_moe_text": "glm4moe",
    "falcon_mamba": "mamba",
    "falcon_h1": "falcon-h1",
    "lfm2_moe": "lfm2moe",
    "kimi_linear": "kimi-linear",
    "hunyuan": "hunyuan-moe",
    "hunyuan_v1_moe": "hunyuan-moe",
    "hunyuan_v1_dense": "hunyuan-dense",
    "exaone_moe": "exaone-moe",
    "olmo3": "olmo2",
    "gpt_bigcode": "starcoder",
    "gpt_neox": "gptneox",
    "gpt_j": "gptj",
    "stablelm_epoch": "stablelm",
    "internlm3": "llama",
    "grok-1": "grok",
    "ernie4_5_moe": "ernie4_5-moe",
    "bailing_moe": "bailingmoe",
    "bailing_moe_v2": "bailingmoe2",
    "minimax_m2": "minimax-m2",
    "mimo_v2_flash": "mimo2",
    "step3p5": "step35",
    "nomic_bert": "nomic-bert",
    "modernbert": "modern-bert",
    "roberta": "bert",
    "xlm-roberta": "bert",
    "rwkv6": "rwkv6",
    "rwkv7": "rwkv7",
}
"""A configuration's `model_type` -> llama.cpp's name, where they differ."""

FIELDS: dict[str, tuple[str, ...]] = {
    "embedding_length": ("hidden_size", "n_embd", "d_model", "dim"),
    "block_count": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "feed_forward_length": ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff", "block_ff_dim"),
    "attention.head_count": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "attention.head_count_kv": ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "n_kv_heads"),
    "attention.key_length": ("head_dim", "attention_head_dim", "kv_channels", "d_kv"),
    "attention.value_length": ("v_head_dim", "head_dim", "attention_head_dim", "kv_channels", "d_kv"),
    "attention.sliding_window": ("sliding_window", "sliding_window_size", "attention_chunk_size", "local_attention"),
    "attention.shared_kv_layers": ("num_kv_shared_layers",),
    "attention.kv_lora_rank": ("kv_lora_rank",),
    "attention.indexer.key_length": ("index_head_dim",),
    "context_length": (
        "max_position_embeddings",
        "n_positions",
        "n_ctx",
        "seq_length",
        "max_seq_len",
        "max_sequence_length",
    ),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "expert_count": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "expert_used_count": ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "num_selected_experts"),
    "expert_feed_forward_length": ("moe_intermediate_size", "expert_ffn_hidden_size"),
    "expert_shared_feed_forward_length": ("shared_expert_intermediate_size", "shared_intermediate_size"),
    "expert_shared_count": ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "leading_dense_block_count": ("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"),
    "interleave_moe_layer_step": (
        "interleave_moe_layer_step",
        "decoder_sparse_step",
        "moe_layer_interval",
        "moe_layer_freq",
    ),
    "nextn_predict_layers": ("num_nextn_predict_layers", "mtp_num_hidden_layers"),
    "full_attention_interval": ("full_attention_interval",),
    "ssm.conv_kernel": ("linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel", "d_conv"),
    "ssm.state_size": ("linear_key_head_dim", "mamba_d_state", "ssm_state_size", "state_size", "d_state"),
    "ssm.group_count": ("linear_num_key_heads", "mamba_n_groups", "n_groups"),
    "ssm.time_step_rank": (
        "linear_num_value_heads",
        "mamba_n_heads",
        "mamba_num_heads",
        "mamba_dt_rank",
        "time_step_rank",
    ),
    "shortconv.l_cache": ("conv_L_cache",),
}
"""A GGUF key, without the architecture -> what configurations call it; the first that is there counts."""

DEFAULTS: dict[str, dict[str, int]] = {
    "gemma": {"head_dim": 256},
    "gemma2": {"head_dim": 256, "sliding_window": 4096},
    "gemma3_text": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262_208,
        "max_position_embeddings": 131_072,
        "sliding_window": 4096,
    },
    "gemma3n_text": {"num_kv_shared_layers": 15, "head_dim": 256, "sliding_window": 512},
    "gemma4_text": {"global_head_dim": 512, "head_dim": 256, "sliding_window": 512},
    "cohere2": {"sliding_window": 4096},
    "llama4_text": {"attention_chunk_size": 8192, "head_dim": 128},
    "jamba": {"attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1},
    "qwen3_next": {"full_attention_interval": 4},
    "mamba": {"expand": 2, "conv_kernel": 4, "state_size": 16},
    "mamba2": {"expand": 2, "conv_kernel": 4, "state_size": 128, "n_groups": 8},
    "lfm2": {"conv_L_cache": 3},
    "lfm2_moe": {"conv_L_cache": 3},
    "t5": {"d_kv": 64},
}
"""`model_type` -> values that hold where a configuration leaves them out."""
