"""What control groups leave us of memory and processors (Linux; containers, systemd slices, Slurm).

A limit can sit on any level, so every group from ours up to the root is looked at and the lowest limit counts.
Page cache a group could drop counts as free: a container that has just read a model would look full otherwise.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from app.hardware.facts import parse_decimal, read_bytes, read_int, read_pairs, read_text

_V1_NO_LIMIT = 1 << 60
"""cgroup v1 writes a huge number, rounded to pages, where v2 writes "max"."""


class MemoryLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The tightest limit above us: bytes allowed, bytes in use that cannot be dropped, and the file that says so."""

    limit: int
    used: int
    source: str


def memory_limit(root: Path = Path("/")) -> MemoryLimit | None:
    """Return the limit that leaves the least room, or None when nothing limits us."""
    limits = [*_v2_limits(root), *_v1_limits(root)]
    return min(limits, key=lambda candidate: candidate.limit - candidate.used, default=None)


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the lowest number of processors any group above us allows, or None."""
    quotas = []
    for folder in _v2_folders(root):
        allowed_quota, _, each = (read_text(folder / "cpu.max") or "").partition(" ")
        amount, period = parse_decimal(allowed_quota), parse_decimal(each)
        if amount and period:
            quotas.append(amount / period)
    for folder in _v1_folders(root, "cpu"):
        amount_us = read_int(folder / "cpu.cfs_quota_us") or -1
        period_us = read_int(folder / "cpu.cfs_period_us") or 0
        if amount_us > 0 and period_us > 0:
            quotas.append(amount_us / period_us)
    return min(quotas, default=None)


def _v2_limits(root: Path) -> Iterator[MemoryLimit]:
    for folder in _v2_folders(root):
        used_bytes = _unreclaimable_bytes(folder, "memory.current", "inactive_file")
        for name in ("memory.max", "memory.high"):
            limit = read_bytes(folder / name)
            if limit is not None:
                yield MemoryLimit(limit=limit, used=used_bytes, source="/" + str((folder / name).relative_to(root)))


def _v1_limits(root: Path) -> Iterator[MemoryLimit]:
    for folder in _v1_folders(root, "memory"):
        limit = read_int(folder / "memory.limit_in_bytes")
        if limit is not None and limit < _V1_NO_LIMIT:
            used_bytes = _unreclaimable_bytes(folder, "memory.usage_in_bytes", "total_inactive_file")
            source = "/" + str((folder / "memory.limit_in_bytes").relative_to(root))
            yield MemoryLimit(limit=limit, used=used_bytes, source=source)


def _unreclaimable_bytes(folder: Path, usage: str, cache: str) -> int:
    used_bytes = read_int(folder / usage) or 0
    cached_bytes = read_pairs(folder / "memory.stat", " ").get(cache, "0")
    return max(0, used_bytes - (parse_decimal(cached_bytes) or 0))


def _v2_folders(root: Path) -> Iterator[Path]:
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        if line.startswith("0::"):
            yield from _group_folders(root / "sys/fs/cgroup", line[3:])


def _v1_folders(root: Path, controller: str) -> Iterator[Path]:
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controller in controllers.split(","):
            yield from _group_folders(root / "sys/fs/cgroup" / controller, path)


def _group_folders(mount: Path, path: str) -> Iterator[Path]:
    """Yield the group's folder and its parents up to the mount; a path from outside our namespace is just the mount."""
    parts = [part for part in path.split("/") if part not in {"", ".", ".."}]
    for length in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:length])
