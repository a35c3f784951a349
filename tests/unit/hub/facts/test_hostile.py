"""Whatever bytes a file holds, reading it gives facts or a refusal with a stable code, in bounded memory."""

import json
import os
import shutil
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.core.errors import BadRequest, NotFound
from app.core.model_facts import ModelFacts
from app.hub.facts import read_facts
from app.hub.facts.hf_config import ARCHITECTURES, FIELDS
from app.hub.facts.hugging_face import FolderContent, facts_of
from app.hub.facts.layers import layers_of
from app.hub.facts.metadata import Metadata
from app.hub.facts.safetensors import read_safetensors
from app.hub.gguf.header import read_header
from tests.gguf_files import ARRAY, INT32, TinyLlama, Typed, gguf_bytes
from tests.safetensors_files import header_bytes

TINY = Path(__file__).resolve().parents[3] / "fixtures" / "models" / "tiny-qwen2"
CODES = {"model_corrupt", "model_unsupported", "model_unreadable", "model_not_found"}
MIB = 1 << 20

QUICK = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
HUGE = st.sampled_from([2**64 - 1, 2**63, 2**53, 2**32 - 1, 2**31, 10**6, 0])


class Bytes:
    """A source that is all in memory."""

    first_bytes = 1 << 20

    def __init__(self, content: bytes, size: int | None = None) -> None:
        self._content = content
        self.size = len(content) if size is None else size

    def read_at(self, offset: int, count: int) -> bytes:
        return self._content[offset : offset + count]


def outcome(path: Path) -> str:
    return outcome_of(lambda: read_facts(path))


def outcome_of(read: Callable[[], ModelFacts]) -> str:
    """Read; what comes back has to be encodable, as it crosses process boundaries."""
    try:
        msgspec.json.encode(read())
    except (BadRequest, NotFound) as error:
        return error.code
    return "read"


@contextmanager
def peak_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def replace_bytes(content: bytes, at: int, replacement: bytes) -> bytes:
    return content[:at] + replacement + content[at + len(replacement) :]


GGUF = gguf_bytes(
    {
        "general.architecture": "qwen35",
        "general.alignment": 32,
        "qwen35.block_count": 3,
        "qwen35.embedding_length": 64,
        "qwen35.attention.head_count": 4,
        "qwen35.attention.head_count_kv": Typed(ARRAY, [0, 2, 2], INT32),
        "qwen35.ssm.inner_size": 128,
        "qwen35.ssm.state_size": 16,
        "qwen35.ssm.conv_kernel": 4,
        "qwen35.nextn_predict_layers": 1,
        "tokenizer.chat_template": "{{ tools }}",
    },
    [("blk.0.ffn_up.weight", [64, 4], bytes(1024)), ("token_embd.weight", [64, 2], bytes(512))],
)


@QUICK
@given(at=st.integers(0, len(GGUF) - 1), replacement=st.binary(min_size=1, max_size=8), end=st.integers(0, len(GGUF)))
def test_a_mutated_gguf_file_is_read_or_refused(tmp_path: Path, at: int, replacement: bytes, end: int) -> None:
    (tmp_path / "m.gguf").write_bytes(replace_bytes(GGUF, at, replacement)[:end])
    assert outcome(tmp_path / "m.gguf") in {"read", *CODES}


@QUICK
@given(at=st.integers(4, len(GGUF) - 8), number=HUGE)
def test_huge_numbers_in_a_gguf_file_are_read_or_refused(tmp_path: Path, at: int, number: int) -> None:
    (tmp_path / "m.gguf").write_bytes(replace_bytes(GGUF, at, struct.pack("<Q", number)))
    assert outcome(tmp_path / "m.gguf") in {"read", *CODES}


SAFETENSORS, DATA_BYTES = header_bytes(
    {
        "model.embed_tokens.weight": ("BF16", [320, 64]),
        "model.layers.0.mlp.up_proj.qweight": ("I32", [8, 64]),
        "model.layers.0.mlp.up_proj.qzeros": ("I32", [2, 8]),
        "model.layers.0.mlp.up_proj.scales": ("F16", [2, 64]),
        "model.layers.0.mlp.down_proj.trellis": ("I16", [4, 4, 48]),
        "model.layers.1.self_attn.q_proj.weight": ("U32", [64, 8]),
        "model.layers.1.self_attn.q_proj.scales": ("F16", [64, 1]),
    },
    {"format": "mlx"},
)
CONFIG = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 320}


def write_folder(folder: Path, header: bytes) -> Path:
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "model.safetensors").write_bytes(header + bytes(DATA_BYTES))
    return folder


def test_the_unmutated_folder_is_read(tmp_path: Path) -> None:
    assert outcome(write_folder(tmp_path, SAFETENSORS)) == "read"


@QUICK
@given(at=st.integers(0, len(SAFETENSORS) - 1), replacement=st.binary(min_size=1, max_size=8))
def test_a_mutated_safetensors_header_is_read_or_refused(tmp_path: Path, at: int, replacement: bytes) -> None:
    assert outcome(write_folder(tmp_path, replace_bytes(SAFETENSORS, at, replacement))) in {"read", *CODES}


@QUICK
@given(
    at=st.integers(8, len(SAFETENSORS) - 1),
    text=st.sampled_from([b"99999999999999999999", b"-1", b"1e9", b"null", b'"', b"[", b"{", b"0.5", b"true"]),
)
def test_other_json_in_a_safetensors_header_is_read_or_refused(tmp_path: Path, at: int, text: bytes) -> None:
    body = SAFETENSORS[8:at] + text + SAFETENSORS[at + 1 :]
    assert outcome(write_folder(tmp_path, struct.pack("<Q", len(body)) + body)) in {"read", *CODES}


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\x08\0\0\0\0\0\0",
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 4) + b'{"a"',
        struct.pack("<Q", 60) + b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,999999]}} ',
        struct.pack("<Q", 60) + b'{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,0000016]}} ',
        struct.pack("<Q", 54) + b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[16]}} ',
        struct.pack("<Q", 57) + b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}}  ',
    ],
)
def test_impossible_safetensors_are_refused(tmp_path: Path, header: bytes) -> None:
    write_folder(tmp_path, header)
    (tmp_path / "model.safetensors").write_bytes(header.ljust(80, b"\0") if len(header) > 8 else header)
    assert outcome(tmp_path) == "model_corrupt"


def test_tensors_may_not_lie_on_top_of_each_other() -> None:
    text = json.dumps({name: {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]} for name in "abc"}).encode()
    with pytest.raises(BadRequest, match="on top of each other"):
        read_safetensors(Bytes(struct.pack("<Q", len(text)) + text + bytes(8)))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
OTHER_KEYS = (
    "layer_types text_config quantization quantization_config tie_word_embeddings auto_map no_rope_layers "
    "architectures linear_attn_config hybrid_override_pattern full_attn_idxs sliding_window_pattern vision_config "
    "torch_dtype mamba_expand attn_layer_period global_head_dim block_auto_adjust_ff_dim multi_query layers_block_type"
)
known_keys = st.sampled_from(sorted({*OTHER_KEYS.split(), *(name for names in FIELDS.values() for name in names)}))
likely = st.integers(0, 9) | st.lists(st.integers(0, 3), max_size=4) | st.lists(st.sampled_from(["mamba", "full"]))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    model_type=st.sampled_from(["llama", "gemma4_text", "qwen3_5_text", "unheard-of", *ARCHITECTURES]),
    wild=st.dictionaries(known_keys, json_values | likely, max_size=8),
)
def test_any_configuration_is_read_or_refused(model_type: str, wild: dict[str, object]) -> None:
    files = FolderContent(config={**CONFIG, **wild, "model_type": model_type})
    assert outcome_of(lambda: facts_of(files, name="x", source="")) in {"read", *CODES}


def test_nothing_is_divided_by_groups_that_a_configuration_does_not_state() -> None:
    config = {**CONFIG, "model_type": "granitemoehybrid", "num_attention_heads": None, "ssm_state_size": 1}
    assert outcome_of(lambda: facts_of(FolderContent(config=config), name="x", source="")) in {"read", *CODES}


@QUICK
@given(at=st.integers(0, 18_000), replacement=st.binary(min_size=1, max_size=12), cut=st.booleans())
def test_a_mutated_onnx_graph_is_read_or_refused(tmp_path: Path, at: int, replacement: bytes, *, cut: bool) -> None:
    folder = shutil.copytree(TINY / "onnx", tmp_path / "onnx", dirs_exist_ok=True)
    content = (TINY / "onnx" / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(content[:at] if cut else replace_bytes(content, at, replacement))
    assert outcome(folder) in {"read", *CODES}


@pytest.mark.slow
@QUICK
@given(at=st.integers(0, 160_000), replacement=st.binary(min_size=1, max_size=40))
def test_a_mutated_openvino_graph_is_read_or_refused(tmp_path: Path, at: int, replacement: bytes) -> None:
    folder = shutil.copytree(TINY / "ov", tmp_path / "ov", dirs_exist_ok=True)
    (folder / "openvino_model.bin").write_bytes(bytes(459_045))
    graph = (TINY / "ov" / "openvino_model.xml").read_bytes()
    (folder / "openvino_model.xml").write_bytes(replace_bytes(graph, at, replacement))
    assert outcome(folder) in {"read", *CODES}


def test_an_openvino_graph_of_open_tags_costs_no_time(tmp_path: Path) -> None:
    folder = shutil.copytree(TINY / "ov", tmp_path / "ov")
    (folder / "openvino_model.bin").write_bytes(b"")
    (folder / "openvino_model.xml").write_bytes(b'<layer name="' * 600_000)
    start = time.process_time()
    assert outcome(folder) in {"read", *CODES}
    assert time.process_time() - start < 5


def test_external_onnx_files_are_not_looked_for_elsewhere(tmp_path: Path) -> None:
    folder = shutil.copytree(TINY / "onnx", tmp_path / "onnx")
    shutil.copy(folder / "model.onnx", tmp_path / "model.onnx")
    config = json.loads((folder / "genai_config.json").read_text())
    config["model"]["decoder"]["filename"] = "../model.onnx"
    (folder / "genai_config.json").write_text(json.dumps(config))
    assert outcome(folder) == "model_corrupt"


def test_a_gguf_header_of_many_tensors_costs_what_it_holds() -> None:
    count = 60_000
    tensor = struct.pack("<Q", 1) + b"t" + struct.pack("<IQIQ", 1, 1, 0, 0)
    content = b"GGUF" + struct.pack("<IQQ", 3, count, 1) + gguf_bytes({"general.architecture": "x"})[24:64]
    with peak_below(64 * MIB), pytest.raises(BadRequest):
        read_header(Bytes(content + tensor * count, size=1 << 40))


@pytest.mark.slow
def test_gguf_lists_and_texts_are_kept_within_limits() -> None:
    long_list = Typed(ARRAY, list(range(4000)), INT32)
    values = {f"x.list{number}": long_list for number in range(300)} | {"general.architecture": "x"}
    texts = {f"x.text{number}": "t" * 60_000 for number in range(100)}
    content = gguf_bytes({**values, **texts})
    with peak_below(24 * MIB):
        header = read_header(Bytes(content))
    assert sum(len(value) for value in header.values.values() if isinstance(value, list)) <= 65_536
    assert sum(len(value) for value in header.values.values() if isinstance(value, str)) <= 2 * MIB + 1


def test_a_long_template_is_cut(tmp_path: Path) -> None:
    file = TinyLlama(values={"tokenizer.chat_template": "tools " * 100_000}).write(tmp_path / "m.gguf")
    facts = read_facts(file)
    assert len(facts.chat_template) == 256 * 1024
    assert "tools" in facts.capabilities


def test_a_safetensors_header_of_lists_is_refused_early() -> None:
    text = b'{"a":{"shape":[' + b"[]," * (4 << 20) + b"0]}}"
    with peak_below(32 * MIB), pytest.raises(BadRequest):
        read_safetensors(Bytes(struct.pack("<Q", len(text)) + text))


def test_a_long_safetensors_header_is_not_read(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, struct.pack("<Q", 1 << 33))
    os.truncate(folder / "model.safetensors", 1 << 34)
    with peak_below(4 * MIB):
        assert outcome(folder) == "model_corrupt"


def test_layers_beyond_any_model_are_not_built() -> None:
    with peak_below(MIB), pytest.raises(BadRequest):
        layers_of(Metadata({"general.architecture": "llama", "llama.block_count": 2**31 - 1}))
