"""The engine store as the gateway runs it: installs, updates, tests and bundles are jobs; switching is done at once."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import psutil

from app.config.paths import expanded
from app.config.programs import uv_program
from app.core.engine_store import BundleEngine, EngineJob, EngineStock, EngineUpdate, InstallEngine, UseEngine
from app.core.engines import EngineStatus
from app.core.errors import BadRequest, Conflict, NotFound, Offline
from app.core.models import ModelInfo
from app.engine_store.asking import asked
from app.engine_store.bundles import read_about
from app.engine_store.bundling import make_bundle
from app.engine_store.catalogue import unknown_engine
from app.engine_store.environments import Progress
from app.engine_store.fetching import Fetcher
from app.engine_store.host import Host, best_variant, unfit
from app.engine_store.installer import Installer, Means, Wish, Work
from app.engine_store.recipe import Channel, Recipe, Smoke, Variant
from app.engine_store.updates import update_for
from app.gateway.engines.engine_listing import host_of, stock
from app.gateway.engines.jobs import EngineJobs, Outcome
from app.gateway.engines.smoke_tests import Trials
from app.gateway.engines.switching import Switches
from app.gateway.services import Services
from app.supervisor.policy import Folders
from engines.api import Failure, FailureKind


class EngineStore:
    """Everything the admin API does with engines. Belongs to the event loop."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._catalogue = services.catalogue
        self._shelf = services.catalogue.shelf
        self.jobs = EngineJobs(services.events.publish)
        scratch = services.paths.state / "trials"
        self._trials = Trials(
            adapters=self._catalogue.adapters,
            smoke=self._smoke,
            folders=Folders(records=services.paths.engine_records, logs=services.paths.logs, scratch=scratch),
            http=services.http,
            own_models=self._own_models,
        )
        self._switches = Switches(services.catalogue, services.supervisor, self.jobs, self._trials)
        self._installer = Installer(
            Means(
                shelf=self._shelf,
                adapters=self._catalogue.adapters,
                fetcher=Fetcher(services.http),
                prove=self._trials.prove,
                uv=uv_program,
                releases_api=lambda: services.settings.text("engines.releases_url"),
            )
        )

    async def stock(self) -> list[EngineStock]:
        """Return every engine: how it suits this machine, what is here, what could be."""
        machine = await self._services.machine.read()
        preferred = self._services.settings.items("engines.preferred")
        return await asked(partial(stock, self._catalogue, machine, await self._host(), preferred))

    async def install(self, engine: str, wish: InstallEngine, *, verb: str = "install") -> EngineJob:
        """Begin to install a version. Raises BadRequest, NotFound or Conflict before anything is begun."""
        bundle = Path(wish.bundle) if wish.bundle else None
        if bundle is None:
            self._refuse_offline()
        about = await asyncio.to_thread(read_about, bundle) if bundle else None
        recipe = self._recipe(engine)
        variant = self._variant(recipe, await self._host(), about.variant if about else wish.variant)
        wanted = Wish(channel=_channel(wish.channel), version=wish.version, bundle=bundle, use=wish.use)
        version = (
            about.version if about else wish.version or (variant.version if wanted.channel is Channel.STABLE else "")
        )
        here = await asked(partial(self._present, engine, variant, version))
        if here and verb == "update" and wish.use:
            return await self._switches.prove_and_use(engine, here, verb)
        if here:
            raise Conflict(
                f"{engine} {version} ({variant.name}) is installed already.",
                hint=f"`roundhouse engines use {engine} {here}` uses it.",
                code="engine_installed",
            )

        async def work(progress: Progress) -> Outcome:
            done = await self._installer.install(recipe, variant, wanted, progress)
            if wish.use:
                await self._switches.restart(engine)
            return Outcome(version=done.manifest.name, proofs=done.proofs)

        return self.jobs.begin(engine, verb, work, version=version)

    def _refuse_offline(self) -> None:
        """Raise Offline where nothing is to be fetched."""
        if self._services.settings.flag("network.offline"):
            raise Offline(hint="Turn `network.offline` off, or install it from a bundle.")

    def _present(self, engine: str, variant: Variant, version: str) -> str:
        """Return what a version that is here and works is called; one that is broken may be installed beside it."""
        state, placed = self._shelf.state(engine), self._catalogue.placed[engine]
        same = [
            manifest.name
            for manifest in self._shelf.manifests(engine)
            if (manifest.variant, manifest.version) == (variant.name, version) and manifest.name not in state.bad
        ]
        working = (name for name in same if not isinstance(placed.probe(self._shelf.place(engine, name)), Failure))
        return next(working, "")

    async def update(self, engine: str, channel: str) -> EngineUpdate:
        """Return what an update would change. Asks the network on the latest channel only."""
        if _channel(channel) is Channel.LATEST:
            self._refuse_offline()
        recipe = self._recipe(engine)
        current = self._current_variant(recipe, await self._host())
        version = (await asyncio.to_thread(self._catalogue.installation, engine)).version
        async with self._shelf.stage() as stage:
            work = Work(recipe, current, Wish(channel=_channel(channel)), stage, lambda _stage, _fraction: None)
            found = await update_for(self._installer, work, version)
        if found.to and await asked(partial(self._present, engine, current, found.to)):
            return msgspec.structs.replace(found, is_here=True, download_bytes=0)
        return found

    async def use(self, engine: str, wish: UseEngine) -> EngineJob | None:
        """Use another version from now on. One that failed, or a program of one's own, is tested first, by a job."""
        self._known(engine)
        path = str(expanded(wish.path)) if wish.path else ""
        return await self._switches.use(engine, msgspec.structs.replace(wish, path=path))

    async def roll_back(self, engine: str) -> None:
        """Use the version before. Raises Conflict when there is none."""
        self._known(engine)
        await self._switches.roll_back(engine)

    async def remove(self, engine: str, name: str) -> None:
        """Remove a version from the disk. Raises Conflict while a model runs on it."""
        self._known(engine)
        version = await self._switches.named(engine, name)
        if not version.is_ours:
            raise BadRequest(
                f"{version.name} was not installed by Roundhouse, so it cannot be removed.", code="not_ours"
            )
        statuses = [one for one in self._services.supervisor.statuses() if one.engine == engine and one.pid]
        running = await asyncio.to_thread(_running_in, self._shelf.folder(engine, version.name), statuses)
        if running:
            raise Conflict(
                f"{', '.join(running)} is using it.", hint="Unload it first: `roundhouse unload`.", code="engine_in_use"
            )
        await asyncio.to_thread(self._shelf.remove, engine, version.name)

    async def test(self, engine: str, name: str) -> EngineJob:
        """Begin to prove a version that is here, the current one without a name."""
        self._known(engine)
        return await self._switches.test(engine, name)

    async def bundle(self, engine: str, wish: BundleEngine) -> EngineJob:
        """Begin to write a bundle."""
        self._refuse_offline()
        path, recipe, host = expanded(wish.path), self._recipe(engine), await self._host()
        if not path.is_absolute() or not await asyncio.to_thread(path.parent.is_dir):
            raise BadRequest(f"{path} is not a full path in an existing folder.", code="invalid_value")
        variant = self._variant(recipe, host, wish.variant)

        async def work(progress: Progress) -> Outcome:
            async with self._shelf.stage() as stage:
                about = await make_bundle(self._installer, Work(recipe, variant, Wish(), stage, progress), path, host)
            return Outcome(version=about.version)

        return self.jobs.begin(engine, "bundle", work)

    async def close(self) -> None:
        """Call off what goes on."""
        await self.jobs.cancel(at_once=True)

    async def _own_models(self, engine: str) -> Sequence[ModelInfo]:
        """Return what must go on working: the models a person pinned, and the usual one."""
        formats = {kind.value for kind in self._catalogue.adapters[engine].descriptor.formats}
        usual, policy = self._services.settings.text("models.default"), self._services.supervisor.policy
        models = await asyncio.to_thread(self._services.library.models)
        return [
            one
            for one in models
            if (one.name == usual or policy.of(one.name).is_pinned)
            and one.format in formats
            and one.chats
            and not one.problem
            and not one.is_builtin
        ]

    async def _host(self) -> Host:
        return host_of(await self._services.machine.read(), has_uv=uv_program() is not None)

    def _smoke(self, engine: str) -> Smoke:
        recipe = self._catalogue.recipes.get(engine)
        return recipe.smoke if recipe else Smoke()

    def _known(self, engine: str) -> None:
        if engine not in self._catalogue.adapters:
            raise NotFound(
                str(unknown_engine(engine)), hint=unknown_engine(engine).hint, code=FailureKind.NOT_INSTALLED
            )

    def _recipe(self, engine: str) -> Recipe:
        self._known(engine)
        recipe = self._catalogue.recipes.get(engine)
        if recipe is None:
            obtained = self._catalogue.adapters[engine].descriptor.obtained
            raise BadRequest(
                f"{engine} cannot be installed by Roundhouse.",
                hint=f"{obtained} To use one that runs elsewhere: `roundhouse attach`.".lstrip(),
                code="not_installable",
            )
        return recipe

    def _variant(self, recipe: Recipe, host: Host, name: str) -> Variant:
        variant = best_variant(recipe, host, name)
        if variant is None:
            names = ", ".join(one.name for one in recipe.variants)
            reasons = {unfit(one, host) for one in recipe.variants} - {""}
            raise BadRequest(
                f"{recipe.engine} has no variant {name}." if name else f"{recipe.engine} cannot run here.",
                hint=f"There are {names}." if name else " ".join(sorted(reasons)),
                code="unfit",
            )
        why_not = unfit(variant, host)
        if why_not:
            raise BadRequest(f"{recipe.engine} ({variant.name}) cannot run here. {why_not}", code="unfit")
        return variant

    def _current_variant(self, recipe: Recipe, host: Host) -> Variant:
        manifest = self._shelf.manifest(recipe.engine, self._shelf.state(recipe.engine).current)
        return self._variant(recipe, host, manifest.variant if manifest else "")


def _running_in(folder: Path, statuses: Sequence[EngineStatus]) -> list[str]:
    """Return the models whose engine was started from a version's folder."""
    return [one.model for one in statuses if any(str(folder) in part for part in _argv(one.pid or 0))]


def _argv(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def _channel(name: str) -> Channel:
    if name not in {one.value for one in Channel}:
        raise BadRequest(f"There is no channel {name!r}: it is stable or latest.", code="invalid_value")
    return Channel(name)
