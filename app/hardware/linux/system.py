"""Which Linux this is, and whether it runs on the bare machine, in a VM, a container or WSL."""

import platform
from pathlib import Path

import msgspec

from app.core.machine import Fact, OperatingSystem
from app.hardware.evidence import Evidence, Unanswered
from app.hardware.facts import derived, is_there, measured, read_pairs, read_text, unknown

_ARCHITECTURES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "arm64", "aarch64": "arm64"}
_CONTAINER_FILES = (".dockerenv", "run/.containerenv", "run/systemd/container", "var/run/secrets/kubernetes.io")
_CONTAINER_MARKS = ("docker", "containerd", "kubepods", "podman", "libpod", "lxc")
_VM_MAKERS = (
    "qemu",
    "vmware",
    "innotek",
    "xen",
    "bochs",
    "parallels",
    "openstack",
    "google compute engine",
    "kubevirt",
)
"""Firmware makers that only virtual machines have. Amazon and Microsoft also make real ones: their products tell."""
_VM_PRODUCTS = ("virtual machine", "kvm", "hvm domu")


class Uname(msgspec.Struct, frozen=True):
    """Of the running kernel: release, and the machine it was built for ("x86_64", "aarch64")."""

    release: str = ""
    machine: str = ""


def read_system(evidence: Evidence) -> OperatingSystem:
    """Return the operating system's facts."""
    uname = _uname(evidence)
    machine = uname.machine.lower()
    return OperatingSystem(
        name=measured("Linux" if evidence.system == "linux" else evidence.system, "sys.platform"),
        version=_version(evidence),
        kernel=_said(uname.release, "uname"),
        architecture=_said(_ARCHITECTURES.get(machine, machine), "uname"),
        environment=_environment(evidence),
    )


def _uname(evidence: Evidence) -> Uname:
    try:
        return evidence.ask("uname", Uname, lambda: Uname(release=platform.release(), machine=platform.machine()))
    except Unanswered:
        return Uname()


def _said(text: str, source: str) -> Fact[str]:
    return measured(text, source) if text else unknown(source, "Nothing is said there.")


def _version(evidence: Evidence) -> Fact[str]:
    name = read_pairs(evidence.root / "etc/os-release", "=").get("PRETTY_NAME", "").strip('"')
    if name:
        return measured(name, "/etc/os-release")
    return unknown("/etc/os-release", "The file has no PRETTY_NAME.")


def _environment(evidence: Evidence) -> Fact[str]:
    return _wsl(evidence.root) or _container(evidence.root) or _virtual_machine(evidence.root) or _bare()


def _wsl(root: Path) -> Fact[str] | None:
    kernel = (read_text(root / "proc/version") or "").lower()
    return measured("wsl", "/proc/version") if "microsoft" in kernel else None


def is_container(root: Path) -> bool:
    """Tell whether this is a container; in WSL too there can be some."""
    return _container(root) is not None


def _container(root: Path) -> Fact[str] | None:
    for name in _CONTAINER_FILES:
        if is_there(root / name):
            return measured("container", f"/{name}")
    groups = read_text(root / "proc/1/cgroup") or ""
    return measured("container", "/proc/1/cgroup") if any(mark in groups for mark in _CONTAINER_MARKS) else None


def _virtual_machine(root: Path) -> Fact[str] | None:
    if "hypervisor" in read_pairs(root / "proc/cpuinfo").get("flags", "").split():
        return measured("vm", "/proc/cpuinfo: hypervisor flag")
    dmi = root / "sys/class/dmi/id"  # Arm processors have no such flag
    maker, product = ((read_text(dmi / name) or "").lower() for name in ("sys_vendor", "product_name"))
    if maker.startswith(_VM_MAKERS) or any(name in product for name in _VM_PRODUCTS):
        return measured("vm", "/sys/class/dmi/id")
    if is_there(root / "proc/device-tree/hypervisor") or is_there(root / "sys/hypervisor/type"):
        return measured("vm", "/proc/device-tree/hypervisor, /sys/hypervisor/type")
    return None


def _bare() -> Fact[str]:
    return derived("bare", "/proc", note="No mark of a container, WSL or a hypervisor was found.")
