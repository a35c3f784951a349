"""What goes with a model: told by names in a repository, by headers where it lies, and refused for another model."""

from pathlib import Path

import pytest

from app.core.models import CompanionKind
from app.hub.library import companions
from app.hub.library.companions import kind_by_name
from tests.gguf_files import ARRAY, STRING, TinyLlama, Typed, gguf_bytes, lora_for, vocabulary


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return TinyLlama().write(tmp_path / "tiny-Q4_K_M.gguf")


def projector(path: Path) -> Path:
    path.write_bytes(gguf_bytes({"general.architecture": "clip", "general.type": "mmproj"}))
    return path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mmproj-model-f16.gguf", CompanionKind.PROJECTOR),
        ("Qwen3-VL.mmproj-Q8_0.gguf", CompanionKind.PROJECTOR),
        ("style-lora-f16.gguf", CompanionKind.LORA),
        ("adapter.gguf", CompanionKind.LORA),
        ("Qwen3-0.6B-draft-Q8_0.gguf", CompanionKind.DRAFT),
        ("mtp-Q8_0.gguf", CompanionKind.DRAFT),
        ("folder/model-eagle3.gguf", CompanionKind.DRAFT),
        ("Explorative-7B-Q4_K_M.gguf", None),
        ("Drafty-8B.gguf", None),
    ],
)
def test_names_tell_what_a_file_is(name: str, kind: CompanionKind | None) -> None:
    assert kind_by_name(name) is kind


def test_an_adapter_goes_with_the_model_it_was_made_for(tmp_path: Path, model: Path) -> None:
    assert companions.why_no_lora(model, lora_for(TinyLlama(), tmp_path / "style.gguf")) == ""
    wide = companions.why_no_lora(model, lora_for(TinyLlama(), tmp_path / "wide.gguf", wide=96))
    assert wide == "wide.gguf was made for another model: blk.0.attn_q.weight has another shape here, or is not there."
    deep = companions.why_no_lora(model, lora_for(TinyLlama(layers=3), tmp_path / "deep.gguf"))
    assert "blk.2.attn_q.weight" in deep


def test_what_is_no_adapter_is_refused(tmp_path: Path, model: Path) -> None:
    assert companions.why_no_lora(model, model) == "tiny-Q4_K_M.gguf is not a LoRA adapter."
    (tmp_path / "text.gguf").write_text("nothing of the kind")
    assert companions.why_no_lora(model, tmp_path / "text.gguf") == "text.gguf cannot be read as GGUF."
    other = tmp_path / "other.gguf"
    other.write_bytes(gguf_bytes({"general.type": "adapter", "general.architecture": "qwen3"}))
    assert companions.why_no_lora(model, other) == "other.gguf was made for qwen3 models, and this model is llama."


def test_a_projector_is_told_by_its_header(tmp_path: Path, model: Path) -> None:
    assert companions.why_no_projector(projector(tmp_path / "anything.gguf")) == ""
    assert companions.why_no_projector(model) == "tiny-Q4_K_M.gguf is not a projector."


def test_a_draft_needs_the_same_tokens(tmp_path: Path, model: Path) -> None:
    assert companions.why_no_draft(model, TinyLlama(layers=1).write(tmp_path / "small.gguf")) == ""
    words = vocabulary()
    swapped_words = [*words[:40], words[41], words[40], *words[42:]]
    assert "its tokens differ" in companions.why_no_draft(model, write_words(tmp_path / "swapped.gguf", swapped_words))
    assert companions.why_no_draft(model, write_words(tmp_path / "padded.gguf", [*words, "<pad>"])) == ""
    more = [*words, *(f"<{number}>" for number in range(200))]
    assert companions.why_no_draft(model, write_words(tmp_path / "more.gguf", more)) == (
        f"more cannot be its draft model: it has {len(more)} tokens, and this model has {len(words)}."
    )


def test_what_is_no_model_cannot_draft(tmp_path: Path, model: Path) -> None:
    assert "is not a model" in companions.why_no_draft(model, lora_for(TinyLlama(), tmp_path / "style.gguf"))
    assert "cannot be read" in companions.why_no_draft(model, tmp_path / "gone.gguf")


def test_a_made_draft_is_of_the_kind_its_name_says(tmp_path: Path, model: Path) -> None:
    head = tmp_path / "model-eagle3.gguf"
    head.write_bytes(gguf_bytes({"general.architecture": "eagle3"}))
    assert companions.draft_kind(head) == "eagle3"
    assert companions.draft_kind(tmp_path / "mtp-Q8_0.gguf") == "mtp"
    assert companions.why_no_draft(model, head) == "", "it has no vocabulary of its own"


def write_words(path: Path, words: list[str]) -> Path:
    return TinyLlama(values={"tokenizer.ggml.tokens": Typed(ARRAY, words, STRING)}).write(path)
