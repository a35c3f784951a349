"""The gateway as a program: startup, main loop, shutdown, and the exit codes a caller can rely on.

The sockets listen before anything slow is begun, so a client that connects early waits instead of being refused. What
can wait (reaping orphans, looking through model folders) happens after the first answers.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil
from aiohttp import web

from app import __version__
from app.config.model_settings import ModelSettingsFile
from app.config.open_files import raise_open_file_limit
from app.config.paths import Paths, default_paths, guide_gguf, this_home
from app.config.privacy import check_owner, secure_folders
from app.config.profiles import ProfileStore
from app.config.store import SettingsStore
from app.core.api import EXIT_ALREADY_RUNNING, EXIT_DISK_FULL, EXIT_NO_KEY
from app.core.errors import DISK_FULL, EnvironmentFault, RoundhouseError, StorageFault, is_disk_full, write_fault
from app.engine_store.catalogue import EngineCatalogue, is_preinstalled
from app.engine_store.version_store import VersionStore
from app.gateway.advising.machine import MachineReader, MemoryGauge
from app.gateway.advising.model_facts import FactsReader
from app.gateway.advising.speed_measurements import SpeedMeasurements
from app.gateway.app import build_app
from app.gateway.engines.confinement import make_confiner
from app.gateway.engines.rollback import EngineRecovery, VersionMoves, announce_changes
from app.gateway.entry.access import KeyNeeded
from app.gateway.entry.dispatch import dispatch_posts
from app.gateway.entry.guard import is_wide
from app.gateway.entry.key_limits import DAY_S
from app.gateway.entry.keys import KeyStore
from app.gateway.events import EventHub
from app.gateway.exchange.connections import EngineConnections
from app.gateway.exchange.resolving import make_session
from app.gateway.instance import AlreadyRunning, Endpoint, Instance, bind
from app.gateway.library.attached_endpoints import watch_endpoints
from app.gateway.library.watch import watch_library
from app.gateway.loading.launch import devices_of, model_folders, policy_from
from app.gateway.runtime import Afterwards, give_back, leave_start_up_out_of_collections, run
from app.gateway.services import SERVICES, Identity, Limits, Services
from app.gateway.watching.journal import open_journal
from app.gateway.watching.metrics import GatewayMetrics
from app.hub.library.candidates import FolderListings
from app.hub.library.library import Library
from app.hub.library.stores import other_models
from app.store.database import ChatStore
from app.supervisor.pool import Supervisor, SupervisorFolders
from engines.api import EngineAdapter
from engines.registry import ADAPTERS

log = logging.getLogger(__name__)

EXIT_FAILED = 1
EXIT_USAGE = 2

GRACE_S = 5.0
"""How long answers in progress may go on after we are asked to end."""

FIRST_ANSWERS_S = 0.5
"""Who starts a gateway asks it something at once: for so long, what nobody waits for leaves the processor to that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a gateway is started with."""

    paths: Paths
    settings: SettingsStore
    adapters: Mapping[str, EngineAdapter]
    instance: Instance
    afterwards: Afterwards


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningGateway:
    """What a started gateway must end."""

    services: Services
    runner: web.AppRunner
    stopped: asyncio.Event
    background: asyncio.Task[None]


def main(argv: Sequence[str] | None = None, *, adapters: Mapping[str, EngineAdapter] = ADAPTERS) -> int:
    """Run until told to stop. Returns 0, 1 (could not start), 2 (usage), or a code of `app.core.api` (3, 4, 5)."""
    if sys.argv[1:] if argv is None else argv:
        return _say("usage: python -m app.gateway    (everything else comes from settings and environment)", EXIT_USAGE)
    raise_open_file_limit()
    try:
        paths = _make_paths()
        with Instance(paths) as instance:
            journal = open_journal(paths.logs / "gateway.jsonl")
            setup = Setup(
                paths=paths,
                settings=SettingsStore(paths.settings_file),
                adapters=adapters,
                instance=instance,
                afterwards=Afterwards(),
            )
            try:
                run(serve(setup))
                setup.afterwards.do()
            finally:
                journal.close()
    except AlreadyRunning as error:
        return _say(str(error), EXIT_ALREADY_RUNNING)
    except KeyNeeded as error:
        return _say(f"{error} {error.hint}", EXIT_NO_KEY)
    except RoundhouseError as error:
        return _say(f"{error} {error.hint}", EXIT_DISK_FULL if error.code == DISK_FULL else EXIT_FAILED)
    return 0


async def serve(setup: Setup) -> None:
    """Start, serve until a signal or a client says stop, end in good order."""
    gateway = await startup(setup)
    try:
        await main_loop(gateway)
    finally:
        await shutdown(gateway)


async def startup(setup: Setup) -> RunningGateway:
    """Listen, then build everything, then tell clients where we are."""
    keys = KeyStore(setup.paths.keys_file)
    endpoint = _listen(setup.settings, keys)
    stop_event = asyncio.Event()

    def stop() -> None:
        setup.instance.withdraw()  # first: whoever sees us end must not find us still announced
        stop_event.set()

    services = await _services(setup, endpoint, keys, stop)
    runner = await open_runner(services, endpoint)
    created_at = psutil.Process().create_time()
    setup.instance.announce(url=endpoint.url, created_at=created_at, version=__version__)
    report(setup.settings, endpoint)
    leave_start_up_out_of_collections()
    return RunningGateway(
        services=services, runner=runner, stopped=stop_event, background=asyncio.create_task(_settle_in(services))
    )


async def _resume_key_uses(services: Services) -> None:
    """Have limits of a day count what an earlier process answered."""
    try:
        services.keys.resume_uses(await services.chats.key_tokens_since(time.time() - DAY_S))
    except StorageFault as error:
        log.warning("What keys were used for before the start does not count: %s", error)


async def open_runner(services: Services, endpoint: Endpoint) -> web.AppRunner:
    """Answer on the endpoint's sockets; `cleanup()` of what is returned ends that, and the services with it."""
    await _resume_key_uses(services)
    app = build_app(services)
    app.on_shutdown.append(_end_engines)
    app.on_cleanup.append(_close_stores)
    runner = web.AppRunner(
        app,
        access_log=None,
        auto_decompress=False,  # `entry.bodies` does it
        handler_cancellation=True,
        keepalive_timeout=services.limits.head_s,
        shutdown_timeout=1.0,  # seconds; by then every stream has had its last event
    )
    await runner.setup()
    if (server := runner.server) is not None:
        server.request_handler = dispatch_posts(app, server.request_handler)
    for listening_socket in endpoint.sockets:
        await web.SockSite(runner, listening_socket).start()
    return runner


async def main_loop(gateway: RunningGateway) -> None:
    """Wait until somebody wants us to stop."""
    _on_signals(gateway.services.stop)
    await gateway.stopped.wait()
    log.info("Stopping")


async def shutdown(gateway: RunningGateway) -> None:
    """Take no more requests, let answers finish for a while, stop the engines, close what is open."""
    gateway.background.cancel()
    await asyncio.gather(gateway.background, return_exceptions=True)
    await gateway.runner.cleanup()


def _listen(settings: SettingsStore, keys: KeyStore) -> Endpoint:
    """Bind what the settings say. Raises KeyNeeded when others could reach it and there is no key."""
    host = settings.get_text("gateway.host")
    if is_wide(host) and not len(keys):
        raise KeyNeeded
    return bind(host, settings.get_int("gateway.port"))


async def _services(setup: Setup, endpoint: Endpoint, keys: KeyStore, stop: Callable[[], None]) -> Services:
    paths, settings, events, limits = setup.paths, setup.settings, EventHub(), Limits()
    folders = SupervisorFolders(records=paths.engine_records, logs=paths.logs, scratch=paths.state / "scratch")
    listings = FolderListings()
    library = Library(
        lambda: model_folders(paths, settings),
        paths.data / "models.json",
        guide_gguf(),
        lambda: other_models(this_home(), listings) if settings.get_flag("models.other_programs") else (),
    )
    shelf = VersionStore(paths.data / "engines", lambda engine: is_preinstalled(setup.adapters, engine))
    catalogue = EngineCatalogue(setup.adapters, shelf, lambda: settings.get_flag("engine.allow_outdated"))
    chats = await ChatStore.open(paths.database)
    model_settings = ModelSettingsFile(paths.model_settings_file)
    profiles = ProfileStore(paths.profiles_file, paths.state / "profile.json")
    confiner = make_confiner(paths, settings)
    supervisor = Supervisor(
        catalogue.versioned,
        folders,
        policy_from(settings, model_settings, profiles.active_profile()),
        events.publish,
        confiner=confiner,
    )
    announce_changes(shelf, events)
    facts, machine = FactsReader(library), MachineReader(lambda: devices_of(catalogue))
    supervisor.gauge = (gauge := MemoryGauge(machine)).read
    return Services(
        settings=settings,
        confiner=confiner,
        paths=paths,
        adapters=catalogue.versioned,
        supervisor=supervisor,
        library=library,
        catalogue=catalogue,
        model_settings=model_settings,
        profiles=profiles,
        gauge=gauge,
        chats=chats,
        keys=keys,
        events=events,
        metrics=GatewayMetrics(),
        machine=machine,
        facts=facts,
        speed_measurements=SpeedMeasurements(chats, facts, machine),
        http=make_session(limits.connect_s),
        connections=EngineConnections(limits.connect_s),
        identity=Identity(
            url=endpoint.url,
            token=setup.instance.token,
            started_at=time.time(),
            notice=endpoint.notice,
            host=settings.get_text("gateway.host"),
        ),
        stop=stop,
        limits=limits,
        afterwards=setup.afterwards,
    )


def _moves(catalogue: EngineCatalogue, settings: SettingsStore) -> VersionMoves:
    bundled_engines = [engine for engine, recipe in catalogue.recipes.items() if recipe.bundled is not None]
    return VersionMoves(catalogue.shelf, bundled_engines, lambda: settings.get_flag("engine.mend_other_runtime"))


async def _settle_in(services: Services) -> None:
    """Do what nobody waits for."""
    rescuer = EngineRecovery(
        services.catalogue.shelf, services.events.publish, _moves(services.catalogue, services.settings)
    )
    services.supervisor.rescue = rescuer.recover_load
    try:
        for notice in services.chats.notices:
            services.events.publish(notice)
        await services.supervisor.start()
        await asyncio.sleep(FIRST_ANSWERS_S)
        await asyncio.to_thread(services.catalogue.shelf.sweep_stages)
        await asyncio.to_thread(services.library.list_models)
        await asyncio.to_thread(services.catalogue.list_engines)
        from app.gateway.advising.advice import watch_loads  # noqa: PLC0415 -- brings in the advisor, which starting can do without

        await asyncio.gather(
            watch_loads(services),
            rescuer.watch(services.events),
            watch_library(services.library, services.events),
            watch_endpoints(services.library, services.events),
            give_back(),
        )
    except RoundhouseError as error:
        log.error(str(error), extra={"code": error.code})  # noqa: TRY400 -- said in a sentence; no traceback needed
    except Exception:
        log.exception("Settling in failed")


async def _end_engines(app: web.Application) -> None:
    """Give answers in progress some time, then stop the engines, which ends what is left with an error event."""
    services = app[SERVICES]
    supervisor = services.supervisor
    supervisor.policy = msgspec.structs.replace(supervisor.policy, drain_s=min(GRACE_S, supervisor.policy.drain_s))
    busy = [status.model for status in supervisor.list_statuses() if status.in_flight]
    await asyncio.gather(*(supervisor.unload_model(model) for model in busy), return_exceptions=True)
    services.events.close()
    await supervisor.close()


async def _close_stores(app: web.Application) -> None:
    app[SERVICES].connections.close()
    app[SERVICES].spreads.close_all()
    await app[SERVICES].http.close()
    await app[SERVICES].speed_measurements.close()
    if (gauge := app[SERVICES].gauge) is not None:
        await gauge.close()
    await app[SERVICES].chats.close()
    app[SERVICES].keys.close()


def _on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":  # no loop.add_signal_handler there; a process group of its own is sent SIGBREAK
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK):
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(stop))
    else:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)


def _make_paths() -> Paths:
    paths = default_paths()
    check_owner(paths)
    try:
        paths.create_folders()
        secure_folders(paths)
    except OSError as error:
        if is_disk_full(error):
            raise write_fault("the service's folders", error, action="created", place=str(paths.data)) from error
        raise EnvironmentFault(f"The folder {error.filename} cannot be created: {error.strerror}.") from error
    return paths


def report(settings: SettingsStore, endpoint: Endpoint) -> None:
    """Put into the log how starting went, and tell whoever reads what we write, a person or a program."""
    until = " until Ctrl-C" if sys.stderr.isatty() else ""
    _write_line(f"Roundhouse serves {endpoint.url}/v1{until}.")
    log.info("Listening", extra={"url": endpoint.url, "version": __version__})
    for problem in (*settings.problems, endpoint.notice):
        if problem:
            log.warning(problem)


def _say(sentence: str, code: int) -> int:
    _write_line(sentence.strip())
    return code


def _write_line(text: str) -> None:
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:  # it is a file on a full disk: a last try of the interpreter's would end in another code than ours
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 -- open until the program ends
