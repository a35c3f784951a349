"""Names that clients bring along, such as claude-opus-4-8, and the model here that answers to them.

The setting `models.aliases` holds `pattern=model`. The model `auto` is the one in use: the chat model that was asked
last among those loaded, else the one chosen for new chats, else the one that came here last, the Guide only if there is
no other. A name of a model that is here always means that model; what Ollama's clients put around a name (`:latest`)
hides no alias.
"""

import shlex
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from app.core.engines import EngineState, EngineStatus
from app.core.errors import NotFound
from app.core.models import ModelInfo
from app.hub.library.naming import folded

AUTO = "auto"


def is_auto(name: str) -> bool:
    """Tell whether a name asks for the model in use."""
    return folded(name) == AUTO


def stand_in(name: str, aliases: Iterable[str]) -> str:
    """Return what `name` stands for: a model's name, `AUTO`, or nothing. The first pattern that fits counts."""
    spellings = {name.lower(), folded(name)}
    for alias in aliases:
        pattern, _, model = alias.rpartition("=")
        shape = pattern.strip().lower()
        if shape and any(fnmatchcase(spelling, shape) for spelling in spellings):
            return AUTO if is_auto(model) else model.strip()
    return ""


def in_use(models: Sequence[ModelInfo], statuses: Sequence[EngineStatus], chosen: str) -> ModelInfo | None:
    """Return the chat model that `AUTO` means now, None if none is here. `chosen` is empty where nobody chose one."""
    able = [model for model in models if model.chats and not model.problem]
    chatting = {model.runs_as: model for model in reversed(able)}  # of those that share an engine the first listed
    chatting |= {model.name: model for model in able if model.runs_as == model.name}
    used = [status for status in statuses if status.model in chatting and status.state is not EngineState.FAILED]
    if used:
        return chatting[max(used, key=lambda status: status.last_used_at or status.loaded_at or 0.0).model]
    named = next((model for model in able if chosen and folded(model.name) == folded(chosen)), None)
    return named or max((model for model in able if chatting[model.runs_as] == model), key=_preference, default=None)


def _preference(model: ModelInfo) -> tuple[bool, bool, float]:
    """Return what makes one model answer rather than another: one's own, here and not at an endpoint, and new."""
    return not model.is_builtin, not model.attached, model.modified_at


def unknown(name: str, missing: NotFound) -> NotFound:
    """Return the error for a name that neither is a model's nor stands for one, with what to do about it."""
    plain = shlex.quote(name.removesuffix(":latest"))
    hint = f"{missing.hint} To let another model answer: `roundhouse alias {plain} MODEL`.".strip()
    return NotFound(missing.body.sentence, hint=hint, code=missing.code)
