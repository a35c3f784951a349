"""Names for the numbers by which Arm processors identify themselves (MIDR: implementer and part).

From the Linux kernel's arch/arm64/include/asm/cputype.h: those that can run a language model, newest kinds included.
"""

_VENDORS = {
    0x41: "ARM",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x50: "Applied Micro",
    0x51: "Qualcomm",
    0x53: "Samsung",
    0x61: "Apple",
    0x6D: "Microsoft",
    0xC0: "Ampere",
}
_PARTS = {
    (0x41, 0xD03): "Cortex-A53",
    (0x41, 0xD05): "Cortex-A55",
    (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD09): "Cortex-A73",
    (0x41, 0xD0A): "Cortex-A75",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse N1",
    (0x41, 0xD0D): "Cortex-A77",
    (0x41, 0xD40): "Neoverse V1",
    (0x41, 0xD41): "Cortex-A78",
    (0x41, 0xD42): "Cortex-A78AE",
    (0x41, 0xD44): "Cortex-X1",
    (0x41, 0xD46): "Cortex-A510",
    (0x41, 0xD47): "Cortex-A710",
    (0x41, 0xD48): "Cortex-X2",
    (0x41, 0xD49): "Neoverse N2",
    (0x41, 0xD4D): "Cortex-A715",
    (0x41, 0xD4E): "Cortex-X3",
    (0x41, 0xD4F): "Neoverse V2",
    (0x41, 0xD80): "Cortex-A520",
    (0x41, 0xD81): "Cortex-A720",
    (0x41, 0xD82): "Cortex-X4",
    (0x41, 0xD83): "Neoverse V3AE",
    (0x41, 0xD84): "Neoverse V3",
    (0x41, 0xD85): "Cortex-X925",
    (0x41, 0xD87): "Cortex-A725",
    (0x41, 0xD8E): "Neoverse N3",
    (0x46, 0x001): "A64FX",
    (0x48, 0xD01): "Kunpeng 920",
    (0x4E, 0x004): "Carmel",
    (0x4E, 0x010): "Olympus",
    (0x51, 0x001): "Oryon",
    (0x6D, 0xD49): "Azure Cobalt 100",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1A",
}


def arm_vendor(implementer: str) -> str:
    """Return the maker for "0x41"; what stands there if nobody known; "" if nothing does."""
    return _VENDORS.get(_parse_number(implementer), implementer)


def arm_part(implementer: str, part: str) -> str:
    """Return the core's name, such as "Neoverse V2", or "" for one we do not know."""
    return _PARTS.get((_parse_number(implementer), _parse_number(part)), "")


def _parse_number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        return -1
