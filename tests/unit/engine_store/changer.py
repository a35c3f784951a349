"""A program that installs, updates and removes versions without end: what `test_kill` kills at any moment.

    python -m tests.unit.engine_store.changer HOME

Prints a line before each change, so that whoever watches knows that it goes on.
"""

import asyncio
import itertools
import sys
from pathlib import Path

import aiohttp

from app.config.programs import uv_program
from app.core.engine_store import Proof
from app.engine_store.environments import Progress
from app.engine_store.fetching import ReleaseFetcher
from app.engine_store.installer import Installer, InstallerDeps, InstallOptions
from app.engine_store.version_store import VersionStore
from engines.api import EngineLocation
from tests.fake_engine.adapter import FakeAdapter
from tests.unit.engine_store.package_index import Index

VERSIONS = ("2.0", "3.0")
"""Come and go; 1.0 is there from the start and must always be."""


async def prove(engine: str, place: EngineLocation, *, with_own_models: bool, progress: Progress) -> list[Proof]:
    progress(f"Proving {engine} in {place.folder}, {with_own_models}", None)
    return [Proof(at=1.0, text="Hello")]


async def main(home: Path) -> None:
    index = Index(home / "index")
    shelf = VersionStore(home / "engines")
    shelf.sweep_stages()
    async with aiohttp.ClientSession() as http:
        means = InstallerDeps(
            shelf=shelf, adapters={"fake": FakeAdapter()}, fetcher=ReleaseFetcher(http), prove=prove, uv=uv_program
        )
        installer = Installer(means)
        for version in itertools.cycle(VERSIONS):
            await _change(installer, shelf, index, home, version)


async def _change(installer: Installer, shelf: VersionStore, index: Index, home: Path, version: str) -> None:
    for manifest in shelf.list_manifests("fake"):
        if manifest.version == version:
            _say(f"remove {manifest.name}")
            shelf.remove_version("fake", manifest.name)
    _say(f"install {version}")
    recipe = index.recipe(home / "recipe", version)
    await installer.install_version(recipe, recipe.variants[0], InstallOptions(), lambda _stage, _fraction: None)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
