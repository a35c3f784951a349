"""Apple GPUs from `system_profiler`, and the share of memory Metal may use.

The share: `iogpu.wired_limit_mb` if somebody set it; else two thirds of memory up to 36 GiB and three quarters above,
which is what Metal's recommendedMaxWorkingSetSize comes to on the machines it was published for. 0 means "default
policy", not "no limit".
"""

import subprocess
from typing import Any

import msgspec
import psutil

from app.core.machine import Fact, Gpu
from app.hardware.facts import derived, measured, unknown

_PROFILER = ["/usr/sbin/system_profiler", "SPDisplaysDataType", "-json"]
_WIRED_LIMIT = ["/usr/sbin/sysctl", "-n", "iogpu.wired_limit_mb"]
_TIMEOUT_S = 6.0
_MIB = 1 << 20
_LARGE = 36 << 30


def read_apple() -> list[Gpu]:
    """Return the GPUs of this Mac."""
    report = msgspec.json.decode(_run(_PROFILER) or "{}")
    wired = _run(_WIRED_LIMIT).strip()
    return parse_displays(report, int(psutil.virtual_memory().total), int(wired) if wired.isdigit() else 0)


def parse_displays(report: Any, memory_bytes: int, wired_limit_mib: int) -> list[Gpu]:  # noqa: ANN401 -- any JSON
    """Return the GPUs in a `system_profiler` report of a machine with so much memory."""
    cards = report.get("SPDisplaysDataType", []) if isinstance(report, dict) else []
    return [_gpu(card, memory_bytes, wired_limit_mib) for card in cards if isinstance(card, dict)]


def _gpu(card: dict[str, Any], memory_bytes: int, wired_limit_mib: int) -> Gpu:
    name = str(card.get("sppci_model") or card.get("_name") or "GPU")
    is_apple = name.startswith("Apple")
    total = _share(memory_bytes, wired_limit_mib) if is_apple else _none("Not looked for on Intel Macs.")
    return Gpu(
        id=str(card.get("_name") or name),
        vendor="apple" if is_apple else str(card.get("spdisplays_vendor", "unknown")).lower(),
        name=measured(name, "system_profiler"),
        memory_total=total,
        memory_free=_none("macOS does not say; it is part of system memory."),
        driver=unknown("", "Part of macOS."),
        compute=_metal(card),
        integrated=derived(is_apple, "system_profiler", note="Apple silicon shares one pool of memory"),
    )


def _share(memory_bytes: int, wired_limit_mib: int) -> Fact[int]:
    if wired_limit_mib:
        return measured(wired_limit_mib * _MIB, "sysctl iogpu.wired_limit_mb", unit="B")
    share = memory_bytes * 3 // 4 if memory_bytes > _LARGE else memory_bytes * 2 // 3
    return derived(share, "hw.memsize", unit="B", note="Metal's default: 2/3 of memory, 3/4 above 36 GiB")


def _metal(card: dict[str, Any]) -> Fact[str]:
    family = card.get("spdisplays_mtlgpufamilysupport")
    if family:
        return measured(str(family).removeprefix("spdisplays_"), "system_profiler")
    return unknown("system_profiler", "No Metal family is given.")


def _none(note: str) -> Fact[int]:
    return unknown("system_profiler", note, unit="B")


def _run(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
