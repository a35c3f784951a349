"""Adapters and drafts that go with a model that is a folder."""

import json
from pathlib import Path

import pytest

from app.hub.library import folder_companions


def folder_with(folder: Path, **files: object) -> Path:
    folder.mkdir()
    for name, body in files.items():
        (folder / f"{name}.json").write_text(json.dumps(body), encoding="utf-8")
    return folder


def make_adapter(folder: Path, **config: object) -> Path:
    place = folder_with(folder / "polite", adapter_config={"r": 8, "lora_alpha": 16, **config})
    (place / "adapter_model.safetensors").write_bytes(b"")
    return place


def test_an_adapter_may_be_named_by_its_folder_or_its_weights(tmp_path: Path) -> None:
    place = make_adapter(tmp_path)
    assert folder_companions.why_no_adapter(place) == ""
    assert folder_companions.why_no_adapter(place / "adapter_model.safetensors") == ""
    assert folder_companions.adapter_place(place / "adapter_model.safetensors") == place
    assert folder_companions.adapter_place(tmp_path / "style.gguf") == tmp_path / "style.gguf"


def test_what_is_no_adapter_is_said(tmp_path: Path) -> None:
    assert "adapter_config.json" in folder_companions.why_no_adapter(tmp_path)
    (tmp_path / "adapter_config.json").write_text("[", encoding="utf-8")
    assert "adapter_config.json" in folder_companions.why_no_adapter(tmp_path)
    assert "fan_in_fan_out" in folder_companions.why_no_adapter(make_adapter(tmp_path, fan_in_fan_out=True))


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"vocab_size": 32_064}, ""),
        ({"text_config": {"vocab_size": 32_000}}, ""),
        ({"vocab_size": 151_936}, "it has 151,936 tokens, and this model has 32,000"),
        ({}, "is not a model"),
    ],
    ids=["padded", "within", "another", "none"],
)
def test_a_draft_has_the_model_s_vocabulary(tmp_path: Path, config: dict[str, object], problem: str) -> None:
    model = folder_with(tmp_path / "model", config={"vocab_size": 32_000})
    draft = folder_with(tmp_path / "draft", config=config)
    why = folder_companions.why_no_draft(model, draft)
    assert (problem in why) if problem else not why
