# ruff: noqa: N802 -- Vulkan's own names
"""The ctypes side of Vulkan against a library that fills the structures as a driver does.

The layouts were also read from a real loader and driver (llvmpipe of Mesa 22.3.6); here their sizes are held.
"""

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from app.hardware.cards import vulkan
from app.hardware.cards.vulkan import VulkanHeap, read_vulkan
from app.hardware.evidence import NoAnswer

GIB = 1 << 30
EXTENSIONS = [b"VK_EXT_memory_budget", b"VK_EXT_pci_bus_info", b"VK_KHR_cooperative_matrix", b"VK_KHR_swapchain"]


class Library:
    """One discrete card with 8 GiB; `result` is what creating an instance returns."""

    def __init__(self, extensions: list[bytes], result: int = 0) -> None:
        self.extensions = extensions
        self.result = result
        self.is_destroyed = False

    def vkCreateInstance(self, info: Any, _: None, instance: Any) -> int:  # noqa: ANN401 -- a byref
        assert info._obj.s_type == 1
        assert info._obj.application.contents.api_version == (1 << 22) | (1 << 12)
        instance._obj.value = 41
        return self.result

    def vkDestroyInstance(self, instance: Any, _: None) -> None:  # noqa: ANN401 -- as above
        self.is_destroyed = instance.value == 41

    def vkEnumeratePhysicalDevices(self, _: Any, count: Any, handles: Any) -> int:  # noqa: ANN401 -- as above
        count._obj.value, handles[0] = 1, 42
        return 0

    def vkEnumerateDeviceExtensionProperties(self, _: Any, __: None, count: Any, properties: Any) -> int:  # noqa: ANN401
        count._obj.value = len(self.extensions)
        for number, name in enumerate(self.extensions if properties else []):
            properties[number].name = name
        return 0

    def vkGetPhysicalDeviceProperties2(self, handle: Any, properties: Any) -> None:  # noqa: ANN401 -- as above
        assert handle.value == 42
        properties._obj.properties.name = b"Some Card"
        properties._obj.properties.vendor_id, properties._obj.properties.kind = 0x1002, 2
        for structure in self.list_chain(properties._obj):
            if isinstance(structure, vulkan._Pci):
                structure.address[:] = (0, 3, 0, 1)
            elif isinstance(structure, vulkan._Id):
                structure.device_uuid[:] = bytes(range(16))
            elif isinstance(structure, vulkan._Driver):
                structure.name, structure.info = b"radv", b"Mesa 25"

    def vkGetPhysicalDeviceMemoryProperties2(self, _: Any, properties: Any) -> None:  # noqa: ANN401 -- as above
        properties._obj.heap_count = 2
        properties._obj.heaps[0].size, properties._obj.heaps[0].flags = 8 * GIB, 1
        properties._obj.heaps[1].size = 16 * GIB
        for structure in self.list_chain(properties._obj):
            structure.budget[0], structure.usage[0] = 7 * GIB, GIB

    def list_chain(self, first: Any) -> list[Any]:  # noqa: ANN401 -- as above
        kinds = {number: kind for kind, number in vulkan._S_TYPES.items()}
        structures, at = [], first.next
        while at:
            kind = kinds[ctypes.c_uint32.from_address(at).value]
            structures.append(kind.from_address(at))
            at = structures[-1].next
        return structures


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library(EXTENSIONS)
    monkeypatch.setattr(vulkan, "ctypes", with_cdll(library))
    return library


def with_cdll(library: Library) -> SimpleNamespace:
    return SimpleNamespace(**{**vars(ctypes), "CDLL": lambda _: library})


def test_a_device_is_read_with_all_its_chained_answers(library: Library) -> None:
    (device,) = read_vulkan()
    assert (device.name, device.kind, device.vendor_id, device.driver) == ("Some Card", "discrete", 0x1002, "radv")
    assert (device.pci, device.uuid) == ("0000:03:00.1", "000102030405060708090a0b0c0d0e0f")
    assert device.extensions == ["VK_KHR_cooperative_matrix"]
    assert device.heaps == [
        VulkanHeap(size=8 * GIB, is_device_local=True, budget=7 * GIB, usage=GIB),
        VulkanHeap(size=16 * GIB, is_device_local=False, budget=0, usage=0),
    ]
    assert library.is_destroyed


def test_what_a_driver_does_not_offer_is_not_asked(library: Library) -> None:
    library.extensions = []
    (device,) = read_vulkan()
    assert (device.pci, device.heaps[0].budget) == ("", None)


def test_a_loader_without_drivers_is_no_answer(library: Library) -> None:
    library.result = -9  # VK_ERROR_INCOMPATIBLE_DRIVER
    with pytest.raises(NoAnswer, match="vkCreateInstance: error -9"):
        read_vulkan()


def test_no_loader_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_missing(name: str) -> None:
        raise OSError(f"{name}: cannot open")

    monkeypatch.setattr(vulkan, "ctypes", SimpleNamespace(**{**vars(ctypes), "CDLL": raise_missing}))
    with pytest.raises(NoAnswer, match="cannot open"):
        read_vulkan()


def test_layouts_are_those_of_the_header() -> None:
    sizes = {
        "_Properties2": 840,
        "_Memory2": 536,
        "_Budget": 272,
        "_Id": 64,
        "_Driver": 536,
        "_Pci": 32,
        "_Subgroup": 32,
    }
    assert {name: ctypes.sizeof(getattr(vulkan, name)) for name in sizes} == sizes
