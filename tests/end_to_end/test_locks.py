"""Every committed lock, resolved against the package index as it is today on the oldest system its recipe names.

Nothing is installed, so engines whose packages take gigabytes are tried too. What was yanked, or was never built for a
system, is found here and not on somebody's machine.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.config.programs import uv_program
from app.engine_store.recipe import EngineVariant, InstallRecipe, VariantKind, read_recipes
from tests.engine_environments import NO_NETWORK

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]
PYTORCH = "download.pytorch.org"
"""Where files are that a lock names by their address; not every machine that runs tests may reach it."""

MACOS = "15.0"
"""Of MLX, which has wheels for 14 and newer, the last three."""
_MACHINES = {"x86_64": "x86_64", "arm64": "aarch64"}


def system(variant: EngineVariant, platform: str, architecture: str) -> str:
    """Return what uv calls a system; of Linux the one with the oldest C library that the variant allows."""
    machine = _MACHINES[architecture]
    if platform == "linux":
        oldest = variant.glibc.replace(".", "_") or "2_17"
        return f"{machine}-manylinux{'2014' if oldest == '2_17' else f'_{oldest}'}"
    return f"{machine}-apple-darwin" if platform == "darwin" else f"{machine}-pc-windows-msvc"


def python_of(variant: EngineVariant) -> tuple[str, ...]:
    """Return for which Python a lock is resolved that names files of one."""
    names_file = any(" @ " in requirement for requirement in variant.requires)
    return ("--python-version", variant.python[2:].partition(",")[0]) if names_file else ()


def locks() -> Iterator[tuple[InstallRecipe, EngineVariant, str]]:
    for recipe in read_recipes().values():
        for variant in recipe.variants:
            if variant.kind is not VariantKind.VENV or variant.builds:  # what is compiled is tried by installing it
                continue
            for platform in variant.platforms:
                for architecture in variant.architectures:
                    yield recipe, variant, system(variant, platform, architecture)


@pytest.mark.parametrize(
    ("recipe", "variant", "target"),
    list(locks()),
    ids=lambda value: getattr(value, "name", getattr(value, "engine", value)),
)
def test_a_lock_still_resolves_where_its_recipe_says(
    recipe: InstallRecipe, variant: EngineVariant, target: str, tmp_path: Path
) -> None:
    uv = uv_program()
    assert uv is not None
    result = subprocess.run(
        [
            *(str(uv), "pip", "install", "--dry-run", "--no-config", "--python", sys.executable),
            *("--require-hashes", "--requirement", str(recipe.lock_of(variant))),
            *("--target", str(tmp_path), "--python-platform", target, *python_of(variant)),
            *("--only-binary", ":all:"),
            *(part for url in variant.index_urls for part in ("--index", url)),
        ],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "MACOSX_DEPLOYMENT_TARGET": MACOS},
    )
    if result.returncode and PYTORCH in result.stderr and any(words in result.stderr.lower() for words in NO_NETWORK):
        pytest.skip(f"{PYTORCH} cannot be reached")
    assert result.returncode == 0, result.stderr
