"""CPU, memory and control groups, read from small captured trees."""

from pathlib import Path

import msgspec
import pytest

from app.core.machine import Confidence
from app.hardware import cpu
from app.hardware.evidence import Evidence
from app.hardware.facts import cpu_list, measured_fact
from app.hardware.linux.cgroups import cpu_quota, memory_limit
from app.hardware.linux.cpu import read_linux_cpu
from app.hardware.linux.system import read_system
from app.hardware.memory import read_linux_memory

GIB = 1 << 30


def evidence(root: Path, **tables: object) -> Evidence:
    return Evidence(root, tables={"system": "linux", **tables})


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def topology(cores: list[tuple[int, int]]) -> dict[str, str]:
    folder = "sys/devices/system/cpu"
    return {
        f"{folder}/cpu{i}/topology/{name}": str(value)
        for i, (package, core) in enumerate(cores)
        for name, value in (("physical_package_id", package), ("core_id", core))
    }


def cpuinfo(count: int, **fields: str) -> str:
    rows = "".join(f"{key.replace('_', ' ')}\t: {value}\n" for key, value in fields.items())
    return "\n".join(f"processor\t: {i}\n{rows}" for i in range(count))


def test_two_threads_per_core_are_one_physical_core(tmp_path: Path) -> None:
    info = cpuinfo(4, model_name="AMD Ryzen 7", flags="fpu avx2 fma avx512f")
    root = tree(tmp_path, {"proc/cpuinfo": info, **topology([(0, 0), (0, 1), (0, 0), (0, 1)])})
    processor = read_linux_cpu(evidence(root, affinity=4))
    assert processor.model.value == "AMD Ryzen 7"
    assert (processor.physical_cores.value, processor.logical_cores.value) == (2, 4)
    assert processor.isa.value == ["avx2", "fma", "avx512f"]


def test_hybrid_intel_counts_performance_cores_once(tmp_path: Path) -> None:
    cores = [(0, 0), (0, 0), (0, 4), (0, 4), (0, 8), (0, 9)]
    root = tree(tmp_path, {"proc/cpuinfo": cpuinfo(6), "sys/devices/cpu_core/cpus": "0-3\n", **topology(cores)})
    processor = read_linux_cpu(evidence(root, affinity=6))
    assert (processor.physical_cores.value, processor.performance_cores.value) == (4, 2)


def test_arm_board_has_its_model_from_the_device_tree(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/cpuinfo": cpuinfo(4, Features="fp asimd asimddp", CPU_implementer="0x41"),
            "proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\x00",
        },
    )
    processor = read_linux_cpu(evidence(root, affinity=4))
    assert processor.model.value == "Raspberry Pi 5 Model B Rev 1.0"
    assert processor.isa.value == ["asimd", "asimddp"]


@pytest.mark.parametrize(
    ("vendor", "family", "model", "bits"),
    [
        ("AuthenticAMD", "23", "1", 128),
        ("AuthenticAMD", "23", "24", 128),
        ("AuthenticAMD", "23", "49", None),
        ("AuthenticAMD", "25", "1", None),
        ("AuthenticAMD", "21", "2", 128),
        ("HygonGenuine", "24", "0", 128),
        ("GenuineIntel", "6", "85", None),
        ("AuthenticAMD", "many", "1", None),
    ],
)
def test_processors_that_halve_vectors_are_known(
    tmp_path: Path, vendor: str, family: str, model: str, bits: int | None
) -> None:
    info = f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nflags\t: avx avx2\n"
    width = read_linux_cpu(evidence(tree(tmp_path, {"proc/cpuinfo": info}), affinity=1)).vector_bits
    assert (width.value, width.unit) == (bits, "bit")


def test_nothing_readable_is_unknown_not_zero(tmp_path: Path) -> None:
    processor = read_linux_cpu(evidence(tmp_path, affinity=2))
    for fact in (
        processor.model,
        processor.physical_cores,
        processor.logical_cores,
        processor.isa,
        processor.performance_cores,
    ):
        assert fact.value is None
        assert fact.confidence is Confidence.UNKNOWN
        assert fact.note


def test_cpu_quota_is_the_lowest_on_the_way_up(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
        },
    )
    assert cpu_quota(root) == 1.5
    assert read_linux_cpu(evidence(root, affinity=8)).usable_cores.value == 1.5


def test_affinity_counts_when_no_group_limits(tmp_path: Path) -> None:
    assert read_linux_cpu(evidence(tmp_path, affinity=3)).usable_cores.value == 3.0


def test_memory_limit_of_a_parent_group_counts_and_cache_is_free(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/meminfo": "MemTotal: 33554432 kB\nMemAvailable: 25165824 kB\nSwapTotal: 0 kB\n",
            "proc/self/cgroup": "0::/slice/app\n",
            "sys/fs/cgroup/slice/memory.max": str(8 * GIB),
            "sys/fs/cgroup/slice/memory.current": str(7 * GIB),
            "sys/fs/cgroup/slice/memory.stat": f"anon 1\ninactive_file {5 * GIB}\n",
            "sys/fs/cgroup/slice/app/memory.max": "max",
        },
    )
    memory_probe = read_linux_memory(evidence(root))
    assert memory_probe.limit.value == 8 * GIB
    assert memory_probe.limit.source == "/sys/fs/cgroup/slice/memory.max"
    assert memory_probe.available.value == 6 * GIB
    assert memory_probe.total.value == 32 * GIB


def test_cgroup_v1_no_limit_is_no_limit(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "9:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": str(2 * GIB),
            "sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes": str(GIB),
            "sys/fs/cgroup/memory/docker/abc/memory.stat": "total_inactive_file 0\n",
        },
    )
    limit = memory_limit(root)
    assert limit is not None
    assert (limit.limit, limit.used) == (2 * GIB, GIB)


def test_a_group_path_cannot_climb_out_of_the_mount(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/self/cgroup": "0::/../../..\n", "sys/fs/cgroup/memory.max": str(GIB)})
    limit = memory_limit(root)
    assert limit is not None
    assert limit.limit == GIB


def test_missing_meminfo_is_unknown(tmp_path: Path) -> None:
    memory_probe = read_linux_memory(evidence(tmp_path))
    assert memory_probe.total.value is None
    assert memory_probe.available.value is None


@pytest.mark.parametrize(
    ("files", "environment"),
    [
        ({"proc/version": "Linux 6.6 microsoft-standard-WSL2"}, "wsl"),
        ({".dockerenv": ""}, "container"),
        ({"proc/1/cgroup": "0::/kubepods/pod1\n"}, "container"),
        ({"proc/cpuinfo": "processor : 0\nflags : fpu hypervisor\n"}, "vm"),
        ({"proc/cpuinfo": "processor : 0\nflags : fpu\n"}, "bare"),
    ],
)
def test_surroundings(tmp_path: Path, files: dict[str, str], environment: str) -> None:
    assert read_system(evidence(tree(tmp_path, files))).environment.value == environment


@pytest.mark.parametrize(("text", "members"), [("0-3,8", {0, 1, 2, 3, 8}), ("", set()), ("x,2", {2}), ("5", {5})])
def test_cpu_list(text: str, members: set[int]) -> None:
    assert cpu_list(text) == members


@pytest.mark.parametrize(
    ("performance", "physical", "usable", "threads"),
    [(None, 8, 16.0, 8), (6, 14, 20.0, 6), (None, 8, 1.5, 1), (None, 8, 0.4, 1), (None, None, 4.0, None)],
)
def test_engine_threads_are_fast_cores_within_the_quota(
    monkeypatch: pytest.MonkeyPatch, performance: int | None, physical: int | None, usable: float, threads: int | None
) -> None:
    processor = read_linux_cpu(evidence(Path("/nowhere"), affinity=1))
    facts = {"performance_cores": performance, "physical_cores": physical, "usable_cores": usable}
    chosen_facts = {name: measured_fact(value, "test") for name, value in facts.items() if value is not None}
    monkeypatch.setattr(cpu, "read_cpu", lambda _: msgspec.structs.replace(processor, **chosen_facts))
    assert cpu.engine_threads.__wrapped__() == threads
