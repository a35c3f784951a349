"""The engine store as the gateway runs it: installs, updates, tests and bundles are jobs; switching is done at once."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import psutil

from app.config.paths import expand_path
from app.config.programs import uv_program
from app.core.engine_store import BundleEngine, EngineJob, EngineListing, EngineUpdate, InstallEngine, UseEngine
from app.core.engines import EngineStatus
from app.core.errors import BadRequest, Conflict, NotFound, Offline, quote_value
from app.core.models import ModelInfo
from app.engine_store.bundles import read_about
from app.engine_store.bundling import make_bundle
from app.engine_store.catalogue import unknown_engine
from app.engine_store.environments import Progress
from app.engine_store.fetching import ReleaseFetcher
from app.engine_store.host import InstallHost, best_variant, host_of, order_reason, unfit_reason
from app.engine_store.installer import Installer, InstallerDeps, InstallOptions, InstallTask, update_for
from app.engine_store.program_run import run_cancellable
from app.engine_store.recipe import Channel, EngineVariant, InstallRecipe, SmokeModel
from app.gateway.engines.confinement import confinement_of
from app.gateway.engines.engine_listing import list_engines
from app.gateway.engines.jobs import EngineJobs, JobOutcome
from app.gateway.engines.smoke_tests import SmokeTests
from app.gateway.engines.version_switch import VersionSwitch
from app.gateway.services import Services
from app.supervisor.policy import SupervisorFolders
from engines.api import Failure, FailureKind


class EngineStore:
    """Everything the admin API does with engines. Belongs to the event loop."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._catalogue = services.catalogue
        self._shelf = services.catalogue.shelf
        self.jobs = EngineJobs(services.events.publish)
        scratch = services.paths.state / "trials"
        self._smoke_tests = SmokeTests(
            adapters=self._catalogue.adapters,
            smoke=self._smoke,
            folders=SupervisorFolders(records=services.paths.engine_records, logs=services.paths.logs, scratch=scratch),
            http=services.http,
            own_models=self._own_models,
            confiner=services.confiner,
        )
        self._switches = VersionSwitch(services.catalogue, services.supervisor, self.jobs, self._smoke_tests)
        self._installer = Installer(
            InstallerDeps(
                shelf=self._shelf,
                adapters=self._catalogue.adapters,
                fetcher=ReleaseFetcher(services.http),
                prove=self._smoke_tests.prove,
                uv=uv_program,
                releases_api=lambda: services.settings.get_text("engines.releases_url"),
            )
        )

    async def list_stock(self) -> list[EngineListing]:
        """Return every engine: how it suits this machine, what is here, what could be."""
        machine = await self._services.machine.read()
        preferred_engines = self._services.settings.get_list("engines.preferred")
        host, settings = await self._host(), self._services.settings

        def list_all() -> list[EngineListing]:
            listings = list_engines(self._catalogue, machine, host, preferred_engines)
            return [
                msgspec.structs.replace(
                    listing, confinement=confinement_of(self._catalogue.adapters[listing.id].descriptor, settings)
                )
                for listing in listings
            ]

        return await run_cancellable(list_all)

    async def install(self, engine: str, request: InstallEngine, *, verb: str = "install") -> EngineJob:
        """Begin to install a version. Raises BadRequest, NotFound or Conflict before anything is begun."""
        bundle = Path(request.bundle) if request.bundle else None
        if bundle is None:
            self._refuse_offline()
        about = await asyncio.to_thread(read_about, bundle) if bundle else None
        recipe = self._recipe(engine)
        variant = self._variant(recipe, await self._host(), about.variant if about else request.variant)
        install_options = InstallOptions(
            channel=_channel(request.channel), version=request.version, bundle=bundle, use=request.use
        )
        version = (
            about.version
            if about
            else request.version or (variant.version if install_options.channel is Channel.STABLE else "")
        )
        here = await run_cancellable(partial(self._find_present, engine, variant, version))
        if here and verb == "update" and request.use:
            return await self._switches.prove_and_use(engine, here, verb)
        if here:
            raise Conflict(
                f"{engine} {version} ({variant.name}) is installed already.",
                hint=f"`roundhouse engines use {engine} {here}` uses it.",
                code="engine_installed",
            )

        async def work(progress: Progress) -> JobOutcome:
            result = await self._installer.install_version(recipe, variant, install_options, progress)
            if request.use:
                await self._switches.restart(engine)
                await asyncio.to_thread(self._services.support.read_engine, engine)
            return JobOutcome(version=result.manifest.name, proofs=result.proofs)

        note = "" if bundle or request.variant else order_reason(recipe, await self._host())
        return self.jobs.begin(engine, verb, work, version=version, note=note)

    def _refuse_offline(self) -> None:
        """Raise Offline where nothing is to be fetched."""
        if self._services.settings.get_flag("network.offline"):
            raise Offline(hint="Turn `network.offline` off, or install it from a bundle.")

    def _find_present(self, engine: str, variant: EngineVariant, version: str) -> str:
        """Return what a version that is here and works is called; one that is broken may be installed beside it."""
        state, adapter = self._shelf.read_state(engine), self._catalogue.versioned[engine]
        same = [
            manifest.name
            for manifest in self._shelf.list_manifests(engine)
            if (manifest.variant, manifest.version) == (variant.name, version) and manifest.name not in state.bad
        ]
        working_names = (
            name for name in same if not isinstance(adapter.probe(self._shelf.find_place(engine, name)), Failure)
        )
        return next(working_names, "")

    async def check_update(self, engine: str, channel: str) -> EngineUpdate:
        """Return what an update would change. Asks the network on the latest channel only."""
        if _channel(channel) is Channel.LATEST:
            self._refuse_offline()
        recipe = self._recipe(engine)
        current = self._current_variant(recipe, await self._host())
        version = (await asyncio.to_thread(self._catalogue.find_installation, engine)).version
        async with self._shelf.open_stage() as stage:
            work = InstallTask(
                recipe, current, InstallOptions(channel=_channel(channel)), stage, lambda _stage, _fraction: None
            )
            update_found = await update_for(self._installer, work, version)
        if update_found.to and await run_cancellable(partial(self._find_present, engine, current, update_found.to)):
            return msgspec.structs.replace(update_found, is_here=True, download_bytes=0)
        return update_found

    async def use(self, engine: str, request: UseEngine) -> EngineJob | None:
        """Use another version from now on. One that failed, or a program of one's own, is tested first, by a job."""
        self._require_known(engine)
        path = str(expand_path(request.path)) if request.path else ""
        return await self._switches.use(engine, msgspec.structs.replace(request, path=path))

    async def roll_back(self, engine: str) -> None:
        """Use the version before. Raises Conflict when there is none."""
        self._require_known(engine)
        await self._switches.roll_back(engine)

    async def remove(self, engine: str, name: str) -> None:
        """Remove a version from the disk. Raises Conflict while a model runs on it."""
        self._require_known(engine)
        version = await self._switches.find_version(engine, name)
        if not version.is_ours:
            raise BadRequest(
                f"{version.name} was not installed by Roundhouse, so it cannot be removed.", code="not_ours"
            )
        statuses = [
            status for status in self._services.supervisor.list_statuses() if status.engine == engine and status.pid
        ]
        running_models = await asyncio.to_thread(
            _models_running_in, self._shelf.version_folder(engine, version.name), statuses
        )
        if running_models:
            raise Conflict(
                f"{', '.join(running_models)} is using it.",
                hint="Unload it first: `roundhouse unload`.",
                code="engine_in_use",
            )
        await asyncio.to_thread(self._shelf.remove_version, engine, version.name)

    async def test(self, engine: str, name: str) -> EngineJob:
        """Begin to prove a version that is here, the current one without a name."""
        self._require_known(engine)
        return await self._switches.test(engine, name)

    async def bundle(self, engine: str, request: BundleEngine) -> EngineJob:
        """Begin to write a bundle."""
        self._refuse_offline()
        path, recipe, host = expand_path(request.path), self._recipe(engine), await self._host()
        if not path.is_absolute() or not await asyncio.to_thread(path.parent.is_dir):
            raise BadRequest(f"{path} is not a full path in an existing folder.", code="invalid_value")
        variant = self._variant(recipe, host, request.variant)

        async def work(progress: Progress) -> JobOutcome:
            async with self._shelf.open_stage() as stage:
                about = await make_bundle(
                    self._installer, InstallTask(recipe, variant, InstallOptions(), stage, progress), path, host
                )
            return JobOutcome(version=about.version)

        return self.jobs.begin(engine, "bundle", work)

    async def close(self) -> None:
        """Call off what goes on."""
        await self.jobs.cancel(at_once=True)

    async def _own_models(self, engine: str) -> Sequence[ModelInfo]:
        """Return what must go on working: the models a person pinned, and the usual one."""
        formats = {kind.value for kind in self._catalogue.adapters[engine].descriptor.formats}
        usual, policy = self._services.settings.get_text("models.default"), self._services.supervisor.policy
        models = await asyncio.to_thread(self._services.library.list_models)
        return [
            model
            for model in models
            if (model.name == usual or policy.for_model(model.name).is_pinned)
            and model.format in formats
            and model.chats
            and not model.problem
            and not model.is_builtin
        ]

    async def _host(self) -> InstallHost:
        return host_of(await self._services.machine.read())

    def _smoke(self, engine: str) -> SmokeModel:
        recipe = self._catalogue.recipes.get(engine)
        return recipe.smoke if recipe else SmokeModel()

    def _require_known(self, engine: str) -> None:
        if engine not in self._catalogue.adapters:
            raise NotFound(
                str(unknown_engine(engine)), hint=unknown_engine(engine).hint, code=FailureKind.NOT_INSTALLED
            )

    def _recipe(self, engine: str) -> InstallRecipe:
        self._require_known(engine)
        recipe = self._catalogue.recipes.get(engine)
        if recipe is None:
            source = self._catalogue.adapters[engine].descriptor.obtained
            raise BadRequest(
                f"{engine} cannot be installed by Roundhouse.",
                hint=f"{source} To use one that runs elsewhere: `roundhouse attach`.".lstrip(),
                code="not_installable",
            )
        return recipe

    def _variant(self, recipe: InstallRecipe, host: InstallHost, name: str) -> EngineVariant:
        variant = best_variant(recipe, host, name)
        if variant is None:
            names = ", ".join(candidate.name for candidate in recipe.variants)
            reasons = {unfit_reason(candidate, host) for candidate in recipe.variants} - {""}
            raise BadRequest(
                f"{recipe.engine} has no variant {name}." if name else f"{recipe.engine} cannot run here.",
                hint=f"There are {names}." if name else " ".join(sorted(reasons)),
                code="unfit",
            )
        why_not = unfit_reason(variant, host)
        if why_not:
            raise BadRequest(f"{recipe.engine} ({variant.name}) cannot run here. {why_not}", code="unfit")
        return variant

    def _current_variant(self, recipe: InstallRecipe, host: InstallHost) -> EngineVariant:
        manifest = self._shelf.read_manifest(recipe.engine, self._shelf.read_state(recipe.engine).current)
        return self._variant(recipe, host, manifest.variant if manifest else "")


def _models_running_in(folder: Path, statuses: Sequence[EngineStatus]) -> list[str]:
    """Return the models whose engine was started from a version's folder."""
    return [status.model for status in statuses if any(str(folder) in part for part in _argv(status.pid or 0))]


def _argv(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def _channel(name: str) -> Channel:
    if name not in {channel.value for channel in Channel}:
        raise BadRequest(f"There is no channel {quote_value(name)}: it is stable or latest.", code="invalid_value")
    return Channel(name)
