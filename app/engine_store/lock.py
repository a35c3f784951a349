"""Write the locks of engines' recipes: `python -m app.engine_store.lock [ENGINE ...]`, all of them without a name.

A lock is `uv pip compile --universal --generate-hashes` of a variant's requirements: one file with environment markers
that serves every platform and Python of the variant, and the SHA-256 of every file that may be installed. What packages
are built with, where they are, has a lock of its own. It is run by whoever raises a version in a recipe; the result is
committed. The newest channel makes the same lock on the spot.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from app.config.programs import uv_program
from app.core.errors import EnvironmentFault
from app.engine_store.recipe import EngineVariant, VariantKind, read_recipes

_TIMEOUT_S = 600.0
_OLDEST_PYTHON = "3.11"
"""The oldest Python we run on: a universal lock covers everything from here up."""
_LEAST_PYTHON = re.compile(r">=\s*(\d+\.\d+)")
_SYSTEMS = {"linux": "x86_64-unknown-linux-gnu", "win32": "x86_64-pc-windows-msvc"}


def main(engines: Sequence[str]) -> int:
    """Lock the engines named, or all; return 0 when every lock was written."""
    uv = uv_program()
    if uv is None:
        sys.stderr.write("uv is missing: run `make` first, or put it on PATH.\n")
        return 1
    for recipe in read_recipes().values():
        if engines and recipe.engine not in engines:
            continue
        for variant in recipe.variants:
            if variant.kind is VariantKind.VENV and not variant.lock:
                _write_lock(uv, variant, variant.requires, recipe.lock_of(variant))
                if variant.build_requires:
                    _write_lock(uv, variant, variant.build_requires, recipe.tools_lock_of(variant))
    return 0


def _write_lock(uv: Path, variant: EngineVariant, requires: Sequence[str], path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(compile_lock(compile_argv(uv, variant), requires), encoding="utf-8")
    sys.stdout.write(f"{path}\n")


def compile_argv(uv: Path, variant: EngineVariant, *, python: str = "") -> list[str]:
    """Return the command that locks a variant; its requirements come as the last argument, a file.

    With `python`, a version, the lock serves this machine and that Python only: all that one made on the spot needs.
    """
    scope = ["--python-version", python] if python else _lock_scope(variant)
    wheels = [] if variant.builds else ["--only-binary", ":all:"]
    indexes = [part for url in variant.index_urls for part in ("--index", url)]
    return [
        *(str(uv), "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--generate-hashes", "--no-config"),
        *scope,
        *wheels,
        *indexes,
    ]


def _lock_scope(variant: EngineVariant) -> list[str]:
    """Return for what a lock is made: everything at once, unless it names a file, which fits one system and Python."""
    least = _LEAST_PYTHON.search(variant.python)
    if least is not None and any(" @ " in requirement for requirement in variant.requires):
        return ["--python-platform", _SYSTEMS[variant.platforms[0]], "--python-version", least[1]]
    return ["--universal", "--python-version", _OLDEST_PYTHON]


def compile_lock(argv: Sequence[str], requires: Sequence[str]) -> str:
    """Return the lock's text. Raises EnvironmentFault with uv's own words when there is no solution."""
    with tempfile.TemporaryDirectory() as scratch:
        requirements = Path(scratch) / "requirements.in"
        requirements.write_text("\n".join(requires) + "\n", encoding="utf-8")
        result = subprocess.run(
            [*argv, str(requirements)],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    if result.returncode:
        raise EnvironmentFault("uv found no set of packages that fits.", detail=result.stderr.strip(), code="no_lock")
    return result.stdout


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except EnvironmentFault as error:
        sys.exit(f"{error} {error.body.detail}")
