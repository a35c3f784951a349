"""What a tensor of a Hugging Face model is for, told by its module's name.

The names differ by author more than llama.cpp's do; the patterns follow those of the transformers library.
"""

import re
from collections.abc import Sequence

from app.core.model_facts import WeightKind

_BLOCK = re.compile(r"(?:^|\.)(?:layers|h|blocks|block|layer|transformer_encoder|decoder_layer)\.(\d{1,4})\.(.+)$")
_LAST = re.compile(r"\.(?:weight|bias)$")
_PROJECTOR = re.compile(
    r"(?:^|\.)(?:vision\w*|visual|vit|image_newline|multi_modal_projector|\w*mm_\w+|audio_\w+|conformer|embed_vision|"
    r"embed_audio|patch_merger|merger|connector|vpm|apm|resampler|aligner|sam_model|projector|mlp_AR|mlp1)(?:\.|$)"
)
_DRAFT = re.compile(r"(?:^|\.)(?:mtp|nextn)(?:_\w+)?\.")
_DRAFT_INSIDE = re.compile(r"^(?:eh_proj|enorm|hnorm|shared_head|embed_tokens)(?:\.|$)")
_Table = Sequence[tuple[WeightKind, re.Pattern[str]]]
_NORM = re.compile(r"(?:norm|(?:^|[._])ln)[^.]*$|layer_scalar", re.IGNORECASE)
_RECURRENT = re.compile(
    r"linear_attn|mamba|(?:^|\.)conv\.|ssm|time_mix|conv1d|^(?:A_log|D|(?:in|x|dt|out)_proj)$|"
    r"(?:^|\.)mixer\.(?![qkvo]_proj|Wqkv|qkv_proj|up_proj|down_proj|fc\d)"
)
_INSIDE: _Table = (
    (WeightKind.SHARED_EXPERTS, re.compile(r"shared?_expert|shared_mlp")),
    (WeightKind.EXPERTS, re.compile(r"experts?\.|_experts$|switch_mlp|moe\.(?:(?:in|out)put_linear|linear|\w+_proj)")),
    (
        WeightKind.ROUTER,
        re.compile(r"(?:^|\.|_)(?:gate|router)(?:\.|_bias|$)|expert_bias|e_score_correction|moe_statics"),
    ),
    (WeightKind.NORM, _NORM),
    (WeightKind.RECURRENT, _RECURRENT),
    (WeightKind.ATTENTION, re.compile(r"attn|attention|[qkvo]_proj|qkv|^w[qkvo]$", re.IGNORECASE)),
    (
        WeightKind.FEED_FORWARD,
        re.compile(
            r"mlp|feed_forward|ffn|fc[12]|ff_|(?:up|down|gate|ff)_proj|per_layer|^intermediate|^output|DenseRelu"
        ),
    ),
)
_OUTSIDE: _Table = (
    (WeightKind.NORM, _NORM),
    (
        WeightKind.OUTPUT,
        re.compile(r"lm_head|embed_out|_for_head|(?:^|\.)(?:output(?:_layer)?|head|score)(?:\.|$)|classif"),
    ),
    (WeightKind.INPUT_EMBEDDING, re.compile(r"embed(?!_pro)|(?:^|\.)w[tp]e|(?:^|\.)shared$")),
)


def kind_of(module: str) -> tuple[WeightKind, int | None]:
    """Return what a module's tensors are for, and their block. Vision and audio parts have blocks of their own."""
    module = _LAST.sub("", module)
    if _PROJECTOR.search(module):
        return WeightKind.PROJECTOR, None
    block = _BLOCK.search(module)
    number = int(block[1]) if block else None
    if _DRAFT.search(module):
        return WeightKind.DRAFT, None if module.startswith("mtp") else number
    if block is not None and _DRAFT_INSIDE.search(block[2]):
        return WeightKind.DRAFT, number
    if block is None:
        return _first_match(_OUTSIDE, module), None
    return _first_match(_INSIDE, block[2]), number


def _first_match(table: _Table, name: str) -> WeightKind:
    return next((kind for kind, pattern in table if pattern.search(name)), WeightKind.OTHER)
