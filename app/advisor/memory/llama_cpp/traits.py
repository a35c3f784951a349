"""What an architecture's graph does otherwise than most, by llama.cpp's name for it (build 11549)."""

from enum import StrEnum


class GraphTrait(StrEnum):
    """One peculiarity of a block."""

    PARALLEL = "attention and feed-forward part read the same input, and the former's output is made last"
    TWO_NORMS = "parallel, but each part normalises for itself"
    POST_NORM = "what a part makes is normalised, not what it reads"
    SANDWICH = "both are"
    NORMED_HEADS = "queries and keys are normalised head by head"
    FUSED_QKV = "one matrix makes queries, keys and values"
    FUSED_GATE = "one matrix makes gate and up"
    KEYS_FIRST = "keys are made before values"
    NORMED_VALUES = "values are normalised too"
    WEIGHTED_FIRST = "experts are weighed by what goes into them"
    DELTA = "recurrence by delta rule"
    REPEATED_KEYS = "fewer key heads are spread over the value heads before the delta rule"
    MAMBA = "recurrence of Mamba 1"
    DEEP_EMBEDDING = "an image's features enter several layers, and the embedding is as many times as wide"
    BIASED_ROUTER = "a bias is added before experts are chosen"
    RAW_WEIGHTS = "experts' weights are not made to sum to one"
    ROUTED_BY_INPUT = "what a block is given chooses its experts, before attention's output is there"
    BOTH = "every block attends and recurs"
    FOUR_STREAMS = "four streams, of which one is computed with"
    TWO_MASKS = "an encoder some of whose layers see a window only"
    EXPERTS_BESIDE = "a dense part beside the experts, each with norms of its own"


_NAMES: dict[GraphTrait, str] = {
    GraphTrait.PARALLEL: "falcon phi2 command-r cohere2 cohere2moe gptneox gptj plamo",
    GraphTrait.TWO_NORMS: "gptneox",
    GraphTrait.POST_NORM: "olmo2 exaone4",
    GraphTrait.SANDWICH: "gemma2 gemma3 gemma3n gemma4 glm4 plamo2 plamo3",
    GraphTrait.NORMED_HEADS: (
        "qwen3 qwen3moe qwen3vl qwen3vlmoe qwen3next qwen35 qwen35moe gemma3 gemma3n gemma4 hunyuan-dense hunyuan-moe "
        "dots1 olmo2 olmoe exaone4 minimax-m2 bailingmoe2 apertus lfm2 lfm2moe glm4moe"
    ),
    GraphTrait.FUSED_QKV: "phi3 phimoe falcon gptneox gpt2 starcoder mpt dbrx chatglm bloom qwen bailingmoe2",
    GraphTrait.FUSED_GATE: "phi3 glm4 chatglm",
    GraphTrait.KEYS_FIRST: "cohere2 gemma4 gemma3n",
    GraphTrait.NORMED_VALUES: "gemma4 gemma3n",
    GraphTrait.WEIGHTED_FIRST: "llama4",
    GraphTrait.DELTA: "qwen3next qwen35 qwen35moe kimi-linear",
    GraphTrait.REPEATED_KEYS: "qwen3next",
    GraphTrait.MAMBA: "mamba jamba",
    GraphTrait.DEEP_EMBEDDING: "qwen3vl qwen3vlmoe",
    GraphTrait.BIASED_ROUTER: (
        "deepseek2 glm4moe ernie4_5-moe bailingmoe2 minimax-m2 dots1 lfm2moe nemotron_h_moe kimi-linear"
    ),
    GraphTrait.RAW_WEIGHTS: "qwen2moe olmoe deepseek llama4 gpt-oss mistral4 granitehybrid",
    GraphTrait.ROUTED_BY_INPUT: "smallthinker",
    GraphTrait.BOTH: "falcon-h1",
    GraphTrait.FOUR_STREAMS: "gemma3n",
    GraphTrait.TWO_MASKS: "gemma-embedding modern-bert",
    GraphTrait.EXPERTS_BESIDE: "gemma4",
}
_TRAITS = {trait: frozenset(names.split()) for trait, names in _NAMES.items()}


def has_trait(architecture: str, trait: GraphTrait) -> bool:
    """Whether an architecture's graph is so."""
    return architecture in _TRAITS[trait]
