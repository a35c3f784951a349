"""Which parser of an engine tells a model's tool calls from its text, by what the model's chat template holds.

A template shows how earlier calls are put before the model, which is how it was taught to write them. Engines name
their parsers each in their own way; a model whose calls none of them reads, or that is in doubt, gets no parser.
"""

import re
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from engines.api import Descriptor, Feature, LaunchOptions

NO_PARSER = "none"
"""Instead of a parser's name: none, whatever the template says."""


class ToolCallFormat(StrEnum):
    """How a model writes a call."""

    HERMES = "hermes"
    """JSON between `<tool_call>` and `</tool_call>`: Qwen 2.5 and 3, Hermes, Granite 4, SmolLM 3."""
    QWEN_CODER = "qwen_coder"
    """`<function=name>` with `<parameter=...>` in it: Qwen3-Coder, Qwen 3.5, Nemotron 3."""
    GLM_45 = "glm_45"
    GLM_47 = "glm_47"
    """As GLM 4.5's, without a line break after the name."""
    MISTRAL = "mistral"
    LLAMA_3 = "llama_3"
    LLAMA_4 = "llama_4"
    DEEPSEEK_V3 = "deepseek_v3"
    DEEPSEEK_V31 = "deepseek_v31"
    DEEPSEEK_V32 = "deepseek_v32"
    KIMI_K2 = "kimi_k2"
    MINIMAX_M2 = "minimax_m2"
    SEED_OSS = "seed_oss"
    LFM_2 = "lfm_2"
    GEMMA_4 = "gemma_4"
    FUNCTION_GEMMA = "function_gemma"
    GPT_OSS = "gpt_oss"


_HELD: tuple[tuple[ToolCallFormat, tuple[str, ...]], ...] = (
    (ToolCallFormat.GPT_OSS, (r"<\|start\|>", r"<\|channel\|>")),
    (ToolCallFormat.MISTRAL, (r"\[TOOL_CALLS\]",)),
    (ToolCallFormat.DEEPSEEK_V32, ("<｜DSML｜function_calls>",)),
    (ToolCallFormat.DEEPSEEK_V3, ("<｜tool▁calls▁begin｜>", "```json")),
    (ToolCallFormat.DEEPSEEK_V31, ("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>")),
    (ToolCallFormat.KIMI_K2, (r"<\|tool_calls_section_begin\|>",)),
    (ToolCallFormat.MINIMAX_M2, ("<minimax:tool_call>",)),
    (ToolCallFormat.SEED_OSS, ("<seed:tool_call>",)),
    (ToolCallFormat.LFM_2, (r"<\|tool_(call_start|list_start)\|>",)),
    (ToolCallFormat.GEMMA_4, (r"<\|tool_call>",)),
    (ToolCallFormat.FUNCTION_GEMMA, ("<start_function_call>",)),
    (ToolCallFormat.GLM_47, ("<arg_key>", r"""['"]<tool_call>['"]\s*[+~]\s*tc\.name""")),
    (ToolCallFormat.GLM_45, ("<arg_key>", "<tool_call>")),
    (ToolCallFormat.QWEN_CODER, ("<tool_call>", "<function=")),
    (ToolCallFormat.HERMES, ("<tool_call>",)),
    (ToolCallFormat.LLAMA_4, (r"<\|python_start\|>",)),
    (ToolCallFormat.LLAMA_3, (r"<\|python_tag\|>",)),
)
"""All that a template holds whose model writes so; the first that fits counts."""
_PATTERNS = tuple((calls, tuple(map(re.compile, held))) for calls, held in _HELD)


def tool_call_format_of(template: str) -> ToolCallFormat | None:
    """Return how a model with this chat template writes its calls; None where that is not certain."""
    fits = (calls for calls, patterns in _PATTERNS if all(pattern.search(template) for pattern in patterns))
    return next(fits, None)


def parser_for(parsers: Mapping[str, str], template: str) -> str | None:
    """Return an engine's parser for a model with this chat template, if it has one."""
    calls = tool_call_format_of(template)
    return None if calls is None else parsers.get(calls)


def with_parser_features(descriptor: Descriptor, options: LaunchOptions) -> Descriptor:
    """Return what an engine can do that was started with these options: what takes a parser, only with one."""
    features = descriptor.features
    if options.tool_parser:
        features |= {Feature.TOOLS}
    elif Feature.TOOL_PARSER in features:
        features -= {Feature.TOOLS}
    if options.reasoning_parser:
        features |= {Feature.REASONING}
    return descriptor if features == descriptor.features else msgspec.structs.replace(descriptor, features=features)
