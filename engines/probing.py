"""Ask an installed engine what it is: which flags its help names, which version it has. Asked once, then remembered.

A help text takes a Python engine ten seconds, so the answer is kept beside the installation.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from engines.flags import flags_in

HELP_TIMEOUT_S = 120.0
"""PyTorch alone takes ten seconds to import from a cold disk."""
_FILE = "flags.json"
_remembered: dict[tuple[str, ...], frozenset[str]] = {}


def flags_of(command: Sequence[str], keep_in: Path | None = None) -> frozenset[str]:
    """Return the flags a command's help names; empty when it gives none. Kept in `keep_in`, where there is one."""
    key = tuple(command)
    if key not in _remembered:
        _remembered[key] = _kept(keep_in, command) or _asked(keep_in, command)
    return _remembered[key]


def output_of(command: Sequence[str], timeout_s: float = 20.0) -> str:
    """Return what a command writes, both streams; empty when it cannot be run or takes too long."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            env=_environment(),
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout + done.stderr


def on_path(program: str) -> Path | None:
    """Return a program on PATH, links followed: environments are found by where their programs really lie."""
    found = shutil.which(program)
    return Path(found) if found else None


def _environment() -> dict[str, str]:
    return {**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "200"}


def _asked(keep_in: Path | None, command: Sequence[str]) -> frozenset[str]:
    flags = flags_in(output_of(command, HELP_TIMEOUT_S))
    if keep_in is not None and flags:
        try:
            (keep_in / _FILE).write_text(json.dumps({"command": list(command), "flags": sorted(flags)}), "utf-8")
        except OSError:
            return flags  # a folder that cannot be written costs another ten seconds next time, no more
    return flags


def _kept(keep_in: Path | None, command: Sequence[str]) -> frozenset[str]:
    if keep_in is None:
        return frozenset()
    try:
        kept = json.loads((keep_in / _FILE).read_text("utf-8"))
        return frozenset(kept["flags"]) if kept["command"] == list(command) else frozenset()
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()
