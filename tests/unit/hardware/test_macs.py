"""What a Mac's programs print, read with care; Metal asked through a played Objective-C runtime."""

import ctypes
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.hardware.evidence import replay_evidence
from app.hardware.families import families_of
from app.hardware.macos import gpus
from app.hardware.macos.gpus import MacMemory, MetalDevice, cards_of, gpu_cores, has_only_virtual, mac_gpus
from app.hardware.macos.sysctl import available_memory, mac_cpu, mac_memory, mac_system

GIB = 1 << 30
M4_PRO: dict[str, Any] = {"_name": "Apple M4 Pro", "sppci_model": "Apple M4 Pro", "sppci_cores": "20"}


@pytest.mark.parametrize(
    ("total_gib", "share_gib"), [(8, 8 * 2 / 3), (24, 16), (32, 32 * 2 / 3), (36, 24), (48, 36), (64, 48), (128, 96)]
)
def test_the_usual_share_where_metal_was_not_asked(total_gib: int, share_gib: float) -> None:
    memory = MacMemory(total=total_gib * GIB, available=None)
    (gpu,) = mac_gpus([M4_PRO], [], memory)
    assert gpu.memory_total.value == int(share_gib * GIB)
    assert "not asked" in gpu.memory_total.note
    assert gpu.memory_free.value is None


@pytest.mark.parametrize(
    ("wired_gib", "metal_gib", "expected_gib"), [(0, 17, 17), (20, 17, 20), (0, 0, 16), (100, 17, 24)]
)
def test_a_limit_set_by_hand_comes_before_metals_and_metals_before_the_usual(
    wired_gib: int, metal_gib: int, expected_gib: int
) -> None:
    memory = MacMemory(total=24 * GIB, available=20 * GIB, wired_limit=wired_gib * GIB)
    (gpu,) = mac_gpus([M4_PRO], [MetalDevice(name="Apple M4 Pro", working_set=metal_gib * GIB)], memory)
    assert gpu.memory_total.value == expected_gib * GIB
    assert gpu.memory_free.value == min(expected_gib, 19) * GIB


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"SPDisplaysDataType": 3}', '{"SPDisplaysDataType": ["x"]}'])
def test_strange_reports_list_no_gpu(text: str) -> None:
    assert cards_of(text) == []


@pytest.mark.slow
@given(st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.dictionaries(st.text(), inner)))
def test_a_card_of_any_content_breaks_nothing(content: object) -> None:
    card = {**M4_PRO, "sppci_cores": content, "spdisplays_vram": content, "spdisplays_device-id": content}
    cards = cards_of(msgspec.json.encode({"SPDisplaysDataType": [card]}).decode())
    for displays in (cards, [{**cards[0], "sppci_model": "Radeon"}]):
        assert len(mac_gpus(displays, [], MacMemory(total=None, available=None))) == 1
    assert gpu_cores(cards) is None or isinstance(content, int | str)


def test_only_virtual_graphics_are_told_from_none() -> None:
    assert has_only_virtual([{"sppci_model": "Apple Paravirtual device"}])
    assert not has_only_virtual([])
    assert not has_only_virtual([M4_PRO])


@pytest.mark.parametrize(("page", "available_bytes"), [(16384, 40 * 16384), (4096, 40 * 4096)])
def test_available_memory_in_pages_of_either_size(page: int, available_bytes: int) -> None:
    text = (
        f"Mach Virtual Memory Statistics: (page size of {page} bytes)\nPages free:      10.\nPages active:   99.\n"
        'Pages inactive:   20.\nPages speculative:  5.\nPages purgeable:  5.\n"Translation faults":  7.\n'
    )
    assert available_memory(text).value == available_bytes


@pytest.mark.parametrize("text", ["", "page size of 16384 bytes", "Pages free: 3."])
def test_unreadable_statistics_are_unknown(text: str) -> None:
    assert available_memory(text).value is None


def test_nothing_said_is_unknown_not_zero() -> None:
    cpu, memory, system = mac_cpu({}), mac_memory({}, ""), mac_system({})
    for fact in (cpu.model, cpu.physical_cores, cpu.isa, memory.total, memory.swap_total, system.version):
        assert fact.value is None
        assert fact.note


def test_a_mac_that_prints_nothing_is_still_examined() -> None:
    with replay_evidence({"system": "macos"}) as evidence:
        parts = {name: family(evidence) for name, family in families_of("macos").items()}
    assert parts["base"].os is not None
    assert parts["apple"].absent


class PlayedRuntime:
    """An Objective-C runtime with one device; objects are made-up addresses."""

    DEVICE, NAME = 1000, 2000

    def __init__(self) -> None:
        self.names: list[bytes] = []
        self.characters = ctypes.create_string_buffer(b"Apple M4 Pro")
        self.sel_registerName = _Registering(self.names)
        kind = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)
        self.objc_msgSend = kind(self.send)

    def send(self, target: int, message: int, argument: int) -> int:
        message_sent = (target, self.names[message - 1].decode())
        if message_sent == (500, "objectAtIndex:"):
            return self.DEVICE + argument
        return {
            (500, "count"): 1,
            (self.DEVICE, "name"): self.NAME,
            (self.NAME, "UTF8String"): ctypes.addressof(self.characters),
            (self.DEVICE, "recommendedMaxWorkingSetSize"): 17_179_869_184,
            (self.DEVICE, "hasUnifiedMemory"): 1,
        }[message_sent]


class _Registering:
    restype: object = None

    def __init__(self, names: list[bytes]) -> None:
        self._names = names

    def __call__(self, name: bytes) -> int:
        self._names.append(name)
        return len(self._names)


class PlayedMetal:
    def __init__(self, devices: int) -> None:
        self.MTLCopyAllDevices = _Copying(devices)


class _Copying:
    restype: object = None

    def __init__(self, devices: int) -> None:
        self._devices = devices

    def __call__(self) -> int | None:
        return self._devices or None


@pytest.mark.parametrize(
    ("array", "devices"), [(500, [MetalDevice(name="Apple M4 Pro", working_set=17_179_869_184)]), (0, [])]
)
def test_metal_is_asked_by_messages(monkeypatch: pytest.MonkeyPatch, array: int, devices: list[MetalDevice]) -> None:
    runtime = PlayedRuntime()
    libraries = {"libobjc.A.dylib": runtime, "Metal": PlayedMetal(array), "CoreGraphics": object()}
    monkeypatch.setattr("app.hardware.macos.gpus.ctypes.CDLL", lambda path: libraries[path.rsplit("/", 1)[-1]])
    assert gpus.read_metal() == devices
