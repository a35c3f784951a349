"""Names that clients bring along, such as claude-opus-4-8, and the model here that answers to them.

The setting `models.aliases` holds `pattern=model`. The model `auto` is the one in use: the chat model that was asked
last among those loaded, else the only one there is beside the Guide, else the one chosen for new chats. A name of a
model that is here always means that model.
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from app.core.engines import EngineState, EngineStatus
from app.core.errors import NotFound
from app.core.models import ModelInfo

AUTO = "auto"


def stand_in(name: str, aliases: Iterable[str]) -> str:
    """Return what `name` stands for: a model's name, `AUTO`, or nothing. The first pattern that fits counts."""
    for alias in aliases:
        pattern, _, model = alias.rpartition("=")
        if pattern and fnmatchcase(name.lower(), pattern.strip().lower()):
            return model.strip()
    return ""


def in_use(models: Sequence[ModelInfo], statuses: Sequence[EngineStatus], chosen: str) -> ModelInfo | None:
    """Return the chat model that `AUTO` means now, None if there are several and none has been used or chosen."""
    able = [model for model in models if model.chats and not model.problem]
    chatting = {model.runs_as: model for model in reversed(able)}  # of those that share an engine the first listed
    chatting |= {model.name: model for model in able if model.runs_as == model.name}
    used = [status for status in statuses if status.model in chatting and status.state is not EngineState.FAILED]
    if used:
        return chatting[max(used, key=lambda status: status.last_used_at or status.loaded_at or 0.0).model]
    own = [model for model in chatting.values() if not model.is_builtin]
    if len(own) <= 1:
        return next(iter(own or chatting.values()), None)
    return next((model for model in able if model.name == chosen and not model.is_builtin), None)


def unknown(name: str, missing: NotFound) -> NotFound:
    """Return the error for a name that neither is a model's nor stands for one, with what to do about it."""
    hint = f"{missing.hint} To let another model answer, set models.aliases to {name}=NAME.".strip()
    return NotFound(missing.body.sentence, hint=hint, code=missing.code)
