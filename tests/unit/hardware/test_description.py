"""A few lines of JSON become a machine to plan for; nonsense is refused with a sentence."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadRequest
from app.core.machine import Confidence, Machine
from app.hardware.description import machine_from

GIB = 1 << 30


def machine(**query_fields: Any) -> Machine:  # noqa: ANN401 -- any JSON
    return machine_from(json.dumps(query_fields).encode())


def test_a_workstation_as_documented() -> None:
    card = {"name": "RTX 3090", "vram_gb": 24, "count": 2, "compute_capability": "8.6", "nvlink": True}
    described_machine = machine(os="linux", cpu="AMD Ryzen 9 7950X", ram_gb=64, gpus=[card])
    assert described_machine.os.name.value == "Linux"
    assert described_machine.memory.total.value == 64 * GIB
    assert [gpu.compute.value for gpu in described_machine.gpus] == ["8.6", "8.6"]
    assert [gpu.nvlink.value for gpu in described_machine.gpus] == [True, True]
    assert len({gpu.id for gpu in described_machine.gpus}) == 2
    assert [pool.id for pool in described_machine.pools] == ["system", *(gpu.id for gpu in described_machine.gpus)]
    assert all(gpu.pool == gpu.id for gpu in described_machine.gpus)


def test_a_name_alone_tells_the_rest() -> None:
    (card,) = machine(gpus=[{"name": "NVIDIA GeForce RTX 4090"}]).gpus
    assert card.vendor == "nvidia"
    assert card.memory_total.value == 24 * GIB
    assert card.memory_total.confidence is Confidence.TABLE
    assert card.compute.value == "8.9"
    assert card.bandwidth_gb_s.value == 1008


def test_a_mac_is_one_pool() -> None:
    described_machine = machine(os="macos", cpu="Apple M4 Max", ram_gb=64)
    (gpu,) = described_machine.gpus
    assert described_machine.os.architecture.value == "arm64"
    assert described_machine.memory.unified.value is True
    assert gpu.memory_total.value == 48 * GIB
    assert [(pool.id, pool.is_unified) for pool in described_machine.pools] == [("system", True)]
    assert described_machine.memory.theoretical_gb_s.value == 546, "the chip with 32 GPU cores is sold with 36 GB only"
    assert machine(os="macos", cpu="Apple M4 Max", ram_gb=36).memory.theoretical_gb_s.value == 410


def test_the_system_follows_from_an_apple_chip() -> None:
    assert machine(gpus=[{"name": "Apple M2 Ultra"}], ram_gb=192).os.name.value == "macOS"


def test_a_unified_chip_with_its_memory_as_vram() -> None:
    described_machine = machine(os="linux", gpus=[{"name": "NVIDIA GB10", "vram_gb": 128}], unified=True)
    assert described_machine.memory.total.value == 128 * GIB
    assert [pool.id for pool in described_machine.pools] == ["system"]


def test_nvlink_means_the_module() -> None:
    with_link = machine(gpus=[{"name": "H100", "count": 8, "nvlink": True}]).gpus[0]
    without = machine(gpus=[{"name": "H100", "count": 8, "nvlink": False}]).gpus[0]
    assert with_link.bandwidth_gb_s.value == 3350
    assert without.bandwidth_gb_s.value == 2039


def test_an_unknown_card_has_unknown_figures() -> None:
    (card,) = machine(gpus=[{"name": "NVIDIA RTX 9999", "vram_gb": 40}]).gpus
    assert card.vendor == "nvidia"
    assert card.bandwidth_gb_s.value is None
    assert card.compute.value is None


def test_a_computer_without_gpu() -> None:
    described_machine = machine(
        os="Windows 11", cpu={"model": "Intel Core i5-8250U", "cores": 4, "isa": ["AVX2"]}, ram_gb=8
    )
    assert described_machine.gpus == []
    assert described_machine.cpu.isa.value == ["avx2"]
    assert described_machine.memory.available.value == 4 * GIB


def test_a_saved_machine_is_read_as_it_is() -> None:
    saved_machine = machine(os="linux", ram_gb=16, gpus=[{"name": "RTX 3060", "vram_gb": 12}])
    plain = msgspec.json.encode(saved_machine)
    assert machine_from(plain) == saved_machine
    assert machine_from(b'{"version": 1, "machine": ' + plain + b"}") == saved_machine


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b'{"os": "templeos"}',
        b'{"ram_gb": -1}',
        b'{"ram_gb": 0}',
        b'{"ram_gb": 1e300}',
        b'{"ram_gb": "much"}',
        b'{"gpus": [{"name": "RTX 3090", "count": 0}]}',
        b'{"gpus": [{"name": "RTX 3090", "count": 1000000}]}',
        b'{"gpus": [{"name": 3090}]}',
        b'{"gpus": 4}',
        b'{"gpus": [["RTX 3090"]]}',
        b'{"ram_gb": "64 apples"}',
        b'{"machine": {}}',
        b'{"machine": {"cpu": 1, "memory": 2, "probes": 3}}',
        b"[" * 100_000,
    ],
)
def test_nonsense_is_refused_with_a_sentence(raw: bytes) -> None:
    with pytest.raises(BadRequest) as error:
        machine_from(raw)
    assert error.value.code == "machine_invalid"


@pytest.mark.parametrize(
    "query_fields",
    [
        {"gpus": ["RTX 3090", "RTX 3090"]},
        {"gpus": [{"name": "2x RTX 3090"}]},
        {"gpus": [{"name": "RTX 3090 x2"}]},
        {"gpus": ["2 \xd7 NVIDIA GeForce RTX 3090 24GB"]},
        {"gpus": [{"name": "RTX 3090", "count": "2", "vram_gb": "24 GB", "nvlink": None}]},
        {"gpu": {"name": "rtx3090", "count": 2, "compute_capability": "sm_86"}},
        {"GPUs": [{"Name": "RTX 3090", "Count": 2, "compute_capability": 8.6}]},
    ],
    ids=str,
)
def test_two_cards_however_people_write_them(query_fields: dict[str, Any]) -> None:
    described_machine = machine(os="linux", ram_gb="64 GB", cpu=None, **query_fields)
    assert described_machine.memory.total.value == 64 * GIB
    assert [gpu.vendor for gpu in described_machine.gpus] == ["nvidia", "nvidia"]
    assert [gpu.memory_total.value for gpu in described_machine.gpus] == [24 * GIB] * 2
    assert [gpu.compute.value for gpu in described_machine.gpus] == ["8.6"] * 2


@pytest.mark.parametrize("name", ["RTX 4090", "Radeon RX 7900 XT", "8-core GPU", "Arc A770 16GB", "X1 Adreno"])
def test_a_name_that_tells_no_count_is_one_card(name: str) -> None:
    assert [gpu.name.value for gpu in machine(gpus=[name]).gpus] == [name]


@pytest.mark.parametrize(
    ("system", "name"),
    [
        ("Pop!_OS 24.04", "Linux"),
        ("centos", "Linux"),
        ("DGX OS 7", "Linux"),
        ("Windows 11 (WSL2)", "Linux"),
        ("nt", "Windows"),
        ("Windows Server 2025", "Windows"),
        ("Mac OS X", "macOS"),
        ("Sequoia", "macOS"),
    ],
)
def test_the_system_however_people_write_it(system: str, name: str) -> None:
    assert machine(os=system).os.name.value == name


@pytest.mark.parametrize("name", ["DGX Spark", "NVIDIA GB10", "Orin (nvgpu)", "NVIDIA Jetson AGX Thor Developer Kit"])
def test_nvidia_chips_that_share_memory(name: str) -> None:
    described_machine = machine(os="linux", ram_gb=64, gpus=[name])
    assert [(gpu.vendor, gpu.integrated.value) for gpu in described_machine.gpus] == [("nvidia", True)]
    assert [pool.id for pool in described_machine.pools] == ["system"]
    assert described_machine.os.architecture.value == "arm64"
    assert described_machine.gpus[0].compute.value in {"12.1", "8.7", "11.0"}


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
fields = ["os", "cpu", "ram_gb", "gpus", "unified", "cores", "npu", "machine", "isa", "name", "vram_gb", "count"]


@given(st.dictionaries(st.sampled_from(fields), json_values))
def test_any_json_is_a_machine_or_refused(query_fields: dict[str, Any]) -> None:
    try:
        described_machine = machine_from(json.dumps(query_fields).encode())
    except BadRequest:
        return
    assert described_machine.pools


@pytest.mark.parametrize(
    ("description", "sentence"),
    [
        ({"rams": 64}, "'rams' is no field; did you mean 'ram_gb'?"),
        ({"gpus": [{"name": "RTX 4090", "bandwith_gb_s": 1}]}, "no field of a GPU; did you mean 'bandwidth_gb_s'?"),
        ({"cpu": {"model": "x", "cors": 8}}, "no field of the processor; did you mean 'cores'?"),
        ({"zzzzzz": 1}, "'zzzzzz' is no field."),
    ],
)
def test_a_name_that_means_nothing_is_refused_with_the_nearest(description: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadRequest) as error:
        machine_from(msgspec.json.encode(description))
    assert sentence in str(error.value)


def test_notes_are_let_pass() -> None:
    assert machine_from(b'{"os": "linux", "_note": "in the cellar", "ram_gb": 32}').memory.total.value == 32 << 30
