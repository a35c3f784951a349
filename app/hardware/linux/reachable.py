"""Whether programs here can reach the GPUs: containers are often not given them, accounts not let in."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.core.machine import Fact, Gpu
from app.hardware.evidence import Evidence, NoAnswer
from app.hardware.facts import is_there, measured_fact, read_int, read_pairs

_RENDER, _KFD = "dev/dri", "dev/kfd"
_NVIDIA_NODES = ("dev/nvidiactl", "dev/nvidia0", "dev/dxg")
_NVIDIA = 0x10DE
_DISPLAY_CLASS = 0x03


def split_reachable(
    evidence: Evidence, gpus: Sequence[Gpu], *, is_container: bool
) -> tuple[list[Gpu], list[Fact[str]]]:
    """Return the GPUs programs can reach, and a sentence for whatever keeps them from others."""
    root = evidence.root
    if is_container and not is_there(root / _RENDER):
        return [], [_not_given(gpu.name.value or gpu.id) for gpu in gpus] + list(_nvidia_not_given(root))
    limits = list(_nvidia_not_given(root)) if is_container else []
    if any(gpu.vendor == "amd" for gpu in gpus):
        limits += _no_rocm(evidence, is_container=is_container)
    return list(gpus), limits


def _nvidia_not_given(root: Path) -> Iterator[Fact[str]]:
    """/sys shows a container every card of the computer; /dev only what it was given."""
    if any(is_there(root / node) for node in _NVIDIA_NODES):
        return
    for folder in sorted((root / "sys/bus/pci/devices").glob("*")):
        is_display = (read_int(folder / "class") or 0) >> 16 == _DISPLAY_CLASS
        has_driver = read_pairs(folder / "uevent", "=").get("DRIVER") == "nvidia"
        if read_int(folder / "vendor") == _NVIDIA and is_display and has_driver:
            yield _not_given(f"The NVIDIA GPU at {folder.name}")


def _not_given(what: str) -> Fact[str]:
    return measured_fact(f"{what} was not given to this container; start it with --gpus all, or with --device.", "/dev")


def _no_rocm(evidence: Evidence, *, is_container: bool) -> list[Fact[str]]:
    if not is_there(evidence.root / _KFD):
        missing = "ROCm cannot be used: there is no /dev/kfd."
        return [measured_fact(missing, "/dev/kfd")] if is_container else []
    try:
        may_open = evidence.read_table("may_open_kfd", bool, lambda: os.access("/dev/kfd", os.R_OK | os.W_OK))
    except NoAnswer:
        return []
    sentence = "This account may not use ROCm: it has no access to /dev/kfd. Add it to the groups render and video."
    return [] if may_open else [measured_fact(sentence, "/dev/kfd")]
