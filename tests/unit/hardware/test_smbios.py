"""The firmware's table of memory modules, built byte by byte as DMTF DSP0134 lays it out."""

import struct

from app.hardware.smbios import MemoryModule, parse_modules, theoretical_bandwidth

GIB = 1 << 30


def device(
    *, size: int = 16384, slot: str = "DIMM_A1", bank: str = "BANK 0", speed: int = 5600, configured_speed: int = 4800
) -> bytes:
    """Type 17 of version 3.2: size in MiB, or 0x7FFF and the real one behind; serial number between the strings."""
    long_size = 0 if size < 0x7FFF else size
    body = struct.pack(
        "<BBHHHHHHBBBBBHHBBBBBIHHHH",
        17,
        0x28,
        1,
        0,
        0xFFFE,
        64,
        64,
        min(size, 0x7FFF),
        9,
        0,
        1,
        2,
        34,
        0,
        speed,
        3,
        4,
        0,
        0,
        0,
        long_size,
        configured_speed,
        0,
        0,
        0,
    )
    texts = b"\0".join(text.encode() for text in (slot, bank, "Maker", "SERIAL42")) + b"\0\0"
    assert len(body) == 0x28
    return body + texts


SYSTEM = bytes((1, 8, 0, 0)) + b"\0" * 4 + b"Board\0SERIAL41\0\0"
END = bytes((127, 4, 0, 0)) + b"\0\0"


def test_modules_are_read_and_their_serial_numbers_are_not() -> None:
    (module,) = parse_modules(SYSTEM + device() + END)
    assert module == MemoryModule(slot="DIMM_A1", bank="BANK 0", size_bytes=16 * GIB, speed_mt_s=4800, width_bits=64)
    assert "SERIAL" not in repr(module)


def test_a_large_module_has_its_size_elsewhere_and_an_empty_slot_none() -> None:
    assert [module.size_bytes for module in parse_modules(device(size=128 * 1024) + device(size=0))] == [128 * GIB]


def test_the_speed_it_could_have_counts_only_without_the_one_it_has() -> None:
    assert parse_modules(device(configured_speed=0))[0].speed_mt_s == 5600


def test_a_table_cut_short_gives_what_is_whole() -> None:
    whole = device() + device(slot="DIMM_B1")
    assert len(parse_modules(whole[:-10])) == 1


def test_channels_are_told_by_board_makers_names() -> None:
    def rate(*slots: str) -> float | None:
        modules = [MemoryModule(slot=s, bank="", size_bytes=GIB, speed_mt_s=5000, width_bits=64) for s in slots]
        return theoretical_bandwidth(modules).value

    assert rate("DIMM_A1", "DIMM_A2") == 40.0
    assert rate("DIMM_A1", "DIMM_B1") == 80.0
    assert rate("Controller0-ChannelA-DIMM0", "Controller1-ChannelA-DIMM0") == 80.0
    assert rate("CPU1_DIMM_A1", "CPU2_DIMM_A1") == 80.0
    assert rate("P0 CHANNEL A", "P0 CHANNEL A") == 40.0
    assert rate("whatever", "whatever") == 80.0
    assert theoretical_bandwidth([]).value is None
