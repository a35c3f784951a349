import os
import random
import struct
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.core.errors import BadRequest, NotFound
from app.hub.gguf import header
from app.hub.gguf.listing import GgufFacts, read_gguf
from app.hub.gguf.values import MAX_NUMBER
from tests.depth import trials
from tests.gguf_files import ARRAY, STRING, UINT32, UINT64, TinyLlama, Typed, Value, gguf_bytes, packed_text, vocabulary

TINY = TinyLlama().content()
CODES = {"model_corrupt", "model_unsupported", "model_unreadable"}


def read(content: bytes, folder: Path) -> GgufFacts:
    file = folder / "model.gguf"
    file.write_bytes(content)
    return read_gguf(file)


def refusal(content: bytes, folder: Path) -> BadRequest:
    with pytest.raises(BadRequest) as error:
        read(content, folder)
    return error.value


def test_a_whole_model_says_what_it_is(tmp_path: Path) -> None:
    facts = read(TINY, tmp_path)
    assert (facts.architecture, facts.name) == ("llama", "Tiny Random")
    assert (facts.quantization, facts.trained_context) == ("F32", 2048)
    assert facts.parameters == 2 * len(vocabulary()) * 64 + 64 + 2 * (2 * 64 + 4 * 64 * 64 + 3 * 64 * 128)
    assert facts.capabilities == ["chat"]
    assert facts.data_end == facts.file_bytes == len(TINY)
    assert facts.missing_bytes == 0


def test_an_interrupted_download_is_noticed_from_the_header(tmp_path: Path) -> None:
    assert read(TINY[:-1000], tmp_path).missing_bytes == 1000


@pytest.mark.parametrize(
    ("architecture", "pooling_type", "capabilities"),
    [
        ("llama", 0, []),
        ("llama", 3, ["embedding"]),
        ("bert", 0, ["embedding"]),  # an encoder writes nothing, whatever it says of pooling
        ("bert", 1, ["embedding"]),
        ("bert", 4, ["rerank"]),
    ],
)
def test_pooling_tells_embedding_models_and_rerankers(
    tmp_path: Path, architecture: str, pooling_type: int, capabilities: list[str]
) -> None:
    content = gguf_bytes({"general.architecture": architecture, f"{architecture}.pooling_type": pooling_type})
    assert read(content, tmp_path).capabilities == capabilities


def test_an_unknown_quantisation_and_context_stay_unknown(tmp_path: Path) -> None:
    facts = read(gguf_bytes({"general.architecture": "llama", "general.file_type": 999}), tmp_path)
    assert (facts.quantization, facts.trained_context) == ("", None)


def test_control_characters_do_not_reach_a_screen(tmp_path: Path) -> None:
    facts = read(gguf_bytes({"general.architecture": "llama", "general.name": "a\x1b[31mred\n"}), tmp_path)
    assert facts.name == "a[31mred"


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"", "model_corrupt", "empty"),
        (b"GG", "model_corrupt", "not a GGUF file"),
        (b"GGUX" + TINY[4:], "model_corrupt", "not a GGUF file"),
        (b"hello, I am no model" * 9, "model_corrupt", "not a GGUF file"),
        (TINY[:700], "model_corrupt", "ends in the middle"),
        (b"GGUF" + struct.pack("<I", 9) + TINY[8:], "model_unsupported", "version 9"),
        (b"GGUF" + struct.pack("<I", 1) + TINY[8:], "model_unsupported", "version 1"),
        (b"GGUF" + struct.pack(">I", 3) + TINY[8:], "model_unsupported", "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 1), "model_corrupt", "more parts"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "model_corrupt", "more parts"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**63), "model_corrupt", "impossible length"),
        (gguf_bytes({"general.name": "nameless kind"}), "model_corrupt", "what kind of model"),
        (gguf_bytes({"general.architecture": "x", "general.alignment": 2**31}), "model_corrupt", "alignment"),
    ],
)
def test_damage_is_named(tmp_path: Path, content: bytes, code: str, words: str) -> None:
    error = refusal(content, tmp_path)
    assert error.code == code
    assert words in str(error)


def header_with(value: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + packed_text("some.key") + value


@pytest.mark.parametrize(
    "value",
    [
        struct.pack("<I", 99),
        struct.pack("<IQ", STRING, 2**62),
        struct.pack("<IIQ", ARRAY, UINT64, 2**61),
        struct.pack("<IIQ", ARRAY, STRING, 2**61),
        struct.pack("<IIQQ", ARRAY, STRING, 2, 2**64 - 1),
        struct.pack("<IIQ", ARRAY, ARRAY, 2**40),
        struct.pack("<I", ARRAY) + struct.pack("<IQ", ARRAY, 1) * 50 + struct.pack("<IQ", UINT32, 0),
    ],
    ids=["type", "text", "numbers", "texts", "long text in texts", "lists", "nesting"],
)
def test_a_value_that_cannot_be_is_refused_without_allocating_it(tmp_path: Path, value: bytes) -> None:
    assert refusal(header_with(value) + bytes(64), tmp_path).code == "model_corrupt"


def test_lists_without_end_do_not_keep_us_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header, "MAX_ARRAY_ITEMS", 100)
    endless: dict[str, Value] = {"general.architecture": "llama", "words": Typed(ARRAY, [""] * 101, STRING)}
    assert "longer than any model" in str(refusal(gguf_bytes(endless), tmp_path))


def test_texts_across_the_edge_of_the_window_are_stepped_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header, "WINDOW_BYTES", 37)
    assert read(TINY, tmp_path).trained_context == 2048


@pytest.mark.slow
def test_a_file_of_many_gigabytes_costs_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "huge.gguf"
    file.write_bytes(header_with(struct.pack("<IIQ", ARRAY, STRING, 1_000_000) + struct.pack("<Q", 3 * 2**30)))
    os.truncate(file, 8 * 2**30)
    tracemalloc.start()
    try:
        with pytest.raises(BadRequest):
            read_gguf(file)
        assert tracemalloc.get_traced_memory()[1] < 4 * header.WINDOW_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("shape", "offset"), [([2**40, 2**40], 0), ([1], 2**60), ([1] * 9, 0)])
def test_impossible_tensors_are_refused(tmp_path: Path, shape: list[int], offset: int) -> None:
    content = b"GGUF" + struct.pack("<IQQ", 3, 1, 1)
    content += packed_text("general.architecture") + struct.pack("<I", STRING) + packed_text("llama")
    content += packed_text("t") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset)
    assert "impossible" in str(refusal(content, tmp_path))


def test_a_tensor_of_unknown_type_leaves_the_end_unknown(tmp_path: Path) -> None:
    content = b"GGUF" + struct.pack("<IQQ", 3, 1, 1)
    content += packed_text("general.architecture") + struct.pack("<I", STRING) + packed_text("llama")
    content += packed_text("t") + struct.pack("<IQIQ", 1, 5, 4_000, 0)
    facts = read(content, tmp_path)
    assert (facts.data_end, facts.missing_bytes, facts.parameters) == (None, 0, 5)


def test_a_missing_file_a_folder_and_a_pipe_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as error:
        read_gguf(tmp_path / "nothing.gguf")
    assert error.value.code == "model_not_found"
    with pytest.raises(BadRequest) as folder:
        read_gguf(tmp_path)
    assert folder.value.code == "model_unreadable"
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.gguf")
        with pytest.raises(BadRequest) as pipe:
            read_gguf(tmp_path / "pipe.gguf")
        assert pipe.value.code == "model_unreadable"


def outcome(content: bytes, folder: Path) -> str:
    try:
        return "read" if read(content, folder).parameters <= MAX_NUMBER else "nonsense"
    except BadRequest as error:
        return error.code


def reads_or_refuses(content: bytes, folder: Path) -> None:
    assert outcome(content, folder) in {"read", *CODES}


QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(content=st.binary(max_size=400))
def test_random_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    reads_or_refuses(content, tmp_path)
    reads_or_refuses(b"GGUF\x03\0\0\0" + content, tmp_path)


SMALL = gguf_bytes(
    {
        "general.architecture": "llama",
        "general.name": "x",
        "llama.context_length": 5,
        "words": Typed(ARRAY, ["a", "bc"], STRING),
        "numbers": Typed(ARRAY, [1, 2], UINT32),
    },
    [("t", [4], bytes(16))],
)


@QUICK
@given(at=st.integers(0, len(SMALL) - 1), replacement=st.binary(min_size=1, max_size=8), end=st.integers(0, len(SMALL)))
def test_a_mutated_header_is_read_or_refused(tmp_path: Path, at: int, replacement: bytes, end: int) -> None:
    reads_or_refuses((SMALL[:at] + replacement + SMALL[at + len(replacement) :])[:end], tmp_path)


@QUICK
@given(at=st.integers(4, len(SMALL) - 8), number=st.sampled_from([2**64 - 1, 2**63, 2**32 - 1, 2**31, 10**6, 0]))
def test_huge_numbers_anywhere_are_read_or_refused(tmp_path: Path, at: int, number: int) -> None:
    reads_or_refuses(SMALL[:at] + struct.pack("<Q", number) + SMALL[at + 8 :], tmp_path)


def test_keys_are_charged_like_texts(tmp_path: Path) -> None:
    long = refusal(gguf_bytes({"k" * 2000: 1}), tmp_path)
    assert "impossible length" in str(long)
    many = gguf_bytes({f"{number:04}" + "k" * 1000: 1 for number in range(3000)})
    tracemalloc.start()
    assert "more to say of itself" in str(refusal(many, tmp_path))
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def test_no_text_hides_a_template(tmp_path: Path) -> None:
    filler = {f"general.note{number}": "x" * 65_000 for number in range(40)}
    template = {"general.architecture": "llama", "tokenizer.chat_template": "{{ messages }}"}
    assert "chat" in read(gguf_bytes({"general.architecture": "llama", **filler, **template}), tmp_path).capabilities
    templates = {f"tokenizer.chat_template.{number}": "x" * 250_000 for number in range(5)}
    assert "chat templates" in str(refusal(gguf_bytes(templates), tmp_path))


def test_a_vocabulary_has_an_end(tmp_path: Path) -> None:
    claim = packed_text("tokenizer.ggml.tokens") + struct.pack("<IIQ", ARRAY, STRING, 5_000_000)
    content = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + claim + bytes(1000)
    assert "vocabulary" in str(refusal(content, tmp_path))


SHAPES = {
    "llama": {"llama.block_count": 32, "llama.context_length": 131_072, "llama.attention.head_count": 32},
    "qwen3moe": {"qwen3moe.block_count": 48, "qwen3moe.expert_count": 128, "qwen3moe.expert_used_count": 8},
    "gemma3": {"gemma3.block_count": 34, "gemma3.attention.sliding_window": 1024, "gemma3.embedding_length": 2560},
}


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("architecture", SHAPES)
def test_headers_with_a_few_bytes_changed_are_read_or_refused(architecture: str, tmp_path: Path) -> None:
    """In depth 10,000 of all three shapes; none takes long, and together they take no memory that stays."""
    words = Typed(ARRAY, ["<s>", "</s>", *(f"word{number}" for number in range(50))], STRING)
    types = Typed(ARRAY, [1] * 52, UINT32)
    values: dict[str, Value] = {
        "general.architecture": architecture,
        "tokenizer.chat_template": "{{ messages }}",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": types,
        **SHAPES[architecture],
    }
    whole = gguf_bytes(values, [("token_embd.weight", (4, 4), bytes(64))])
    rng = random.Random(architecture)  # noqa: S311 -- the same mutations each time
    slowest_s, file = 0.0, tmp_path / "model.gguf"
    tracemalloc.start()
    for _ in range(trials(700, deep=3_334)):
        content = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            content[rng.randrange(len(content))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        file.write_bytes(content)
        began_s = time.process_time()
        try:
            read_gguf(file)
        except BadRequest as error:
            assert error.code in CODES  # noqa: PT017 -- most are refused, some are read
        slowest_s = max(slowest_s, time.process_time() - began_s)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert slowest_s < 0.5
    assert peak < 64 << 20
