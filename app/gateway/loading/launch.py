"""From the name in a request to what the supervisor needs: the file, the engine that reads it, and the options.

Options come from the caller where given, else from the settings, as far as the machine has room for them; context never
exceeds what the model was trained for.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from app.config.model_settings import ModelSettingsFile
from app.config.paths import Paths, expand_path
from app.config.store import SettingsStore
from app.core.connections import ConnectionReason, Purpose
from app.core.engines import EngineInfo, EngineState, EngineStatus
from app.core.errors import BadRequest, EngineFailed, NotFound, Unavailable
from app.core.machine import Machine
from app.core.models import LoadOptions, ModelInfo, ModelSettings, Preset
from app.core.profiles import NO_PROFILE, Profile
from app.core.traces import TRACES_ENDPOINT, traces_url
from app.engine_store.catalogue import EngineCatalogue
from app.gateway.loading import requested_model
from app.gateway.loading.draft_choice import keep_proven_draft
from app.gateway.loading.model_tuning import with_defaults, with_tuning
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.loading.template_trials import check_template_of
from app.gateway.services import Services
from app.hub.library.attached import KEY_SUFFIX, Attachment
from app.hub.library.library import Library
from app.hub.library.naming import fold_name
from app.network.egress import egress_gate, is_this_computer
from app.supervisor.policy import APPLICABLE, LoadRequest, MemoryNeeds, ModelPolicy, SupervisorPolicy
from app.supervisor.pool import Supervisor
from app.supervisor.scheduling import PLACES
from engines.api import FailureKind, LaunchOptions, ModelFormat, ModelSource, RemoteEndpoint, Route

UNCHOSEN = LoadOptions()
ATTACHED = "attached"
_NO_PRESET = Preset()
_ENDPOINTS_SLOTS = 1024
"""Requests an endpoint is sent at once: more than any is made for, since it queues by itself."""
_MINUTE_S = 60.0
_MIB = 1024 * 1024
HEAD_ROOM = 1024 * _MIB
"""Left free of each memory: what the advisor leaves (`placement.MARGIN`), which is not brought in at start-up."""


async def load_request(services: Services, model_name: str, options: LoadOptions = UNCHOSEN) -> LoadRequest:
    """Return what `Supervisor.lease` wants.

    Raises NotFound, BadRequest or EngineFailed (nothing reads the format, or its chat template takes too much).
    """
    _, request = await resolve_model(services, model_name, options)
    return request


async def read_models(services: Services) -> Sequence[ModelInfo]:
    """Return the models that the request which is being answered may ask, also those that cannot be used."""
    return requested_model.models_of_key(await asyncio.to_thread(services.library.list_models))


async def find_model(services: Services, model_name: str) -> ModelInfo:
    """Return the model of that name, or that the name stands for.

    Raises NotFound (code model_not_found), or BadRequest if its file is unusable.
    """
    names = _names_now(services)._replace(statuses=services.supervisor.list_statuses())
    return await asyncio.to_thread(_usable, names, model_name)


async def resolve_model(
    services: Services, model_name: str | None, options: LoadOptions = UNCHOSEN, *, route: Route = Route.CHAT
) -> ResolvedModel:
    """Return the model and what loads it; without a name the one in use for what `route` is for.

    Raises as `load_request` does.
    """
    model_name = model_name or requested_model.AUTO
    of_key = requested_model.KEY_MODELS.get()
    if services.machine_routes.asleep and not of_key:
        await services.machine_routes.wake_for(model_name)
    if services.machine_routes.has_models and not of_key:
        model_name = _route_name(services, model_name)
    names = _names_now(services)
    revisions = services.events.revision, services.spreads.revision
    key = (model_name, options, names.profile.name, names.is_for_request, of_key, revisions)
    resolved_model = services.recent.get(
        key, lambda resolution: is_ready(services.supervisor, resolution.load.source.name)
    )
    if resolved_model is None:
        names = names._replace(statuses=services.supervisor.list_statuses())
        search = partial(_usable, names, model_name, route)
        resolved_model = await asyncio.to_thread(_resolve_now, services, search, options)
        if resolved_model.load.options.is_over_computers:
            await services.spreads.revive_machines(resolved_model.load.source.name)
            resolved_model = await asyncio.to_thread(_resolve_now, services, search, options)
        load = await size_load(services, resolved_model.load, options)
        resolved_model = resolved_model._replace(load=_with_least_context(load, names))
        if not (resolved_model.model.attached or resolved_model.model.is_builtin):
            await asyncio.to_thread(check_template_of, services.templates, services.facts, resolved_model.load)
        # Whom a name stands for can change with every request; a model's own name cannot. A machine that holds a part
        # can go at any time, and what was found out before would lead to where it was.
        is_lasting = fold_name(model_name) == fold_name(resolved_model.model.name)
        if is_lasting and not load.options.is_over_computers:
            services.recent.put(key, resolved_model)
    return resolved_model


def _route_name(services: Services, model_name: str) -> str:
    """Return the name of the model on the paired machine that is to answer; the same where there is none."""
    in_flight = {status.model: status.in_flight for status in services.supervisor.list_statuses()}
    return services.machine_routes.choose_name(
        model_name, in_flight, balances=services.settings.get_flag("machines.balance")
    )


async def size_load(services: Services, load: LoadRequest, options: LoadOptions) -> LoadRequest:
    """Return the load as it is planned, and with what that takes; a size that `options` ask for stays."""
    if not load.takes_memory or load.options.is_over_computers:
        return load
    from app.gateway.loading.memory_fit import fit_load  # noqa: PLC0415 -- the advisor is brought in once it is needed

    is_fixed = options.context is not None or options.slots is not None
    return await asyncio.to_thread(
        keep_proven_draft,
        services.model_settings,
        services.drafts,
        services.catalogue,
        await fit_load(services, load, is_fixed=is_fixed),
    )


def status_of(supervisor: Supervisor, model: ModelInfo) -> EngineStatus | None:
    """Return how a model runs; None if it does not."""
    return next((status for status in supervisor.list_statuses() if status.model == model.runs_as), None)


def is_ready(supervisor: Supervisor, model: str) -> bool:
    """Tell whether a model is loaded and answers."""
    return any(status.model == model and status.state is EngineState.READY for status in supervisor.list_statuses())


def load_request_for(
    services: Services, model: ModelInfo, options: LoadOptions = UNCHOSEN, *, own: ModelSettings | None = None
) -> LoadRequest:
    """Return what loads `model` as it is set, or as `own` says instead.

    Raises EngineFailed if no installed engine reads its format, NotFound or BadRequest for files that go with it.
    """
    if model.attached:
        return _request_for_attached(model, services.library.find_attachment(model))
    own = services.model_settings.settings_of(model.runs_as) if own is None else own
    if model.runs_as in services.spreads:
        return _request_over_machines(services, model, options, own)
    engine = engine_for(services, model, own).id
    return LoadRequest(
        engine=engine,
        source=ModelSource(name=model.runs_as, path=Path(model.path), format=ModelFormat(model.format)),
        options=launch_options(services, model, options, own, engine=engine),
    )


def _request_over_machines(
    services: Services, model: ModelInfo, options: LoadOptions, own: ModelSettings
) -> LoadRequest:
    """Return what loads a model of which other machines hold layers: the plan that was made over them counts."""
    engine = services.spreads.engine_of(model.runs_as)
    chosen_options = launch_options(services, model, options, own, engine=engine)
    return LoadRequest(
        engine=engine,
        source=ModelSource(name=model.runs_as, path=Path(model.path), format=ModelFormat(model.format)),
        options=services.spreads.options_for(model.runs_as, chosen_options),
        needs=MemoryNeeds(pools={services.spreads.pool_of(model.runs_as): services.spreads.bytes_here(model.runs_as)}),
        placement=services.spreads.placement_of(model.runs_as),
    )


def _request_for_attached(model: ModelInfo, attachment: Attachment) -> LoadRequest:
    """Return what has an endpoint watched, or a router started in front of several: neither takes memory to speak of.

    Raises Offline for an endpoint on another computer that must not be called, Unavailable for a fleet that was
    stopped.
    """
    if attachment.is_stopped:
        raise Unavailable(
            f"The fleet {model.name} was stopped.",
            hint=f"`roundhouse fleet start {model.name}` starts it.",
            code="fleet_stopped",
        )
    for url in attachment.replicas or (model.attached,):
        where = urlsplit(url)
        egress_gate.require_open(
            where.hostname or "", where.port or 0, Purpose(why=ConnectionReason.ATTACHED, about=model.name)
        )
    record = Path(model.path)
    remote = RemoteEndpoint(
        url=model.attached,
        served_as=model.served_as,
        key_file=record.with_suffix(KEY_SUFFIX),
        replicas=attachment.replicas,
        policy=attachment.policy,
    )
    # A made model shares the endpoint whatever its settings: nothing is loaded for it.
    name = model.preset.base if model.preset is not None else model.name
    return LoadRequest(
        engine=attachment.router or ATTACHED,
        source=ModelSource(name=name, path=record, format=ModelFormat.REMOTE, remote=remote),
        options=LaunchOptions(context=model.trained_context, slots=_ENDPOINTS_SLOTS),
        needs=MemoryNeeds(pools={PLACES: 0}),
    )


def _resolve_now(services: Services, search: Callable[[], ModelInfo], options: LoadOptions) -> ResolvedModel:
    model = search()
    load = load_request_for(services, model, options)
    return ResolvedModel(
        with_defaults(services.model_settings, services.adapters, services.hub, model, load.engine), load
    )


class _ModelNames(NamedTuple):
    """What decides which model a name means."""

    settings: SettingsStore
    library: Library
    profile: Profile
    is_for_request: bool
    """Whether the request itself named the profile: then nothing was loaded for it."""
    statuses: Sequence[EngineStatus] = ()


def _names_now(services: Services) -> _ModelNames:
    """Return what counts for the request that is being answered. Raises BadRequest for a profile that is not there."""
    profiles = services.profiles
    return _ModelNames(services.settings, services.library, profiles.effective_profile(), profiles.is_requested)


def _with_least_context(load: LoadRequest, names: _ModelNames) -> LoadRequest:
    """Return the load so that a running engine with less context than the request's profile says gets that much."""
    entry = names.profile.find_model(load.source.name) if names.is_for_request else None
    if entry is None or entry.context is None or load.options.context is None:
        return load
    return msgspec.structs.replace(load, least_context=min(entry.context, load.options.context))


def _usable(names: _ModelNames, model_name: str, route: Route = Route.CHAT) -> ModelInfo:
    try:
        model = _find_or_stand_in(names, model_name, route)
    except NotFound as error:
        if requested_model.KEY_MODELS.get():  # the hint names models that are here
            raise requested_model.key_refusal(model_name) from error
        raise
    if not requested_model.may_ask(model):
        raise requested_model.key_refusal(model_name)
    if model.problem:
        raise BadRequest(f"{model.title} cannot be used: {model.problem}", code="model_unusable")
    return model


def _find_or_stand_in(names: _ModelNames, model_name: str, route: Route) -> ModelInfo:
    try:
        return names.library.find_model(model_name)
    except NotFound as missing_error:
        with suppress(NotFound):
            if model_name.casefold().startswith(requested_model.PICKER_PREFIX):
                return names.library.find_model(model_name[len(requested_model.PICKER_PREFIX) :])
        stands_for = (
            requested_model.AUTO
            if requested_model.is_auto(model_name)
            else requested_model.find_stand_in(model_name, aliases_of(names.settings, names.profile))
        )
        if stands_for == requested_model.AUTO:
            return _in_use(names, route)
        if stands_for:
            return names.library.find_model(stands_for)
        fallback = names.settings.get_text("models.fallback")
        if fallback and fold_name(fallback) != fold_name(model_name):
            return _find_or_stand_in(names, fallback, route)
        raise requested_model.unknown_model_error(model_name, missing_error) from None


def aliases_of(settings: SettingsStore, profile: Profile) -> list[str]:
    """Return the aliases that count, in order: the first that fits does."""
    return [*profile.aliases, *settings.get_list("models.aliases")]


def _in_use(names: _ModelNames, route: Route) -> ModelInfo:
    """Return what `auto` means: the profile's model for it, else one of the profile's models, else any."""
    settings, listed_models = names.settings, requested_model.models_of_key(names.library.list_models())
    if route is Route.INFILL and (kept_model := requested_model.chosen_for_completion(settings, listed_models)):
        return kept_model
    models = requested_model.without_completion(settings, listed_models)
    chosen_name = settings.get_text("models.default") if settings.is_chosen("models.default") else ""
    of_profile = requested_model.models_of_profile(models, names.profile)
    model = requested_model.model_in_use(of_profile, names.statuses, names.profile.default or chosen_name, route)
    model = model or requested_model.model_in_use(models, names.statuses, chosen_name, route)
    if model is None:
        raise requested_model.none_able_error(route)
    return model


def engine_for(
    services: Services, model: ModelInfo, own: ModelSettings, *, engines: Sequence[EngineInfo] | None = None
) -> EngineInfo:
    """Return the engine that runs a model: the one set for it, else the best. Raises EngineFailed if none is here.

    `engines` are those of the catalogue, where they are known already.
    """
    if engines is None:
        readers = services.catalogue.readers_of(model.format)
    else:
        readers = [engine for engine in engines if model.format in engine.formats]
    if own.engine is not None:
        readers = [engine for engine in readers if engine.id == own.engine]
    installed_engines = [engine for engine in readers if engine.installed]
    if installed_engines:
        return best_reader(installed_engines, services.settings.get_list("engines.preferred"), services.machine.last)
    broken_engine = next((engine for engine in readers if engine.is_broken), None)
    if broken_engine is not None:
        raise EngineFailed(
            broken_engine.problem,
            hint=f"`roundhouse engines install {broken_engine.id}` installs it again.",
            code=FailureKind.NOT_INSTALLED,
        )
    raise EngineFailed(
        f"No installed engine reads {model.title} ({model.format}).",
        hint=_install_hint(services.catalogue, services.machine.last, readers),
        code=FailureKind.NOT_INSTALLED,
    )


def _install_hint(catalogue: EngineCatalogue, machine: Machine | None, readers: Sequence[EngineInfo]) -> str:
    """Name the engines to install: those that this computer can run; or the way out where there are none.

    A program on PATH that would do comes first: it only has to pass its test.
    """
    from app.engine_store.host import host_of, installable_engines  # noqa: PLC0415 -- start-up must not pay for it

    for engine in readers:
        program = catalogue.own_programs.find_on_path(engine.id)
        if program is not None:
            return f"`roundhouse engines use {engine.id} {program.name}` uses {program}, once it has passed a test."
    known_engines = None if machine is None else installable_engines(catalogue.recipes, host_of(machine))
    names = _join_names([engine for engine in readers if known_engines is None or engine.id in known_engines])
    if names:
        return f"Install {names}, on the Engines page or by `roundhouse engines install`."
    if readers:
        return (
            f"{_join_names(readers)} cannot be installed on this computer. Choose the model as GGUF, which runs here."
        )
    return "Choose the model in another format, such as GGUF."


def _join_names(engines: Sequence[EngineInfo]) -> str:
    return " or ".join(engine.name for engine in engines)


def launch_options(
    services: Services, model: ModelInfo, requested_options: LoadOptions, own: ModelSettings, *, engine: str
) -> LaunchOptions:
    """Return what an engine is told to load `model`: what was asked for, else what is set for it, else for all.

    Raises NotFound or BadRequest for files that go with it. Reads disks: for a thread.
    """
    chosen_options, about = (
        choose_options(services.settings, model, requested_options, own),
        services.adapters[engine].descriptor,
    )
    if about.chooses_threads:
        chosen_options = msgspec.structs.replace(chosen_options, threads=None)
    if about.traces_flag:
        chosen_options = msgspec.structs.replace(chosen_options, traces_url=_collector_here(services))
    return with_tuning(services, model, own, engine=engine, options=chosen_options)


def _collector_here(services: Services) -> str:
    """Return where engines send traces of their own: to a collector on this computer that asks for no secret header."""
    url = traces_url(services.settings.get_text(TRACES_ENDPOINT))
    is_open = is_this_computer(urlsplit(url).hostname or "") and not services.paths.trace_headers_file.exists()
    return url if is_open else ""


def choose_options(
    settings: SettingsStore, model: ModelInfo, requested_options: LoadOptions, own: ModelSettings
) -> LaunchOptions:
    """Return what an engine would be given if there were room for everything: what was asked for, else what is set."""
    from app.hardware.cpu import engine_threads  # noqa: PLC0415 -- start-up must not pay for the probes

    preset = model.preset or _NO_PRESET
    return LaunchOptions(
        context=choose_context(settings, model, requested_options, own),
        slots=requested_options.slots or own.slots or settings.get_int("models.slots"),
        threads=requested_options.threads or own.threads or engine_threads(),
        gpu_layers=own.gpu_layers if requested_options.gpu_layers is None else requested_options.gpu_layers,
        cpu_moe_layers=own.cpu_moe_layers,
        max_batch_tokens=own.batch_tokens,
        flash_attention=None if own.flash_attention is None else own.flash_attention == "on",
        kv_type=requested_options.kv_type or own.kv_type,
        gpu_memory_fraction=requested_options.gpu_memory_fraction or own.gpu_memory_fraction,
        chat_template=preset.chat_template or None,
        task="rerank" if model.is_reranker else "chat" if model.chats else "embed",
    )


def choose_context(
    settings: SettingsStore, model: ModelInfo, requested_options: LoadOptions, own: ModelSettings
) -> int:
    """Return how many tokens a model would keep if there were room: as asked for or set, at most as it was trained."""
    preset = model.preset or _NO_PRESET
    context = requested_options.context or own.context or preset.context or settings.get_int("models.context")
    return min(context, model.trained_context or context)


def context_of(
    settings: SettingsStore, tuning_file: ModelSettingsFile, model: ModelInfo, status: EngineStatus | None
) -> int | None:
    """Return how many tokens of conversation a model keeps: as it is loaded, else as the settings would have it loaded.

    None for an attached model whose endpoint does not say.
    """
    if status is not None and status.context:
        return status.context
    if model.attached:
        return model.trained_context
    return choose_context(settings, model, UNCHOSEN, tuning_file.settings_of(model.runs_as))


def devices_of(catalogue: EngineCatalogue) -> tuple[str, ...]:
    """Return what llama.cpp says it can compute on, one line each; empty when it is not here. Takes a second."""
    from engines.llama_cpp.launch import ask_devices  # noqa: PLC0415 -- start-up must not pay for it

    try:
        return ask_devices(catalogue.find_installation("llama.cpp"))
    except EngineFailed:
        return ()


def renew_policy(services: Services) -> None:
    """Have the supervisor keep to what is set now: after a change of settings, and of the active profile."""
    services.supervisor.policy = policy_from(
        services.settings, services.model_settings, services.profiles.active_profile()
    )


def policy_from(
    settings: SettingsStore, tuning_file: ModelSettingsFile | None = None, profile: Profile = NO_PROFILE
) -> SupervisorPolicy:
    """Return what the supervisor keeps to; see `renew_policy`."""
    # Engines differ in how long they are rightly silent; the adapter's own time counts unless a person set one.
    is_chosen = settings.is_chosen("engine.stall_seconds")
    keep_free = settings.get_int("models.yield_below_mib") * _MIB
    models = (
        {} if tuning_file is None else {name: _policy_of(own) for name, own in tuning_file.all_with(profile).items()}
    )
    if kept_model := settings.get_text(requested_model.AUTOCOMPLETE):
        models[kept_model] = msgspec.structs.replace(models.get(kept_model, ModelPolicy()), is_kept=True)
    return SupervisorPolicy(
        stall_s=settings.get_int("engine.stall_seconds") if is_chosen else None,
        drain_s=settings.get_int("engine.drain_seconds"),
        max_loaded=settings.get_int("models.max_loaded"),
        refuses_too_large=settings.get_flag("models.refuse_too_large"),
        head_room=max(HEAD_ROOM, keep_free),
        keep_free=keep_free,
        mends=frozenset(kind for kind in APPLICABLE if settings.get_flag(f"engine.mend_{kind}")),
        queue_limit=settings.get_int("gateway.queue_limit"),
        models=models,
        idle_s=settings.get_int("models.idle_minutes") * 60.0,
    )


def _policy_of(own: ModelSettings) -> ModelPolicy:
    return ModelPolicy(is_pinned=own.pinned, idle_s=None if own.idle_minutes is None else own.idle_minutes * _MINUTE_S)


def model_folders(paths: Paths, settings: SettingsStore) -> list[Path]:
    """Return the folders that are looked through for models: our own, the hub's cache, and the user's."""
    return [paths.models, paths.hub_cache, *(expand_path(folder) for folder in settings.get_list("models.folders"))]


def best_reader(readers: Sequence[EngineInfo], preferred_engines: Sequence[str], machine: Machine | None) -> EngineInfo:
    """Return one of the installed engines that read a format. One that is known to fail comes last.

    Without a machine, which is not known in the first second, the registry's order counts.
    """
    if len(readers) == 1:
        return readers[0]
    order = [*preferred_engines, *_advice_order(readers, machine)]
    places = {engine: place for place, engine in reversed(list(enumerate(order)))}
    return min(readers, key=lambda engine: (bool(engine.problem), places.get(engine.id, len(order))))


def _advice_order(readers: Sequence[EngineInfo], machine: Machine | None) -> list[str]:
    if machine is None:
        return []
    from app.advisor.choosing.intents import build_workload  # noqa: PLC0415 -- the advisor is brought in once it is needed
    from app.advisor.choosing.rules import rank_engines  # noqa: PLC0415 -- as above
    from app.core.advice import Intent  # noqa: PLC0415 -- as above
    from app.engine_store.host import host_of  # noqa: PLC0415 -- as above
    from app.gateway.advising.engine_table import engines_for  # noqa: PLC0415 -- as above

    table = engines_for(machine, {}, readers, host_of(machine))
    ranked_engines = rank_engines(table, machine, build_workload(Intent.CHAT))
    return [candidate.traits.id for candidate in ranked_engines if not candidate.refused]
