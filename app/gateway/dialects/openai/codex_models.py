"""Models as Codex lists them: what its own service says of each, which tells it how to work with one it does not know.

Codex 0.169 asks `GET /v1/models?client_version=` of a provider whose key a command gives (`auth.command`), and takes
nothing of a list in which a model lacks a field. https://developers.openai.com/codex/config-advanced
"""

from collections.abc import Iterable

import msgspec

from app.core.capabilities import Capability
from app.core.models import ModelInfo

CLIENT_VERSION = "client_version"
"""The query by which Codex asks for this list."""
_LEVELS = {
    "low": "Thinks briefly",
    "medium": "Thinks as long as most tasks take",
    "high": "Thinks longer, for hard tasks",
}
_LARGEST_OUTPUT, _CONTEXT_SHARE = 10_000, 4
"""Tokens of a tool's output that Codex keeps, its own figure; of a small context no more than a quarter."""
_INSTRUCTIONS = """\
You are a coding agent that works for a person in the folder that is open, in a terminal, through tools.
Read the files that a task is about before you change anything. Change what the task needs and nothing else, in the \
style of what is there. Run the tests or the program where there are any, and mend what fails.
Go on until the task is done, then say in a few sentences what you did and what you could not check. Ask only what \
you cannot find out. Never undo changes that are not yours, and run nothing that destroys data unless you are told to.
"""


class CodexEffort(msgspec.Struct, frozen=True, kw_only=True):
    """A level of thinking that can be chosen."""

    effort: str
    description: str


class CodexTruncation(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a tool's output Codex puts into the conversation."""

    limit: int
    mode: str = "tokens"


class CodexModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """One model. Contexts in tokens: as it is or would be loaded, and as trained; smaller `priority` comes first."""

    slug: str
    display_name: str
    priority: int
    context_window: int | None
    max_context_window: int | None
    supported_reasoning_levels: list[CodexEffort]
    default_reasoning_level: str | None
    supports_reasoning_summaries: bool
    supports_parallel_tool_calls: bool
    input_modalities: list[str]
    truncation_policy: CodexTruncation
    base_instructions: str = _INSTRUCTIONS
    shell_type: str = "default"
    visibility: str = "list"
    supported_in_api: bool = True
    support_verbosity: bool = False
    experimental_supported_tools: list[str] = []


class CodexModelList(msgspec.Struct, frozen=True, kw_only=True):
    """The list of models."""

    models: list[CodexModelCard]


def codex_list(models: Iterable[tuple[ModelInfo, int | None]]) -> CodexModelList:
    """Return the models that chat as Codex reads them, each with the tokens it keeps, None where nobody says."""
    chat_models = [(model, context) for model, context in models if Capability.CHAT in model.capabilities]
    return CodexModelList(models=[_model_card(place, *entry) for place, entry in enumerate(chat_models)])


def _model_card(place: int, model: ModelInfo, context: int | None) -> CodexModelCard:
    thinks = Capability.THINKING in model.capabilities
    levels = [CodexEffort(effort=level, description=text) for level, text in _LEVELS.items()]
    share = _LARGEST_OUTPUT if context is None else context // _CONTEXT_SHARE
    return CodexModelCard(
        slug=model.name,
        display_name=model.title,
        priority=place,
        context_window=context,
        max_context_window=model.trained_context,
        supported_reasoning_levels=levels if thinks else [],
        default_reasoning_level="medium" if thinks else None,
        supports_reasoning_summaries=thinks,
        supports_parallel_tool_calls=Capability.TOOLS in model.capabilities,
        input_modalities=["text", "image"] if Capability.VISION in model.capabilities else ["text"],
        truncation_policy=CodexTruncation(limit=min(_LARGEST_OUTPUT, share)),
    )
