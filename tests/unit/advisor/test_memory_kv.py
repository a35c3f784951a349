"""KV and state by the closed forms, against sizes that llama.cpp logged for known models."""

import pytest

from app.advisor.memory import kv
from app.advisor.memory.setting import RunSetting
from app.core.model_facts import AttentionKind, Layer, ModelFacts
from tests.unit.advisor.engines import setting_for

MIB = 1024 * 1024


def facts(*layers: Layer) -> ModelFacts:
    return ModelFacts(
        name="made by hand",
        format="gguf",
        architecture="any",
        quantization="Q4_K_M",
        layers=list(layers),
        weights=[],
        hidden=4096,
        vocabulary=32000,
        file_bytes=0,
        parameters=0,
        active_parameters=0,
    )


def full(kv_heads: int, key: int, value: int | None = None) -> Layer:
    return Layer(heads=32, kv_heads=kv_heads, key_dim=key, value_dim=key if value is None else value)


def make_sliding(kv_heads: int, dim: int, window: int) -> Layer:
    kind = AttentionKind.SLIDING
    return Layer(attention=kind, heads=32, kv_heads=kv_heads, key_dim=dim, value_dim=dim, window=window)


def delta_net() -> Layer:
    """Qwen3.6-27B: d_conv 4, 16 groups of 128, inner size 6144."""
    return Layer(attention=AttentionKind.NONE, conv_elements=3 * (6144 + 2 * 16 * 128), state_elements=128 * 6144)


QWEN36_27B = facts(*[full(4, 256) if index % 4 == 3 else delta_net() for index in range(64)])
GPT_OSS_120B = facts(*[full(8, 64) if index % 2 else make_sliding(8, 64, 128) for index in range(36)])
GEMMA4_12B = facts(
    *[Layer(heads=16, kv_heads=1, key_dim=512, value_dim=512) for _ in range(8)],
    *[make_sliding(8, 256, 1024) for _ in range(40)],
)
LLAMA_8B = facts(*[full(8, 128) for _ in range(32)])


def kv_mib(model: ModelFacts, setting: RunSetting) -> float:
    return sum(kv.layer_kv(layer, setting) for layer in model.layers) / MIB


def state_mib(model: ModelFacts, setting: RunSetting) -> float:
    return sum(kv.layer_state(layer, setting) for layer in model.layers) / MIB


@pytest.mark.parametrize(
    ("model", "setting", "logged_mib"),
    [
        (LLAMA_8B, setting_for(context=2048), 256.0),
        (LLAMA_8B, setting_for(context=8192), 1024.0),
        (LLAMA_8B, setting_for(context=8192, kv_type="q8_0"), 544.0),
        (QWEN36_27B, setting_for(context=32768, slots=4, kv_type="q8_0"), 4352.0),
        (QWEN36_27B, setting_for(context=65024, slots=4, is_kv_unified=True), 16256.0),
        (
            QWEN36_27B,
            setting_for(context=131072, slots=2, kv_type="q8_0", value_type="q5_1", is_kv_unified=True),
            7424.0,
        ),
        (GPT_OSS_120B, setting_for(context=16384, slots=4, is_kv_unified=True), 2340.0),
        (GEMMA4_12B, setting_for(context=4096, kv_type="q8_0"), 289.0),
        (GEMMA4_12B, setting_for(context=2048, slots=4, kv_type="q8_0", is_kv_unified=True), 833.0),
        (GEMMA4_12B, setting_for(context=8192, kv_type="q8_0"), 323.0),
    ],
)
def test_kv_is_what_llama_cpp_logged(model: ModelFacts, setting: RunSetting, logged_mib: float) -> None:
    assert kv_mib(model, setting) == logged_mib


@pytest.mark.parametrize(
    ("setting", "logged_mib"),
    [
        (setting_for(), 149.62),
        (setting_for(slots=4), 598.5),
        (setting_for(rollback_copies=2), 448.88),
    ],
)
def test_state_is_what_llama_cpp_logged(setting: RunSetting, logged_mib: float) -> None:
    assert state_mib(QWEN36_27B, setting) == pytest.approx(logged_mib, abs=0.006)


def test_a_context_is_rounded_up_to_whole_steps_in_each_slot() -> None:
    assert kv.cache_cells(full(8, 128), setting_for(context=1000)) == 1024
    assert kv_mib(LLAMA_8B, setting_for(context=1000, slots=3)) == 3 * kv_mib(LLAMA_8B, setting_for(context=1024))


def test_a_latent_takes_one_vector_per_token_whatever_the_heads() -> None:
    layer = Layer(attention=AttentionKind.LATENT, heads=128, kv_heads=1, latent_dim=576)
    assert kv_mib(facts(*[layer] * 61), setting_for(context=1024)) * MIB == 61 * 1024 * 576 * 2


def test_a_shared_layer_keeps_nothing() -> None:
    layer = Layer(attention=AttentionKind.SHARED, heads=8, kv_heads=2, key_dim=256, value_dim=256)
    assert kv_mib(facts(layer), setting_for()) == 0


def test_a_full_window_cache_keeps_every_token() -> None:
    layer = make_sliding(8, 128, 512)
    assert kv.cache_cells(layer, setting_for(context=8192)) == 1024
    assert kv.cache_cells(layer, setting_for(context=8192, is_swa_full=True)) == 8192


def test_the_arithmetic_says_what_is_multiplied() -> None:
    assert kv.kv_arithmetic(LLAMA_8B, setting_for(context=8192)) == "32 layers x 8192 x 8 x (128 + 128) f16"
    assert kv.kv_arithmetic(LLAMA_8B, setting_for(context=8192, slots=2)).endswith(" x 2 slots")
