import time
from dataclasses import replace

import msgspec
import pytest

from app.advisor.memory.setting import RunSetting
from app.advisor.speed.estimate import CALIBRATED_SPREAD, decode_rate, prefill_kind, prefill_rate
from app.advisor.speed.families import (
    ASSUMED_RAM_GB_S,
    CORE_GB_S,
    DEVICES,
    HALVED_FLOPS,
    NARROW_FLOPS,
    PREFILL,
    SOFTWARE,
    device_class,
    devices_in_use,
    has_halved_vectors,
    processor_device,
    software_class,
)
from app.core.advice import Calibration, EstimateConfidence
from app.core.machine import Fact, Machine
from app.hardware import devices
from tests.unit.advisor.engines import setting_for
from tests.unit.advisor.made_models import EIGHT, FOURTEEN, MIXTURE, SEVENTY, SMALL
from tests.unit.advisor.speed_cases import CPU, CUDA, make_machine, with_card, with_memory

METAL = setting_for(backend="metal")
RTX_4090 = with_card("NVIDIA GeForce RTX 4090")
Q4 = EIGHT.facts("Q4_K_M")


def rate(machine: Machine, setting: RunSetting = CUDA, *, depth: int = 0) -> float:
    token_rate = decode_rate(Q4, machine, setting, depth=depth)
    assert token_rate is not None
    return token_rate.tokens_per_second


def test_the_formula_is_bytes_over_bandwidth_and_a_cost_per_layer() -> None:
    bytes_read = Q4.file_bytes - next(g.bytes for g in Q4.weights if g.kind == "input_embedding")
    layers = 32 * (4 + 3 + 7 + 2) / 18  # made models have no norms
    expected_s = bytes_read / (DEVICES["geforce"].efficiency * 1008e9) + layers * SOFTWARE["cuda"].layer_s
    assert rate(RTX_4090) == pytest.approx(1 / expected_s)


def test_the_interval_holds_the_rate_and_says_how_it_came_about() -> None:
    token_rate = decode_rate(Q4, RTX_4090, CUDA)
    assert token_rate is not None
    assert token_rate.low < token_rate.tokens_per_second < token_rate.high
    assert token_rate.confidence is EstimateConfidence.PREDICTED
    assert "1008 GB/s" in token_rate.arithmetic
    assert token_rate.arithmetic.endswith(f"= {1000 / token_rate.tokens_per_second:.1f} ms")


def test_more_bandwidth_smaller_models_and_shorter_contexts_are_faster() -> None:
    assert rate(with_card("RTX 5090")) > rate(RTX_4090) > rate(with_card("RTX 4060 Ti", vram_gb=16))
    small, large = (decode_rate(made_model.facts("Q4_K_M"), RTX_4090, CUDA) for made_model in (SMALL, FOURTEEN))
    assert small
    assert large
    assert small.tokens_per_second > 3 * large.tokens_per_second
    assert rate(RTX_4090) > rate(RTX_4090, depth=32_000) > 0.4 * rate(RTX_4090)


def test_a_mixture_decodes_by_its_active_part() -> None:
    mixture = decode_rate(MIXTURE.facts("Q4_K_M"), RTX_4090, CUDA)
    assert mixture
    assert mixture.tokens_per_second > 1.1 * rate(RTX_4090)


def test_layers_on_the_processor_cost_what_its_memory_allows() -> None:
    seventy = SEVENTY.facts("Q4_K_M")
    slow = with_memory(RTX_4090, by_parts=51.2)
    fast = with_memory(RTX_4090, by_parts=102.4)
    setting = msgspec.structs.replace(CUDA, gpu_layers=40)
    halves = [decode_rate(seventy, machine, setting) for machine in (slow, fast)]
    assert halves[0]
    assert halves[1]
    assert 1.6 < halves[1].tokens_per_second / halves[0].tokens_per_second < 2.0
    assert "on the processor" in halves[0].arithmetic
    whole = decode_rate(seventy, fast, CUDA)
    assert whole
    assert whole.tokens_per_second > 4 * halves[1].tokens_per_second


def test_time_on_the_host_widens_the_interval() -> None:
    wide = decode_rate(Q4, RTX_4090, msgspec.structs.replace(CUDA, gpu_layers=4))
    narrow = decode_rate(Q4, RTX_4090, CUDA)
    assert wide
    assert narrow
    assert wide.high / wide.low > 2 * narrow.high / narrow.low


def test_two_equal_cards_by_turns_save_nothing_and_cutting_matrices_does() -> None:
    two = with_card("RTX 3090", count=2)
    linked_machine = make_machine(os="linux", gpus=[{"name": "RTX 3090", "count": 2, "nvlink": True}])
    by_turns = rate(two, msgspec.structs.replace(CUDA, gpus=2))
    assert by_turns == pytest.approx(rate(with_card("RTX 3090")))
    cut = setting_for(engine="vllm", backend="cuda", gpus=2)
    alone = setting_for(engine="vllm", backend="cuda", gpus=1)
    fp16 = EIGHT.facts("BF16", "safetensors")
    rates = [
        decode_rate(fp16, machine, setting) for machine, setting in ((two, alone), (two, cut), (linked_machine, cut))
    ]
    single, over_pcie, over_nvlink = (token_rate.tokens_per_second for token_rate in rates if token_rate)
    assert single < over_pcie < 1.3 * single
    assert 1.4 * single < over_nvlink < 1.8 * single


def test_a_split_weighs_each_card_by_its_share() -> None:
    mixed_machine = make_machine(os="linux", gpus=[{"name": "RTX 3090"}, {"name": "RTX 4060 Ti", "vram_gb": 16}])
    mostly_fast = msgspec.structs.replace(CUDA, gpus=2, split=(3.0, 1.0))
    mostly_slow = msgspec.structs.replace(CUDA, gpus=2, split=(1.0, 3.0))
    assert rate(with_card("RTX 3090")) > rate(mixed_machine, mostly_fast) > rate(mixed_machine, mostly_slow)


def test_an_old_card_is_bound_by_unpacking() -> None:
    pascal = with_card("NVIDIA GeForce GTX 1050 Ti")
    elements = sum(g.elements for g in Q4.weights if g.kind != "input_embedding")
    assert 1 / rate(pascal) > elements * 13 / (2.1e12 / 2)


def test_early_builds_are_slower() -> None:
    old = msgspec.structs.replace(CUDA, build=2800)
    assert rate(RTX_4090, old) < 0.9 * rate(RTX_4090)


def test_nothing_is_said_of_an_unknown_card() -> None:
    assert decode_rate(Q4, with_card("Graphics Card Nobody Knows", vendor="nvidia"), CUDA) is None
    assert decode_rate(Q4, make_machine(os="linux"), CUDA) is None
    assert decode_rate(Q4, RTX_4090, METAL) is None


def test_nothing_is_said_of_a_model_without_weights() -> None:
    assert decode_rate(msgspec.structs.replace(Q4, weights=[]), RTX_4090, CUDA) is None


def test_memory_nobody_knows_is_assumed_and_said_to_be() -> None:
    token_rate = decode_rate(Q4, make_machine(os="linux", ram_gb=32), CPU)
    assert token_rate is not None
    assert token_rate.confidence is EstimateConfidence.TABLE
    known_rate = decode_rate(Q4, with_memory(make_machine(os="linux"), by_parts=ASSUMED_RAM_GB_S), CPU)
    assert known_rate is not None
    assert known_rate.tokens_per_second == pytest.approx(token_rate.tokens_per_second)
    assert known_rate.confidence is EstimateConfidence.PREDICTED
    assert token_rate.high / token_rate.low > known_rate.high / known_rate.low


def test_measured_bandwidth_counts_for_more_than_that_of_the_parts() -> None:
    machine = with_memory(make_machine(os="linux"), measured_gb_s=40.0, by_parts=89.6)
    assert (processor_device(machine).kind, processor_device(machine).bandwidth) == ("cpu measured", 40e9)


def test_few_cores_cannot_use_many_channels() -> None:
    machine = with_memory(make_machine(os="linux", cores=4, isa=["avx2"]), by_parts=400.0)
    assert processor_device(machine).bandwidth == 4 * CORE_GB_S * 1e9


@pytest.mark.parametrize(
    ("isa", "flops"),
    [(["avx2"], 0.0), (["asimd", "asimddp"], 0.0), (["asimd"], NARROW_FLOPS), (["x"], NARROW_FLOPS / 4)],
)
def test_cores_without_wide_vectors_are_bound_by_arithmetic(isa: list[str], flops: float) -> None:
    machine = with_memory(make_machine(os="linux", cores=4, isa=isa), by_parts=25.6)
    assert processor_device(machine).flops == 4 * flops


def processor(cores: int, isa: list[str], bits: int | None) -> Machine:
    machine = make_machine(os="linux", cores=cores, isa=isa)
    cpu = msgspec.structs.replace(machine.cpu, vector_bits=Fact(value=bits, unit="bit"))
    return with_memory(msgspec.structs.replace(machine, cpu=cpu), measured_gb_s=40.0)


@pytest.mark.parametrize(
    ("isa", "bits", "is_halved"),
    [
        (["avx", "avx2", "fma"], 128, True),
        (["avx", "avx2", "fma"], None, False),
        (["avx", "avx2", "fma"], 256, False),
        (["avx"], None, True),
        (["avx512f"], None, False),
        (["asimd", "asimddp"], None, False),
        (["sse4_2"], None, False),
    ],
)
def test_avx_is_halved_by_narrow_units_and_of_integers_before_avx2(
    isa: list[str], bits: int | None, *, is_halved: bool
) -> None:
    machine = processor(4, isa, bits)
    assert has_halved_vectors(machine.cpu) is is_halved
    assert (processor_device(machine).flops == 4 * HALVED_FLOPS) is is_halved


def test_few_cores_with_halved_vectors_unpack_more_slowly_than_they_read() -> None:
    halved_rate, whole_rate = (decode_rate(Q4, processor(2, ["avx", "avx2"], bits), CPU) for bits in (128, None))
    assert halved_rate
    assert whole_rate
    elements = sum(g.elements for g in Q4.weights if g.kind != "input_embedding")
    layers_s = 32 * (4 + 3 + 7 + 2) / 18 * SOFTWARE["cpu"].layer_s
    assert halved_rate.tokens_per_second == pytest.approx(1 / (elements / HALVED_FLOPS + layers_s))
    assert halved_rate.tokens_per_second < 0.6 * whole_rate.tokens_per_second
    assert "billion weights unpacked" in halved_rate.arithmetic
    assert halved_rate.arithmetic.endswith(f"= {1000 / halved_rate.tokens_per_second:.1f} ms")


def test_many_cores_with_halved_vectors_wait_for_memory_like_others() -> None:
    halved_rate, whole_rate = (decode_rate(Q4, processor(16, ["avx", "avx2"], bits), CPU) for bits in (128, None))
    assert halved_rate == whole_rate


def calibration(**changes: object) -> Calibration:
    plain = Calibration(
        device="gpu0.0",
        engine="llama.cpp",
        version="1",
        backend="cuda",
        efficiency=0.5,
        layer_seconds=100e-6,
        bandwidth_gb_s=1000.0,
    )
    return msgspec.structs.replace(plain, **changes)


def test_a_calibration_replaces_what_the_tables_say() -> None:
    token_rate = decode_rate(Q4, RTX_4090, CUDA, calibration=calibration())
    assert token_rate is not None
    bytes_read = Q4.file_bytes - next(g.bytes for g in Q4.weights if g.kind == "input_embedding")
    assert 1 / token_rate.tokens_per_second == pytest.approx(bytes_read / 500e9 + 32 * 16 / 18 * 100e-6)
    assert token_rate.confidence is EstimateConfidence.CALIBRATED
    assert token_rate.high / token_rate.tokens_per_second == pytest.approx(1 + CALIBRATED_SPREAD)


def test_a_calibration_says_nothing_of_what_the_host_computes() -> None:
    setting = msgspec.structs.replace(CUDA, gpu_layers=10)
    fast, slow = (with_memory(RTX_4090, by_parts=gb_s) for gb_s in (100.0, 50.0))
    rates = [decode_rate(Q4, machine, setting, calibration=calibration()) for machine in (fast, slow)]
    assert rates[0]
    assert rates[1]
    assert rates[0].tokens_per_second > 1.5 * rates[1].tokens_per_second


CLASSES = {
    "Apple M4 Pro (20-core GPU)": "apple",
    "Apple M2 Ultra (76-core GPU)": "apple ultra",
    "Apple M1 Max (32-core GPU)": "apple m1",
    "Apple M1 Ultra (64-core GPU)": "apple m1 ultra",
    "NVIDIA GeForce RTX 5090": "geforce",
    "NVIDIA RTX A6000": "geforce",
    "NVIDIA GeForce RTX 2080 Ti": "turing",
    "NVIDIA Tesla V100 SXM2 32 GB": "turing",
    "NVIDIA GeForce GTX 1070": "pascal",
    "NVIDIA A100 PCIe 40 GB": "hbm",
    "NVIDIA H100 PCIe 80 GB": "hbm",
    "NVIDIA B200": "hbm",
    "AMD Instinct MI300X": "hbm",
    "NVIDIA GB10 (DGX Spark)": "unified",
    "AMD Ryzen AI Max+ 395 (Radeon 8060S)": "unified",
    "AMD Radeon RX 7900 XTX": "radeon",
    "Intel Arc B580": "arc",
    "Qualcomm Snapdragon X Elite (X1E) LPDDR5X-8448": "unknown",
}


@pytest.mark.parametrize(("name", "expected_class"), CLASSES.items())
def test_each_chip_belongs_to_its_class(name: str, expected_class: str) -> None:
    (gpu,) = make_machine(gpus=[{"name": name}], ram_gb=64).gpus
    assert device_class(gpu) == expected_class


@pytest.mark.parametrize(
    ("setting", "device", "expected_class"),
    [
        (setting_for(backend="cuda"), "geforce", "cuda"),
        (setting_for(backend="cuda"), "pascal", "cuda early"),
        (setting_for(backend="metal", build=2000), "apple", "metal early"),
        (setting_for(engine="mlx-lm", backend="metal"), "apple", "mlx"),
        (setting_for(engine="mlx-vlm", backend="metal"), "apple", "mlx"),
        (setting_for(backend="vulkan"), "arc", "vulkan intel"),
        (setting_for(backend="sycl"), "arc", "vulkan intel"),
        (setting_for(backend="vulkan", build=2000), "radeon", "vulkan"),
        (setting_for(engine="vllm", backend="rocm"), "hbm", "rocm"),
        (setting_for(backend="directml"), "radeon", "unknown"),
    ],
)
def test_each_engine_and_backend_has_its_cost_per_layer(setting: RunSetting, device: str, expected_class: str) -> None:
    assert software_class(setting, device) == expected_class


def test_every_class_has_all_its_constants_and_they_are_physical() -> None:
    for name, kind in DEVICES.items():
        assert 0.4 < kind.efficiency <= 1.0, name
        assert 0.1 < kind.spread < 2.0, name
    for name, software in SOFTWARE.items():
        assert 0 <= software.expert_layer_s < 1e-3 > software.layer_s > 1e-6, name
    for device in devices.device_table():
        for gpu in make_machine(gpus=[{"name": device.name}], ram_gb=64).gpus:
            for used_device in devices_in_use(
                make_machine(gpus=[{"name": device.name}], ram_gb=64), setting_for(backend="vulkan")
            ):
                assert device_class(gpu) in DEVICES
                assert prefill_kind(used_device) in PREFILL


def test_both_calls_take_less_than_a_millisecond() -> None:
    facts = replace(SEVENTY, experts=16, experts_used=2).facts("Q4_K_M")
    times_ms = []
    for _ in range(20):
        began = time.perf_counter()
        decode_rate(facts, RTX_4090, CUDA, depth=4096)
        prefill_rate(facts, RTX_4090, CUDA, depth=4096)
        times_ms.append(time.perf_counter() - began)
    assert min(times_ms) < 1e-3  # the best of many: other programs run here, too
