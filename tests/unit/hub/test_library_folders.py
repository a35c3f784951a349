"""Models that are folders: OpenVINO, ONNX Runtime GenAI and Hugging Face, in the list beside GGUF files."""

import os
import shutil
from pathlib import Path

import pytest

from app.config.paths import RESOURCES
from app.core.errors import BadRequest, UserError
from app.core.models import ModelInfo
from app.hub.library.candidates import folder_format
from app.hub.library.library import Library

GUIDE = RESOURCES / "guide"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def library(tmp_path: Path, models: Path) -> Library:
    return Library(lambda: [models], tmp_path / "state" / "models.json", GUIDE / "guide-q8_0.gguf")


def models_by_name(library: Library) -> dict[str, ModelInfo]:
    return {model.name: model for model in library.list_models()[1:]}


def test_folders_of_every_form_are_listed_with_what_they_hold(library: Library, models: Path) -> None:
    for form in ("openvino", "onnx", "hf"):
        shutil.copytree(GUIDE / form, models / f"tiny-{form}")
    model_list = models_by_name(library)
    assert {name: (model.format, model.quantization) for name, model in model_list.items()} == {
        "tiny-openvino": ("openvino", "INT8"),
        "tiny-onnx": ("onnx-genai", model_list["tiny-onnx"].quantization),
        "tiny-hf": ("safetensors", "BF16"),
    }
    for model in model_list.values():
        assert (model.architecture, model.trained_context, model.chats, model.problem) == ("llama", 4096, True, "")
        assert Path(model.path).is_dir()
        assert model.size_bytes > 4_000_000


def test_a_folder_and_a_file_in_it_are_two_models(library: Library, models: Path) -> None:
    shutil.copytree(GUIDE / "openvino", models / "both")
    shutil.copyfile(GUIDE / "guide-q8_0.gguf", models / "both" / "small.gguf")
    assert set(models_by_name(library)) == {"both", "small"}


def test_damage_is_listed_and_other_networks_are_not(library: Library, models: Path) -> None:
    shutil.copytree(GUIDE / "openvino", models / "cut")
    os.truncate(models / "cut" / "openvino_model.bin", 1000)
    shutil.copytree(GUIDE / "onnx", models / "unnamed")
    (models / "unnamed" / "genai_config.json").write_text("{")
    (models / "pickled").mkdir()
    (models / "pickled" / "config.json").write_text('{"model_type": "llama"}')
    (models / "pickled" / "pytorch_model.bin").write_bytes(b"\x80")
    model_list = models_by_name(library)
    assert set(model_list) == {"cut", "unnamed"}
    assert all(model.problem for model in model_list.values())


def test_a_repaired_folder_is_read_again(library: Library, models: Path) -> None:
    shutil.copytree(GUIDE / "openvino", models / "mended")
    whole = (models / "mended" / "openvino_model.bin").read_bytes()
    os.truncate(models / "mended" / "openvino_model.bin", 1000)
    assert library.find_model("mended").problem
    (models / "mended" / "openvino_model.bin").write_bytes(whole)
    assert library.find_model("mended").problem == ""


def test_a_folder_is_registered_where_it_lies_and_forgotten(library: Library, tmp_path: Path) -> None:
    there = shutil.copytree(GUIDE / "onnx", tmp_path / "elsewhere" / "mine")
    assert library.register_path(there).name == "mine"
    assert library.find_model("mine").path == str(there)
    library.forget_model("mine")
    assert not models_by_name(library)


@pytest.mark.parametrize("content", ["empty", "damaged"])
def test_a_folder_that_holds_no_model_is_not_registered(library: Library, tmp_path: Path, content: str) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    if content == "damaged":
        (folder / "genai_config.json").write_text("{")
    with pytest.raises(BadRequest):
        library.register_path(folder)


def test_the_hub_s_cache_names_its_folders_after_commits_and_we_do_not(library: Library, models: Path) -> None:
    snapshot = models / "models--OpenVINO--tiny-int8-ov" / "snapshots" / "0123abc"
    shutil.copytree(GUIDE / "openvino", snapshot)
    nested_folder = models / "models--microsoft--tiny-onnx" / "snapshots" / "4567def" / "cpu-int4"
    shutil.copytree(GUIDE / "onnx", nested_folder)
    assert set(models_by_name(library)) == {"tiny-int8-ov", "tiny-onnx-cpu-int4"}


def test_a_known_folder_is_found_without_a_look_at_all_others(
    library: Library, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(GUIDE / "openvino", models / "known")
    library.list_models()
    monkeypatch.setattr("app.hub.library.library.find_candidates", lambda _folders: pytest.fail("looked"))
    assert library.find_model("known").format == "openvino"


def test_a_folder_that_vanishes_is_missed(library: Library, models: Path) -> None:
    shutil.copytree(GUIDE / "onnx", models / "gone")
    assert library.find_model("gone").name == "gone"
    shutil.rmtree(models / "gone")
    with pytest.raises(UserError):
        library.find_model("gone")


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (("config.json", "model.safetensors"), "safetensors"),
        (("config.json", "residual.safetensors", "guide-q8_0-0.uqff"), ""),
        (("genai_config.json", "model.onnx"), "onnx-genai"),
        (("openvino_model.xml",), "openvino"),
        (("model.safetensors",), ""),
    ],
)
def test_a_folder_is_known_by_its_files(files: tuple[str, ...], kind: str) -> None:
    assert folder_format(files) == kind
