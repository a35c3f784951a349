"""Which operating system this is, and whether it runs on the bare machine, in a VM, a container or WSL.

`root` is "/" on a live system and a folder of captured files in tests.
"""

import platform
import sys
from pathlib import Path

from app.core.machine import Fact, OperatingSystem
from app.hardware.facts import derived, measured, read_pairs, read_text, unknown

_NAMES = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_ARCHITECTURES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "arm64", "aarch64": "arm64"}
_CONTAINER_MARKS = ("docker", "containerd", "kubepods", "podman", "lxc")


def read_system(root: Path = Path("/")) -> OperatingSystem:
    """Return the operating system's facts."""
    machine = platform.machine().lower()
    return OperatingSystem(
        name=measured(_NAMES.get(sys.platform, sys.platform), "sys.platform"),
        version=_version(root),
        kernel=measured(platform.release(), "uname"),
        architecture=measured(_ARCHITECTURES.get(machine, machine), "uname"),
        environment=_environment(root),
    )


def _version(root: Path) -> Fact[str]:
    if sys.platform == "darwin":
        return measured(platform.mac_ver()[0], "platform.mac_ver")
    if sys.platform == "win32":
        return measured(platform.version(), "platform.version")
    name = read_pairs(root / "etc/os-release", "=").get("PRETTY_NAME", "").strip('"')
    if name:
        return measured(name, "/etc/os-release")
    return unknown("/etc/os-release", "The file has no PRETTY_NAME.")


def _environment(root: Path) -> Fact[str]:
    if sys.platform != "linux":
        return unknown("", "Not looked for on this system.")
    kernel = (read_text(root / "proc/version") or "").lower()
    if "microsoft" in kernel:
        return measured("wsl", "/proc/version")
    groups = read_text(root / "proc/1/cgroup") or ""
    if (root / ".dockerenv").exists() or (root / "run/.containerenv").exists():
        return measured("container", "/.dockerenv, /run/.containerenv")
    if any(mark in groups for mark in _CONTAINER_MARKS):
        return measured("container", "/proc/1/cgroup")
    flags = read_pairs(root / "proc/cpuinfo").get("flags", "").split()
    if "hypervisor" in flags:
        return measured("vm", "/proc/cpuinfo: hypervisor flag")
    return derived("bare", "/proc", note="No mark of a container, WSL or a hypervisor was found.")
