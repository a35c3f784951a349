from pathlib import Path

import pytest

from app.core.errors import BadRequest, NotFound
from app.core.model_facts import WeightKind
from app.hub.facts import read_facts
from tests.gguf_files import ARRAY, STRING, TinyLlama, Typed, Value, gguf_bytes

GUIDE = Path(__file__).resolve().parents[4] / "resources" / "guide" / "guide-q8_0.gguf"


def test_the_guide_is_read_to_the_byte() -> None:
    facts = read_facts(GUIDE)
    assert (facts.format, facts.architecture, facts.quantization) == ("gguf", "llama", "Q8_0")
    assert (facts.hidden, facts.vocabulary, len(facts.layers)) == (256, 2048, 5)
    assert facts.file_bytes == GUIDE.stat().st_size
    weights = sum(group.padded_bytes for group in facts.weights)
    assert weights == 2048 * 256 // 32 * 34 + 5 * (196_608 + 491_520) // 32 * 34 + 11 * 256 * 4
    assert facts.tied_embeddings
    assert facts.capabilities == ["chat"]
    assert "<|im_start|>" in facts.chat_template


def test_a_second_template_may_know_tools(tmp_path: Path) -> None:
    values: dict[str, Value] = {"tokenizer.chat_template.tool_use": "{{ tools }}"}
    facts = read_facts(TinyLlama(values=values).write(tmp_path / "m.gguf"))
    assert (facts.tool_template, facts.capabilities) == ("{{ tools }}", ["chat", "tools"])
    assert "tools" not in facts.chat_template


def test_the_parts_of_a_split_model_are_summed(tmp_path: Path) -> None:
    whole = TinyLlama()
    tensors = whole.tensors()
    first, second = tmp_path / "tiny-00001-of-00002.gguf", tmp_path / "tiny-00002-of-00002.gguf"
    first.write_bytes(gguf_bytes({**whole.metadata(), "split.count": 2}, tensors[:5]))
    second.write_bytes(gguf_bytes({"split.no": 1, "split.count": 2}, tensors[5:]))
    alone = read_facts(whole.write(tmp_path / "alone.gguf"))
    split = read_facts(second)
    assert (split.name, split.parameters, split.layers) == ("tiny", alone.parameters, alone.layers)
    assert split.file_bytes == first.stat().st_size + second.stat().st_size
    assert {(g.kind, g.layer): g.bytes for g in split.weights} == {(g.kind, g.layer): g.bytes for g in alone.weights}
    second.unlink()
    with pytest.raises(NotFound, match="tiny-00002-of-00002"):
        read_facts(first)


def test_tokens_for_filling_in_the_middle_are_noticed(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(1000)]
    for extra, can in (([], False), (["<|fim_prefix|>"], True)):
        vocabulary = Typed(ARRAY, [*words, *extra], STRING)
        file = TinyLlama(values={"tokenizer.ggml.tokens": vocabulary}).write(tmp_path / "model.gguf")
        assert ("infill" in read_facts(file).capabilities) is can


def test_a_projector_is_all_projector(tmp_path: Path) -> None:
    file = tmp_path / "mmproj-x.gguf"
    values: dict[str, Value] = {
        "general.architecture": "clip",
        "general.type": "mmproj",
        "clip.has_vision_encoder": True,
    }
    file.write_bytes(
        gguf_bytes(values, [("v.blk.0.attn_q.weight", [4, 4], bytes(64)), ("mm.0.weight", [4], bytes(16))])
    )
    facts = read_facts(file)
    assert [(group.kind, group.bytes) for group in facts.weights] == [(WeightKind.PROJECTOR, 80)]
    assert (facts.layers, facts.capabilities, facts.active_parameters) == ([], ["vision"], 0)


def test_an_adapter_is_no_model(tmp_path: Path) -> None:
    file = tmp_path / "lora.gguf"
    file.write_bytes(gguf_bytes({"general.architecture": "llama", "general.type": "adapter"}))
    with pytest.raises(BadRequest, match="is part of another model"):
        read_facts(file)
