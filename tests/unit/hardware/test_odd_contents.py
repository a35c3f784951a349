"""Whatever stands in the files and answers of a system, the readers end with a machine that can be sent as JSON."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.machine import Machine
from app.hardware.assemble import examine_evidence
from app.hardware.engine_devices import with_engine_devices
from app.hardware.evidence import replay_evidence
from app.hardware.smbios import parse_modules
from tests.machine_fixtures import fixtures

PATHS = sorted({path for fixture in fixtures("linux") for path in fixture.evidence()["files"] if "[" not in path})
ODD = (
    *("", "0", "-1", "²", "٣", "9" * 18, "9" * 400, "0x", "0xffffffffffffffffffff", "max", "1e9", "NaN", "-0x8"),
    *("0-99999999999", "3-1", ",,-", ":", "\x00", "a\x00b", "=\n=", "processor\t: 0\nflags\t: \n", "DRIVER=amdgpu"),
    *("0x1002", "0x8086", "0x10de", "PCI_SLOT_NAME=0000:00:02.0\nDRIVER=xe", "0::/a/b", "9:memory:/x", "32768K", "9K"),
    *("gfx_target_version 999999999999\ndrm_render_minor 128", "HugePages_Total: 999999999999999\nHugepagesize: 9"),
)
CONTENTS = st.one_of(st.sampled_from(ODD), st.text(max_size=60), st.integers().map(str))
WORDS = st.one_of(
    st.sampled_from(["", "Not Supported", "Orin (nvgpu)", "570.1", "x.y", "9.0", "²"]), st.text(max_size=9)
)


def raw(files: Mapping[str, str], **tables: Any) -> dict[str, Any]:  # noqa: ANN401 -- JSON of any shape
    return {"system": "linux", "files": files, **tables}


def examined_from(evidence: Mapping[str, Any]) -> Machine:
    with replay_evidence(evidence) as door:
        return examine_evidence(door)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(PATHS), CONTENTS, max_size=40))
def test_files(files: dict[str, str]) -> None:
    machine = examined_from(raw(files))
    assert msgspec.json.decode(msgspec.json.encode(machine), type=Machine) == machine


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_one_damaged_file_of_a_real_machine(data: st.DataObject) -> None:
    evidence = data.draw(st.sampled_from(fixtures("linux"))).evidence()
    damaged_file = data.draw(st.sampled_from(sorted(evidence["files"])))
    machine = examined_from(evidence | {"files": evidence["files"] | {damaged_file: data.draw(CONTENTS)}})
    assert msgspec.json.encode(machine)


NUMBERS = st.one_of(st.none(), st.integers(min_value=-5, max_value=2**62))
NVML = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("name", "bus_id", "uuid", "memory_error", "compute"), WORDS),
        **dict.fromkeys(("memory_total", "memory_free", "architecture", "bus_width_bits", "memory_clock_mhz"), NUMBERS),
        **dict.fromkeys(("max_pcie_width", "addressing_mode"), NUMBERS),
        "nvlinks": st.lists(st.booleans(), max_size=3),
        "is_mig": st.booleans(),
    },
)
HEAP = st.fixed_dictionaries(
    {"size": st.integers(0, 2**62), "is_device_local": st.booleans()}, optional={"budget": NUMBERS, "usage": NUMBERS}
)
VULKAN = st.fixed_dictionaries(
    {"name": WORDS, "kind": st.sampled_from(["discrete", "integrated", "virtual", "cpu", "other"])},
    optional={
        **dict.fromkeys(("driver", "pci", "uuid"), WORDS),
        "vendor_id": st.sampled_from([0x10DE, 0x1002, 0x8086, 0x14E4, 7]),
        "heaps": st.lists(HEAP, max_size=3),
    },
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(WORDS, st.lists(NVML, max_size=4), st.lists(VULKAN, max_size=4))
def test_answers_of_drivers(driver: str, nvidia: list[dict[str, Any]], vulkan: list[dict[str, Any]]) -> None:
    files = {"proc/meminfo": "MemTotal: 32768000 kB\nMemAvailable: 28000000 kB\n"}
    machine = examined_from(raw(files, nvml={"driver": driver, "devices": nvidia}, vulkan=vulkan))
    assert msgspec.json.encode(machine)
    assert len({gpu.id for gpu in machine.gpus}) == len(machine.gpus)
    for pool in machine.pools:
        for amount in (pool.free.value, pool.addressable.value):
            assert pool.physical.value is None or amount is None or amount <= pool.physical.value


@given(st.binary(max_size=300))
def test_firmware_tables(table: bytes) -> None:
    assert all(module.size_bytes > 0 for module in parse_modules(table))


@given(st.lists(st.text(max_size=60), max_size=5))
def test_lines_of_an_engine(lines: list[str]) -> None:
    machine = examined_from(raw({}))
    assert all(device.engine == "any" for device in with_engine_devices(machine, "any", lines).engine_devices)
