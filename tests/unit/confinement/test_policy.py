"""What an engine may reach follows from its launch alone: a row for each kind of launch."""

import msgspec
import pytest

from app.confinement.policy import (
    PLAIN_DEVICES,
    SHARED_MEMORY,
    LaunchFacts,
    MachineFacts,
    confine_engine,
    own_environment,
)
from app.confinement.rules import ConfinementRules, PortRange
from engines.api import LaunchOptions
from engines.registry import ADAPTERS

GPU = ("/dev/dri", "/dev/nvidia0")
MACHINE = MachineFacts(cores=8, home="/home/ada", devices=GPU, passing_ports=PortRange(32768, 60999))
LAUNCH = LaunchFacts(
    about=ADAPTERS["llama.cpp"].descriptor,
    options=LaunchOptions(),
    backend="cpu",
    models=("/home/ada/models/m.gguf",),
    programs=("/home/ada/.venv", "/usr"),
    import_roots=("/home/ada/roundhouse",),
    packages=("/home/ada/roundhouse/engines",),
    scratch="/home/ada/state/scratch/1",
    home="/home/ada/data/engine-homes/llama.cpp",
    short="/home/ada/state/scratch/1/tmp",
    port=40000,
)


def rules_of(**changes: object) -> ConfinementRules:
    """Return the rules of the usual launch with something else about it."""
    rules = confine_engine(msgspec.structs.replace(LAUNCH, **changes), MACHINE)
    assert rules is not None
    return rules


def of_engine(name: str, **changes: object) -> ConfinementRules:
    return rules_of(about=ADAPTERS[name].descriptor, **changes)


def test_an_engine_reads_its_model_and_itself_and_writes_to_its_own_folders() -> None:
    rules = rules_of()
    assert "/home/ada/models/m.gguf" in rules.read
    assert {"/home/ada/.venv", "/usr", "/home/ada/roundhouse/engines"} <= set(rules.run)
    assert set(rules.write) == {LAUNCH.scratch, LAUNCH.home, LAUNCH.short}
    assert rules.list == ("/dev", "/home/ada/roundhouse")
    in_home = [path for path in (*rules.read, *rules.run, *rules.write) if path.startswith("/home/")]
    assert len(in_home) == 6


@pytest.mark.parametrize("wide", ["/", "/home", "/home/ada"])
def test_no_rule_opens_a_whole_home(wide: str) -> None:
    rules = rules_of(models=(wide, "/home/ada/m.gguf"), programs=(wide, "/home/ada/llama-server"))
    assert wide not in (*rules.read, *rules.run, *rules.write)
    assert "/home/ada/m.gguf" in rules.read
    assert "/home/ada/llama-server" in rules.run


def test_nothing_that_can_be_written_can_be_run() -> None:
    rules = rules_of()
    assert not set(rules.write) & set(rules.run)


@pytest.mark.parametrize(
    ("engine", "options", "is_alone"),
    [
        ("llama.cpp", LaunchOptions(), True),
        ("llama.cpp", LaunchOptions(device_ids=("0",)), True),
        ("llama.cpp", LaunchOptions(device_ids=("0", "1")), False),
        ("llama.cpp", LaunchOptions(split_ratio=(1.0, 1.0)), False),
        ("exllamav3", LaunchOptions(tensor_parallel=2), False),
        ("exllamav3", LaunchOptions(), True),
        ("openvino", LaunchOptions(), True),
        ("onnxruntime-genai", LaunchOptions(), True),
        ("mlx-lm", LaunchOptions(), True),
        ("vllm", LaunchOptions(), False),
        ("sglang", LaunchOptions(), False),
        ("lmdeploy", LaunchOptions(), False),
    ],
)
def test_only_engines_with_helpers_connect(engine: str, options: LaunchOptions, is_alone: bool) -> None:  # noqa: FBT001 -- a column of the table
    rules = of_engine(engine, options=options)
    assert rules.is_alone is is_alone
    assert rules.bind == ((40000,) if is_alone else (40000, 0))
    assert rules.connect == (() if is_alone else (PortRange(32768, 65535),))
    assert (SHARED_MEMORY in rules.write) is not is_alone


@pytest.mark.parametrize(
    ("engine", "backend", "has_devices"),
    [
        ("llama.cpp", "cpu", False),
        ("llama.cpp", "cuda", True),
        ("llama.cpp", "vulkan", True),
        ("openvino", "cpu", True),  # the same build uses the GPU
        ("onnxruntime-genai", "cpu", False),
        ("vllm", "cuda", True),
    ],
)
def test_devices_are_for_engines_that_may_use_them(engine: str, backend: str, has_devices: bool) -> None:  # noqa: FBT001 -- a column of the table
    assert of_engine(engine, backend=backend).devices == PLAIN_DEVICES + (GPU if has_devices else ())


@pytest.mark.parametrize(
    ("devices", "backend", "names_threads"),
    [
        (("/dev/dri", "/dev/nvidia0", "/dev/nvidiactl"), "cuda", True),
        (("/dev/dxg",), "cuda", True),
        (("/dev/dri", "/dev/kfd"), "rocm", False),
        (("/dev/nvidia0",), "cpu", False),
    ],
)
def test_threads_are_named_where_nvidias_driver_starts(
    devices: tuple[str, ...],
    backend: str,
    names_threads: bool,  # noqa: FBT001 -- a column of the table
) -> None:
    machine = msgspec.structs.replace(MACHINE, devices=devices)
    rules = confine_engine(msgspec.structs.replace(LAUNCH, backend=backend), machine)
    assert rules is not None
    assert rules.names_threads is names_threads


def test_rocm_keeps_its_locks_in_shared_memory() -> None:
    assert SHARED_MEMORY in rules_of(backend="rocm").write


def test_a_container_is_confined_by_its_runtime() -> None:
    assert confine_engine(msgspec.structs.replace(LAUNCH, about=ADAPTERS["tgi"].descriptor), MACHINE) is None


@pytest.mark.parametrize(
    ("engine", "cores", "tasks"), [("llama.cpp", 2, 288), ("llama.cpp", 256, 4352), ("vllm", 8, 2560)]
)
def test_tasks_are_limited_by_the_number_of_cores(engine: str, cores: int, tasks: int) -> None:
    launch = msgspec.structs.replace(LAUNCH, about=ADAPTERS[engine].descriptor)
    rules = confine_engine(launch, msgspec.structs.replace(MACHINE, cores=cores))
    assert rules is not None
    assert rules.tasks == tasks


def test_the_environment_leads_to_its_own_folders_only() -> None:
    environment = own_environment(LAUNCH)
    assert environment["HOME"] == LAUNCH.home
    assert all(value.startswith((LAUNCH.home, LAUNCH.short)) for value in environment.values())


@pytest.mark.parametrize("engine", sorted(ADAPTERS))
def test_every_engine_has_rules_or_a_container(engine: str) -> None:
    rules = confine_engine(msgspec.structs.replace(LAUNCH, about=ADAPTERS[engine].descriptor), MACHINE)
    assert (rules is None) == (engine in {"tgi", "attached"})


def test_an_engine_that_sends_traces_may_connect_to_the_collector_s_port_too() -> None:
    plain = of_engine("vllm")
    traced_policy = of_engine("vllm", options=LaunchOptions(traces_url="http://127.0.0.1:4318/v1/traces"))
    assert set(traced_policy.connect) - set(plain.connect) == {PortRange(4318, 4318)}
    assert not of_engine("llama.cpp", options=LaunchOptions(traces_url="http://127.0.0.1:4318/v1/traces")).connect
