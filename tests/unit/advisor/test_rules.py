import msgspec
import pytest

from app.advisor.choosing.hardware import machine_kind
from app.advisor.choosing.rules import choose_engine
from engines.api.traits import GuideNeed, MachineKind
from tests.unit.advisor.boxes import GPU_PROBE, Box, engine, gpu
from tests.unit.advisor.engines import ENGINES

TODAY = [engine("llama.cpp")]
"""What this build brings everywhere but on Apple silicon."""
RTX4090 = gpu("nvidia", "NVIDIA GeForce RTX 4090", "8.9")
A4000 = gpu("nvidia", "NVIDIA RTX A4000", "8.6", gib=16)
H100 = gpu("nvidia", "NVIDIA H100 80GB HBM3", "9.0", gib=80)
UHD = gpu("intel", "Intel UHD Graphics 770", gib=None, is_integrated=True)
M3 = gpu("apple", "Apple M3 Max", "Metal 3", gib=27, is_integrated=True)
MAC = Box(gpus=(M3,), system="macOS", architecture="arm64", cpu="Apple M3 Max", gib=36, has_unified_memory=True)

MACHINES: dict[str, tuple[Box, str]] = {
    "Apple M3 Max": (MAC, "mlx-lm"),
    "Apple silicon whose GPU was not found": (Box(system="macOS", architecture="arm64", cpu="Apple M1"), "mlx-lm"),
    "Intel Mac": (Box(system="macOS", cpu="Intel(R) Core(TM) i7-9750H CPU"), "llama.cpp"),
    "one RTX 4090": (Box(gpus=(RTX4090,)), "exllamav2"),
    "one RTX 5090": (Box(gpus=(gpu("nvidia", "NVIDIA GeForce RTX 5090", "12.0", gib=32),)), "exllamav2"),
    "RTX 3060 laptop with an Intel GPU beside": (
        Box(gpus=(gpu("nvidia", "NVIDIA GeForce RTX 3060 Laptop GPU", "8.6", gib=6), UHD), cpu="Intel Core i7-12700H"),
        "llama.cpp",
    ),
    "RTX PRO 6000 workstation": (
        Box(gpus=(gpu("nvidia", "NVIDIA RTX PRO 6000 Blackwell", "12.0", gib=96),)),
        "exllamav2",
    ),
    "two RTX A4000": (Box(gpus=(A4000, A4000)), "exllamav3"),
    "four RTX 4090": (Box(gpus=(RTX4090,) * 4), "exllamav3"),
    "six RTX 4090": (Box(gpus=(RTX4090,) * 6), "vllm"),
    "RTX 2080 Ti": (Box(gpus=(gpu("nvidia", "NVIDIA GeForce RTX 2080 Ti", "7.5", gib=11),)), "llama.cpp"),
    "GTX 1080": (Box(gpus=(gpu("nvidia", "NVIDIA GeForce GTX 1080", "6.1", gib=8),)), "llama.cpp"),
    "NVIDIA card whose capability is unknown": (Box(gpus=(gpu("nvidia", "NVIDIA GeForce RTX 4090"),)), "llama.cpp"),
    "NVIDIA card without a name": (Box(gpus=(gpu("nvidia", None, "8.9"),)), "exllamav2"),
    "Tesla V100": (Box(gpus=(gpu("nvidia", "Tesla V100-SXM2-32GB", "7.0", gib=32),)), "llama.cpp"),
    "two RTX 2080 Ti": (Box(gpus=(gpu("nvidia", "NVIDIA GeForce RTX 2080 Ti", "7.5", gib=11),) * 2), "vllm"),
    "two GTX 1080": (Box(gpus=(gpu("nvidia", "NVIDIA GeForce GTX 1080", "6.1", gib=8),) * 2), "llama.cpp"),
    "Jetson Orin": (
        Box(gpus=(gpu("nvidia", "Orin (nvgpu)", "8.7", gib=None, is_integrated=True),), architecture="aarch64"),
        "llama.cpp",
    ),
    "RTX and Radeon of one size": (
        Box(gpus=(RTX4090, gpu("amd", "AMD Radeon RX 7900 XTX", "gfx1100"))),
        "llama.cpp",
    ),
    "RTX beside the Radeon of a Ryzen": (
        Box(gpus=(RTX4090, gpu("amd", "AMD Radeon Graphics", "gfx1036", gib=0.5, is_integrated=True))),
        "exllamav2",
    ),
    "DGX Spark": (
        Box(gpus=(gpu("nvidia", "NVIDIA GB10", "12.1", gib=None, is_integrated=True),), architecture="aarch64"),
        "llama.cpp",
    ),
    "one H100": (Box(gpus=(H100,)), "vllm"),
    "eight H100": (Box(gpus=(H100,) * 8), "vllm"),
    "A100": (Box(gpus=(gpu("nvidia", "NVIDIA A100-SXM4-80GB", "8.0", gib=80),)), "vllm"),
    "L40S": (Box(gpus=(gpu("nvidia", "NVIDIA L40S", "8.9", gib=48),)), "vllm"),
    "GB200": (Box(gpus=(gpu("nvidia", "NVIDIA GB200", "10.0", gib=186),), architecture="aarch64"), "tensorrt-llm"),
    "Tesla P40": (Box(gpus=(gpu("nvidia", "Tesla P40", "6.1"),)), "llama.cpp"),
    "MI300X by name": (Box(gpus=(gpu("amd", "AMD Instinct MI300X", "gfx942", gib=192),)), "vllm"),
    "MI300X by target": (Box(gpus=(gpu("amd", "AMD GPU", "gfx942", gib=192),)), "vllm"),
    "Radeon RX 7900 XTX": (Box(gpus=(gpu("amd", "AMD Radeon RX 7900 XTX", "gfx1100"),)), "llama.cpp"),
    "Strix Halo": (Box(gpus=(gpu("amd", "AMD Radeon 8060S", "gfx1151", gib=96, is_integrated=True),)), "llama.cpp"),
    "Arc B580": (Box(gpus=(gpu("intel", "Intel Arc B580 Graphics", gib=12),)), "openvino"),
    "Core Ultra with Arc inside": (
        Box(gpus=(gpu("intel", "Intel Arc Graphics", gib=None, is_integrated=True),), cpu="Intel(R) Core(TM) Ultra 7"),
        "openvino",
    ),
    "Xeon server": (Box(cpu="Intel(R) Xeon(R) Platinum 8480+", isa=("avx512f", "amx_tile")), "openvino"),
    "Core i5 with UHD": (Box(gpus=(UHD,), cpu="Intel(R) Core(TM) i5-12400"), "llama.cpp"),
    "Radeon in a Xeon": (
        Box(gpus=(gpu("amd", "AMD Radeon PRO W7900", "gfx1100", gib=48),), cpu="Intel(R) Xeon(R) w5-3435X"),
        "llama.cpp",
    ),
    "Ryzen without a GPU": (Box(), "llama.cpp"),
    "EPYC server": (Box(cpu="AMD EPYC 9654 96-Core Processor", cores=96), "llama.cpp"),
    "Xeon of 2012": (Box(cpu="Intel(R) Xeon(R) CPU E5-2670", isa=("avx",)), "llama.cpp"),
    "Snapdragon X Elite": (
        Box(system="Windows", architecture="arm64", cpu="Snapdragon(R) X Elite - X1E80100", isa=("asimd",)),
        "llama.cpp",
    ),
    "RISC-V board": (Box(architecture="riscv64", cpu="SpacemiT X60", isa=()), "llama.cpp"),
    "Raspberry Pi": (Box(architecture="aarch64", cpu="Cortex-A76", cores=4, isa=("asimd",), gib=8), "llama.cpp"),
    "nothing known": (Box(cpu=None, cores=None, usable=None, isa=None, gib=None, has_unified_memory=None), "llama.cpp"),
}


@pytest.mark.parametrize("name", MACHINES)
def test_each_machine_gets_the_engine_it_deserves(name: str) -> None:
    box, expected_engine = MACHINES[name]
    every_engine = [engine(engine_id) for engine_id in ENGINES]
    assert choose_engine(ENGINES, box.machine(), every_engine).engine == expected_engine


@pytest.mark.parametrize("name", MACHINES)
def test_today_llama_cpp_runs_everywhere_and_the_better_engine_is_named(name: str) -> None:
    box, expected_engine = MACHINES[name]
    choice = choose_engine(ENGINES, box.machine(), TODAY)
    assert choice.engine == "llama.cpp"
    assert choice.wanted == ("" if expected_engine == "llama.cpp" else ENGINES[expected_engine].name)
    assert bool(choice.wanted_why) == bool(choice.wanted)
    assert choice.sentence.endswith(".")
    assert "None" not in choice.sentence


def test_every_kind_of_machine_is_the_answer_for_some_machine() -> None:
    assert {machine_kind(box.machine()) for box, _ in MACHINES.values()} == set(MachineKind)
    assert all(ENGINES.row(kind, need) for kind in MachineKind for need in GuideNeed)


def test_the_sentence_says_engine_place_reason_and_hardware() -> None:
    box = Box(cores=2, usable=2.0, gib=23.4)
    assert choose_engine(ENGINES, box.machine(), TODAY).sentence == (
        "llama.cpp on the CPU, because this machine has no GPU it can use; 2 cores with AVX-512 and 23.4 GiB of memory."
    )


def test_a_gpu_nothing_here_can_use_is_named() -> None:
    choice = choose_engine(ENGINES, Box(gpus=(RTX4090, UHD)).machine(), TODAY)
    assert choice.sentence == (
        "llama.cpp on the CPU, because no engine of this version can use the NVIDIA GeForce RTX 4090 and the Intel UHD "
        "Graphics 770; 16 cores with AVX-512 and 64.0 GiB of memory."
    )
    assert choice.wanted_why == (
        "For one NVIDIA RTX card, ExLlamaV2 would be the best: it gets the most speed and the largest model out of one "
        "such card. This version of Roundhouse cannot run it yet."
    )


def test_cards_of_one_kind_are_counted() -> None:
    assert "2 x NVIDIA RTX A4000" in choose_engine(ENGINES, Box(gpus=(A4000, A4000)).machine(), TODAY).sentence


def test_on_a_mac_llama_cpp_uses_the_gpu() -> None:
    assert choose_engine(ENGINES, MAC.machine(), [engine("llama.cpp", "metal")]).sentence == (
        "llama.cpp on the GPU (Metal), because it is the installed engine that can use the Apple M3 Max; "
        "it shares 36.0 GiB of memory."
    )


def test_the_best_engine_says_what_it_is_best_for() -> None:
    choice = choose_engine(ENGINES, Box(gpus=(RTX4090,)).machine(), [*TODAY, engine("exllamav2", "cuda")])
    assert choice.sentence == (
        "ExLlamaV2 on the GPU (CUDA), because it is the best for one NVIDIA RTX card: it gets the most speed and the "
        "largest model out of one such card; 24.0 GiB of GPU memory."
    )
    assert not choice.wanted


def test_an_engine_as_good_will_do() -> None:
    choice = choose_engine(ENGINES, Box(gpus=(H100,)).machine(), [*TODAY, engine("sglang", "cuda")])
    assert (choice.engine, choice.wanted) == ("sglang", "")


def test_an_engine_that_is_known_and_not_installed_is_said_to_be_so() -> None:
    choice = choose_engine(ENGINES, MAC.machine(), [*TODAY, engine("mlx-lm", is_installed=False)])
    assert choice.engine == "llama.cpp"
    assert choice.wanted == "MLX-LM"
    assert choice.wanted_why.endswith("It is not installed.")


def test_without_any_engine_the_problem_is_said() -> None:
    choice = choose_engine(ENGINES, Box().machine(), [engine("llama.cpp", is_installed=False)])
    assert choice.sentence.startswith("No engine is installed")
    assert choose_engine(ENGINES, Box().machine(), []).sentence.startswith("No engine is installed")


@pytest.mark.parametrize("name", ["attached", "smg"])
def test_what_loads_no_models_here_is_never_the_engine_of_choice(name: str) -> None:
    other = msgspec.structs.replace(engine("llama.cpp"), id=name)
    choice = choose_engine(ENGINES, Box(gpus=(H100,)).machine(), [other])
    assert choice.engine == "llama.cpp"
    assert choice.sentence.startswith("No engine is installed")


def test_unknown_facts_are_said_to_be_unknown_and_never_zero() -> None:
    choice = choose_engine(ENGINES, MACHINES["nothing known"][0].machine(), TODAY)
    assert choice.sentence == (
        "llama.cpp on the CPU, because this machine has no GPU it can use; "
        "an unknown number of cores and an unknown amount of memory."
    )
    assert [reason.value for reason in choice.reasons] == ["0", "unknown", "unknown", "unknown", "unknown"]
    assert all("unknown" in reason.text for reason in choice.reasons[1:])


def test_a_gpu_of_unknown_size_is_not_given_one() -> None:
    lone = gpu("nvidia", "NVIDIA GeForce RTX 4090", "8.9", gib=None)
    choice = choose_engine(ENGINES, Box(gpus=(lone,)).machine(), [engine("exllamav2", "cuda")])
    assert choice.sentence.endswith("how much memory the GPU has is unknown.")


def test_a_probe_without_an_answer_is_not_taken_for_a_no() -> None:
    choice = choose_engine(ENGINES, Box(gpu_probe="timeout").machine(), TODAY)
    assert "not everything could be examined" in choice.sentence
    assert choice.reasons[0].source == GPU_PROBE
    assert choice.reasons[0].value == "unknown"


def test_a_container_s_limits_count() -> None:
    choice = choose_engine(ENGINES, Box(usable=1.5, limit_gib=4).machine(), TODAY)
    assert choice.sentence.endswith("1.5 cores with AVX-512 and 4.0 GiB of memory.")
    assert [(reason.value, reason.source) for reason in choice.reasons[-1:]] == [("4.0 GiB", "cgroup")]


def test_reasons_carry_values_and_sources() -> None:
    reasons = choose_engine(ENGINES, Box(gpus=(RTX4090,)).machine(), TODAY).reasons
    assert [(reason.value, reason.source) for reason in reasons] == [
        ("NVIDIA GeForce RTX 4090", "NVML"),
        ("AMD Ryzen 9 7950X", "/proc/cpuinfo"),
        ("16 cores", "affinity"),
        ("AVX-512", "/proc/cpuinfo"),
        ("64.0 GiB", "/proc/meminfo"),
    ]
    assert all(reason.text.endswith(".") for reason in reasons)
