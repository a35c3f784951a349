"""Engines made for cards that generate on a processor: their packages, with PyTorch's CUDA build and stand-ins.

That is not how a person would install them (what they have for processors is not on PyPI), so they are no variants of
`install.toml`. Each is made once, in 20 s and some 3 GB, and kept in the user's cache; of several processes that want
it at the same time, by the first.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.config.paths import Paths
from app.config.programs import uv_program
from app.engine_store.version_store import VersionManifest, VersionStore, interpreter_in, switch_version
from tests.engine_environments import NO_NETWORK, hold_lock
from tests.real_engines.cuda_stand_ins import make_stand_ins

_REAL = frozenset({"libcudart.so.13"})
"""It is asked how many cards there are, and must know."""
_KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roundhouse-test-engines"


def make_once(name: str, version: str, finish: Callable[[Path], None]) -> Path:
    """Return an environment with the packages of `<name>.txt`, to which `finish` does the rest in `site-packages`.

    Skips the test where it cannot be made.
    """
    missing_programs = [program for program in ("gcc", "objdump", "readelf") if shutil.which(program) is None]
    if sys.platform != "linux" or sys.version_info[:2] != (3, 11) or missing_programs:
        pytest.skip("the stand-ins are made for Linux and Python 3.11, with gcc and binutils")
    packages, place = _packages_of(name), _place_of(name, version)
    with hold_lock(_KEPT / f"{name}.lock"):
        if not place.exists():
            for old in _KEPT.glob(f"{name}-*"):
                shutil.rmtree(old)
            _make_environment(place, packages, finish)
    return place


def is_made(name: str, version: str) -> bool:
    """Tell whether that environment is there already."""
    return _place_of(name, version).exists()


def _packages_of(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.txt")


def _place_of(name: str, version: str) -> Path:
    key = hashlib.sha256(_packages_of(name).read_bytes()).hexdigest()[:12]
    return _KEPT / f"{name}-{version}-{key}"


def _make_environment(place: Path, packages: Path, finish: Callable[[Path], None]) -> None:
    uv = uv_program()
    if uv is None:
        pytest.skip("uv is missing")
    stage = place.with_name(f"{place.name}.stage")
    shutil.rmtree(stage, ignore_errors=True)
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(stage)], check=True)
    python = str(interpreter_in(stage))
    install = [str(uv), "pip", "install", "-q", "--no-deps", "--compile-bytecode", "--python", python]
    install += ["-r", str(packages)]
    result = subprocess.run(install, capture_output=True, text=True, check=False)
    if result.returncode and any(words in result.stderr.lower() for words in NO_NETWORK):
        pytest.skip(f"{place.name} cannot be fetched: {result.stderr}")
    assert not result.returncode, result.stderr
    (site,) = stage.glob("lib/python3*/site-packages")
    make_stand_ins(site / "torch" / "lib", real_libraries=_REAL)
    finish(site)
    for command in (stage / "bin").iterdir():
        if not command.is_symlink() and str(stage).encode() in (text := command.read_bytes()):
            command.write_bytes(text.replace(str(stage).encode(), str(place).encode()))
    stage.rename(place)


def call_vllm_by_its_name(site: Path, version: str) -> None:
    """Add what vLLM's command asks for in the build for processors: a distribution of the name `vllm`."""
    record = site / f"vllm-{version}+cpu.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")


def put_into_store(paths: Paths, engine: str, version: str, environment: Path) -> None:
    """Make an environment a version of an engine, in use, as if Roundhouse had installed it."""
    store = VersionStore(paths.data / "engines")
    stage = paths.data / "staged"
    stage.mkdir(parents=True)
    (stage / "venv").symlink_to(environment)
    manifest = VersionManifest(
        engine=engine, version=version, variant="cpu", backend="cpu", kind="venv", python="venv/bin/python"
    )
    published_manifest = store.publish_version(stage, manifest)
    store.change_state(engine, lambda state: switch_version(state, published_manifest.name))
