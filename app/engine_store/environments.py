"""A virtual environment for one version of an engine, made by uv from a lock with hashes.

Made relocatable, because it is built in a stage and moved. What is in uv's cache is taken from there without asking the
network; only what is missing is fetched.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from app.core.errors import EnvironmentFault
from app.engine_store.program_run import run_program
from app.engine_store.recipe import EngineVariant
from app.engine_store.startup_files import find_foreign_startup_file, remove_makers_files
from app.engine_store.version_store import interpreter_in

Progress = Callable[[str, float | None], None]
"""Stage in words, and how much of it is done."""

ENVIRONMENT = "venv"
LOCK = "lock.txt"
TOOLS = "build.txt"
_DOWNLOADING = re.compile(
    r"^ *(Downloading|Downloaded|Building|Built) (?P<package>\S+?)(?: \((?P<size>[\d.]+)(?P<unit>[KMG])iB\))?$"
)
_PATIENCE = {"Building": ", which takes minutes"}
"""uv is silent while a compiler works."""
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LIMIT = re.compile(r"(>=|<)\s*(\d+)\.(\d+)")
_QUIET = {"UV_NO_PROGRESS": "1", "NO_COLOR": "1"}


async def make_environment(
    uv: Path, variant: EngineVariant, stage: Path, progress: Progress, *, wheels: Path | None = None
) -> Path:
    """Make `<stage>/venv` hold exactly what `<stage>/lock.txt` says; return its interpreter. Raises EnvironmentFault.

    What has to be built is built with what `<stage>/build.txt` says. With `wheels`, a folder, everything comes from
    there and the network is not used.
    """
    folder, lock = stage / ENVIRONMENT, stage / LOCK
    progress("Creating an environment", None)
    await run_program(
        _venv_argv(uv, variant, folder), stage=stage, hear=_ignore_line, env=_QUIET, about=variant.package
    )
    remove_makers_files(folder)
    python = interpreter_in(folder)
    base = [str(uv), "pip", "install", "--python", str(python), "--require-hashes", "--requirement", str(lock)]
    argv = [*base, *(_build_arguments(variant, stage) if variant.builds else ["--only-binary", ":all:"]), "--strict"]
    meter = InstallMeter(variant.download_bytes, progress)
    if wheels is not None:
        offline = [*argv, "--offline", "--no-index", "--find-links", str(wheels)]
        await run_program(offline, stage=stage, hear=meter.read_line, env=_QUIET)
        _refuse_foreign_startup(folder, lock)
        return python
    sources = [part for url in variant.index_urls for part in ("--index", url)]
    progress("Checking the cache", None)
    try:
        await run_program([*argv, *sources, "--offline"], stage=stage, hear=meter.read_line, env=_QUIET)
    except EnvironmentFault:
        progress("Asking the package index", None)
        await run_program([*argv, *sources], stage=stage, hear=meter.read_line, env=_QUIET, about=variant.package)
    _refuse_foreign_startup(folder, lock)
    return python


async def install_wheel(uv: Path, stage: Path, wheel: Path, package: str) -> None:
    """Put a wheel in the place of the package that the lock brought. Raises EnvironmentFault."""
    folder = stage / ENVIRONMENT
    argv = [str(uv), "pip", "install", "--python", str(interpreter_in(folder)), "--no-deps", "--offline", "--no-index"]
    await run_program(
        [*argv, "--reinstall-package", package, str(wheel)], stage=stage, hear=_ignore_line, env=_QUIET, about=package
    )
    _refuse_foreign_startup(folder, stage / LOCK)


def _refuse_foreign_startup(folder: Path, lock: Path) -> None:
    foreign = find_foreign_startup_file(folder, lock.read_text(encoding="utf-8"))
    if foreign is not None:
        raise EnvironmentFault(
            f"{foreign.name} would run whenever this engine starts, and no package of its lock brought it.",
            hint="Somebody may be tampering with the installation: look at what else can write to this folder.",
            code="foreign_startup_file",
        )


def _venv_argv(uv: Path, variant: EngineVariant, folder: Path) -> list[str]:
    python = sys.executable if own_python_fits(variant.python) else variant.python
    return [str(uv), "venv", "--quiet", "--relocatable", "--no-project", "--python", python, str(folder)]


def write_locks(stage: Path, lock: str, tools: str) -> None:
    """Write down what `make_environment` shall make: what is installed, and what that is built with, if so."""
    (stage / LOCK).write_text(lock, encoding="utf-8")
    if tools:
        (stage / TOOLS).write_text(tools, encoding="utf-8")


def _build_arguments(variant: EngineVariant, stage: Path) -> list[str]:
    """Return arguments for a build. uv keeps what it built by the settings, and so builds anew where they change."""
    settings = [
        part
        for name, value in variant.build_settings.items()
        for part in ("--config-settings-package", f"{variant.package}:{name}={value}")
    ]
    tools = stage / TOOLS
    return [*(("--build-constraints", str(tools)) if tools.exists() else ()), *settings]


def own_python_fits(limits: str, version: tuple[int, int] = sys.version_info[:2]) -> bool:
    """Tell whether the Python we run on is within limits such as ">=3.11,<3.15"; a frozen program has none to lend."""
    if getattr(sys, "frozen", False):
        return False
    return all(
        version >= (int(major), int(minor)) if sign == ">=" else version < (int(major), int(minor))
        for sign, major, minor in _LIMIT.findall(limits)
    )


def _ignore_line(_line: str) -> None:
    pass


class InstallMeter:
    """Turns uv's lines into progress. uv names large packages with their size when it begins and when it has them."""

    def __init__(self, expected_bytes: int, progress: Progress) -> None:
        self._expected_bytes = expected_bytes
        self._progress = progress
        self._sizes: dict[str, float] = {}
        self._installed_packages: set[str] = set()

    def read_line(self, line: str) -> None:
        """Take in one line."""
        if line.startswith("Prepared"):
            self._progress("Installing", None)
            return
        match = _DOWNLOADING.match(line)
        if match is None:
            return
        package = match["package"]
        if match["size"]:
            self._sizes[package] = float(match["size"]) * _UNITS[match["unit"]]
        if match[1] in {"Downloaded", "Built"}:
            self._installed_packages.add(package)
        verb = "Compiling" if match[1].startswith("Buil") else "Fetching"
        packages = ", ".join(self._sizes.keys() - self._installed_packages) or package
        self._progress(f"{verb} {packages}" + _PATIENCE.get(match[1], ""), self._share_done())

    def _share_done(self) -> float | None:
        total = max(self._expected_bytes, sum(self._sizes.values()))
        return (
            min(1.0, sum(self._sizes.get(package, 0.0) for package in self._installed_packages) / total)
            if total
            else None
        )
