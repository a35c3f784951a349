"""What drafts for a model: what a person set, else what a trial on this machine showed to be a tenth faster.

A trial's verdict counts for the very file, engine build and backend that it was made with, and for experts that lie
where they lay then. Reads disks; for a thread.
"""

from pathlib import Path

import msgspec

from app.config.model_settings import ModelSettingsFile
from app.core.advice import DraftTrial
from app.core.errors import BadRequest, EngineFailed, RoundhouseError
from app.core.models import DRAFT_OFF, OWN_DRAFTS, OWN_HEAD, ModelInfo, ModelSettings
from app.engine_store.catalogue import EngineCatalogue
from app.gateway.advising.model_facts import FactsReader
from app.gateway.loading.draft_files import draft_path
from app.gateway.loading.draft_verdicts import DraftTrialFile
from app.gateway.services import Services
from app.hub.library.companions import draft_kind
from app.supervisor.policy import LoadRequest
from engines.api import Draft, EngineAdapter, Feature, LaunchOptions, ListenOptions, ModelFormat, ModelSource

_NOWHERE = ListenOptions(host="127.0.0.1", port=1, key="")
_WORDS = {"ngram": "n-gram drafts", "mtp": "the model's own head"}


class DraftChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What drafts with the next load, and why, in a sentence."""

    draft: Draft | None = None
    reason: str = ""
    is_decided: bool = True
    """Whether a person or a trial here said so; else published speeds did, for a model wholly on the GPU."""


def choose_draft(services: Services, model: ModelInfo, own: ModelSettings, engine: str) -> DraftChoice:
    """Return what drafts for a model on an engine. Raises NotFound or BadRequest for a draft that cannot be had."""
    if own.draft == DRAFT_OFF:
        return DraftChoice(reason="It is switched off for this model.")
    if own.draft in OWN_DRAFTS:
        if own.draft == OWN_HEAD:
            _require_head(services.facts, model)
        return DraftChoice(draft=Draft(kind=own.draft), reason="It is set for this model.")
    if own.draft:
        path = draft_path(services.library, model, own.draft)
        return DraftChoice(draft=Draft(path=path, kind=draft_kind(path)), reason="It is set for this model.")
    trial = None if model.attached else find_trial(services.drafts, services.catalogue, Path(model.path), engine)
    if trial is None:
        return _predict_draft(services, model, own, engine)
    return DraftChoice(draft=Draft(kind=trial.kind) if trial.is_faster else None, reason=describe_trial(trial))


def _predict_draft(services: Services, model: ModelInfo, own: ModelSettings, engine: str) -> DraftChoice:
    """Return the model's own head where it is predicted to pay; a trial on this machine decides later."""
    from app.advisor.memory.setting import RunSetting  # noqa: PLC0415 -- the advisor is brought in once it is needed
    from app.advisor.plans.drafting import judge_head  # noqa: PLC0415 -- as above
    from app.gateway.advising.engine_table import engine_table  # noqa: PLC0415 -- as above

    untried_reason = f"No trial was made with {engine} on this machine yet."
    facts, traits = services.facts.read_model(model), engine_table().get(engine)
    if facts is None or traits is None or not facts.has_draft_head:
        return DraftChoice(reason=untried_reason, is_decided=False)
    backend = services.catalogue.backend_of(engine) or "cpu"
    slots = own.slots or services.settings.get_int("models.slots")
    verdict = judge_head(facts, RunSetting(engine=traits, backend=backend, slots=slots))
    if verdict is None or not verdict.pays or own_draft_of(services, model, engine) != OWN_HEAD:
        return DraftChoice(reason=f"{verdict.reason if verdict else ''} {untried_reason}".strip(), is_decided=False)
    return DraftChoice(draft=Draft(kind=OWN_HEAD), reason=verdict.reason, is_decided=False)


def find_trial(drafts: DraftTrialFile, catalogue: EngineCatalogue, path: Path, engine: str) -> DraftTrial | None:
    """Return the verdict for a model's file on the version of an engine that is in use."""
    return drafts.find_trial(path, engine, *_build_of(catalogue, engine))


def keep_proven_draft(
    tuning_file: ModelSettingsFile, drafts: DraftTrialFile, catalogue: EngineCatalogue, load: LoadRequest
) -> LoadRequest:
    """Return the planned load without a draft that nobody set, where experts lie in system memory and did not before.

    There a draft mostly has more experts read, and is slower; so it is with other layers where none was tried at all.
    """
    draft, own = load.options.draft, tuning_file.settings_of(load.source.name)
    is_parted = load.options.cpu_moe_layers or load.options.gpu_layers is not None
    if draft is None or own.draft is not None or not is_parted:
        return load
    trial = find_trial(drafts, catalogue, load.source.path, load.engine)
    if trial is not None and (trial.has_experts_in_memory or not load.options.cpu_moe_layers):
        return load
    return msgspec.structs.replace(load, options=msgspec.structs.replace(load.options, draft=None))


def describe_trial(trial: DraftTrial) -> str:
    """Return what came of a trial, in a sentence."""
    times = f"{trial.drafted_tokens_s / trial.plain_tokens_s:.2f} times as fast"
    text = f"With {_WORDS[trial.kind]} it was {times} in a trial on this machine"
    return f"{text}." if trial.is_faster else f"{text}, and less than 1.10 does not count."


def own_draft_of(services: Services, model: ModelInfo, engine: str) -> str:
    """Return what a trial would try: the model's own head if its file has one, else n-grams; empty for neither.

    The first that the engine takes: MLX-LM, say, drafts with a smaller model only, which is never chosen for a person.
    """
    return next(iter(own_drafts_of(services, model, engine)), "")


def own_drafts_of(services: Services, model: ModelInfo, engine: str) -> list[str]:
    """Return all ways in which a model can draft for itself on an engine, the best first."""
    adapter = services.adapters.get(engine)
    if adapter is None or model.attached or not model.chats or Feature.DRAFT not in adapter.descriptor.features:
        return []
    kinds = ("mtp", "ngram") if has_draft_head(services.facts, model) else ("ngram",)
    return [kind for kind in kinds if _takes_draft(services.catalogue, model, adapter, kind)]


def _takes_draft(catalogue: EngineCatalogue, model: ModelInfo, adapter: EngineAdapter, kind: str) -> bool:
    source = ModelSource(name=model.runs_as, path=Path(model.path), format=ModelFormat(model.format))
    try:
        installation = catalogue.find_installation(adapter.descriptor.id)
        adapter.plan(source, LaunchOptions(context=1, draft=Draft(kind=kind)), _NOWHERE, installation)
    except (EngineFailed, ValueError):
        return False
    return True


def has_draft_head(facts: FactsReader, model: ModelInfo) -> bool:
    """Whether a model's file carries a head for multi-token prediction (`nextn_predict_layers`)."""
    known_facts = facts.read_model(model)
    return known_facts is not None and known_facts.has_draft_head


def _require_head(facts: FactsReader, model: ModelInfo) -> None:
    if not has_draft_head(facts, model):
        raise BadRequest(
            f"{model.name} has no head for multi-token prediction in its file.",
            hint="Use `ngram`, or the upload of this model that contains the head.",
            code="invalid_value",
        )


def _build_of(catalogue: EngineCatalogue, engine: str) -> tuple[str, str]:
    try:
        installation = catalogue.find_installation(engine)
    except RoundhouseError:
        return "", ""
    return installation.version, installation.backend
