from pathlib import Path

import pytest

from app.core.capabilities import InfillStyle
from app.core.errors import BadRequest, NotFound
from app.core.model_facts import WeightKind
from app.hub.facts import read_facts
from app.hub.facts.capabilities import read_infill_style
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


def test_a_base_model_needs_no_template_to_fill_in_and_a_model_of_vectors_does_not(tmp_path: Path) -> None:
    vocabulary = Typed(ARRAY, ["a", "<fim_prefix>"], STRING)
    cases: list[tuple[str, Value, bool]] = [("tokenizer.chat_template", "", True), ("llama.pooling_type", 1, False)]
    for key, value, can in cases:
        file = TinyLlama(values={"tokenizer.ggml.tokens": vocabulary, key: value}).write(tmp_path / "model.gguf")
        assert ("infill" in read_facts(file).capabilities) is can


@pytest.mark.parametrize(
    ("mark", "style"),
    [
        ("<|fim_prefix|>", InfillStyle.QWEN),
        ("<fim_prefix>", InfillStyle.STARCODER),
        ("<fim-prefix>", InfillStyle.GRANITE),
        ("\u2581<PRE>", InfillStyle.CODE_LLAMA),
        ("<\uff5cfim\u2581begin\uff5c>", InfillStyle.DEEPSEEK),
        ("<|code_prefix|>", InfillStyle.GLM),
        ("<prefix>", None),
    ],
)
def test_the_marks_of_a_gap_say_how_its_prompt_is_written(mark: str, style: InfillStyle | None, tmp_path: Path) -> None:
    vocabulary = Typed(ARRAY, [f"word{number}" for number in range(500)] + [mark], STRING)
    file = TinyLlama(values={"tokenizer.ggml.tokens": vocabulary}).write(tmp_path / "model.gguf")
    assert read_infill_style(file) is style
    assert ("infill" in read_facts(file).capabilities) is (style is not None)


def test_a_file_that_cannot_be_read_says_nothing_of_gaps(tmp_path: Path) -> None:
    broken_file = tmp_path / "broken.gguf"
    broken_file.write_bytes(b"GGUF\x03")
    assert read_infill_style(broken_file) is None
    assert read_infill_style(tmp_path / "gone.gguf") is None


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
