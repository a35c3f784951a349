"""The engine store as the gateway runs it: installs, updates, tests and bundles are jobs; switching is done at once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import psutil

from app.config.paths import expanded
from app.config.programs import uv_program
from app.core.engine_store import (
    BUNDLED,
    OWN,
    BundleEngine,
    EngineJob,
    EngineStock,
    EngineUpdate,
    InstallEngine,
    Proof,
    UseEngine,
)
from app.core.engines import EngineStatus
from app.core.errors import BadRequest, Conflict, EngineFailed, NotFound, Offline
from app.core.models import ModelInfo
from app.engine_store.bundles import read_about
from app.engine_store.bundling import make_bundle
from app.engine_store.catalogue import unknown_engine
from app.engine_store.choosing import proved, rolled_back, switched
from app.engine_store.environments import Progress
from app.engine_store.fetching import Fetcher
from app.engine_store.host import Host, best_variant, unfit
from app.engine_store.installer import Installer, Means, Wish, Work
from app.engine_store.recipe import Channel, Recipe, Smoke, Variant
from app.engine_store.shelf import State, no_version
from app.engine_store.updates import update_for
from app.gateway.engines.jobs import Jobs, Outcome
from app.gateway.engines.stock import host_of, stock, versions_of
from app.gateway.engines.trials import Trials
from app.gateway.services import Services
from app.supervisor.policy import Folders
from engines.api import Failure, FailureKind, Place


class EngineStore:
    """Everything the admin API does with engines. Belongs to the event loop."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._catalogue = services.catalogue
        self._shelf = services.catalogue.shelf
        self.jobs = Jobs(services.events.publish)
        scratch = services.paths.state / "trials"
        self._trials = Trials(
            adapters=self._catalogue.adapters,
            smoke=self._smoke,
            folders=Folders(records=services.paths.engine_records, logs=services.paths.logs, scratch=scratch),
            http=services.http,
            own_models=self._own_models,
        )
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
        return await asyncio.to_thread(stock, self._catalogue, machine, await self._host(), preferred)

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
        await asyncio.to_thread(self._refuse_double, engine, variant, version)

        async def work(progress: Progress) -> Outcome:
            done = await self._installer.install(recipe, variant, wanted, progress)
            if wish.use:
                await self._restart(engine)
            return Outcome(version=done.manifest.name, proofs=done.proofs)

        return self.jobs.start(engine, verb, work, version=version)

    def _refuse_offline(self) -> None:
        """Raise Offline where nothing is to be fetched."""
        if self._services.settings.flag("network.offline"):
            raise Offline(hint="Switch `network.offline` off, or install it from a bundle.")

    def _refuse_double(self, engine: str, variant: Variant, version: str) -> None:
        """Raise Conflict where the same is here and works; one that is broken may be installed once more beside it."""
        state = self._shelf.state(engine)
        for manifest in self._shelf.manifests(engine):
            if (manifest.variant, manifest.version) == (variant.name, version) and manifest.name not in state.bad:
                place = self._shelf.place(engine, manifest.name)
                if not isinstance(self._probed(engine, place), Failure):
                    raise Conflict(
                        f"{engine} {version} ({variant.name}) is installed already.",
                        hint=f"`roundhouse engines use {engine} {manifest.name}` uses it.",
                        code="engine_installed",
                    )

    async def update(self, engine: str, channel: str) -> EngineUpdate:
        """Return what an update would change. Asks the network on the latest channel only."""
        if _channel(channel) is Channel.LATEST:
            self._refuse_offline()
        recipe = self._recipe(engine)
        current = self._current_variant(recipe, await self._host())
        version = (await asyncio.to_thread(self._catalogue.installation, engine)).version
        async with self._shelf.stage() as stage:
            work = Work(recipe, current, Wish(channel=_channel(channel)), stage, lambda _stage, _fraction: None)
            return await update_for(self._installer, work, version)

    async def use(self, engine: str, wish: UseEngine) -> EngineJob | None:
        """Use another version from now on. A program of one's own is tested first, by a job."""
        self._known(engine)
        if wish.path:
            return await self._use_own(engine, _whole(wish.path))
        name = wish.version or self._shelf.state(engine).current
        found = await asyncio.to_thread(versions_of, self._catalogue, engine)
        version = next((one for one in found if name in {one.name, one.version}), None)
        if version is None:
            raise no_version(engine, name)
        await asyncio.to_thread(self._shelf.change, engine, lambda state: switched(state, version.name))
        await self._restart(engine)
        return None

    async def _use_own(self, engine: str, program: Path) -> EngineJob:
        place = Place(folder=program.parent, version="", backend="", executable=program)
        if not program.is_absolute() or not await asyncio.to_thread(program.is_file):
            raise BadRequest(f"{program} is no program here; give its whole path.", code="no_such_program")
        found = await asyncio.to_thread(self._probed, engine, place)
        if isinstance(found, Failure):
            raise BadRequest(f"{program} cannot be used: {found.sentence}", hint=found.hint, code=found.kind.value)

        async def work(progress: Progress) -> Outcome:
            proofs = await self._trials.prove(engine, place, with_own_models=True, progress=progress)
            bad = next((proof for proof in proofs if not proof.is_good), None)
            if bad is not None:
                raise EngineFailed(f"{program} is not used: {bad.problem}", hint=bad.hint, code=bad.code)
            await asyncio.to_thread(self._shelf.change, engine, lambda state: _with_own(state, program, proofs))
            await self._restart(engine)
            return Outcome(version=OWN, proofs=proofs)

        return self.jobs.start(engine, "test", work, version=OWN)

    async def roll_back(self, engine: str) -> None:
        """Use the version before. Raises Conflict when there is none."""
        self._known(engine)
        state = self._shelf.state(engine)
        if not state.previous:
            raise Conflict(f"There is no version of {engine} to go back to.", code="no_previous")
        await asyncio.to_thread(self._shelf.change, engine, lambda now: switched(now, now.previous))
        await self._restart(engine)

    async def remove(self, engine: str, name: str) -> None:
        """Remove a version from the disk. Raises Conflict while a model runs on it."""
        self._known(engine)
        if name in {BUNDLED, OWN}:
            raise BadRequest(f"{name} is nothing Roundhouse installed, so it cannot be removed.", code="not_ours")
        statuses = [one for one in self._services.supervisor.statuses() if one.engine == engine and one.pid]
        running = await asyncio.to_thread(_running_in, self._shelf.folder(engine, name), statuses)
        if running:
            raise Conflict(
                f"{', '.join(running)} runs on it.", hint="Unload it first: `roundhouse unload`.", code="engine_in_use"
            )
        await asyncio.to_thread(self._shelf.remove, engine, name)

    async def test(self, engine: str, name: str) -> EngineJob:
        """Begin to prove a version that is here, the current one without a name."""
        self._known(engine)
        wanted = name or self._shelf.state(engine).current
        place = await asyncio.to_thread(self._shelf.place, engine, wanted)
        found = await asyncio.to_thread(self._probed, engine, place)
        if isinstance(found, Failure):
            raise EngineFailed(found.sentence, hint=found.hint, code=found.kind)

        async def work(progress: Progress) -> Outcome:
            proofs = await self._trials.prove(engine, place, with_own_models=True, progress=progress)
            if proofs:
                await asyncio.to_thread(self._shelf.change, engine, lambda state: _tested(state, wanted, proofs))
            return Outcome(version=wanted, proofs=proofs)

        return self.jobs.start(engine, "test", work, version=wanted)

    async def bundle(self, engine: str, wish: BundleEngine) -> EngineJob:
        """Begin to write a bundle."""
        self._refuse_offline()
        path, recipe, host = _whole(wish.path), self._recipe(engine), await self._host()
        if not path.is_absolute() or not await asyncio.to_thread(path.parent.is_dir):
            raise BadRequest(f"{path} is not a whole path into a folder that is there.", code="invalid_value")
        variant = self._variant(recipe, host, wish.variant)

        async def work(progress: Progress) -> Outcome:
            async with self._shelf.stage() as stage:
                about = await make_bundle(self._installer, Work(recipe, variant, Wish(), stage, progress), path, host)
            return Outcome(version=about.version)

        return self.jobs.start(engine, "bundle", work)

    async def close(self) -> None:
        """Call off what goes on."""
        await self.jobs.cancel()

    async def _restart(self, engine: str) -> None:
        """Have models that run on the old version loaded anew: when nobody uses them, by whoever asks next."""
        for status in self._services.supervisor.statuses():
            if status.engine == engine:
                await self._services.supervisor.expire(status.model)

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

    def _probed(self, engine: str, place: Place | None) -> object:
        return self._catalogue.placed[engine].probe(place) if place else self._catalogue.adapters[engine].probe()

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
            raise BadRequest(
                f"{engine} is nothing Roundhouse can install.",
                hint="Start it yourself, and attach to its endpoint.",
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


def _whole(path: str) -> Path:
    return expanded(path)


def _channel(name: str) -> Channel:
    if name not in {one.value for one in Channel}:
        raise BadRequest(f"There is no channel {name!r}: it is stable or latest.", code="invalid_value")
    return Channel(name)


def _with_own(state: State, program: Path, proofs: Sequence[Proof]) -> State:
    own = msgspec.structs.replace(state, own=str(program))
    return switched(_with_proofs(own, OWN, proofs), OWN)


def _tested(state: State, name: str, proofs: Sequence[Proof]) -> State:
    """Return the state with a test; the version in use gives way if it failed and the one before has not."""
    after = _with_proofs(state, name, proofs)
    is_bad = name == state.current and name in after.bad
    if is_bad and state.previous and state.previous not in state.bad:
        return rolled_back(after, after.bad[name])
    return after


def _with_proofs(state: State, name: str, proofs: Sequence[Proof]) -> State:
    """Return the state with the first proof that failed, else the first."""
    return proved(state, name, next((one for one in proofs if not one.is_good), proofs[0])) if proofs else state
