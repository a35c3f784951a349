"""How llama.cpp spreads types over tensors: a "Q4_K_M" is a mix, chosen by a tensor's role, its layer and its width.

The rules are those of llama.cpp's `llama-quant.cpp` (`llama_tensor_get_type_impl`, `tensor_type_fallback`), stated as
tables by role. Uploads marked "UD" choose tensor by tensor after measurements of their maker: an approximation.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import msgspec

from app.core.errors import BadRequest
from app.hub.facts.metadata import Metadata, Value
from app.hub.gguf.tables import TYPE_NAMES, TYPE_SIZES
from app.hub.shapes.architectures import TensorOutline

TYPE_IDS = {name: number for number, name in TYPE_NAMES.items()}
IMPORTANCE = frozenset({"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS"})
"""Mixes that llama.cpp makes only with an importance matrix."""

BASES: dict[str, str] = {
    **{name: name for name in ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q6_K", "Q1_0")},
    **{name: name for name in ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS")},
    **{name: name for name in ("TQ1_0", "TQ2_0")},
    "Q2_K_S": "Q2_K",
    "Q3_K_S": "Q3_K",
    "Q3_K_M": "Q3_K",
    "Q3_K_L": "Q3_K",
    "Q4_K_S": "Q4_K",
    "Q4_K_M": "Q4_K",
    "Q5_K_S": "Q5_K",
    "Q5_K_M": "Q5_K",
    "IQ2_S": "IQ2_XS",
    "IQ2_M": "IQ2_S",
    "IQ3_XS": "IQ3_S",
    "IQ3_M": "IQ3_S",
    "MXFP4_MOE": "Q8_0",
}
"""Mix -> the type of most of its tensors (`llama_ftype_get_default_type`)."""

WITH_Q8_ENDS = {
    "Q2_K_L": "Q2_K",
    "Q3_K_XL": "Q3_K_L",
    "Q4_K_L": "Q4_K_M",
    "Q5_K_L": "Q5_K_M",
    "Q6_K_L": "Q6_K",
}
"""Names some uploaders give to a usual mix with embedding and output in Q8_0."""

FALLBACKS = {
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_XS"), "IQ4_NL"),
    **dict.fromkeys(("Q2_K", "Q3_K", "TQ1_0", "TQ2_0"), "Q4_0"),
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
}
"""For rows that are no multiple of 256 elements."""

DYNAMIC = {
    "Q2_K_XL": ("Q2_K_S", "Q2_K"),
    "Q3_K_XL": ("Q3_K_S", "Q3_K_M"),
    "Q4_K_XL": ("Q4_K_S", "Q4_K_M"),
    "Q5_K_XL": ("Q5_K_S", "Q5_K_M"),
    "Q6_K_XL": ("Q6_K", "Q6_K"),
    "Q8_K_XL": ("Q8_0", "Q8_0"),
}
"""The mixes nearest to "UD-..._XL": of models with experts, of dense ones."""

_UNTOUCHED = re.compile(
    r"_norm\.weight$|ffn_gate_inp\.weight|altup|laurel|per_layer_model_proj|^position_embd|^token_types|ssm_conv1d"
    r"|shortconv\.conv\.weight|time_mix_(?:first|w[012]|v[012]|a[012]|g[12]|decay_w[12]|lerp_fused)\.weight|attn_rel_b"
)
_SINGLE = re.compile(
    r"ffn_gate_inp|^position_embd|^token_types|ssm_conv1d|shortconv\.conv|(?:time|channel)_mix_(?:w[012]|v[012]|a[012]|g[12]|lerp)"
    r"|altup_(?:correct|predict)_coef|_norm\.weight$"
)
"""What the converter keeps in F32 in every file."""
_ROLES = ("attn_qkv", "attn_kv_b", "attn_v", "attn_k", "attn_q", "attn_output")
_ALWAYS_READ = re.compile(r"\.attn_|\.ssm_|_shexp\.")
_STATE_OUTPUT = re.compile(r"\.ssm_out\.")
_ONE_MORE_BIT = {"Q2_K": "Q3_K", "Q3_K": "Q4_K", "Q4_K": "Q5_K", "Q5_K": "Q6_K", "Q6_K": "Q8_0"}
_SUPER_BLOCK = 256
"""Rows of K-quants are multiples of this; others fall back to a type of more bits as it is. Rows of n-grams never are:
publishers store those tables in four and a half bits in every mix (Qwen3.8 Flash Next, August 2026)."""
_BLOCK = re.compile(r"^blk\.(\d+)\.")


class TypeMix(msgspec.Struct, frozen=True):
    """A GGML type per tensor; `is_exact` unless the mix is an approximation."""

    types: list[int]
    is_exact: bool = True


class _MixTensor(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor on its way to a type: its role, and the how-manieth of that role it is."""

    role: str
    index: int
    layers: int


class _MixContext(msgspec.Struct, kw_only=True):
    """What the rules look at besides the tensor; `seen` counts tensors by role as they come."""

    mix: str
    base: str
    architecture: str
    sharing: int
    """Heads per key-value head."""
    experts: int
    blocks: int
    is_70b: bool
    is_tied: bool
    values: int
    """How many tensors of the role "attn_v" there are."""
    ends: str = ""
    """A type for embedding and output that overrules the mix."""
    always_read: str = ""
    """The same for attention, recurrences and shared experts."""
    has_larger_down: bool = False
    seen: dict[str, int]

    @property
    def is_eight_experts(self) -> bool:
        return self.experts == 8  # noqa: PLR2004 -- llama.cpp's own special case for Mixtral

    @property
    def is_shared(self) -> bool:
        """Whether values are so few that more bits for them cost little."""
        return self.sharing >= 4  # noqa: PLR2004 -- llama.cpp's own limit


def choose_types(quantization: str, tensors: Sequence[TensorOutline], values: Mapping[str, Value]) -> TypeMix:
    """Return the type of every tensor. Raises BadRequest for a quantisation that no GGUF has."""
    metadata = Metadata(values)
    name = quantization.upper().replace("MXFP4_MOE", "MXFP4").replace("MXFP4", "MXFP4_MOE")
    recipe = _find_recipe(name, has_experts=metadata.read_number("expert_count") > 0)
    if recipe is None:
        raise BadRequest(f"{quantization} is not a quantisation of GGUF files.", code="quantization_unknown")
    context = _build_context(recipe, tensors, metadata)
    return TypeMix([TYPE_IDS[_tensor_type(tensor, context)] for tensor in tensors], is_exact=recipe.is_exact)


class _MixRecipe(msgspec.Struct, frozen=True):
    """A llama.cpp mix, and what an uploader does differently: types for the ends, and for what every token reads.

    `has_larger_down`: whether what leaves an expert is in a type of one bit more.
    """

    mix: str
    ends: str = ""
    always_read: str = ""
    has_larger_down: bool = False
    is_exact: bool = True


def _find_recipe(name: str, *, has_experts: bool) -> _MixRecipe | None:
    """Return what is behind a name, None for one that no GGUF has."""
    if name in BASES:
        return _MixRecipe(name)
    if name in WITH_Q8_ENDS:
        return _MixRecipe(WITH_Q8_ENDS[name], ends="Q8_0")
    if "QAT" in name:
        return _MixRecipe("Q4_0", ends="Q4_0", is_exact=False) if "Q4_0" in name else None
    if not name.startswith("UD-") and name not in DYNAMIC:
        return None
    return _dynamic_recipe(name.removeprefix("UD-"), has_experts=has_experts)


def _dynamic_recipe(plain: str, *, has_experts: bool) -> _MixRecipe | None:
    """Return an approximation of Unsloth's dynamic uploads.

    Of models with experts what every token reads (attention, recurrences, shared experts) is in eight bits, in six
    where I-quants have three or less, and what leaves an expert in a bit more than what goes in: so the maker's
    documentation of February 2026, and sizes: 22.2 GB of Qwen3.5 35B-A3B UD-Q4_K_XL are met within 2 %, where plain
    mixes miss them by 10 %. Of dense models only what leaves a recurrence is, from four bits on.
    """
    small, medium = DYNAMIC.get(plain, (plain, plain))
    usual = small if has_experts else medium
    if usual not in BASES:
        return None
    if usual == "Q8_0":
        return _MixRecipe(usual, is_exact=False)
    if not has_experts:
        return _MixRecipe(usual, always_read="Q8_0" if usual[:2] in {"Q4", "Q5", "Q6"} else "", is_exact=False)
    kept_type = "Q8_0" if plain in DYNAMIC or usual.startswith("IQ4") else "Q6_K"
    return _MixRecipe(usual, always_read=kept_type, has_larger_down=plain in DYNAMIC, is_exact=False)


def _build_context(recipe: _MixRecipe, tensors: Sequence[TensorOutline], metadata: Metadata) -> _MixContext:
    heads, kv = metadata.read_number("attention.head_count"), metadata.read_number("attention.head_count_kv")
    roles = [role_of(tensor.name) for tensor in tensors]
    blocks = metadata.block_count
    return _MixContext(
        mix=recipe.mix,
        base=BASES[recipe.mix],
        architecture=metadata.architecture,
        sharing=heads // kv if kv else 0,
        experts=metadata.read_number("expert_count"),
        blocks=blocks,
        is_70b=blocks == 80 and heads != kv and metadata.architecture in {"llama", "qwen2"},  # noqa: PLR2004 -- `LLM_TYPE_70B`
        is_tied="output" not in roles,
        values=roles.count("attn_v"),
        ends=recipe.ends,
        always_read=recipe.always_read,
        has_larger_down=recipe.has_larger_down,
        seen={},
    )


@lru_cache(maxsize=16_384)  # models have the same names, and each is asked for in every quantisation
def role_of(name: str) -> str:
    """Return what llama.cpp takes a tensor for; its fused attention counts as "attn_v"."""
    if name == "output.weight":
        return "output"
    if name in {"token_embd.weight", "per_layer_token_embd.weight"}:
        return "embedding"
    for role in _ROLES:
        if f"{role}.weight" in name:
            return "attn_v" if role in {"attn_qkv", "attn_kv_b"} else role
    return next((role for role in ("ffn_up", "ffn_gate", "ffn_down") if role in name), "other")


def _tensor_type(tensor: TensorOutline, context: _MixContext) -> str:
    if tensor.shape.count(1) > len(tensor.shape) - 2 or not _may_be_quantised(tensor.name):  # a vector stays as it is
        return _unquantised_type(tensor, context)
    if context.architecture == "gpt-oss" and "_exps" in tensor.name:
        return "MXFP4"  # as published: no uploader changes them
    if context.base in {"F32", "F16", "BF16"}:
        return context.base
    return fit_type(_choose_type(tensor, context), tensor.shape[0])


@lru_cache(maxsize=16_384)  # as `role_of`
def _may_be_quantised(name: str) -> bool:
    return name.endswith("weight") and not _UNTOUCHED.search(name)


def _unquantised_type(tensor: TensorOutline, context: _MixContext) -> str:
    single = len(tensor.shape) < 2 or not tensor.name.endswith(".weight") or _SINGLE.search(tensor.name)  # noqa: PLR2004 -- a vector
    if single:
        return "F32"
    return context.base if context.base in {"F32", "F16"} else "BF16"


def fit_type(chosen_type: str, row: int) -> str:
    """Return the type, or the one that llama.cpp takes for rows that do not fit its blocks."""
    if row % TYPE_SIZES[TYPE_IDS[chosen_type]][0] == 0:
        return chosen_type
    fallback = FALLBACKS.get(chosen_type, "F16")
    return fallback if row % TYPE_SIZES[TYPE_IDS[fallback]][0] == 0 else "F16"


def _choose_type(tensor: TensorOutline, context: _MixContext) -> str:
    role = role_of(tensor.name)
    if role == "output" or (role == "embedding" and context.is_tied):
        return context.ends or _output_type(context, tensor.shape[0])
    if context.mix == "MXFP4_MOE":
        return "MXFP4" if len(tensor.shape) > 2 and tensor.shape[2] > 1 else "Q8_0"  # noqa: PLR2004 -- experts are 3D
    if role == "embedding":
        is_ngrams = tensor.name.startswith("per_layer") and tensor.shape[0] % _SUPER_BLOCK > 0
        return "IQ4_NL" if is_ngrams else context.ends or _EMBEDDING.get(context.mix, context.base)
    if context.always_read and (_ALWAYS_READ if context.experts else _STATE_OUTPUT).search(tensor.name):
        return context.always_read
    if context.has_larger_down and role == "ffn_down" and tensor.shape[0] % _SUPER_BLOCK == 0:
        return _ONE_MORE_BIT[context.base]
    return _RULES[role](context, _number_tensor(tensor, role, context))


def _number_tensor(tensor: TensorOutline, role: str, context: _MixContext) -> _MixTensor:
    count = context.seen.get(role, 0)
    context.seen[role] = count + 1
    block = _BLOCK.match(tensor.name) if context.experts > 1 and role.startswith("ffn") else None
    if block:
        count = int(block[1])
    return _MixTensor(role=role, index=count, layers=context.values if role == "attn_v" else context.blocks)


def _output_type(mix: _MixContext, row: int) -> str:
    if mix.mix == "MXFP4_MOE" or mix.architecture == "falcon" or row % TYPE_SIZES[TYPE_IDS[mix.base]][0]:
        return "Q8_0"
    if mix.mix in IMPORTANCE:
        return "Q5_K"
    return "Q8_0" if mix.base == "Q8_0" else "Q6_K"


_EMBEDDING = {
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS"), "Q2_K"),
    **dict.fromkeys(("IQ2_S", "IQ2_M", "IQ3_XXS"), "IQ3_S"),
    **dict.fromkeys(("TQ1_0", "TQ2_0"), "Q4_K"),
}


def _wants_more(index: int, layers: int) -> bool:
    """Whether a layer is among those that get more bits: the first and last eighth, and every third between."""
    return index < layers // 8 or index >= 7 * layers // 8 or (index - layers // 8) % 3 == 2  # noqa: PLR2004 -- as above


def _low_bit_type(mix: _MixContext, tensor: _MixTensor) -> str | None:
    """Return the type in mixes of two bits and less; None where the usual rule holds."""
    if mix.mix not in IMPORTANCE - {"IQ3_XXS"}:
        return None
    is_larger = mix.mix in {"IQ2_S", "IQ2_M"}
    better = "IQ3_S" if is_larger else "Q2_K"
    if tensor.role == "attn_v":
        return "Q4_K" if mix.is_shared or mix.experts >= 4 else better  # noqa: PLR2004 -- llama.cpp's limit
    if tensor.role == "attn_k" and mix.is_eight_experts:
        return "Q4_K"
    if tensor.role == "ffn_down" and tensor.index < mix.blocks // 8:
        return better
    if tensor.role == "attn_output":
        return "Q5_K" if mix.is_eight_experts else _low_output(mix.mix, mix.base)
    return mix.base


def _low_output(name: str, base: str) -> str:
    return {"IQ1_S": "IQ2_XXS", "IQ1_M": "IQ2_XXS", "IQ2_S": "IQ3_S", "IQ2_M": "IQ3_S"}.get(name, base)


def _value_type(mix: _MixContext, tensor: _MixTensor) -> str:
    if low := _low_bit_type(mix, tensor):
        return low
    if mix.is_eight_experts:
        return "Q8_0"
    chosen_type = _VALUE.get(mix.mix, _as_base)(mix, tensor)
    return "Q5_K" if mix.is_70b and chosen_type in {"Q3_K", "Q4_K"} else chosen_type


def _as_base(mix: _MixContext, _tensor: _MixTensor) -> str:
    return mix.base


def _q6_for_some(mix: _MixContext, tensor: _MixTensor) -> str:
    return "Q6_K" if _wants_more(tensor.index, tensor.layers) else mix.base


_VALUE: dict[str, Callable[[_MixContext, _MixTensor], str]] = {
    "Q2_K": lambda mixing, _: "Q4_K" if mixing.is_shared else "Q3_K",
    "Q3_K_M": lambda _, tensor: "Q5_K" if tensor.index < 2 else "Q4_K",  # noqa: PLR2004 -- the first two
    "Q3_K_L": lambda _mixing, _tensor: "Q5_K",
    "IQ3_M": lambda _mixing, _tensor: "Q4_K",
    "Q4_K_M": _q6_for_some,
    "Q5_K_M": _q6_for_some,
    "Q4_K_S": lambda mixing, tensor: "Q5_K" if tensor.index < 4 else mixing.base,  # noqa: PLR2004 -- the first four
    **dict.fromkeys(
        ("Q2_K_S", "IQ3_XXS", "IQ3_XS", "IQ3_S"), lambda mixing, _: "Q4_K" if mixing.is_shared else mixing.base
    ),
    **dict.fromkeys(("IQ4_NL", "IQ4_XS"), lambda mixing, _: "Q5_K" if mixing.is_shared else mixing.base),
}


def _query_or_key(mix: _MixContext, tensor: _MixTensor) -> str:
    if low := _low_bit_type(mix, tensor):
        return low
    if tensor.role == "attn_k" and mix.is_eight_experts:
        return "Q8_0"
    return {"IQ3_XS": "IQ3_XXS", "IQ3_XXS": "IQ2_S"}.get(mix.mix, mix.base)


def _down_type(mix: _MixContext, tensor: _MixTensor) -> str:
    if low := _low_bit_type(mix, tensor):
        return low
    if mix.architecture == "falcon":
        return _down_falcon(mix, tensor)
    return _DOWN.get(mix.mix, _as_base)(mix, tensor)


_DOWN: dict[str, Callable[[_MixContext, _MixTensor], str]] = {
    "Q2_K": lambda _mixing, _tensor: "Q3_K",
    "Q2_K_S": lambda mixing, tensor: "Q4_K" if tensor.index < tensor.layers // 8 else mixing.base,
    "Q3_K_M": lambda _, tensor: "Q5_K" if tensor.index < tensor.layers // 16 else "Q4_K",
    "Q3_K_L": lambda _mixing, _tensor: "Q5_K",
    "IQ3_M": lambda mixing, tensor: (
        "Q4_K"
        if tensor.index < tensor.layers // 8 or (mixing.is_eight_experts and _wants_more(tensor.index, tensor.layers))
        else mixing.base
    ),
    "Q4_K_M": _q6_for_some,
    "Q5_K_M": _q6_for_some,
    "Q4_K_S": lambda mixing, tensor: "Q5_K" if tensor.index < tensor.layers // 8 else mixing.base,
}


def _down_falcon(mix: _MixContext, tensor: _MixTensor) -> str:
    more = _wants_more(tensor.index, tensor.layers)
    is_first = tensor.index < tensor.layers // 16
    if mix.mix == "Q4_K_M":
        return "Q6_K" if is_first else ("Q5_K" if more else "Q4_K")
    if mix.mix == "Q3_K_M":
        return "Q5_K" if is_first else ("Q4_K" if more else "Q3_K")
    if mix.mix in {"Q3_K_L", "Q2_K"}:
        return {"Q3_K_L": "Q4_K", "Q2_K": "Q3_K"}[mix.mix]
    return _q6_for_some(mix, tensor) if mix.mix == "Q5_K_M" else mix.base


def _attention_output(mix: _MixContext, tensor: _MixTensor) -> str:
    if low := _low_bit_type(mix, tensor):
        return low
    if mix.architecture == "falcon":
        return "Q4_K" if mix.mix == "Q3_K_L" else mix.base
    if mix.is_eight_experts:
        return "Q5_K" if mix.mix in _OUTPUT_Q5 else mix.base
    return {"Q2_K": "Q3_K", "IQ3_XXS": "IQ3_S", "Q3_K_M": "Q4_K", "Q3_K_L": "Q5_K", "IQ3_M": "Q4_K"}.get(
        mix.mix, mix.base
    )


_OUTPUT_Q5 = frozenset(
    ("Q2_K", "IQ3_XS", "IQ3_XXS", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M", "IQ3_S", "IQ3_M", "IQ4_XS")
)
"""Mixes that give the attention output of eight-expert models more bits."""


def _gate_or_up(mix: _MixContext, tensor: _MixTensor) -> str:
    is_middle = tensor.layers // 8 <= tensor.index < 7 * tensor.layers // 8
    return "IQ3_XXS" if mix.mix == "IQ3_XS" and is_middle else mix.base


_RULES: dict[str, Callable[[_MixContext, _MixTensor], str]] = {
    "attn_v": _value_type,
    "attn_k": _query_or_key,
    "attn_q": _query_or_key,
    "attn_output": _attention_output,
    "ffn_down": _down_type,
    "ffn_gate": _gate_or_up,
    "ffn_up": _gate_or_up,
    "other": _as_base,
}
