"""What is set for one model, and what its files say of themselves, as options of its engine. Reads disks: for a thread.

A request's own values go before what a person set, that before what the model recommends. Engines that can are told at
their start, so that requests cost nothing; for the others a made-up preset fills in what a request leaves out.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from app.config.model_settings import ModelSettingsFile
from app.core.errors import NotFound
from app.core.hub import origin_of
from app.core.models import NO_PARSER, NO_PROJECTOR, ModelInfo, ModelSampling, ModelSettings, Preset
from app.core.thinking import ThinkingDefault, ThinkingLevel
from app.gateway.advising.model_facts import FactsReader
from app.gateway.exchange.presets import THINK, THINKING_BUDGET
from app.gateway.loading.draft_choice import choose_draft
from app.gateway.loading.draft_files import require_file
from app.gateway.loading.gpu_choice import with_gpu
from app.gateway.services import Services
from app.hub.library.companions import projector_beside
from app.hub.library.folder_companions import adapter_place
from app.hub.repositories.answers import HubMemory
from app.hub.repositories.catalogue_entry import CatalogueEntry
from app.hub.repositories.generation import NOTHING, SamplingRecommendation, read_recommendation
from engines.api import EngineAdapter, Feature, LaunchOptions
from engines.api.options import SamplingDefaults
from engines.parsers import parser_for


def find_recommendation(hub: HubMemory, model: ModelInfo) -> SamplingRecommendation:
    """Return what a model recommends: its files, else what the hub has of the model they were made from.

    Where neither says anything, the catalogue may know what its makers recommend.
    """
    if model.attached or not model.chats:
        return NOTHING
    path = Path(model.path)
    own_recommendation, origin = read_recommendation(path), origin_of(path)
    if own_recommendation != NOTHING or origin is None:
        return own_recommendation
    cached_answer = hub.generation.find_answer(origin.repository)
    if cached_answer is not None and cached_answer.value != NOTHING:
        return cached_answer.value
    entry = hub.catalogue.find_repository(origin.repository)
    if entry is None or entry.sampling == ModelSampling():
        return NOTHING
    return SamplingRecommendation(sampling=entry.sampling, source=entry.base, is_unchecked=entry.sampling_unchecked)


def find_maker_entry(hub: HubMemory, model: ModelInfo) -> CatalogueEntry | None:
    """Return what the catalogue has of a model's makers: what they say of thinking, and of its template."""
    origin = None if model.attached else origin_of(Path(model.path))
    return hub.catalogue.find_repository(origin.repository) if origin is not None else None


def effective_thinking(hub: HubMemory, model: ModelInfo, own: ModelSettings) -> ThinkingDefault:
    """Return how much a model thinks for a request that does not say."""
    chosen_thinking = ThinkingDefault(level=own.thinking, budget=own.thinking_budget)
    entry = find_maker_entry(hub, model) if own.uses_model_sampling else None
    return chosen_thinking if entry is None else chosen_thinking.fill_gaps_from(entry.thinking)


def effective_sampling(hub: HubMemory, model: ModelInfo, own: ModelSettings) -> ModelSampling:
    """Return the sampling of a request that does not say."""
    if not own.uses_model_sampling:
        return own.sampling
    return own.sampling.fill_gaps_from(find_recommendation(hub, model).sampling)


def with_tuning(
    services: Services, model: ModelInfo, own: ModelSettings, *, engine: str, options: LaunchOptions
) -> LaunchOptions:
    """Return the options with what is set for the model. Raises NotFound or BadRequest for files that are gone."""
    template = options.chat_template or own.chat_template
    backend = services.catalogue.backend_of(engine) if own.gpu else ""
    return msgspec.structs.replace(
        with_gpu(options, own.gpu, backend=backend, machine=services.machine.last),
        chat_template=template,
        tool_parser=_tool_parser(services.adapters, services.facts, model, own, engine)
        if options.task == "chat"
        else None,
        reasoning_parser=own.reasoning_parser,
        trust_remote_code=in_force(model, own).allows_code,
        extra_args=tuple(own.extra_args),
        draft=choose_draft(services, model, own, engine).draft if options.task == "chat" else None,
        lora=tuple(adapter_place(require_file(Path(path))) for path in own.loras),
        projector=_projector(model, own, takes_one=_sees(services.adapters, engine) and options.task == "chat"),
        sampling=_sampling_at_start(services.hub, model, own)
        if _takes_sampling(services.adapters, engine)
        else SamplingDefaults(),
    )


def settings_to_keep(model: ModelInfo, settings: ModelSettings) -> ModelSettings:
    """Return settings to keep: with whose code was allowed, if it was."""
    return msgspec.structs.replace(settings, code_from=_code_owner(model) if settings.allows_code else "")


def in_force(model: ModelInfo, own: ModelSettings) -> ModelSettings:
    """Return what of a model's settings counts: leave for code was given to the model it was given for."""
    is_another = own.allows_code and own.code_from != _code_owner(model)
    return msgspec.structs.replace(own, allows_code=False, code_from="") if is_another else own


def _code_owner(model: ModelInfo) -> str:
    """Return what tells a model from another of its name: the repository it is from, else where it lies."""
    origin = origin_of(Path(model.path))
    return origin.repository if origin is not None else model.path


def _tool_parser(
    adapters: Mapping[str, EngineAdapter], facts: FactsReader, model: ModelInfo, own: ModelSettings, engine: str
) -> str | None:
    """Return the parser that was set, else the engine's for models with such a chat template."""
    if own.tool_parser is not None:
        return None if own.tool_parser == NO_PARSER else own.tool_parser
    parsers = adapters[engine].descriptor.tool_parsers
    if not parsers:
        return None
    known_facts = facts.read_model(model)
    return parser_for(parsers, own.chat_template or (known_facts.chat_template if known_facts is not None else ""))


def with_defaults(
    tuning_file: ModelSettingsFile, adapters: Mapping[str, EngineAdapter], hub: HubMemory, model: ModelInfo, engine: str
) -> ModelInfo:
    """Return the model with what its engine is not told at its start as parameters that requests are filled up with."""
    if not model.chats:
        return model
    own = tuning_file.settings_of(model.runs_as)
    values_by_name: dict[str, bool | int | float | str | list[str]] = {}
    if not _takes_sampling(adapters, engine):
        values = _sampling_at_start(hub, model, own).explicit_values
        values_by_name = {_OTHERS_NAMES.get(name, name): value for name, value in values.items()}
    thinking = effective_thinking(hub, model, own)
    if thinking.level not in {None, ThinkingLevel.DEFAULT}:
        values_by_name[THINK] = str(thinking.level)
    if thinking.budget is not None and takes_budget(adapters, engine):
        values_by_name[THINKING_BUDGET] = thinking.budget
    if not values_by_name:
        return model
    preset = model.preset or Preset()
    return msgspec.structs.replace(
        model, preset=msgspec.structs.replace(preset, parameters={**values_by_name, **preset.parameters})
    )


_OTHERS_NAMES = {"repeat_penalty": "repetition_penalty"}
"""What engines other than llama.cpp call it."""


def loaded_projector(tuning_file: ModelSettingsFile, model: ModelInfo) -> Path | None:
    """Return the projector that is loaded with a model, which lets it see or hear."""
    try:
        return _projector(model, tuning_file.settings_of(model.runs_as), takes_one=True) if model.chats else None
    except NotFound:
        return None


def _sampling_at_start(hub: HubMemory, model: ModelInfo, own: ModelSettings) -> SamplingDefaults:
    if not model.chats:
        return SamplingDefaults()
    values = msgspec.structs.asdict(effective_sampling(hub, model, own))
    return SamplingDefaults(**values, is_all=not own.uses_model_sampling)


def _takes_sampling(adapters: Mapping[str, EngineAdapter], engine: str) -> bool:
    return Feature.SAMPLING_DEFAULTS in adapters[engine].descriptor.features


def takes_budget(adapters: Mapping[str, EngineAdapter], engine: str) -> bool:
    """Tell whether an engine ends thinking after a number of tokens."""
    return engine in adapters and Feature.THINKING_BUDGET in adapters[engine].descriptor.features


def _sees(adapters: Mapping[str, EngineAdapter], engine: str) -> bool:
    return Feature.VISION in adapters[engine].descriptor.features


def _projector(model: ModelInfo, own: ModelSettings, *, takes_one: bool) -> Path | None:
    """Return the projector to load. One that merely lies there is loaded where it is known to be taken."""
    if own.projector == NO_PROJECTOR or model.format != "gguf":
        return None
    if own.projector is not None:
        return require_file(Path(own.projector))
    return projector_beside(Path(model.path)) if takes_one else None
