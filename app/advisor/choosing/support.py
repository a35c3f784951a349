"""Whether a version of an engine loads a model, by the names that were read from its files. Pure.

What cannot be told is taken to load: an engine is not kept from a model for want of knowledge.
"""

import re

from app.core.model_facts import ModelFacts
from engines.api.support import EngineSupport

_NEW_TYPES = re.compile(r"(MXFP\d|NVFP\d|TQ\d_\d|Q1_0|IQ\d_[A-Z]+)", re.IGNORECASE)
"""Types of tensors that llama.cpp learned after others, in the labels of files; of mixtures (IQ3_M) nothing is said."""
_MIXTURES = frozenset({"iq3_m", "iq2_m", "iq2_s", "iq3_xs", "iq1_m"})
_METHODS = {
    "awq": frozenset({"awq", "auto_awq", "awq_marlin"}),
    "gptq": frozenset({"gptq", "auto_gptq", "gptq_marlin"}),
    "fp8": frozenset({"fp8", "modelopt", "modelopt_fp8", "modelopt_mixed"}),
    "nvfp4": frozenset({"modelopt_fp4", "modelopt_mixed", "modelopt", "compressed-tensors"}),
    "mxfp4": frozenset({"mxfp4", "gpt_oss_mxfp4"}),
    "compressed-tensors": frozenset({"compressed-tensors"}),
}
"""How vLLM and SGLang call what reads a format: one of them has to be there."""


def explain_unknown(facts: ModelFacts, support: EngineSupport | None) -> str:
    """Return what of a model a version does not know, to follow "version 1.2 "; empty where it loads or may load."""
    if support is None:
        return ""
    if facts.format == "gguf":
        return _unknown_to_library(facts, support) if support.gguf else ""
    return _unknown_architecture(facts, support) or _unknown_method(facts, support)


def _unknown_to_library(facts: ModelFacts, support: EngineSupport) -> str:
    if facts.architecture and not support.has_gguf_name(facts.architecture):
        return f"does not know the architecture {facts.architecture}"
    if facts.tokenizer and not support.has_gguf_name(facts.tokenizer):
        return f"does not know the tokenizer {facts.tokenizer}"
    kind = _NEW_TYPES.search(facts.quantization)
    name = kind[1].casefold() if kind else ""
    if name and name not in _MIXTURES and not support.has_gguf_name(name):
        return f"does not know the quantisation {facts.quantization}"
    return ""


def _unknown_architecture(facts: ModelFacts, support: EngineSupport) -> str:
    if support.classes and (not facts.class_names or not support.classes.isdisjoint(facts.class_names)):
        return ""
    if support.model_types and (not facts.model_types or any(map(support.has_model_type, facts.model_types))):
        return ""
    model_names = facts.class_names if support.classes else facts.model_types
    return f"does not know the architecture {model_names[0]}" if model_names else ""


def _unknown_method(facts: ModelFacts, support: EngineSupport) -> str:
    methods = _METHODS.get(facts.format, frozenset())
    if not support.quantizations or not methods or not support.quantizations.isdisjoint(methods):
        return ""
    return f"does not know the quantisation {facts.format}"
