"""The oracle itself: a file without weights is loaded, and what llama.cpp allocates is read from its log."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.oracle import Refused, Setting, load
from tests.weightless import Value, write_weightless

MIB = 2**20
F32, F16, Q4_K, Q6_K = 0, 1, 12, 14
WIDTH, INNER, WORDS, LAYERS, HEADS, KV_HEADS = 1024, 4096, 8192, 4, 8, 2


@dataclass(frozen=True)
class Line:
    name: str
    shape: tuple[int, ...]
    type: int


def metadata() -> dict[str, Value]:
    return {
        "general.architecture": "llama",
        "llama.context_length": 8192,
        "llama.embedding_length": WIDTH,
        "llama.block_count": LAYERS,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
    }


def tensors() -> list[Line]:
    kv = WIDTH // HEADS * KV_HEADS
    block = [
        ("attn_norm", (WIDTH,), F32),
        ("attn_q", (WIDTH, WIDTH), Q4_K),
        ("attn_k", (WIDTH, kv), Q4_K),
        ("attn_v", (WIDTH, kv), Q6_K),
        ("attn_output", (WIDTH, WIDTH), Q4_K),
        ("ffn_norm", (WIDTH,), F32),
        ("ffn_gate", (WIDTH, INNER), Q4_K),
        ("ffn_up", (WIDTH, INNER), Q4_K),
        ("ffn_down", (INNER, WIDTH), Q6_K),
    ]
    blocks = [Line(f"blk.{i}.{name}.weight", shape, kind) for i in range(LAYERS) for name, shape, kind in block]
    outside = [("token_embd", (WIDTH, WORDS), Q4_K), ("output_norm", (WIDTH,), F32), ("output", (WIDTH, WORDS), Q6_K)]
    return [*(Line(f"{name}.weight", shape, kind) for name, shape, kind in outside), *blocks]


@pytest.fixture
def weightless(tmp_path: Path) -> Path:
    return write_weightless(tmp_path / "llama.gguf", metadata(), tensors())


@pytest.mark.real_engine
def test_a_file_without_weights_tells_what_llama_cpp_allocates(weightless: Path) -> None:
    allocated_bytes = load(weightless, Setting(context=2048, slots=2))
    assert (allocated_bytes.context, allocated_bytes.slots) == (2048, 2)
    assert allocated_bytes.of("kv") == LAYERS * 2 * 2048 * KV_HEADS * (128 + 128) * 2
    assert allocated_bytes.of("recurrent") == 0
    assert allocated_bytes.of("compute") > 0
    assert set(allocated_bytes.devices("model")) == {"CPU_Mapped"}
    assert allocated_bytes.of("model") == pytest.approx(weightless.stat().st_size, rel=1e-3)


@pytest.mark.real_engine
def test_a_quantised_cache_and_repacked_weights_show(weightless: Path) -> None:
    allocated_bytes = load(weightless, Setting(context=2048, kv_type="q8_0", flash_attention=True, repack=True))
    assert allocated_bytes.of("kv") == LAYERS * 2048 * KV_HEADS * (128 + 128) * 34 // 32
    assert allocated_bytes.of("model", "CPU_REPACK") > MIB


@pytest.mark.real_engine
def test_what_llama_cpp_misses_is_said(tmp_path: Path) -> None:
    path = write_weightless(tmp_path / "llama.gguf", metadata(), tensors()[:-1])
    with pytest.raises(Refused, match=r"blk\.3\.ffn_down\.weight"):
        load(path)


def test_the_file_takes_hardly_any_disk(weightless: Path) -> None:
    status = weightless.stat()
    assert status.st_size > 30 * MIB
    if sys.platform != "win32":  # which tells no blocks
        assert status.st_blocks * 512 < MIB
