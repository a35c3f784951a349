"""Settings of single models: what is kept, what is refused, and a file with mistakes."""

from pathlib import Path

import pytest

from app.config.model_settings import ModelSettingsFile
from app.core.errors import StorageFault
from app.core.models import ModelSettings

SET = ModelSettings(pinned=True, idle_minutes=0, context=16_384)
NAME = "hf.co/someone/Some-Model.GGUF:Q4_K_M"


def test_what_is_set_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "new" / "models.toml"
    ModelSettingsFile(file).change_settings(NAME, SET)
    again = ModelSettingsFile(file)
    assert again.settings_of(NAME) == SET
    assert again.all_settings() == {NAME: SET}
    assert again.settings_of("another") == ModelSettings()


def test_nothing_set_leaves_no_table(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    settings_file = ModelSettingsFile(file)
    settings_file.change_settings("a", SET)
    settings_file.change_settings("b", SET)
    settings_file.change_settings("a", ModelSettings())
    assert settings_file.all_settings() == {"b": SET}
    assert ModelSettingsFile(file).all_settings() == {"b": SET}


def test_comments_and_other_models_stay(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text("# mine\n[a]\nslots = 2 # enough\n", encoding="utf-8")
    ModelSettingsFile(file).change_settings("b", SET)
    assert file.read_text(encoding="utf-8").startswith("# mine\n[a]\nslots = 2 # enough\n")


@pytest.mark.parametrize("wrong", ["pinned = 1", "slots = 0", "context = 'many'", "speed = 3", "kv_type = 'f99'"])
def test_a_mistake_costs_only_its_own_model(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "models.toml"
    file.write_text(f"[bad]\n{wrong}\n[good]\npinned = true\n", encoding="utf-8")
    settings_file = ModelSettingsFile(file)
    assert settings_file.all_settings() == {"good": ModelSettings(pinned=True)}
    assert len(settings_file.problems) == 1
    assert "bad" in settings_file.problems[0]


def test_a_broken_file_counts_for_nothing_and_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text("[a\n", encoding="utf-8")
    settings_file = ModelSettingsFile(file)
    assert settings_file.all_settings() == {}
    assert settings_file.problems
    with pytest.raises(StorageFault):
        settings_file.change_settings("a", SET)
    assert file.read_text(encoding="utf-8") == "[a\n"
    assert settings_file.all_settings() == {}


def test_without_a_file_it_is_kept_in_memory() -> None:
    settings_file = ModelSettingsFile()
    settings_file.change_settings("a", SET)
    assert settings_file.settings_of("a") == SET
