"""What there is to choose for one model, and whether what somebody chose can be had: told before it is kept.

Everything a load would stumble over is looked at here first: files made for another model, templates that are none,
engines that do not read the format, options an engine has no setting for. Reads disks; for a thread.
"""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from app.config.paths import expand_path
from app.core.engines import EngineState
from app.core.errors import BadRequest, EngineFailed, NotFound, RoundhouseError, quote_value
from app.core.models import (
    DRAFT_OFF,
    NO_PROJECTOR,
    OWN_DRAFTS,
    Companion,
    CompanionKind,
    EngineOption,
    GpuOption,
    ModelChoices,
    ModelInfo,
    ModelSettings,
)
from app.core.thinking import ThinkingDefault
from app.engine_store.catalogue import EngineCatalogue
from app.gateway.library.answer_choices import answer_choices
from app.gateway.loading.draft_choice import choose_draft, find_trial, own_draft_of
from app.gateway.loading.draft_files import draft_path
from app.gateway.loading.gpu_choice import list_gpu_options
from app.gateway.loading.launch import UNCHOSEN, aliases_of, best_reader, engine_for, launch_options, load_request_for
from app.gateway.loading.model_tuning import (
    effective_sampling,
    effective_thinking,
    find_maker_entry,
    find_recommendation,
    in_force,
    settings_to_keep,
)
from app.gateway.loading.template_trials import check_new_template
from app.gateway.services import Services
from app.hub.library import companions, folder_companions
from app.hub.library.companions import projector_beside, projector_folders
from app.hub.library.library import Library
from app.hub.repositories.generation import NOTHING
from engines.api import LaunchOptions, ListenOptions, ModelFormat, ModelSource

_NOWHERE = ListenOptions(host="127.0.0.1", port=1, key="")
_GGUF = ModelFormat.GGUF.value
_SMALLER = 2
"""A draft pays where it has at most one part in so many of the model's parameters."""
_MOST_DRAFTS = 12
_STARTED_WITH = (
    *("threads", "gpu_layers", "cpu_moe_layers", "max_batch_tokens", "flash_attention"),
    *("kv_type", "gpu_memory_fraction", "chat_template", "draft", "lora", "projector", "sampling"),
    *("tool_parser", "reasoning_parser", "trust_remote_code", "extra_args", "extra_env"),
)
_TRIED: dict[str, object] = {
    "threads": 1,
    "allows_code": True,
    "tool_parser": "a",
    "reasoning_parser": "a",
    "gpu_memory_fraction": 0.5,
    "batch_tokens": 256,
    "flash_attention": "on",
    "gpu_layers": 1,
    "cpu_moe_layers": 1,
}
"""What not every engine has an option for, with a value to try it with."""
_COMPUTING = ("threads", "batch_tokens", "flash_attention", "kv_type", "gpu_layers", "cpu_moe_layers", "draft")
"""How an engine computes a model, whatever comes of it."""
_LAUNCH_NAMES = {"batch_tokens": "max_batch_tokens"}
"""Settings that engines' options call otherwise."""


def list_choices(services: Services, model: ModelInfo) -> ModelChoices:
    """Return what is set for a model, what it says of itself, and what could be set."""
    from app.gateway.library.template_reading import read_template  # noqa: PLC0415 -- start-up must not pay for Jinja

    own, recommended_settings = (
        in_force(model, services.model_settings.own_settings(model.runs_as)),
        find_recommendation(services.hub, model),
    )
    running_status = next(
        (status for status in services.supervisor.list_statuses() if status.model == model.runs_as), None
    )
    is_loaded = running_status is not None and running_status.state is EngineState.READY
    facts, maker = services.facts.read_model(model), find_maker_entry(services.hub, model)
    engine = _engine(services, model, own)
    return ModelChoices(
        model=model.runs_as,
        settings=own,
        sampling=recommended_settings.sampling,
        sampling_source=recommended_settings.source if recommended_settings != NOTHING else "",
        is_sampling_unchecked=recommended_settings.is_unchecked,
        maker_note=maker.maker_note if maker is not None else "",
        maker_thinking=maker.thinking if maker is not None else ThinkingDefault(),
        thinking=effective_thinking(services.hub, model, own),
        effective=effective_sampling(services.hub, model, own),
        answers=answer_choices(services, model, own, facts),
        engine=engine,
        engines=_engines(services.catalogue, model),
        gpus=_gpus(services, model, own),
        companions=[
            *_projectors(services.library, model, own),
            *_drafts(services.library, model, own),
            *_loras(services.library, model, own),
        ],
        aliases=names_for(aliases_of(services.settings, services.profiles.active_profile()), model.name),
        chat_template=facts.chat_template if facts is not None else "",
        template_reading=read_template(model, own, facts, services.paths.hub_cache) if model.chats else None,
        brings_code=facts is not None and facts.needs_remote_code,
        takes=[name for name, value in _TRIED.items() if _engine_takes(services, model, own, {name: value})],
        tool_parser=_tool_parser(services, model, own),
        **_draft_choice(services, model, own),
        is_loaded=is_loaded,
        needs_reload=is_loaded and _differs_from_loaded(services, model),
    )


def check_settings(services: Services, model: ModelInfo, settings: ModelSettings) -> None:
    """Return if these settings can be had. Raises BadRequest or NotFound with what is wrong."""
    _check_parts(services.library, services.catalogue, model, settings)
    if settings.chat_template is not None:
        check_new_template(services.templates, settings.chat_template)
    if not model.attached:
        _check_gpu(services, model, settings)
        _check_plan(services, model, settings)


def _check_gpu(services: Services, model: ModelInfo, settings: ModelSettings) -> None:
    if settings.gpu is None:
        return
    options = _gpus(services, model, settings)
    if not options:
        raise _invalid_value(
            "There is no choice of cards for this model: there are not several, or its engine uses none."
        )
    if settings.gpu not in {option.uuid for option in options}:
        names = ", ".join(f"{option.uuid} ({option.name})" for option in options)
        raise _invalid_value(f"There is no card {quote_value(settings.gpu)} here. There are {names}.")


def _gpus(services: Services, model: ModelInfo, own: ModelSettings) -> list[GpuOption]:
    engine = "" if model.attached else _engine_to_be(services, model, own)
    return list_gpu_options(services.machine.last, services.catalogue.backend_of(engine) if engine else "")


def _check_parts(library: Library, catalogue: EngineCatalogue, model: ModelInfo, settings: ModelSettings) -> None:
    if model.attached and settings != _engine_independent(settings):
        raise _invalid_value(f"{model.name} runs elsewhere: its endpoint decides how it is loaded.")
    _check_engine(catalogue, model, settings)
    if settings.projector not in {None, NO_PROJECTOR}:
        _check_file(model, "A projector", companions.why_no_projector(_require_path(str(settings.projector))))
    if settings.draft not in {None, DRAFT_OFF, *OWN_DRAFTS}:
        path = draft_path(library, model, str(settings.draft))
        _raise_if(_why_no_draft(model, path))
    for lora in settings.loras:
        path = _require_path(lora)
        _raise_if(_why_no_lora(model, path))


def _check_plan(services: Services, model: ModelInfo, settings: ModelSettings) -> frozenset[str]:
    """Return which of the options the engine would leave out. Raises BadRequest with what it has no setting for.

    Where none is installed, the best of those that could be is asked.
    """
    engine = _engine_to_be(services, model, settings)
    if not engine:
        return frozenset()
    about = services.adapters[engine].descriptor
    if settings.threads is not None and about.chooses_threads:
        raise _invalid_value(f"{about.name} chooses its number of threads itself.")
    options = launch_options(services, model, UNCHOSEN, settings_to_keep(model, settings), engine=engine)
    source = ModelSource(name=model.runs_as, path=Path(model.path), format=ModelFormat(model.format))
    installation = services.catalogue.expect_installation(engine)
    try:
        plan = services.adapters[engine].plan(source, options, _NOWHERE, installation)
    except ValueError as error:
        raise _invalid_value(str(error)) from None
    return frozenset(omission.option for omission in plan.left_out)


def _engine_to_be(services: Services, model: ModelInfo, settings: ModelSettings) -> str:
    """Return the engine that runs a model, or would once it is installed; empty if none reads it."""
    try:
        return engine_for(services, model, settings).id
    except EngineFailed:
        readers = services.catalogue.readers_of(model.format)
    could_run = [engine for engine in readers if settings.engine in {None, engine.id}]
    preferred_engines = services.settings.get_list("engines.preferred")
    return best_reader(could_run, preferred_engines, services.machine.last).id if could_run else ""


def _engine_takes(services: Services, model: ModelInfo, own: ModelSettings, tried_settings: dict[str, object]) -> bool:
    """Tell whether the engine of a model has an option for these settings."""
    if model.attached:
        return False
    try:
        left_out_options = _check_plan(
            services, model, msgspec.structs.replace(ModelSettings(engine=own.engine), **tried_settings)
        )
    except RoundhouseError:
        return False
    is_taken = left_out_options.isdisjoint(_LAUNCH_NAMES.get(name, name) for name in tried_settings)
    return is_taken and bool(_engine(services, model, own))


def settings_for_engine(services: Services, model: ModelInfo, own: ModelSettings, engine: str) -> ModelSettings:
    """Return a model's settings with another engine, without how it computes where that engine has no option for it.

    Settings are made for an engine, by hand or by self-tuning: another would refuse to load the model with them.
    """
    engine_settings = msgspec.structs.replace(own, engine=engine)
    for name in _COMPUTING:
        value = getattr(own, name)
        if value is not None and not _engine_takes(services, model, engine_settings, {name: value}):
            engine_settings = msgspec.structs.replace(engine_settings, **{name: None})
    return engine_settings


def _tool_parser(services: Services, model: ModelInfo, own: ModelSettings) -> str:
    try:
        return load_request_for(services, model, own=own).options.tool_parser or ""
    except RoundhouseError:
        return ""


def names_for(aliases: Iterable[str], model: str) -> list[str]:
    """Return the names that stand for a model."""
    pairs = (alias.rpartition("=") for alias in aliases)
    return [name.strip() for name, _, stands in pairs if fnmatchcase(model.casefold(), stands.strip().casefold())]


def _engine_independent(settings: ModelSettings) -> ModelSettings:
    """Return what of it counts for any model, wherever it runs."""
    return ModelSettings(
        pinned=settings.pinned,
        idle_minutes=settings.idle_minutes,
        sampling=settings.sampling,
        uses_model_sampling=settings.uses_model_sampling,
        thinking=settings.thinking,
    )


def _check_engine(catalogue: EngineCatalogue, model: ModelInfo, settings: ModelSettings) -> None:
    if settings.engine is None:
        return
    engines_by_id = {engine.id: engine for engine in catalogue.list_engines()}
    if settings.engine not in engines_by_id:
        sentence = ", ".join(engine_option.id for engine_option in _engines(catalogue, model))
        raise BadRequest(
            f"There is no engine {quote_value(settings.engine)}.", hint=f"There are {sentence}.", code="invalid_value"
        )
    if model.format not in engines_by_id[settings.engine].formats:
        sentence = f"{engines_by_id[settings.engine].name} does not read {model.format}."
        raise BadRequest(
            sentence, hint="Choose another engine, or leave the choice to Roundhouse.", code="invalid_value"
        )


def _check_file(model: ModelInfo, what: str, problem: str) -> None:
    if model.format != _GGUF:
        raise _invalid_value(f"{what} of its own is only possible with GGUF models; others contain theirs.")
    _raise_if(problem)


def _require_path(path_text: str) -> Path:
    path = expand_path(path_text)
    if not path.is_absolute() or "\0" in path_text or not path.exists():
        raise NotFound(f"There is no file {path_text}.", hint="Give its full path.", code="companion_not_found")
    return path


def _draft_choice(services: Services, model: ModelInfo, own: ModelSettings) -> dict[str, Any]:
    """Return what drafts with the next load, why, and what a trial would try."""
    engine = _engine(services, model, own)
    if not engine or not model.chats:
        return {}
    try:
        choice = choose_draft(services, model, own, engine)
    except RoundhouseError as error:
        return {"draft_reason": str(error)}
    name = LaunchOptions(draft=choice.draft).draft_name
    return {
        "draft": name,
        "draft_reason": choice.reason,
        "draft_candidate": own_draft_of(services, model, engine),
        "is_draft_tried": not model.attached
        and find_trial(services.drafts, services.catalogue, Path(model.path), engine) is not None,
    }


def _raise_if(problem: str) -> None:
    if problem:
        raise _invalid_value(problem)


def _invalid_value(sentence: str) -> BadRequest:
    return BadRequest(sentence, code="invalid_value")


def _engine(services: Services, model: ModelInfo, own: ModelSettings) -> str:
    try:
        return "" if model.attached else engine_for(services, model, own).id
    except EngineFailed:
        return ""


def _engines(catalogue: EngineCatalogue, model: ModelInfo) -> list[EngineOption]:
    return [
        EngineOption(id=engine.id, name=engine.name, is_installed=engine.installed)
        for engine in catalogue.readers_of(model.format)
    ]


def _differs_from_loaded(services: Services, model: ModelInfo) -> bool:
    """Whether the model runs otherwise than it would if it were loaded now. Sizes count where they were set."""
    running_request = services.supervisor.request_of(model.runs_as)
    if running_request is None:
        return False
    try:
        load_now = load_request_for(services, model)
    except RoundhouseError:
        return True
    own = services.model_settings.settings_of(model.runs_as)
    sizes = [name for name in ("context", "slots") if getattr(own, name) is not None]
    return running_request.engine != load_now.engine or any(
        getattr(running_request.options, name) != getattr(load_now.options, name) for name in (*_STARTED_WITH, *sizes)
    )


def _projectors(library: Library, model: ModelInfo, own: ModelSettings) -> Iterator[Companion]:
    if model.format != _GGUF:
        return
    folders, beside = set(projector_folders(Path(model.path))), projector_beside(Path(model.path))
    sizes_by_path = {path: facts.file_bytes for path, facts in library.list_companions() if path.parent in folders}
    used_projector = str(beside or "") if own.projector is None else own.projector
    for path, size in sizes_by_path.items():
        if companions.why_no_projector(path):
            continue
        yield Companion(
            kind=CompanionKind.PROJECTOR,
            name=str(path),
            title=path.name,
            size_bytes=size,
            is_used=str(path) == used_projector,
        )


def _why_no_lora(model: ModelInfo, adapter: Path) -> str:
    """Return why an adapter does not go with a model; empty if it does, or if only the engine could tell."""
    if model.format == _GGUF:
        return companions.why_no_lora(Path(model.path), adapter)
    return folder_companions.why_no_adapter(adapter) if model.format in folder_companions.FORMATS else ""


def _why_no_draft(model: ModelInfo, draft: Path) -> str:
    """Return why another model cannot draft for a model; empty likewise."""
    if model.format == _GGUF:
        return companions.why_no_draft(Path(model.path), draft)
    is_known = model.format in folder_companions.FORMATS
    return folder_companions.why_no_draft(Path(model.path), draft) if is_known else ""


def _loras(library: Library, model: ModelInfo, own: ModelSettings) -> Iterator[Companion]:
    if model.format in folder_companions.FORMATS:  # they lie wherever they were trained: nobody looks for them
        for path in map(Path, own.loras):
            yield _as_lora(path, _why_no_lora(model, path), size=0, is_used=True)
    if model.format != _GGUF:
        return
    facts_by_path = {path: facts for path, facts in library.list_companions() if facts.kind == companions.ADAPTER}
    others = [Path(lora_path) for lora_path in own.loras if Path(lora_path) not in facts_by_path]
    for path in [*facts_by_path, *others]:
        why = companions.why_no_lora(Path(model.path), path)
        if why and str(path) not in own.loras:
            continue
        size = facts_by_path[path].file_bytes if path in facts_by_path else 0
        yield _as_lora(path, why, size=size, is_used=str(path) in own.loras)


def _as_lora(path: Path, problem: str, *, size: int, is_used: bool) -> Companion:
    title = path.stem if path.suffix == ".gguf" else folder_companions.adapter_place(path).name
    return Companion(
        kind=CompanionKind.LORA, name=str(path), title=title, size_bytes=size, is_used=is_used, problem=problem
    )


def _drafts(library: Library, model: ModelInfo, own: ModelSettings) -> Iterator[Companion]:
    if model.format not in {_GGUF, *folder_companions.FORMATS} or not model.chats:
        return
    for candidate in _smaller(library, model)[:_MOST_DRAFTS]:
        if not _why_no_draft(model, Path(candidate.path)) or candidate.name == own.draft:
            yield _as_draft(candidate.name, candidate.title, candidate.size_bytes, own)
    known_names = {candidate.name for candidate in library.list_models()}
    if own.draft and own.draft not in {*known_names, DRAFT_OFF, *OWN_DRAFTS}:
        yield _as_draft(own.draft, Path(own.draft).stem, 0, own)


def _smaller(library: Library, model: ModelInfo) -> list[ModelInfo]:
    """Return models small enough to draft for this one, the smallest first."""
    most = (model.parameters or 0) // _SMALLER
    candidates = [
        candidate
        for candidate in library.list_models()
        if candidate.format == model.format
        and candidate.chats
        and not candidate.problem
        and candidate.preset is None
        and not candidate.is_builtin
    ]
    return sorted(
        (candidate for candidate in candidates if 0 < (candidate.parameters or 0) <= most),
        key=lambda candidate: candidate.size_bytes,
    )


def _as_draft(name: str, title: str, size: int, own: ModelSettings) -> Companion:
    return Companion(kind=CompanionKind.DRAFT, name=name, title=title, size_bytes=size, is_used=name == own.draft)
