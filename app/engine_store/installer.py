"""Make a version of an engine: stage it, check it, prove it, and only then put it beside the others and switch.

Nothing that is used is touched on the way. A version that cannot be proved is thrown away, and why is kept.

What an update would change, found without changing anything.
"""

import asyncio
import hashlib
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from app.core.engine_store import EngineUpdate, Proof
from app.core.errors import EngineFailed, EnvironmentFault, Offline
from app.engine_store import bundles
from app.engine_store.archives import unpack_archive
from app.engine_store.environments import ENVIRONMENT, LOCK, Progress, install_wheel, make_environment, write_locks
from app.engine_store.fetching import ReleaseFetcher
from app.engine_store.host import version_numbers
from app.engine_store.lock import compile_argv
from app.engine_store.lock_text import read_pins
from app.engine_store.prebuilt import PrebuiltSource, WheelTarget, find_wheel_name, read_target
from app.engine_store.program_run import run_cancellable, run_program
from app.engine_store.recipe import Channel, EngineVariant, InstallRecipe, ReleaseSource, VariantKind
from app.engine_store.releases import API, Asset, AssetSelection, Releases
from app.engine_store.version_store import (
    VersionManifest,
    VersionSource,
    VersionState,
    VersionStore,
    place_of,
    record_proof,
    switch_version,
)
from engines.api import EngineAdapter, EngineLocation, Failure

FETCHED = "fetched"
PROGRAM = "program"
_NO_NUMBER = ("expected version to start with", "not part of a valid version")
"""How uv says that something is no version of a Python package."""
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}")


class InstallOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which version: what the channel has, or the one named; or what a bundle holds. `use` switches to it."""

    channel: Channel = Channel.STABLE
    version: str = ""
    bundle: Path | None = None
    use: bool = True


class VersionProver(Protocol):
    """Loads a model in a version that nobody uses yet, and more of a person's own where it would replace another."""

    async def __call__(
        self, engine: str, place: EngineLocation, *, with_own_models: bool, progress: Progress
    ) -> list[Proof]:
        """Return what each showed, the first that failed last. Empty: nothing can prove this engine here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallerDeps:
    """What installing takes."""

    shelf: VersionStore
    adapters: Mapping[str, EngineAdapter]
    fetcher: ReleaseFetcher
    prove: VersionProver
    uv: Callable[[], Path | None]
    releases_api: Callable[[], str] = lambda: API


class InstallTask(NamedTuple):
    """One install, as every step of it needs it."""

    recipe: InstallRecipe
    variant: EngineVariant
    options: InstallOptions
    stage: Path
    progress: Progress

    def draft_manifest(self, version: str) -> VersionManifest:
        """Return what is known of the result before it is made."""
        return VersionManifest(
            engine=self.recipe.engine,
            version=version,
            variant=self.variant.name,
            backend=self.variant.backend,
            kind=self.variant.kind.value,
            channel=self.options.channel.value,
        )


class InstallResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an install came to."""

    manifest: VersionManifest
    proofs: list[Proof]


class Installer:
    """Installs one version at a time. Belongs to the event loop; cancelling it leaves nothing behind."""

    def __init__(self, deps: InstallerDeps) -> None:
        self._deps = deps
        self._one_at_a_time = asyncio.Lock()

    @property
    def uv(self) -> Callable[[], Path | None]:
        """Where uv is."""
        return self._deps.uv

    async def install_version(
        self, recipe: InstallRecipe, variant: EngineVariant, options: InstallOptions, progress: Progress
    ) -> InstallResult:
        """Make, prove and publish a version. Raises EngineFailed when its test fails, EnvironmentFault before that."""
        async with self._one_at_a_time, self._deps.shelf.open_stage() as stage:
            work = InstallTask(recipe, variant, options, stage, progress)
            bundle = await asyncio.to_thread(_open_bundle, work)
            make = self._build_environment if variant.kind is VariantKind.VENV else self._unpack_release
            return await self._prove_and_publish(work, await make(work, bundle))

    async def _build_environment(self, work: InstallTask, bundle: bundles.EngineBundle | None) -> VersionManifest:
        uv, stage = require_uv(self._deps.uv), work.stage
        lock = await lock_for(uv, work) if bundle is None else bundle.lock
        tools = await asyncio.to_thread(work.recipe.tools_of, work.variant) if bundle is None else bundle.tools
        await asyncio.to_thread(write_locks, stage, lock, tools)
        wheels = bundle.files if bundle else None
        python = await make_environment(uv, work.variant, stage, work.progress, wheels=wheels)
        lock_hash = hashlib.sha256(lock.encode()).hexdigest()
        compiled_wheels = await self._add_prebuilt(uv, work, lock) if bundle is None else ()
        return msgspec.structs.replace(
            work.draft_manifest(version_in_lock(lock, work.variant.package)),
            python=python.relative_to(stage).as_posix(),
            sources=(VersionSource(name=LOCK, sha256=lock_hash), *compiled_wheels),
        )

    async def _add_prebuilt(self, uv: Path, work: InstallTask, lock: str) -> tuple[VersionSource, ...]:
        """Put compiled kernels into an environment if they are published for it; without them, they are compiled.

        Raises EnvironmentFault where they cannot be compiled, as on Windows.
        """
        source, package = work.recipe.prebuilt, work.variant.package
        environment = work.stage / ENVIRONMENT
        target = None if source is None else await asyncio.to_thread(read_target, lock, environment, package)
        folder = work.stage / FETCHED
        try:
            wheel = await self._fetch_prebuilt(work, source, target, folder)
            if wheel is not None:
                await install_wheel(uv, work.stage, folder / wheel.name, package)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        if wheel is not None:
            return (VersionSource(name=wheel.name, sha256=wheel.sha256, url=wheel.url),)
        if work.variant.needs_prebuilt:
            raise _kernels_missing(work.variant)
        return ()

    async def _fetch_prebuilt(
        self, work: InstallTask, source: PrebuiltSource | None, target: WheelTarget | None, folder: Path
    ) -> Asset | None:
        """Fetch the wheel that fits into a folder; None where there is none, or where it cannot be had."""
        if source is None or target is None:
            return None
        try:
            wheel = await self._find_prebuilt(work, source, target)
            if wheel is not None:
                await self.fetch_assets(work, AssetSelection(version=target.version, tag="", assets=(wheel,)), folder)
        except (EnvironmentFault, Offline) as fault:
            if work.variant.needs_prebuilt:
                raise
            work.progress(f"{work.variant.package} compiles its kernels at the first start: {fault}", None)
            return None
        return wheel

    async def _find_prebuilt(self, work: InstallTask, source: PrebuiltSource, target: WheelTarget) -> Asset | None:
        """Return the wheel that fits; None where none is published. Raises EnvironmentFault."""
        work.progress("Looking for compiled kernels", None)
        release = ReleaseSource(repository=source.repository, asset=source.asset)
        fetcher = self._deps.fetcher.with_purpose(work.recipe.engine)
        assets = await Releases(fetcher, release, self._deps.releases_api()).list_assets(target.version)
        by_name = {asset.name: asset for asset in assets}
        return by_name.get(find_wheel_name(source, by_name, target))

    async def _unpack_release(self, work: InstallTask, bundle: bundles.EngineBundle | None) -> VersionManifest:
        stage = work.stage
        selection = bundle.asset_selection if bundle else await self.choose_release(work)
        folder = bundle.files if bundle else stage / FETCHED
        if bundle is None:
            await self.fetch_assets(work, selection, folder)
        work.progress("Unpacking", None)
        for asset in selection.assets:
            await asyncio.to_thread(unpack_archive, folder / asset.name, stage / PROGRAM)
            await asyncio.to_thread((folder / asset.name).unlink)
        program = await asyncio.to_thread(_find_program, stage / PROGRAM, work.variant.executable)
        return msgspec.structs.replace(
            work.draft_manifest(selection.version),
            executable=program.relative_to(stage).as_posix(),
            sources=tuple(
                VersionSource(name=asset_source.name, sha256=asset_source.sha256, url=asset_source.url)
                for asset_source in selection.assets
            ),
        )

    async def choose_release(self, work: InstallTask) -> AssetSelection:
        """Return which archives a variant is made of. Raises EnvironmentFault."""
        if work.recipe.release is None:
            raise EnvironmentFault(f"{work.recipe.engine} is not published as an archive.", code="no_release")
        releases = Releases(
            self._deps.fetcher.with_purpose(work.recipe.engine), work.recipe.release, self._deps.releases_api()
        )
        return await releases.choose_assets(work.variant, work.options.channel, work.options.version)

    async def fetch_assets(self, work: InstallTask, selection: AssetSelection, folder: Path) -> None:
        """Fetch a version's archives into a folder. Raises EnvironmentFault."""
        fetcher, progress = self._deps.fetcher.with_purpose(work.recipe.engine), work.progress
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        before, total = 0, selection.size_bytes
        for asset in selection.assets:
            progress(f"Fetching {asset.name}", before / total if total else None)
            await fetcher.fetch_file(
                asset.url,
                folder / asset.name,
                sha256=asset.sha256,
                size=asset.size,
                report_bytes=_byte_reporter(progress, asset, before, total),
            )
            before += asset.size

    async def _prove_and_publish(self, work: InstallTask, manifest: VersionManifest) -> InstallResult:
        work.progress("Checking what was installed", None)
        deps, engine = self._deps, manifest.engine
        place = place_of(work.stage, manifest)
        probe_result = await run_cancellable(lambda: deps.adapters[engine].probe(place))
        if isinstance(probe_result, Failure):
            raise EngineFailed(probe_result.sentence, hint=probe_result.hint, code=probe_result.kind)
        proofs = await deps.prove(engine, place, with_own_models=work.options.use, progress=work.progress)
        await asyncio.to_thread(self._refuse_bad, engine, manifest, proofs)
        work.progress("Moving it into place", None)
        published_manifest = await asyncio.to_thread(deps.shelf.publish_version, work.stage, manifest)
        await asyncio.to_thread(
            deps.shelf.change_state,
            engine,
            lambda state: _adopt_version(state, published_manifest.name, work.options, proofs),
        )
        return InstallResult(manifest=published_manifest, proofs=proofs)

    def _refuse_bad(self, engine: str, manifest: VersionManifest, proofs: list[Proof]) -> None:
        bad = next((proof for proof in proofs if not proof.is_good), None)
        if bad is None:
            return
        name = f"{manifest.version}-{manifest.variant}"
        self._deps.shelf.change_state(engine, lambda state: record_proof(state, name, bad))
        raise EngineFailed(
            f"{engine} {manifest.version} was not installed, because its test failed: {bad.problem}",
            hint=bad.hint or "The previous version is still in use.",
            code=bad.code,
            detail=bad.log,
        )


def require_uv(uv: Callable[[], Path | None]) -> Path:
    """Return uv. Raises EnvironmentFault when there is none."""
    program = uv()
    if program is None:
        raise EnvironmentFault(
            "uv, which creates the environments of engines, is missing.",
            hint="Install Roundhouse again, or put uv on PATH.",
            code="no_uv",
        )
    return program


def _open_bundle(work: InstallTask) -> bundles.EngineBundle | None:
    if work.options.bundle is None:
        return None
    return bundles.open_bundle(work.options.bundle, work.recipe, work.variant, work.stage)


def _adopt_version(state: VersionState, name: str, options: InstallOptions, proofs: list[Proof]) -> VersionState:
    """Return the state with a new version proved and, if so wished, used: one step, so that no crash comes between."""
    proven_state = record_proof(state, name, proofs[0]) if proofs else state
    return switch_version(proven_state, name) if options.use else proven_state


async def lock_for(uv: Path, work: InstallTask) -> str:
    """Return the lock of a version: the committed one of the stable channel, else one that is made now."""
    recipe, variant, options, stage = work.recipe, work.variant, work.options, work.stage
    if options.channel is Channel.STABLE and options.version in {"", variant.version}:
        return await asyncio.to_thread(recipe.lock_of(variant).read_text, encoding="utf-8")
    if options.version and not _VERSION.fullmatch(options.version):
        raise release_not_found(recipe, variant, options.version)
    requirements = stage / "requirements.in"
    await asyncio.to_thread(
        requirements.write_text, "\n".join(loosen_requirements(variant, options.version)) + "\n", encoding="utf-8"
    )
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    argv = [*compile_argv(uv, variant, python=python), "--output-file", str(stage / LOCK), str(requirements)]
    try:
        await run_program(argv, stage=stage, hear=lambda _line: None, env={"UV_NO_PROGRESS": "1"}, about=recipe.engine)
    except EnvironmentFault as fault:
        if options.version and _is_unpublished(variant, options.version, fault.body.detail):
            raise release_not_found(recipe, variant, options.version) from fault
        raise
    return await asyncio.to_thread((stage / LOCK).read_text, encoding="utf-8")


def _is_unpublished(variant: EngineVariant, version: str, output: str) -> bool:
    """Tell whether uv found no such version of the engine itself, rather than of what it needs."""
    return f"there is no version of {variant.package}=={version}" in output or any(
        phrase in output for phrase in _NO_NUMBER
    )


def release_not_found(recipe: InstallRecipe, variant: EngineVariant, version: str) -> EnvironmentFault:
    """Return the error for a version that was never published; only the one in the recipe is known to be there."""
    return EnvironmentFault(
        f"There is no version {version} of {recipe.engine} ({variant.name}).",
        hint=f"This version of Roundhouse was built with {variant.version}; --channel latest installs the newest.",
        code="no_release",
    )


def loosen_requirements(variant: EngineVariant, version: str) -> list[str]:
    """Return a variant's requirements with the engine's own version free, or as named; the others stay as they are."""
    own = re.compile(rf"({re.escape(variant.package)}(?:\[[^\]]*\])?)\s*==.*")
    return [own.sub(rf"\g<1>=={version}" if version else r"\g<1>", requirement) for requirement in variant.requires]


def version_in_lock(lock: str, package: str) -> str:
    """Return the version a lock has of a package. Raises EnvironmentFault when it has none."""
    name_pattern = "[-_.]+".join(map(re.escape, re.split(r"[-_.]+", package)))  # one name, however it is spelt
    match = re.search(rf"^{name_pattern}==([^\s;]+)", lock, re.MULTILINE | re.IGNORECASE)
    if match is None:
        raise EnvironmentFault(f"The lock does not include {package}.", code="no_lock")
    return match[1]


def _kernels_missing(variant: EngineVariant) -> EnvironmentFault:
    return EnvironmentFault(
        f"The authors of {variant.package} publish no compiled kernels for this version, Python and PyTorch.",
        hint="Another variant, where `roundhouse engines list` has one, compiles them at the first start.",
        code="no_prebuilt",
    )


def _byte_reporter(progress: Progress, asset: Asset, before: int, total: int) -> Callable[[int], None]:
    return lambda count: progress(f"Fetching {asset.name}", min(1.0, (before + count) / total) if total else None)


def _find_program(folder: Path, name: str) -> Path:
    file_name = name + (".exe" if sys.platform == "win32" else "")
    programs = sorted((path for path in folder.rglob(file_name) if path.is_file()), key=lambda path: len(path.parts))
    if not programs:
        raise EnvironmentFault(f"The archive has no {file_name}.", hint="Try another version.", code="bad_archive")
    return programs[0]


async def update_for(installer: Installer, work: InstallTask, current: str) -> EngineUpdate:
    """Return what installing `work` would change for somebody who uses `current`. Raises EnvironmentFault."""
    variant, size = work.variant, work.variant.download_bytes
    changes: list[str] = []
    if variant.kind is VariantKind.ARCHIVE:
        to, size = await _archive_update(installer, work)
    elif work.options.channel is Channel.STABLE:
        to = variant.version
    else:
        lock = await lock_for(require_uv(installer.uv), work)
        lock_text = await asyncio.to_thread(work.recipe.lock_of(variant).read_text, encoding="utf-8")
        to, changes = version_in_lock(lock, variant.package), package_differences(lock_text, lock)
    is_newer = version_numbers(to) > version_numbers(current)
    return EngineUpdate(
        engine=work.recipe.engine,
        variant=variant.name,
        channel=work.options.channel.value,
        current=current,
        to=to if is_newer else "",
        download_bytes=size if is_newer else 0,
        changes=changes if is_newer else [],
    )


async def _archive_update(installer: Installer, work: InstallTask) -> tuple[str, int]:
    if work.options.channel is Channel.STABLE:
        return work.variant.version, work.variant.download_bytes
    selection = await installer.choose_release(work)
    return selection.version, selection.size_bytes


def package_differences(before: str, after: str) -> list[str]:
    """Return the packages two locks have in different versions, as "numpy 2.4.6 -> 2.5.5"."""
    old, new = read_pins(before), read_pins(after)
    return [
        f"{name} {old.get(name, 'none')} -> {version}"
        for name, version in sorted(new.items())
        if old.get(name) != version
    ]
