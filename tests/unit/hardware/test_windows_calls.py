# ruff: noqa: N802, ANN401 -- the played libraries have Windows' own names and ctypes' arguments
"""How Windows is asked: layouts against their documentation, and played libraries in place of the real ones."""

import ctypes
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.hardware.evidence import Evidence, NoAnswer, live_evidence, replay_evidence
from app.hardware.families import families_of
from app.hardware.windows import calls, dxgi
from app.hardware.windows.calls import parse_processors, read_windows_memory
from app.hardware.windows.cpu import windows_cpu
from app.hardware.windows.dxgi import Pointer, adapter_address, adapters_of, luid_text, read_usage, sum_usage
from app.hardware.windows.gpus import registry_bytes
from app.hardware.windows.values import AdapterUsage, CoreKind, WindowsCpu

GIB = 1 << 30
NOT_FOUND = 0x887A0002 - (1 << 32)


@pytest.mark.parametrize(
    ("structure", "size"),
    [
        (calls._MemoryStatus, 64),
        (calls._JobLimits, 144),
        (dxgi._Desc1, 312),
        (dxgi._MemoryInfo, 32),
        (dxgi._Open, 12),
        (dxgi._Query, 24),
        (dxgi._CounterValue, 24),
    ],
)
def test_structures_are_as_large_as_on_64_bit_windows(structure: type[ctypes.Structure], size: int) -> None:
    assert ctypes.sizeof(structure) == size


@pytest.mark.parametrize(
    ("identifier", "bits"),
    [
        ("AMD64 Family 23 Model 8 Stepping 2", 128),
        ("AMD64 Family 23 Model 113 Stepping 0", None),
        ("Intel64 Family 6 Model 23", None),
        ("", None),
    ],
)
def test_processors_that_halve_vectors_are_known_by_their_numbers(identifier: str, bits: int | None) -> None:
    vendor = "AuthenticAMD" if "AMD" in identifier else "GenuineIntel"
    assert windows_cpu(WindowsCpu(vendor=vendor, identifier=identifier)).vector_bits.value == bits


def core_record(efficiency: int, *masks: int) -> bytes:
    groups = b"".join(struct.pack("<QH6x", mask, number) for number, mask in enumerate(masks))
    body = struct.pack("<BB20xH", 1, efficiency, len(masks)) + groups
    return struct.pack("<II", 0, 8 + len(body)) + body


def cache_record(level: int, size: int) -> bytes:
    body = struct.pack("<BBHII18xH", level, 8, 64, size, 0, 1) + struct.pack("<QH6x", 1, 0)
    return struct.pack("<II", 2, 8 + len(body)) + body


def test_processor_records_of_a_hybrid_machine() -> None:
    package = struct.pack("<II", 3, 48) + bytes(40)
    buffer = b"".join(
        [
            core_record(1, 0b11),
            cache_record(1, 48 << 10),
            cache_record(3, 24 << 20),
            package,
            core_record(1, 0b1100),
            core_record(0, 0b10000),
            cache_record(2, 2 << 20),
        ]
    )
    assert parse_processors(buffer) == ([CoreKind(1, 2, 2), CoreKind(0, 1, 1)], 24 << 20)


def test_caches_of_the_last_level_add_up_and_without_a_third_the_second_counts() -> None:
    assert parse_processors(cache_record(3, 32 << 20) * 2 + cache_record(2, 1 << 20))[1] == 64 << 20
    assert parse_processors(cache_record(2, 12 << 20) * 3)[1] == 36 << 20
    assert parse_processors(b"") == ([], 0)


@given(st.binary(max_size=200))
def test_damaged_processor_records_are_a_value_error_or_nothing(buffer: bytes) -> None:
    try:
        cores, cache = parse_processors(buffer)
    except (ValueError, struct.error, IndexError):
        return
    assert all(core.count for core in cores)
    assert cache >= 0


@pytest.mark.parametrize(
    ("size", "size_bytes"),
    [
        (34_208_743_424, 34_208_743_424),
        ("0000000008000000", 32 * GIB),
        ("00000008", 128 << 20),
        (16 << 20, None),
        ("0000000100000000", None),
        ("not hexadecimal", None),
        (None, None),
        (0, None),
    ],
)
def test_registry_size_in_either_type(size: int | str | None, size_bytes: int | None) -> None:
    assert registry_bytes(size) == size_bytes


class PlayedObject:
    """A COM object made of Python functions; it counts its references."""

    def __init__(self, slots: Mapping[int, tuple[Any, Callable[..., int]]]) -> None:
        self.references = 1
        slots = {2: (ctypes.CFUNCTYPE(ctypes.c_int32, Pointer), self._release), **slots}
        self._functions = [kind(function) for kind, function in slots.values()]
        self._table = (Pointer * (max(slots) + 1))()
        for slot, function in zip(slots, self._functions, strict=True):
            self._table[slot] = ctypes.cast(function, Pointer).value
        self._object = (Pointer * 1)(ctypes.addressof(self._table))
        self.address = ctypes.addressof(self._object)

    def give_to(self, target: Any) -> int:
        self.references += 1
        target[0] = self.address
        return 0

    def _release(self, _this: int) -> int:
        self.references -= 1
        return self.references


OUT = ctypes.POINTER(Pointer)
ENUM = ctypes.CFUNCTYPE(ctypes.c_int32, Pointer, ctypes.c_uint32, OUT)
QUERY = ctypes.CFUNCTYPE(ctypes.c_int32, Pointer, Pointer, OUT)
DESC = ctypes.CFUNCTYPE(ctypes.c_int32, Pointer, ctypes.POINTER(dxgi._Desc1))
MEMORY = ctypes.CFUNCTYPE(ctypes.c_int32, Pointer, ctypes.c_uint32, ctypes.c_int, ctypes.POINTER(dxgi._MemoryInfo))
ADAPTER3 = bytes.fromhex("a4675964 9213 1043 a798 8053ce3e93fd")


class PlayedAdapter(PlayedObject):
    def __init__(self, name: str, size: int, *, has_output: bool = True, knows_memory: bool = True) -> None:
        self.name, self.size, self.knows_memory = name, size, knows_memory
        self.asked_for = b""
        self.output = PlayedObject({}) if has_output else None
        slots: dict[int, tuple[Any, Callable[..., int]]] = {
            0: (QUERY, self.query),
            7: (ENUM, self.outputs),
            10: (DESC, self.desc),
            14: (MEMORY, self.memory),
        }
        super().__init__(slots)

    def query(self, _this: int, interface: int, target: Any) -> int:
        self.asked_for = ctypes.string_at(interface, 16)
        return self.give_to(target) if self.knows_memory else -0x7FFFBFFE

    def outputs(self, _this: int, number: int, target: Any) -> int:
        return self.output.give_to(target) if self.output and number == 0 else NOT_FOUND

    def desc(self, _this: int, target: Any) -> int:
        description = target[0]
        description.description[: len(self.name)] = [ord(letter) for letter in self.name]
        description.vendor, description.device, description.dedicated_video, description.shared_system = (
            0x1002,
            0x7550,
            self.size,
            2 * GIB,
        )
        description.luid_low, description.luid_high = 0xD1B2, 0
        return 0

    def memory(self, _this: int, _node: int, group: int, target: Any) -> int:
        target[0].budget, target[0].usage = self.size - group - 5, 3
        return 0


class PlayedFactory(PlayedObject):
    def __init__(self, adapters: list[PlayedAdapter]) -> None:
        self.adapters = adapters
        super().__init__({12: (ENUM, self.enumerate)})

    def enumerate(self, _this: int, number: int, target: Any) -> int:
        return self.adapters[number].give_to(target) if number < len(self.adapters) else NOT_FOUND


def test_adapters_are_read_through_their_tables_and_every_reference_is_given_back() -> None:
    played_adapters = [
        PlayedAdapter("AMD Radeon RX 9070 XT", 16 * GIB),
        PlayedAdapter("Old", GIB, has_output=False, knows_memory=False),
    ]
    factory = PlayedFactory(played_adapters)
    first, second = adapters_of(Pointer(factory.address), lambda low, _high: ([3, 0, 0] if low == 0xD1B2 else [], 11))
    assert (first.name, first.dedicated_video, first.shared_system) == ("AMD Radeon RX 9070 XT", 16 * GIB, 2 * GIB)
    assert (first.local_budget, first.local_usage, first.has_output) == (16 * GIB - 5, 3, True)
    assert (first.luid, first.address, first.kind) == ("0x00000000_0x0000d1b2", [3, 0, 0], 11)
    assert (second.local_budget, second.has_output) == (None, False)
    assert played_adapters[0].asked_for == ADAPTER3
    assert played_adapters[0].output is not None
    assert [
        factory.references,
        *(entry.references for entry in played_adapters),
        played_adapters[0].output.references,
    ] == [1] * 4


def test_luids_are_written_as_counters_write_them() -> None:
    assert luid_text(0xABCDEF01, -1) == "0xffffffff_0xabcdef01"


def play_library(monkeypatch: pytest.MonkeyPatch, library: object) -> None:
    for module in (calls, dxgi, dxgi):
        monkeypatch.setattr(module, "load_library", lambda _name: library)


class PlayedKernel32:
    def __init__(self, *, installed_kib: int = 0, flags: int = 0) -> None:
        self.installed_kib, self.flags = installed_kib, flags

    def GlobalMemoryStatusEx(self, reference: Any) -> int:
        status = reference._obj
        assert status.length == 64
        status.total, status.available = 31 * GIB, 20 * GIB
        status.commit_limit, status.commit_available = 40 * GIB, 25 * GIB
        return 1

    def GetPhysicallyInstalledSystemMemory(self, reference: Any) -> int:
        reference._obj.value = self.installed_kib
        return int(bool(self.installed_kib))

    def QueryInformationJobObject(self, job: None, kind: int, reference: Any, size: int, _length: None) -> int:
        assert (job, kind, size) == (None, 9, 144)
        limits = reference._obj
        limits.flags, limits.process_memory, limits.job_memory = self.flags, 6 * GIB, 4 * GIB
        return 1


@pytest.mark.parametrize(("flags", "limit"), [(0, None), (0x2000, None), (0x100, 6 * GIB), (0x300, 4 * GIB)])
def test_memory_by_the_system_the_firmware_and_the_job(
    monkeypatch: pytest.MonkeyPatch, flags: int, limit: int | None
) -> None:
    play_library(monkeypatch, PlayedKernel32(installed_kib=32 << 20, flags=flags))
    windows_memory = read_windows_memory()
    assert (windows_memory.total, windows_memory.available, windows_memory.installed) == (31 * GIB, 20 * GIB, 32 * GIB)
    assert windows_memory.job_limit == limit


def test_firmware_that_does_not_say_how_much_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    play_library(monkeypatch, PlayedKernel32())
    assert read_windows_memory().installed is None


class PlayedGdi:
    def __init__(self, address: list[int], *, opens: bool = True) -> None:
        self.address, self.opens, self.closed_handle = address, opens, 0

    def D3DKMTOpenAdapterFromLuid(self, reference: Any) -> int:
        reference._obj.handle = 0x40000040
        return 0 if self.opens else -1

    def D3DKMTQueryAdapterInfo(self, reference: Any) -> int:
        query = reference._obj
        assert query.handle == 0x40000040
        answers = {6: self.address, 15: [0x2B]}[query.kind]
        assert query.size == 4 * len(answers)
        ctypes.memmove(query.data, struct.pack(f"<{len(answers)}I", *answers), query.size)
        return 0

    def D3DKMTCloseAdapter(self, reference: Any) -> int:
        self.closed_handle = reference._obj.value
        return 0


def test_an_adapters_place_on_the_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    gdi = PlayedGdi([1, 0, 0])
    play_library(monkeypatch, gdi)
    assert adapter_address(0xD1B2, 0) == ([1, 0, 0], 0x2B)
    assert gdi.closed_handle == 0x40000040


def test_an_adapter_that_is_on_no_bus_or_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    play_library(monkeypatch, PlayedGdi([0xFFFFFFFF] * 3))
    assert adapter_address(1, 0) == ([], 0x2B)
    play_library(monkeypatch, PlayedGdi([], opens=False))
    assert adapter_address(1, 0) == ([], None)


class PlayedPdh:
    """Performance counters: each path has its instances."""

    def __init__(self, instances: dict[str, list[tuple[str, int, int]]]) -> None:
        self.instances, self.paths, self.is_closed, self.name_buffers = instances, list[str](), False, list[Any]()

    def PdhOpenQueryW(self, _source: None, _data: Any, reference: Any) -> int:
        reference._obj.value = 77
        return 0

    def PdhAddEnglishCounterW(self, query: Any, path: Any, _data: Any, reference: Any) -> int:
        assert query.value == 77
        self.paths.append(path.value)
        reference._obj.value = len(self.paths)
        return 0 if path.value in self.instances else -1

    def PdhCollectQueryData(self, _query: Any) -> int:
        return 0

    def PdhGetFormattedCounterArrayW(self, counter: Any, kind: int, size: Any, count: Any, buffer: Any) -> int:
        assert kind == 0x400
        entries = self.instances[self.paths[counter.value - 1]]
        if buffer is None:
            size._obj.value, count._obj.value = 24 * len(entries), len(entries)
            return 0x800007D2 - (1 << 32)
        items = (dxgi._CounterValue * len(entries)).from_buffer(buffer)
        for item, (name, status, value) in zip(items, entries, strict=True):
            self.name_buffers.append(ctypes.create_unicode_buffer(name))
            item.name, item.status, item.value = ctypes.addressof(self.name_buffers[-1]), status, value
        return 0

    def PdhCloseQuery(self, _query: Any) -> int:
        self.is_closed = True
        return 0


DEDICATED, SHARED = r"\GPU Adapter Memory(*)\Dedicated Usage", r"\GPU Adapter Memory(*)\Shared Usage"


def test_what_all_programs_use_of_each_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    pdh = PlayedPdh(
        {
            DEDICATED: [
                ("luid_0x00000000_0x0000D1B2_phys_0", 0, 5 * GIB),
                ("luid_0x00000000_0x0000D1B2_phys_1", 1, GIB),
            ],
            SHARED: [
                ("luid_0x00000000_0x0000D1B2_phys_0", 0, GIB),
                ("luid_0x00000000_0x0000AAAA_phys_0", 0xC0000BBA, 9),
            ],
        }
    )
    play_library(monkeypatch, pdh)
    assert read_usage() == [AdapterUsage(luid="0x00000000_0x0000d1b2", dedicated=6 * GIB, shared=GIB)]
    assert pdh.is_closed


def test_a_system_without_such_counters_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    pdh = PlayedPdh({})
    play_library(monkeypatch, pdh)
    with pytest.raises(NoAnswer, match="no counters"):
        read_usage()
    assert pdh.is_closed


def test_other_counters_are_left_out() -> None:
    assert sum_usage({"dedicated": [("_Total", 5), ("luid_0x1_0x2_phys_0", 5)]}) == []


@pytest.mark.skipif(sys.platform == "win32", reason="There Windows answers.")
def test_asking_windows_where_there_is_none_is_no_answer_and_leaves_a_record() -> None:
    evidence = live_evidence()
    part = families_of("windows")["display"](evidence)
    assert part.absent
    with replay_evidence({**evidence.export_raw(), "system": "windows"}) as replay:
        assert families_of("windows")["display"](replay).absent == part.absent


def test_a_record_without_memory_leaves_the_base_unanswered() -> None:
    with replay_evidence({"system": "windows"}) as evidence, pytest.raises(NoAnswer):
        base(evidence)


def base(evidence: Evidence) -> object:
    return families_of("windows")["base"](evidence)
