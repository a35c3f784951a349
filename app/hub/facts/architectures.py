"""What llama.cpp knows of an architecture that no metadata key says: windows, patterns, which layers recur.

The rules are those of llama.cpp's `load_hparams` and `create_memory` (build 11549), stated as data. An architecture
that is not listed follows the keys in its file, and its facts then say that they are derived.
"""

from enum import StrEnum

import msgspec


class WindowRule(StrEnum):
    """How a sliding window is meant."""

    NEVER = "never"
    """A window in the file is ignored unless it names its layers: every layer keeps all tokens (Phi 3)."""
    IF_STATED = "if stated"
    """Some layers slide if the file names a window."""
    ALWAYS = "always"
    """Some layers slide, with `window` tokens if the file does not say."""
    CHUNKED = "chunked"
    """Some layers keep the present chunk of `window` tokens."""


class Recurrence(StrEnum):
    """Which layers keep a recurrent state instead of, or besides, keys and values."""

    NEVER = "never"
    ALL = "all"
    """Every layer, and none attends (Mamba, RWKV)."""
    BOTH = "both"
    """Every layer recurs and attends (Falcon-H1)."""
    NO_KV_HEADS = "no kv heads"
    """Layers whose `head_count_kv` is zero (Jamba, Granite 4 hybrid, LFM2)."""
    NO_KV_HEADS_NOR_FEED_FORWARD = "no kv heads nor feed-forward"
    """As before, but layers with a feed-forward part are only that (Nemotron-H)."""
    INTERVAL = "interval"
    """All but every `full_attention_interval`-th (Qwen3-Next, Qwen3.5)."""


class ArchitectureRule(msgspec.Struct, frozen=True, kw_only=True):
    """One architecture. `pattern` n: every n-th layer keeps all tokens, the last of each n unless `full_first`."""

    window: WindowRule = WindowRule.NEVER
    window_tokens: int = 0
    is_window_fixed: bool = False
    """llama.cpp takes `window_tokens` whatever the file says."""
    sliding_blocks: int = 0
    """Only a model of so many blocks slides; 0: any."""
    pattern: int = 1
    full_first: bool = False
    recurrence: Recurrence = Recurrence.NEVER
    is_cached: bool = True
    """False: reads the whole text at once and keeps nothing (encoders, diffusion); llama.cpp allocates no cache."""
    is_encoder: bool = False
    """Turns a text into a vector."""
    kv_from_start: int = 0
    """The first so many layers keep keys and values, the others read those (Gemma 3n); 0: all do."""


PLAIN = ArchitectureRule()
_ENCODER = ArchitectureRule(is_cached=False, is_encoder=True)
_DIFFUSION = ArchitectureRule(is_cached=False)
_RECURRENT = ArchitectureRule(recurrence=Recurrence.ALL)
_HYBRID = ArchitectureRule(recurrence=Recurrence.NO_KV_HEADS)
_NEMOTRON_H = ArchitectureRule(recurrence=Recurrence.NO_KV_HEADS_NOR_FEED_FORWARD)
_DELTA_NET = ArchitectureRule(recurrence=Recurrence.INTERVAL)

_SPECIAL: dict[str, ArchitectureRule] = {
    "llama4": ArchitectureRule(window=WindowRule.CHUNKED, window_tokens=8192, is_window_fixed=True, pattern=4),
    "gemma2": ArchitectureRule(window=WindowRule.ALWAYS, window_tokens=4096, pattern=2),
    "gemma3": ArchitectureRule(window=WindowRule.IF_STATED, pattern=6),
    "gemma3n": ArchitectureRule(window=WindowRule.ALWAYS, pattern=5, kv_from_start=20),
    "gemma4": ArchitectureRule(window=WindowRule.IF_STATED),
    "gpt-oss": ArchitectureRule(window=WindowRule.IF_STATED, pattern=2),
    "cohere2": ArchitectureRule(window=WindowRule.ALWAYS, window_tokens=4096, pattern=4),
    "cohere2moe": ArchitectureRule(window=WindowRule.IF_STATED, pattern=4),
    "exaone4": ArchitectureRule(window=WindowRule.IF_STATED, sliding_blocks=64, pattern=4),
    "exaone-moe": ArchitectureRule(window=WindowRule.IF_STATED, pattern=4),
    "olmo2": ArchitectureRule(window=WindowRule.IF_STATED, pattern=4),
    "smallthinker": ArchitectureRule(
        window=WindowRule.IF_STATED, window_tokens=4096, is_window_fixed=True, pattern=4, full_first=True
    ),
    "afmoe": ArchitectureRule(window=WindowRule.IF_STATED, pattern=4),
    "plamo3": ArchitectureRule(window=WindowRule.IF_STATED, pattern=8),
    "mimo2": ArchitectureRule(window=WindowRule.IF_STATED),
    "step35": ArchitectureRule(window=WindowRule.IF_STATED),
    "laguna": ArchitectureRule(window=WindowRule.IF_STATED),
    "mellum": ArchitectureRule(window=WindowRule.IF_STATED, pattern=4),
    "granite_swa": ArchitectureRule(window=WindowRule.IF_STATED),
    "jamba": _HYBRID,
    "granitehybrid": _HYBRID,
    "plamo2": _HYBRID,
    "lfm2": _HYBRID,
    "lfm2moe": _HYBRID,
    "kimi-linear": _HYBRID,
    "kimi-k3": _HYBRID,
    "bailingmoe3": _HYBRID,
    "nemotron_h": _NEMOTRON_H,
    "nemotron_h_moe": _NEMOTRON_H,
    "falcon-h1": ArchitectureRule(recurrence=Recurrence.BOTH),
    "qwen3next": _DELTA_NET,
    "qwen35": _DELTA_NET,
    "qwen35moe": _DELTA_NET,
}

_RECURRENT_NAMES = "mamba mamba2 rwkv6 rwkv6qwen2 rwkv7 arwkv7"
_ENCODER_NAMES = (
    "bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert gemma-embedding "
    "wavtokenizer-dec t5encoder"
)
_DIFFUSION_NAMES = "dream llada llada-moe rnd1"
_PLAIN_NAMES = (
    "llama llama-embed deci falcon grok gpt2 gptj gptneox mpt baichuan starcoder refact bloom stablelm qwen qwen2 "
    "qwen2moe qwen2vl qwen3 qwen3moe qwen3vl qwen3vlmoe phi2 phi3 phimoe plamo codeshell orion internlm2 minicpm "
    "minicpm3 gemma starcoder2 xverse command-r dbrx olmo olmoe openelm arctic deepseek deepseek2 deepseek2-ocr "
    "deepseek32 chatglm glm4 glm4moe glm-dsa bitnet t5 jais jais2 nemotron exaone granite granitemoe chameleon plm "
    "bailingmoe bailingmoe2 dots1 arcee ernie4_5 ernie4_5-moe hunyuan-moe hunyuan-dense hunyuan_vl smollm3 seed_oss "
    "grovemoe apertus minimax-m2 cogvlm pangu-embedded mistral3 mistral4 paddleocr maincoder talkie hy_v3"
)

RULES: dict[str, ArchitectureRule] = {
    **dict.fromkeys(_PLAIN_NAMES.split(), PLAIN),
    **dict.fromkeys(_DIFFUSION_NAMES.split(), _DIFFUSION),
    **dict.fromkeys(_ENCODER_NAMES.split(), _ENCODER),
    **dict.fromkeys(_RECURRENT_NAMES.split(), _RECURRENT),
    **_SPECIAL,
}
"""llama.cpp's name of an architecture -> its rule."""

GENERIC = ArchitectureRule(window=WindowRule.IF_STATED, recurrence=Recurrence.NO_KV_HEADS)
"""For a name not listed: believe the keys that are there."""


def rule_for(architecture: str) -> ArchitectureRule:
    """Return the rule of an architecture, or the generic reading of one we do not know."""
    return RULES.get(architecture, GENERIC)
