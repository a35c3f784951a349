"""Make the bundle of a variant: fetch what an install would fetch, checked the same way, into one file."""

import asyncio
from pathlib import Path

import msgspec

from app.core.errors import EnvironmentFault
from app.engine_store.bundles import EngineBundleInfo, write_bundle
from app.engine_store.environments import LOCK, TOOLS, write_locks
from app.engine_store.host import InstallHost
from app.engine_store.installer import Installer, InstallTask, lock_for, require_uv, version_in_lock
from app.engine_store.program_run import run_program
from app.engine_store.recipe import VariantKind

_PIP = "pip"


async def make_bundle(installer: Installer, work: InstallTask, path: Path, host: InstallHost) -> EngineBundleInfo:
    """Write a bundle of `work` for machines like `host` to `path`. Raises EnvironmentFault."""
    about = EngineBundleInfo(
        engine=work.recipe.engine,
        variant=work.variant.name,
        version=work.variant.version,
        platform=host.platform,
        architecture=host.architecture,
        files={},
    )
    folder = work.stage / "files"
    await asyncio.to_thread(folder.mkdir)
    if work.variant.kind is VariantKind.VENV:
        about = await _with_wheels(installer, work, about, folder)
    else:
        selection = await installer.choose_release(work)
        await installer.fetch_assets(work, selection, folder)
        about = msgspec.structs.replace(about, version=selection.version, chosen=selection)
    work.progress("Writing the bundle", None)
    await asyncio.to_thread(write_bundle, path, about, folder)
    return about


async def _with_wheels(
    installer: Installer, work: InstallTask, about: EngineBundleInfo, folder: Path
) -> EngineBundleInfo:
    """Fetch the lock's wheels for this machine, and those that what is no wheel is built with."""
    uv, variant = require_uv(installer.uv), work.variant
    if variant.needs_prebuilt:
        raise EnvironmentFault(
            f"{work.recipe.engine} ({variant.name}) cannot be bundled: it takes compiled kernels from a release.",
            hint="Install it where it can be downloaded.",
            code="no_bundle",
        )
    lock = await lock_for(uv, work)
    tools = await asyncio.to_thread(work.recipe.tools_of, variant)
    await asyncio.to_thread(write_locks, work.stage, lock, tools)
    work.progress("Fetching packages", None)
    await _download(uv, work, LOCK, folder, builds=variant.builds)
    if tools:
        await _download(uv, work, TOOLS, folder, builds=False)
    return msgspec.structs.replace(about, version=version_in_lock(lock, variant.package), lock=lock, tools=tools)


async def _download(uv: Path, work: InstallTask, lock: str, folder: Path, *, builds: bool) -> None:
    """Fetch what a lock says. uv has no command for it; pip, which uv runs from its cache, has."""
    sources = [part for url in work.variant.index_urls for part in ("--extra-index-url", url)]
    kinds = [] if builds else ["--only-binary", ":all:"]
    await run_program(
        [
            *(str(uv), "tool", "run", "--quiet", _PIP, "download", "--disable-pip-version-check", "--no-deps"),
            *("--require-hashes", "--requirement", str(work.stage / lock), "--dest", str(folder), *kinds, *sources),
        ],
        stage=work.stage,
        hear=lambda line: work.progress(line.strip()[:80], None) if line.startswith("Downloading") else None,
        env={"NO_COLOR": "1"},
        about=work.recipe.engine,
    )
