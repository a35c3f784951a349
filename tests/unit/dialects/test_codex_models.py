"""The list in Codex's form: it takes nothing of one in which a model lacks a field that it demands."""

import msgspec

from app.core.capabilities import Capability
from app.core.models import ModelInfo
from app.gateway.dialects.openai.codex_models import codex_list

DEMANDED = {
    "slug": str,
    "display_name": str,
    "supported_reasoning_levels": list,
    "shell_type": str,
    "visibility": str,
    "supported_in_api": bool,
    "priority": int,
    "base_instructions": str,
    "support_verbosity": bool,
    "truncation_policy": dict,
    "experimental_supported_tools": list,
}
"""What Codex 0.169 was seen to demand: without any of them it refused the whole list."""


def model(name: str, *capabilities: Capability) -> ModelInfo:
    return ModelInfo(
        name=name,
        title=name.title(),
        path="",
        format="gguf",
        size_bytes=1,
        trained_context=262_144,
        capabilities=list(capabilities),
    )


CHATTING, RANKER = model("coder", Capability.CHAT), model("ranker", Capability.RERANK)
THINKING = model("thinker", Capability.CHAT, Capability.THINKING, Capability.VISION)


def test_each_model_that_chats_has_every_field_that_codex_demands() -> None:
    cards = msgspec.to_builtins(codex_list([(CHATTING, 8192), (RANKER, 512), (THINKING, None)]))["models"]
    assert [(card["slug"], card["priority"]) for card in cards] == [("coder", 0), ("thinker", 1)]
    for card in cards:
        assert {name: type(card[name]) for name in DEMANDED} == DEMANDED
        assert card["base_instructions"], "without any Codex sends none, and the model does not know what it is"


def test_levels_of_thinking_are_there_for_what_thinks_and_pictures_for_what_sees() -> None:
    plain, thinking = codex_list([(CHATTING, 8192), (THINKING, 8192)]).models
    assert (plain.supported_reasoning_levels, plain.default_reasoning_level, plain.input_modalities) == (
        [],
        None,
        ["text"],
    )
    assert thinking.default_reasoning_level in {level.effort for level in thinking.supported_reasoning_levels}
    assert thinking.input_modalities == ["text", "image"]


def test_what_a_tool_writes_takes_no_more_than_a_quarter_of_a_small_context() -> None:
    limits = [codex_list([(CHATTING, context)]).models[0].truncation_policy.limit for context in (8192, 131_072, None)]
    assert limits == [2048, 10_000, 10_000]
