"""Killed at any moment of an install, an update or a removal, the store is consistent and the old version works."""

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from app.config.programs import uv_program
from app.core.engine_store import BUNDLED
from app.engine_store.fetching import ReleaseFetcher
from app.engine_store.installer import Installer, InstallerDeps, InstallOptions
from app.engine_store.version_store import STAGE, STATE, VersionStore
from tests.fake_engine.adapter import FakeAdapter
from tests.unit.engine_store.changer import VERSIONS, prove
from tests.unit.engine_store.package_index import MODULE, Index

ROOT = Path(__file__).resolve().parents[3]
LONGEST_S = 0.9
"""One round of the changer takes about 0.4 s: kills fall into every part of several."""
KEPT = "1.0-cpu"


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """A store with 1.0 in use, and an index with what comes and goes."""
    index = Index(tmp_path / "index")
    for version in ("1.0", *VERSIONS):
        index.add(version, files=40)
    recipe = index.recipe(tmp_path / "recipe", "1.0")
    async with aiohttp.ClientSession() as http:
        means = InstallerDeps(
            shelf=VersionStore(tmp_path / "engines"),
            adapters={"fake": FakeAdapter()},
            fetcher=ReleaseFetcher(http),
            prove=prove,
            uv=uv_program,
        )
        await Installer(means).install_version(
            recipe, recipe.variants[0], InstallOptions(), lambda _stage, _fraction: None
        )
    return tmp_path


def killed_after(home: Path, seconds: float) -> str:
    """Run the changer, kill it, and return what it did last."""
    changer = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.engine_store.changer", str(home)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert changer.stdout is not None
    first = changer.stdout.readline()
    assert first, "it did not begin"
    try:
        changer.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        changer.kill()
    rest, _ = changer.communicate()
    return (first + rest).splitlines()[-1]


def check(home: Path) -> None:
    """Look at what was left, as the next start does, and run what is in use and what is kept."""
    shelf = VersionStore(home / "engines")
    shelf.sweep_stages()
    assert list((home / "engines" / STAGE).iterdir()) == []
    names = {manifest.name for manifest in shelf.list_manifests("fake")}
    assert {path.name for path in (home / "engines" / "fake").iterdir()} - {STATE, STATE + ".part"} == names
    state = shelf.read_state("fake")
    assert KEPT in names
    assert state.current in names | {BUNDLED}
    assert state.previous in names | {"", BUNDLED}
    for name in {KEPT, state.current} - {BUNDLED}:
        place = shelf.find_place("fake", name)
        assert place is not None
        result = subprocess.run(
            [str(place.python), "-c", f"import {MODULE} as m; print(m.__version__)"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stdout.strip() == place.version


async def survive(home: Path, times: int) -> set[str]:
    chance = random.Random(20_261_121)  # noqa: S311 -- the moments must be many, not secret
    seen_states = set()
    for _ in range(times):
        last = await asyncio.to_thread(killed_after, home, chance.uniform(0.0, LONGEST_S))
        seen_states.add(last.split(maxsplit=1)[0])
        await asyncio.to_thread(check, home)
    return seen_states


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows ends programs otherwise")
async def test_killed_at_some_moments_the_store_is_consistent_and_the_old_version_works(home: Path) -> None:
    assert "install" in await survive(home, 6)


@pytest.mark.engines
@pytest.mark.timeout(600)
@pytest.mark.skipif(os.name == "nt", reason="Windows ends programs otherwise")
async def test_killed_at_fifty_moments(home: Path) -> None:
    assert "install" in await survive(home, 50)
