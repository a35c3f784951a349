"""Environments of engines for tests, made from the committed locks as the engine store makes them, once and kept.

They lie in `build/`, by the lock's hash. Where one cannot be made for want of a network, its tests are left out. Of
several processes of tests that want the same one, the first makes it and the others wait.
"""

import asyncio
import hashlib
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.config.programs import uv_program
from app.core.errors import EnvironmentFault
from app.engine_store.environments import make_environment, write_locks
from app.engine_store.recipe import EngineVariant, InstallRecipe, read_recipe
from app.engine_store.version_store import interpreter_in
from app.gateway.instance import open_lock_file, try_lock
from engines.api import EngineAdapter, EngineInstallation, EngineLocation
from engines.registry import ADAPTERS

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "engines"
NO_NETWORK = ("dns error", "failed to fetch", "connection refused", "network is unreachable", "request failed")


_POLL_S = 0.2


@contextmanager
def hold_lock(lock_file: Path) -> Iterator[None]:
    """Wait until no other process has a file locked, and have it for the block; a process that dies lets go of it."""
    with open_lock_file(lock_file) as lock:
        while not try_lock(lock):
            time.sleep(_POLL_S)
        yield


def engine_environment(folder: str, variant: str = "cpu") -> EngineInstallation:
    """Return an installation of the engine in `engines/<folder>`. Skips the test where it cannot be fetched."""
    engine = read_recipe(ROOT / "engines" / folder).engine
    return find_installed(ADAPTERS[engine], folder, variant)


def find_installed(adapter: EngineAdapter, folder: str, variant: str = "cpu") -> EngineInstallation:
    """Return an installation as the adapter finds it there. Skips likewise."""
    installation = adapter.probe(_place(folder, variant))
    assert isinstance(installation, EngineInstallation)
    return installation


def is_made(folder: str, variant: str) -> bool:
    """Tell whether that installation is there already."""
    return _environment_folder(folder, variant).exists()


def _place(folder: str, variant_name: str) -> EngineLocation:
    place = _environment_folder(folder, variant_name)
    with hold_lock(place.with_suffix(".lock")):
        if not place.exists():
            _make(folder, variant_name, place)
    variant = _variant(read_recipe(ROOT / "engines" / folder), variant_name)
    return EngineLocation(
        folder=place, version=variant.version, backend=variant.backend, python=interpreter_in(place / "venv")
    )


def _variant(recipe: InstallRecipe, name: str) -> EngineVariant:
    variant = recipe.find_variant(name)
    assert variant is not None
    return variant


def _environment_folder(folder: str, variant_name: str) -> Path:
    recipe = read_recipe(ROOT / "engines" / folder)
    variant = _variant(recipe, variant_name)
    lock = recipe.lock_of(variant)
    made_of = (lock.read_bytes(), sys.version.encode(), repr((variant.build_requires, variant.build_settings)).encode())
    key = hashlib.sha256(b"".join(made_of)).hexdigest()[:12]
    return KEPT / f"{folder}-{variant_name}-{key}"


def _make(folder: str, variant_name: str, place: Path) -> None:
    uv = uv_program()
    if uv is None:
        pytest.skip("uv is missing")
    recipe = read_recipe(ROOT / "engines" / folder)
    variant = _variant(recipe, variant_name)
    stage = place.with_suffix(".stage")
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    write_locks(stage, recipe.lock_of(variant).read_text(encoding="utf-8"), recipe.tools_of(variant))
    try:
        asyncio.run(make_environment(uv, variant, stage, lambda _stage, _fraction: None))
    except EnvironmentFault as error:
        if any(words in f"{error} {error.body.detail}".lower() for words in NO_NETWORK):
            pytest.skip(f"{recipe.engine} cannot be fetched: {error}")
        raise
    stage.rename(place)
