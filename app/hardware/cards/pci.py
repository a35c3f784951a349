"""PCI addresses in one form, and names of PCI devices from the lists that distributions install."""

import re
from pathlib import Path

from app.hardware.evidence import Evidence, NoAnswer
from app.hardware.facts import is_there

_ADDRESS = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])", re.IGNORECASE)
_AMD_LISTS = ("usr/share/libdrm/amdgpu.ids",)
_PCI_LISTS = ("usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids")
_AMD = 0x1002


def pci_address(text: str) -> str:
    """Return "0000:01:00.0" for what NVML ("00000000:01:00.0"), Vulkan and the kernel write; "" for anything else."""
    match = _ADDRESS.fullmatch(text.strip())
    if not match:
        return ""
    domain, bus, device, function = (int(part or "0", 16) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


def product_name(evidence: Evidence, vendor: int, device: int, revision: int) -> str:
    """Return what a card is sold as, or "" when no installed list knows it.

    Only the answer is remembered as evidence: the lists have a megabyte.
    """
    table = f"product_{vendor:04x}_{device:04x}_{revision:02x}"
    try:
        return evidence.read_table(table, str, lambda: _look_up_name(evidence.root, vendor, device, revision))
    except NoAnswer:
        return _look_up_in_record(evidence.root, vendor, device, revision)


def _look_up_in_record(root: Path, vendor: int, device: int, revision: int) -> str:
    """Look in the lists a record has itself, should it have any."""
    try:
        return _look_up_name(root, vendor, device, revision)
    except OSError:
        return ""


def _look_up_name(root: Path, vendor: int, device: int, revision: int) -> str:
    amd = next((path for name in _AMD_LISTS if is_there(path := Path(root) / name)), None)
    if vendor == _AMD and amd and (name := _amd_name(amd, device, revision)):
        return name
    ids = next((path for name in _PCI_LISTS if is_there(path := Path(root) / name)), None)
    return _pci_name(ids, vendor, device) if ids else ""


def _amd_name(path: Path, device: int, revision: int) -> str:
    """Look in libdrm's list: "744C, C8, AMD Radeon RX 7900 XTX"."""
    start = f"{device:04X},\t{revision:02X},\t"
    with path.open(encoding="utf-8", errors="replace") as lines:
        entry = next((line for line in lines if line.upper().startswith(start)), "")
    return entry[len(start) :].strip()


def _pci_name(path: Path, vendor: int, device: int) -> str:
    """Look in pci.ids: a vendor's line begins with its number, its devices' lines with a tab and theirs."""
    is_vendor = False
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.startswith(("\t", "#", "\n")):
                if is_vendor:
                    return ""
                is_vendor = line.startswith(f"{vendor:04x} ")
            elif is_vendor and line.startswith(f"\t{device:04x} "):
                return _name_in_brackets(line[5:].strip())
    return ""


def _name_in_brackets(name: str) -> str:
    """Return the product in brackets, "Radeon RX 7900 XTX" of "Navi 31 [Radeon RX 7900 XTX]", where there is one."""
    match = re.search(r"\[([^\]]+)\]\s*$", name)
    return match[1] if match else name
