"""Wheels with compiled kernels, from a GitHub release, in place of the one that compiles when it is first imported.

For which PyTorch, CUDA and Python a wheel was compiled stands in its name; one that fits an environment exactly is
taken, if the release states its hash. Where there is none, or GitHub cannot be reached, the environment stays as it is.
"""

import re
import sys
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import msgspec

from app.engine_store.lock_text import read_pins

_PYTHON = re.compile(r"^version_info *= *(\d+)\.(\d+)", re.MULTILINE)
_PLATFORMS = {"linux": "linux_x86_64", "win32": "win_amd64"}


class PrebuiltSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """Where a library's compiled wheels are published: at the tag `v` and its version.

    `asset` is a verbose regular expression of their names with the groups `version`, `cuda`, `torch`, `python` and
    `platform`; `cuda` is what CUDA's version must begin with to be that of the PyTorch in the lock.
    """

    repository: str
    asset: str
    cuda: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled `asset`."""
        return re.compile(self.asset, re.VERBOSE)


class WheelTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What a wheel must have been compiled for."""

    version: str
    torch: str
    python: str
    platform: str


def read_target(lock: str, environment: Path, package: str) -> WheelTarget | None:
    """Return what an environment's wheel must fit; None where that cannot be told, or none are made for it."""
    pins = read_pins(lock)
    python = _PYTHON.search((environment / "pyvenv.cfg").read_text(encoding="utf-8"))
    platform = _PLATFORMS.get(sys.platform)
    if package not in pins or "torch" not in pins or python is None or platform is None:
        return None
    return WheelTarget(
        version=pins[package],
        torch=pins["torch"].partition("+")[0],
        python=f"cp{python[1]}{python[2]}",
        platform=platform,
    )


def find_wheel_name(source: PrebuiltSource, names: Iterable[str], target: WheelTarget) -> str:
    """Return the wheel that fits exactly, that of the newest CUDA of several; empty for none."""
    matches = [match for name in names if (match := source.pattern.fullmatch(name))]
    fitting_names = [
        match
        for match in matches
        if match["cuda"].startswith(source.cuda)
        and all(match[group] == getattr(target, group) for group in WheelTarget.__struct_fields__)
    ]
    return max(fitting_names, key=lambda match: int(match["cuda"]), default={0: ""})[0]
