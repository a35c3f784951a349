"""Which Linux this is, and whether it runs on the bare machine, in a VM, a container or WSL."""

import platform
from pathlib import Path

import msgspec

from app.core.machine import Fact, OperatingSystem
from app.hardware.evidence import Evidence, NoAnswer
from app.hardware.facts import derived_fact, is_there, measured_fact, read_pairs, read_text, unknown_fact

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
    uname = _read_uname(evidence)
    machine = uname.machine.lower()
    return OperatingSystem(
        name=measured_fact("Linux" if evidence.system == "linux" else evidence.system, "sys.platform"),
        version=_version_fact(evidence),
        kernel=_text_fact(uname.release, "uname"),
        architecture=_text_fact(_ARCHITECTURES.get(machine, machine), "uname"),
        environment=_environment_fact(evidence),
    )


def _read_uname(evidence: Evidence) -> Uname:
    try:
        return evidence.read_table(
            "uname", Uname, lambda: Uname(release=platform.release(), machine=platform.machine())
        )
    except NoAnswer:
        return Uname()


def _text_fact(text: str, source: str) -> Fact[str]:
    return measured_fact(text, source) if text else unknown_fact(source, "Nothing is said there.")


def _version_fact(evidence: Evidence) -> Fact[str]:
    name = read_pairs(evidence.root / "etc/os-release", "=").get("PRETTY_NAME", "").strip('"')
    if name:
        return measured_fact(name, "/etc/os-release")
    return unknown_fact("/etc/os-release", "The file has no PRETTY_NAME.")


def _environment_fact(evidence: Evidence) -> Fact[str]:
    return _wsl_fact(evidence.root) or _container_fact(evidence.root) or _virtual_machine(evidence.root) or _bare_fact()


def _wsl_fact(root: Path) -> Fact[str] | None:
    kernel = (read_text(root / "proc/version") or "").lower()
    return measured_fact("wsl", "/proc/version") if "microsoft" in kernel else None


def is_container(root: Path) -> bool:
    """Tell whether this is a container; in WSL too there can be some."""
    return _container_fact(root) is not None


def _container_fact(root: Path) -> Fact[str] | None:
    for name in _CONTAINER_FILES:
        if is_there(root / name):
            return measured_fact("container", f"/{name}")
    groups = read_text(root / "proc/1/cgroup") or ""
    return measured_fact("container", "/proc/1/cgroup") if any(mark in groups for mark in _CONTAINER_MARKS) else None


def _virtual_machine(root: Path) -> Fact[str] | None:
    if "hypervisor" in read_pairs(root / "proc/cpuinfo").get("flags", "").split():
        return measured_fact("vm", "/proc/cpuinfo: hypervisor flag")
    dmi = root / "sys/class/dmi/id"  # Arm processors have no such flag
    maker, product = ((read_text(dmi / name) or "").lower() for name in ("sys_vendor", "product_name"))
    if maker.startswith(_VM_MAKERS) or any(name in product for name in _VM_PRODUCTS):
        return measured_fact("vm", "/sys/class/dmi/id")
    if is_there(root / "proc/device-tree/hypervisor") or is_there(root / "sys/hypervisor/type"):
        return measured_fact("vm", "/proc/device-tree/hypervisor, /sys/hypervisor/type")
    return None


def _bare_fact() -> Fact[str]:
    return derived_fact("bare", "/proc", note="No mark of a container, WSL or a hypervisor was found.")
