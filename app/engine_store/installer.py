"""Make a version of an engine: stage it, check it, prove it, and only then put it beside the others and switch.

Nothing that is used is touched on the way. A version that cannot be proved is thrown away, and why is kept.
"""

import asyncio
import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from app.core.engine_store import Proof
from app.core.errors import EngineFailed, EnvironmentFault
from app.engine_store import bundles
from app.engine_store.archives import unpack
from app.engine_store.asking import asked
from app.engine_store.choosing import proved, switched
from app.engine_store.environments import LOCK, Progress, make_environment, write_locks
from app.engine_store.fetching import Fetcher
from app.engine_store.lock import compile_argv
from app.engine_store.recipe import Channel, Kind, Recipe, Variant
from app.engine_store.releases import API, Asset, Chosen, Releases
from app.engine_store.running import run
from app.engine_store.shelf import Manifest, Shelf, Source, State, place_of
from engines.api import Adapter, Failure, Place

FETCHED = "fetched"
PROGRAM = "program"
_NO_NUMBER = ("expected version to start with", "not part of a valid version")
"""How uv says that something is no version of a Python package."""
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}")


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """Which version: what the channel has, or the one named; or what a bundle holds. `use` switches to it."""

    channel: Channel = Channel.STABLE
    version: str = ""
    bundle: Path | None = None
    use: bool = True


class Prove(Protocol):
    """Loads a model in a version that nobody uses yet, and more of a person's own where it would replace another."""

    async def __call__(self, engine: str, place: Place, *, with_own_models: bool, progress: Progress) -> list[Proof]:
        """Return what each showed, the first that failed last. Empty: nothing can prove this engine here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What installing takes."""

    shelf: Shelf
    adapters: Mapping[str, Adapter]
    fetcher: Fetcher
    prove: Prove
    uv: Callable[[], Path | None]
    releases_api: Callable[[], str] = lambda: API


class Work(NamedTuple):
    """One install, as every step of it needs it."""

    recipe: Recipe
    variant: Variant
    wish: Wish
    stage: Path
    progress: Progress

    def manifest(self, version: str) -> Manifest:
        """Return what is known of the result before it is made."""
        return Manifest(
            engine=self.recipe.engine,
            version=version,
            variant=self.variant.name,
            backend=self.variant.backend,
            kind=self.variant.kind.value,
            channel=self.wish.channel.value,
        )


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """What an install came to."""

    manifest: Manifest
    proofs: list[Proof]


class Installer:
    """Installs one version at a time. Belongs to the event loop; cancelling it leaves nothing behind."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._one_at_a_time = asyncio.Lock()

    @property
    def uv(self) -> Callable[[], Path | None]:
        """Where uv is."""
        return self._means.uv

    async def install(self, recipe: Recipe, variant: Variant, wish: Wish, progress: Progress) -> Installed:
        """Make, prove and publish a version. Raises EngineFailed when its test fails, EnvironmentFault before that."""
        async with self._one_at_a_time, self._means.shelf.stage() as stage:
            work = Work(recipe, variant, wish, stage, progress)
            bundle = await asyncio.to_thread(_bundle_for, work)
            make = self._environment if variant.kind is Kind.VENV else self._archive
            return await self._proved(work, await make(work, bundle))

    async def _environment(self, work: Work, bundle: bundles.Bundle | None) -> Manifest:
        uv, stage = program_of(self._means.uv), work.stage
        lock = await lock_for(uv, work) if bundle is None else bundle.lock
        tools = await asyncio.to_thread(work.recipe.tools_of, work.variant) if bundle is None else bundle.tools
        await asyncio.to_thread(write_locks, stage, lock, tools)
        wheels = bundle.files if bundle else None
        python = await make_environment(uv, work.variant, stage, work.progress, wheels=wheels)
        lock_hash = hashlib.sha256(lock.encode()).hexdigest()
        return msgspec.structs.replace(
            work.manifest(locked_version(lock, work.variant.package)),
            python=python.relative_to(stage).as_posix(),
            sources=(Source(name=LOCK, sha256=lock_hash),),
        )

    async def _archive(self, work: Work, bundle: bundles.Bundle | None) -> Manifest:
        stage = work.stage
        chosen = bundle.chosen if bundle else await self.release(work)
        folder = bundle.files if bundle else stage / FETCHED
        if bundle is None:
            await self.fetch(work, chosen, folder)
        work.progress("Unpacking", None)
        for asset in chosen.assets:
            await asyncio.to_thread(unpack, folder / asset.name, stage / PROGRAM)
            await asyncio.to_thread((folder / asset.name).unlink)
        program = await asyncio.to_thread(_program, stage / PROGRAM, work.variant.executable)
        return msgspec.structs.replace(
            work.manifest(chosen.version),
            executable=program.relative_to(stage).as_posix(),
            sources=tuple(Source(name=one.name, sha256=one.sha256, url=one.url) for one in chosen.assets),
        )

    async def release(self, work: Work) -> Chosen:
        """Return which archives a variant is made of. Raises EnvironmentFault."""
        if work.recipe.release is None:
            raise EnvironmentFault(f"{work.recipe.engine} is not published as an archive.", code="no_release")
        releases = Releases(
            self._means.fetcher.made_for(work.recipe.engine), work.recipe.release, self._means.releases_api()
        )
        return await releases.choose(work.variant, work.wish.channel, work.wish.version)

    async def fetch(self, work: Work, chosen: Chosen, folder: Path) -> None:
        """Fetch a version's archives into a folder. Raises EnvironmentFault."""
        fetcher, progress = self._means.fetcher.made_for(work.recipe.engine), work.progress
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        before, total = 0, chosen.size_bytes
        for asset in chosen.assets:
            progress(f"Fetching {asset.name}", before / total if total else None)
            await fetcher.file(
                asset.url,
                folder / asset.name,
                sha256=asset.sha256,
                size=asset.size,
                told=_told(progress, asset, before, total),
            )
            before += asset.size

    async def _proved(self, work: Work, manifest: Manifest) -> Installed:
        work.progress("Checking what was installed", None)
        means, engine = self._means, manifest.engine
        place = place_of(work.stage, manifest)
        found = await asked(lambda: means.adapters[engine].probe(place))
        if isinstance(found, Failure):
            raise EngineFailed(found.sentence, hint=found.hint, code=found.kind)
        proofs = await means.prove(engine, place, with_own_models=work.wish.use, progress=work.progress)
        await asyncio.to_thread(self._refuse_bad, engine, manifest, proofs)
        work.progress("Moving it into place", None)
        kept = await asyncio.to_thread(means.shelf.publish, work.stage, manifest)
        await asyncio.to_thread(means.shelf.change, engine, lambda state: _taken(state, kept.name, work.wish, proofs))
        return Installed(manifest=kept, proofs=proofs)

    def _refuse_bad(self, engine: str, manifest: Manifest, proofs: list[Proof]) -> None:
        bad = next((proof for proof in proofs if not proof.is_good), None)
        if bad is None:
            return
        name = f"{manifest.version}-{manifest.variant}"
        self._means.shelf.change(engine, lambda state: proved(state, name, bad))
        raise EngineFailed(
            f"{engine} {manifest.version} was not installed, because its test failed: {bad.problem}",
            hint=bad.hint or "The previous version is still in use.",
            code=bad.code,
            detail=bad.log,
        )


def program_of(uv: Callable[[], Path | None]) -> Path:
    """Return uv. Raises EnvironmentFault when there is none."""
    found = uv()
    if found is None:
        raise EnvironmentFault(
            "uv, which creates the environments of engines, is missing.",
            hint="Install Roundhouse again, or put uv on PATH.",
            code="no_uv",
        )
    return found


def _bundle_for(work: Work) -> bundles.Bundle | None:
    if work.wish.bundle is None:
        return None
    return bundles.opened(work.wish.bundle, work.recipe, work.variant, work.stage)


def _taken(state: State, name: str, wish: Wish, proofs: list[Proof]) -> State:
    """Return the state with a new version proved and, if so wished, used: one step, so that no crash comes between."""
    tested = proved(state, name, proofs[0]) if proofs else state
    return switched(tested, name) if wish.use else tested


async def lock_for(uv: Path, work: Work) -> str:
    """Return the lock of a version: the committed one of the stable channel, else one that is made now."""
    recipe, variant, wish, stage = work.recipe, work.variant, work.wish, work.stage
    if wish.channel is Channel.STABLE and wish.version in {"", variant.version}:
        return await asyncio.to_thread(recipe.lock_of(variant).read_text, encoding="utf-8")
    if wish.version and not _VERSION.fullmatch(wish.version):
        raise no_release(recipe, variant, wish.version)
    wanted = stage / "requirements.in"
    await asyncio.to_thread(wanted.write_text, "\n".join(loosened(variant, wish.version)) + "\n", encoding="utf-8")
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    argv = [*compile_argv(uv, variant, python=python), "--output-file", str(stage / LOCK), str(wanted)]
    try:
        await run(argv, stage=stage, hear=lambda _line: None, env={"UV_NO_PROGRESS": "1"}, about=recipe.engine)
    except EnvironmentFault as fault:
        if wish.version and _is_unpublished(variant, wish.version, fault.body.detail):
            raise no_release(recipe, variant, wish.version) from fault
        raise
    return await asyncio.to_thread((stage / LOCK).read_text, encoding="utf-8")


def _is_unpublished(variant: Variant, version: str, said: str) -> bool:
    """Tell whether uv found no such version of the engine itself, rather than of what it needs."""
    return f"there is no version of {variant.package}=={version}" in said or any(one in said for one in _NO_NUMBER)


def no_release(recipe: Recipe, variant: Variant, version: str) -> EnvironmentFault:
    """Return the error for a version that was never published; only the one in the recipe is known to be there."""
    return EnvironmentFault(
        f"There is no version {version} of {recipe.engine} ({variant.name}).",
        hint=f"This version of Roundhouse was built with {variant.version}; --channel latest installs the newest.",
        code="no_release",
    )


def loosened(variant: Variant, version: str) -> list[str]:
    """Return a variant's requirements with the engine's own version free, or as named; the others stay as they are."""
    own = re.compile(rf"({re.escape(variant.package)}(?:\[[^\]]*\])?)\s*==.*")
    return [own.sub(rf"\g<1>=={version}" if version else r"\g<1>", one) for one in variant.requires]


def locked_version(lock: str, package: str) -> str:
    """Return the version a lock has of a package. Raises EnvironmentFault when it has none."""
    wanted = "[-_.]+".join(map(re.escape, re.split(r"[-_.]+", package)))  # one name, however it is spelt
    found = re.search(rf"^{wanted}==([^\s;]+)", lock, re.MULTILINE | re.IGNORECASE)
    if found is None:
        raise EnvironmentFault(f"The lock does not include {package}.", code="no_lock")
    return found[1]


def _told(progress: Progress, asset: Asset, before: int, total: int) -> Callable[[int], None]:
    return lambda count: progress(f"Fetching {asset.name}", min(1.0, (before + count) / total) if total else None)


def _program(folder: Path, name: str) -> Path:
    wanted = name + (".exe" if sys.platform == "win32" else "")
    found = sorted((path for path in folder.rglob(wanted) if path.is_file()), key=lambda path: len(path.parts))
    if not found:
        raise EnvironmentFault(f"The archive has no {wanted}.", hint="Try another version.", code="bad_archive")
    return found[0]
