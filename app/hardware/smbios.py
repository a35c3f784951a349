"""Memory modules as the firmware describes them (SMBIOS type 17), and the bandwidth they come to.

Linux shows the table to root only. Of each module only what decides bandwidth is kept: never its serial number.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from app.core.machine import Fact
from app.hardware.evidence import Evidence, NoAnswer
from app.hardware.facts import derived_fact, unknown_fact

_TABLE = "sys/firmware/dmi/tables/DMI"
_MEMORY_DEVICE = 17
_HEADER = 4
_NOT_SAID = {0, 0xFFFF}
_SIZE_ELSEWHERE = 0x7FFF
_WIDTH, _SIZE, _SLOT, _BANK, _SPEED, _LONG_SIZE, _CONFIGURED_SPEED = 0x0A, 0x0C, 0x10, 0x11, 0x15, 0x1C, 0x20
"""Offsets in a type 17 structure: DMTF DSP0134, section 7.18."""
_LONGEST = 1 << 20
"""Real tables have some ten thousand bytes."""
_CHANNEL = re.compile(r"ch(?:annel|an)?[ _-]?([a-z0-9])|dimm[ _-]?([a-z])\d|[ _-]([a-z])\d$", re.IGNORECASE)
_SOCKET = re.compile(r"(?:cpu|p|proc|node|controller|mc)[ _-]?(\d+)", re.IGNORECASE)
"""Board makers name slots as they like: "Controller1-ChannelA-DIMM0", "P0 CHANNEL A", "DIMM_A1", "CPU1_DIMM_B2"."""


class MemoryModule(msgspec.Struct, frozen=True, kw_only=True):
    """One populated slot: its places' names, bytes, transfers per second (in millions), and data bits at once."""

    slot: str
    bank: str
    size_bytes: int
    speed_mt_s: int
    width_bits: int


def ask_modules(evidence: Evidence) -> list[MemoryModule]:
    """Return the populated slots; empty when the firmware's table cannot be read."""
    try:
        return evidence.read_table(
            "memory_modules", list[MemoryModule], lambda: parse_modules(_read_table(evidence.root))
        )
    except NoAnswer:
        return []


def theoretical_bandwidth(memory_modules: Sequence[MemoryModule]) -> Fact[float]:
    """Return GB/s: the channels' widths times their transfer rate. Two modules on one channel count once."""
    if not memory_modules:
        return unknown_fact("SMBIOS type 17", "The firmware's table of memory modules cannot be read.", unit="GB/s")
    channels: dict[str, int] = {}
    for number, module in enumerate(memory_modules):
        name = _channel_name(module) or f"slot {number}"
        channels[name] = max(channels.get(name, 0), module.width_bits * module.speed_mt_s)
    total = sum(channels.values()) / 8 / 1000
    count = len(channels)
    return derived_fact(total, "SMBIOS type 17", unit="GB/s", note=f"{count} channels, configured speed x data width")


def _channel_name(module: MemoryModule) -> str:
    """Return which channel a module sits on, or "" when the board does not say: then it counts as one of its own."""
    for text in (module.slot, module.bank):
        match = _CHANNEL.search(text)
        if match:
            sockets = _SOCKET.findall(f"{module.slot} {module.bank}")
            return "-".join([*sockets, next(group for group in match.groups() if group).upper()])
    return ""


def parse_modules(table: bytes) -> list[MemoryModule]:
    """Return the populated memory devices of an SMBIOS table. A table that ends in the middle gives what is whole."""
    return [module for body, texts in _iter_structures(table) if (module := _parse_module(body, texts))]


def _read_table(root: Path) -> bytes:
    with (root / _TABLE).open("rb") as file:
        return file.read(_LONGEST)


def _iter_structures(table: bytes) -> Iterator[tuple[bytes, list[str]]]:
    """Yield (formatted part, strings) of each structure: DMTF DSP0134, section 6.1."""
    at = 0
    while at + _HEADER <= len(table):
        length = table[at + 1]
        end = table.find(b"\0\0", at + length)
        if length < _HEADER or end < 0:
            return
        texts = table[at + length : end].split(b"\0")
        yield table[at : at + length], [text.decode("latin-1") for text in texts]
        at = end + 2


def _parse_module(body: bytes, texts: list[str]) -> MemoryModule | None:
    """Read a type 17 structure. None for other types and empty slots."""
    if body[0] != _MEMORY_DEVICE or len(body) <= _SPEED:
        return None
    speed = _read_word(body, _CONFIGURED_SPEED) or _read_word(body, _SPEED)  # as it runs, else as it could
    size, width = _size_bytes(body), _read_word(body, _WIDTH)
    if not size or _NOT_SAID & {speed, width}:
        return None
    return MemoryModule(
        slot=_structure_text(texts, body[_SLOT]),
        bank=_structure_text(texts, body[_BANK]),
        size_bytes=size,
        speed_mt_s=speed,
        width_bits=width,
    )


def _size_bytes(body: bytes) -> int:
    """Return the size; 0 when the slot is empty. The top bit says KiB, all others set that it stands elsewhere."""
    size = _read_word(body, _SIZE)
    if size in _NOT_SAID:
        return 0
    if size == _SIZE_ELSEWHERE:
        return (int.from_bytes(body[_LONG_SIZE : _LONG_SIZE + 4], "little") & 0x7FFFFFFF) << 20
    return (size & 0x7FFF) << (10 if size & 0x8000 else 20)


def _read_word(body: bytes, offset: int) -> int:
    return int.from_bytes(body[offset : offset + 2], "little") if len(body) >= offset + 2 else 0


def _structure_text(texts: list[str], number: int) -> str:
    return texts[number - 1] if 0 < number <= len(texts) else ""
