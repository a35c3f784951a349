"""Which model a request means: names that clients bring along, such as claude-opus-4-8, and who answers to them.

The setting `models.aliases` holds `pattern=model`. The model `auto`, which is meant too where a request names none, is
the one in use: of the models that can do what is to be done the one that was asked last among those loaded, else the
one chosen for new chats, else the one that came here last, the Guide only if there is no other. A name of a model that
is here always means that model; what Ollama's clients put around a name (`:latest`) hides no alias.

What the last requests named is kept for a moment: a client that streams asks for the same model again and again, and
finding it takes a thread and a look at the disk, which on a busy machine is most of what a request waits for here.
"""

import shlex
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import NamedTuple

from app.config.store import SettingsStore
from app.core.capabilities import Capability
from app.core.engines import EngineState, EngineStatus
from app.core.errors import LONGEST_ECHO, BadRequest, NotFound, quote_value
from app.core.models import ModelInfo
from app.core.profiles import Profile
from app.hub.library.naming import fold_name
from app.supervisor.policy import LoadRequest
from engines.api import Route

KEY_MODELS: ContextVar[tuple[str, ...]] = ContextVar("models of the key", default=())
"""Names of the only models that the key may ask with which a request came; `*` stands for any letters. Empty: all."""
AUTO = "auto"
AUTOCOMPLETE = "models.autocomplete"
"""The setting that names the model for code completion."""
PICKER_PREFIX = "claude-"
"""Before the name of a model in Claude Code's picker."""
NONE_ABLE = "no_model_able"
"""The code of the error that no model here can do what is to be done."""
_ANY_MODEL = frozenset({Route.TOKENIZE, Route.DETOKENIZE})
_DOES: Mapping[Route, str] = {
    Route.EMBEDDINGS: "makes embeddings",
    Route.RERANK: "ranks documents",
    Route.TRANSCRIPTIONS: "transcribes recordings",
    Route.TRANSLATIONS: "translates recordings",
    Route.SPEECH: "reads texts aloud",
    Route.IMAGES: "makes pictures",
    Route.IMAGE_EDITS: "edits pictures",
    Route.IMAGE_VARIATIONS: "makes variations of pictures",
}
MEDIA: Mapping[Route, Capability] = {
    Route.TRANSCRIPTIONS: Capability.TRANSCRIPTION,
    Route.TRANSLATIONS: Capability.TRANSCRIPTION,
    Route.SPEECH: Capability.SPEECH,
    **dict.fromkeys((Route.IMAGES, Route.IMAGE_EDITS, Route.IMAGE_VARIATIONS), Capability.IMAGES),
}
"""Routes on which sound or pictures go in or out, and what a model has to be able to do there."""
_HAVE: Mapping[Route, str] = {
    Route.TRANSCRIPTIONS: (
        "A model that hears does on llama.cpp (one with an audio projector), Whisper on vLLM, "
        "and so does an attached endpoint that has Whisper."
    ),
    Route.TRANSLATIONS: "Whisper does on vLLM, and so does an attached endpoint that has Whisper.",
    Route.SPEECH: "An attached endpoint with a voice model does, such as Kokoro behind Speaches or LocalAI.",
    **dict.fromkeys(
        (Route.IMAGES, Route.IMAGE_EDITS, Route.IMAGE_VARIATIONS),
        "An attached endpoint with an image model does, such as stable-diffusion.cpp or LocalAI.",
    ),
}
KEPT_S = 2.0
"""A model file that vanishes is missed after this."""
_MOST = 64


def is_auto(name: str) -> bool:
    """Tell whether a name asks for the model in use."""
    return fold_name(name) == AUTO


def find_stand_in(name: str, aliases: Iterable[str]) -> str:
    """Return what `name` stands for: a model's name, `AUTO`, or nothing. The first pattern that fits counts."""
    spellings = {name.lower(), fold_name(name)}
    for alias in aliases:
        pattern, _, model = alias.rpartition("=")
        shape = pattern.strip().lower()
        if shape and any(fnmatchcase(candidate_spelling, shape) for candidate_spelling in spellings):
            return AUTO if is_auto(model) else model.strip()
    return ""


def may_ask(model: ModelInfo) -> bool:
    """Tell whether the request that is being answered may ask a model: its key may have a list of those it may."""
    patterns = KEY_MODELS.get()
    name = fold_name(model.name)
    return not patterns or any(fnmatchcase(name, fold_name(pattern)) for pattern in patterns)


def models_of_key(models: Sequence[ModelInfo]) -> Sequence[ModelInfo]:
    """Return the models that the request which is being answered may ask."""
    return [model for model in models if may_ask(model)] if KEY_MODELS.get() else models


def key_refusal(name: str) -> NotFound:
    """Return the error for a model that a key may not ask; whether there is one is not for who holds it to know."""
    return NotFound(
        f"There is no model {quote_value(name)} that this key may use.",
        hint=f"It may use {', '.join(KEY_MODELS.get())}.",
        code="model_not_found",
    )


def is_able(model: ModelInfo, route: Route) -> bool:
    """Tell whether a model can do what an engine's route is for."""
    if route in _ANY_MODEL:
        return True
    if route is Route.EMBEDDINGS:
        return model.embeds
    if route in MEDIA:
        return MEDIA[route] in model.capabilities
    return model.is_reranker if route is Route.RERANK else model.chats


def media_hint(route: Route) -> str:
    """Return what would do what a route is for, where that is rare; else nothing."""
    return _HAVE.get(route, "")


def model_in_use(
    models: Sequence[ModelInfo], statuses: Sequence[EngineStatus], chosen_name: str, route: Route = Route.CHAT
) -> ModelInfo | None:
    """Return the model that `AUTO` means now on a route, None if none is here that can do what it is for.

    `chosen` is empty where nobody chose one.
    """
    able = _able_models(models, route)
    by_engine = {model.runs_as: model for model in reversed(able)}  # of those that share an engine the first listed
    by_engine |= {model.name: model for model in able if model.runs_as == model.name}
    used_statuses = [
        status for status in statuses if status.model in by_engine and status.state is not EngineState.FAILED
    ]
    if used_statuses:
        return by_engine[max(used_statuses, key=lambda status: status.last_used_at or status.loaded_at or 0.0).model]
    named_model = next(
        (model for model in able if chosen_name and fold_name(model.name) == fold_name(chosen_name)), None
    )
    return named_model or max(
        (model for model in able if by_engine[model.runs_as] == model), key=_preference, default=None
    )


def models_of_profile(models: Sequence[ModelInfo], profile: Profile) -> list[ModelInfo]:
    """Return the model that a profile has for `AUTO`, if it names one that is here; else all it names."""
    default = [model for model in models if profile.default and fold_name(model.name) == fold_name(profile.default)]
    return default or [model for model in models if profile.find_model(model.runs_as) is not None]


def chosen_for_completion(settings: SettingsStore, models: Iterable[ModelInfo]) -> ModelInfo | None:
    """Return the model that was chosen for code completion; None if none was, or it is gone."""
    name = fold_name(settings.get_text(AUTOCOMPLETE))
    return next((model for model in models if name and fold_name(model.name) == name and not model.problem), None)


def without_completion(settings: SettingsStore, models: Sequence[ModelInfo]) -> Sequence[ModelInfo]:
    """Return the models that may be meant where nobody names one for a chat.

    The one for code completion is used with every key, and would be the one in use for everything. It chats only where
    it can and there is no other model of one's own.
    """
    kept_model = chosen_for_completion(settings, models)
    if kept_model is None:
        return models
    others = [model for model in models if model.name != kept_model.name]
    has_other = any(model.chats and not model.is_builtin and not model.problem for model in others)
    return others if has_other or Capability.CHAT not in kept_model.capabilities else models


def _able_models(models: Sequence[ModelInfo], route: Route) -> list[ModelInfo]:
    """Return the models for a route, and of them only those made for it where there are some.

    For embeddings those that write nothing, for the middle of a text those that know the marks of a gap.
    """
    able = [model for model in models if is_able(model, route) and not model.problem]
    dedicated_models = [model for model in able if _is_dedicated(model, route)]
    return dedicated_models or able


def _is_dedicated(model: ModelInfo, route: Route) -> bool:
    return (route is Route.EMBEDDINGS and not model.chats) or (
        route is Route.INFILL and Capability.INFILL in model.capabilities
    )


def _preference(model: ModelInfo) -> tuple[bool, bool, float]:
    """Return what makes one model answer rather than another: one's own, here and not at an endpoint, and new."""
    return not model.is_builtin, not model.attached, model.modified_at


def name_in_answer(requested_name: str | None, model: ModelInfo) -> str:
    """Return what an answer calls its model: as the request does, if that is the model's own name."""
    if not requested_name or requested_name == model.name:
        return model.name
    return requested_name if fold_name(requested_name) == fold_name(model.name) else model.name


def none_able_error(route: Route) -> NotFound | BadRequest:
    """Return the error for `AUTO` where no model here can do what a route is for."""
    if route in MEDIA:
        return BadRequest(f"No model here {_DOES[route]}.", hint=_HAVE[route], code=NONE_ABLE)
    return NotFound(
        f"No installed model {_DOES.get(route, 'writes text')}.",
        hint="Download one with `roundhouse pull MODEL`, or attach an endpoint that has one.",
        code=NONE_ABLE,
    )


def unknown_model_error(name: str, missing_error: NotFound) -> NotFound:
    """Return the error for a name that neither is a model's nor stands for one, with what to do about it."""
    hint = missing_error.hint
    if len(name) <= LONGEST_ECHO:
        plain = shlex.quote(name.removesuffix(":latest"))
        hint = f"{hint} To let another model answer: `roundhouse alias {plain} MODEL`.".strip()
    return NotFound(missing_error.body.sentence, hint=hint, code=missing_error.code)


class ResolvedModel(NamedTuple):
    """A model, and what loads it."""

    model: ModelInfo
    load: LoadRequest


class ResolvedModelCache:
    """Remembers for `KEPT_S` seconds; a model that runs needs no look at the disk at all.

    The key says when an answer no longer counts. Belongs to the event loop's thread.
    """

    def __init__(self, kept_s: float = KEPT_S) -> None:
        self._kept_s = kept_s
        self._entries: dict[Hashable, tuple[float, ResolvedModel]] = {}

    def get(
        self, key: Hashable, still_holds: Callable[[ResolvedModel], bool] = lambda _model: False
    ) -> ResolvedModel | None:
        """Return what was found under this key a moment ago, or longer ago if it `still_holds`."""
        at, entry = self._entries.get(key, (0.0, None))
        if entry is None or time.monotonic() - at < self._kept_s:
            return entry
        if not still_holds(entry):
            return None
        self.put(key, entry)
        return entry

    def put(self, key: Hashable, entry: ResolvedModel) -> None:
        """Remember it."""
        if len(self._entries) >= _MOST:
            self._entries.clear()
        self._entries[key] = (time.monotonic(), entry)
