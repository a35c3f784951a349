import json
import os
import sys
from collections.abc import Mapping
from math import prod
from pathlib import Path
from types import MappingProxyType
from unittest.mock import patch

import pytest

from app.core.errors import BadRequest, Conflict, NotFound, StorageFault
from app.core.models import ModelInfo
from app.hub.gguf.listing import read_gguf
from app.hub.library.library import Library
from app.hub.repositories.catalogue import ModelCatalogue
from tests.gguf_files import TinyLlama, gguf_bytes


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def guide(tmp_path: Path) -> Path:
    return TinyLlama(name="Something inside the file").write(tmp_path / "guide-q8_0.gguf")


@pytest.fixture
def library(tmp_path: Path, models: Path, guide: Path) -> Library:
    return Library(lambda: [models], tmp_path / "state" / "models.json", guide)


def put(path: Path, values: Mapping[str, str | int] = MappingProxyType({})) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gguf_bytes({"general.architecture": "llama", **values}, [("t", [8], bytes(32))]))
    return path


def names(library: Library) -> list[str]:
    return [model.name for model in library.list_models()]


def only_model(library: Library) -> ModelInfo:
    (model,) = library.list_models()[1:]
    return model


def test_the_guide_comes_first_and_has_its_own_title(library: Library, models: Path) -> None:
    put(models / "aardvark.gguf")
    first = library.list_models()[0]
    assert (first.name, first.title, first.is_builtin) == ("guide", "Roundhouse Guide (tiny help model)", True)
    assert first.problem == ""
    assert first.parameters


def test_a_missing_guide_is_listed_with_its_problem(tmp_path: Path) -> None:
    library = Library(list, tmp_path / "models.json", tmp_path / "nothing.gguf")
    (guide,) = library.list_models()
    assert guide.is_builtin
    assert "no longer there" in guide.problem


def test_files_are_found_in_subfolders_and_described(library: Library, models: Path) -> None:
    file = put(
        models / "llama" / "deep" / "Llama-3-8B-Q4_K_M.gguf",
        {"general.name": "Llama 3 8B", "general.file_type": 15, "llama.context_length": 8192},
    )
    model = only_model(library)
    assert (model.name, model.title, model.quantization) == ("Llama-3-8B-Q4_K_M", "Llama 3 8B", "Q4_K_M")
    assert (model.trained_context, model.parameters, model.path) == (8192, 8, str(file))
    assert model.size_bytes == file.stat().st_size
    assert model.chats
    assert not model.problem


def test_projectors_adapters_and_hidden_folders_are_no_models(library: Library, models: Path) -> None:
    put(models / "mmproj-model-f16.gguf")
    put(models / "vision.gguf", {"general.architecture": "clip"})
    put(models / "style.gguf", {"general.type": "adapter"})
    put(models / ".trash" / "old.gguf")
    assert names(library) == ["guide"]


def test_an_embedding_model_embeds_and_does_not_chat(library: Library, models: Path) -> None:
    put(models / "bge.gguf", {"general.architecture": "bert", "bert.pooling_type": 2})
    model = only_model(library)
    assert model.embeds
    assert not model.chats


def test_a_broken_file_is_listed_with_its_problem(library: Library, models: Path) -> None:
    (models / "broken.gguf").write_bytes(b"GGUX" + bytes(60))
    model = only_model(library)
    assert model.name == "broken"
    assert "not a GGUF file" in model.problem


def test_an_interrupted_download_says_how_much_is_there(library: Library, models: Path) -> None:
    file = TinyLlama().write(models / "half.gguf")
    os.truncate(file, file.stat().st_size // 2)
    assert "50 %" in only_model(library).problem


def test_a_vocabulary_alone_is_not_usable(library: Library, models: Path) -> None:
    (models / "vocab.gguf").write_bytes(gguf_bytes({"general.architecture": "llama"}))
    assert "no weights" in only_model(library).problem


def test_a_split_model_is_one_model(library: Library, models: Path) -> None:
    parts = [put(models / f"big-{number:05d}-of-00003.gguf") for number in (1, 2, 3)]
    model = only_model(library)
    assert (model.name, model.path, model.problem) == ("big", str(parts[0]), "")
    assert model.size_bytes == sum(part.stat().st_size for part in parts)
    assert model.parameters == 24


def test_the_later_parts_of_a_split_model_say_nothing_but_their_number(library: Library, models: Path) -> None:
    """As gguf-split writes them: all metadata is in the first."""
    whole = TinyLlama()
    tensors = whole.tensors()
    for number, own in enumerate((tensors[:5], tensors[5:])):
        split = {"split.no": number, "split.count": 2, "split.tensors.count": len(tensors)}
        values = {**whole.metadata(), **split} if number == 0 else split
        (models / f"big-{number + 1:05d}-of-00002.gguf").write_bytes(gguf_bytes(values, own))
    model = only_model(library)
    assert (model.name, model.architecture, model.problem) == ("big", "llama", "")
    assert model.parameters == sum(prod(shape) for _, shape, _ in tensors)


@pytest.mark.parametrize("missing_part", [1, 2])
def test_a_split_model_with_a_part_missing_says_which(library: Library, models: Path, missing_part: int) -> None:
    for number in {1, 2, 3} - {missing_part}:
        put(models / f"big-{number:05d}-of-00003.gguf")
    assert only_model(library).problem == f"Part {missing_part} of 3 is missing."


def test_a_name_that_claims_thousands_of_parts_is_a_plain_file(library: Library, models: Path) -> None:
    put(models / "big-00001-of-99999.gguf")
    assert only_model(library).name == "big-00001-of-99999"


def test_names_are_unique_and_say_the_folder(library: Library, models: Path) -> None:
    put(models / "a" / "model.gguf")
    put(models / "b" / "Model.gguf")
    put(models / "c" / "b" / "model.gguf")
    put(models / "guide.gguf")
    assert names(library) == ["guide", "guide@models", "model", "Model@b", "model@b-2"]


def test_a_name_is_found_however_it_is_spelt(library: Library, models: Path) -> None:
    put(models / "Qwen3-0.6B.gguf")
    spellings = ["Qwen3-0.6B", "qwen3-0.6b", "qwen3-0.6b:latest", "Qwen3-0.6B.gguf", " QWEN3-0.6B "]
    spellings += ["library/qwen3-0.6b", "registry.ollama.ai/library/Qwen3-0.6B:latest"]
    assert {library.find_model(name_spelling).name for name_spelling in spellings} == {"Qwen3-0.6B"}
    assert library.find_model("guide:latest").is_builtin


def test_an_unknown_name_says_which_exist(library: Library, models: Path) -> None:
    put(models / "qwen.gguf")
    with pytest.raises(NotFound) as error:
        library.find_model("quen")
    assert error.value.code == "model_not_found"
    assert "guide, qwen" in error.value.hint


def test_a_registered_file_stays_listed_and_can_be_forgotten(
    tmp_path: Path, library: Library, models: Path, guide: Path
) -> None:
    file = put(tmp_path / "elsewhere" / "mine.gguf")
    assert library.register_path(file).path == str(file)
    library.register_path(file)
    again = Library(lambda: [models], tmp_path / "state" / "models.json", guide)
    assert names(again) == ["guide", "mine"]
    again.forget_model("mine")
    assert names(again) == ["guide"]
    assert file.exists()


def test_a_registered_file_that_went_away_is_listed_and_can_be_forgotten(tmp_path: Path, library: Library) -> None:
    file = put(tmp_path / "mine.gguf")
    library.register_path(file)
    file.unlink()
    assert only_model(library).problem == "The file is no longer there."
    library.forget_model("mine")
    assert names(library) == ["guide"]


def test_registering_any_part_registers_the_split_model(tmp_path: Path, library: Library) -> None:
    parts = [put(tmp_path / "x" / f"big-{number:05d}-of-00002.gguf") for number in (1, 2)]
    assert library.register_path(parts[1]).path == str(parts[0])


def test_what_is_no_model_is_not_registered(tmp_path: Path, library: Library) -> None:
    text = tmp_path / "notes.gguf"
    text.write_text("not a model at all")
    with pytest.raises(BadRequest) as error:
        library.register_path(text)
    assert error.value.code == "model_corrupt"
    with pytest.raises(BadRequest, match="is part of another model"):
        library.register_path(put(tmp_path / "mmproj-x.gguf"))
    with pytest.raises(BadRequest, match="is part of another model"):
        library.register_path(put(tmp_path / "style.gguf", {"general.type": "adapter"}))
    with pytest.raises(NotFound):
        library.register_path(tmp_path / "nothing.gguf")
    assert names(library) == ["guide"]


def test_the_guide_and_found_files_cannot_be_forgotten(library: Library, models: Path) -> None:
    put(models / "found.gguf")
    with pytest.raises(Conflict):
        library.forget_model("guide")
    with pytest.raises(Conflict, match="model folder"):
        library.forget_model("found")
    with pytest.raises(NotFound):
        library.forget_model("nothing")


def test_links_in_a_circle_end_and_a_file_is_listed_once(library: Library, models: Path) -> None:
    file = put(models / "real" / "model.gguf")
    try:
        (models / "real" / "back").symlink_to(models, target_is_directory=True)
        (models / "alias.gguf").symlink_to(file)
    except OSError:
        pytest.skip("this system lets nobody make links")
    assert len(names(library)) == 2


def test_files_that_share_their_space_are_listed_each(library: Library, models: Path) -> None:
    file = put(models / "one.gguf")
    os.link(file, models / "two.gguf")
    assert names(library) == ["guide", "one", "two"]


def test_a_registered_file_on_a_drive_that_is_away_says_so_and_comes_back(tmp_path: Path, library: Library) -> None:
    (tmp_path / "drive").mkdir()
    library.register_path(put(tmp_path / "drive" / "far.gguf"))
    (tmp_path / "drive").rename(tmp_path / "away")
    assert "connect its drive" in only_model(library).problem
    (tmp_path / "away").rename(tmp_path / "drive")
    assert only_model(library).problem == ""


def test_a_folder_of_gguf_files_is_no_model(tmp_path: Path, library: Library) -> None:
    put(tmp_path / "several" / "one.gguf")
    with pytest.raises(BadRequest, match="a folder with GGUF files"):
        library.register_path(tmp_path / "several")


def test_a_link_that_leads_nowhere_is_listed_with_its_problem(library: Library, models: Path) -> None:
    try:
        (models / "gone.gguf").symlink_to(models / "nothing")
    except OSError:
        pytest.skip("this system lets nobody make links")
    assert only_model(library).problem == "The file is no longer there."


@pytest.mark.skipif(sys.platform != "linux", reason="only there can a name be any bytes")
def test_a_name_that_is_not_unicode_is_passed_over(library: Library, models: Path) -> None:
    put(models / "fine.gguf")
    (models / os.fsdecode(b"\xff.gguf")).write_bytes(b"")
    assert names(library) == ["guide", "fine"]


def test_folders_deeper_than_anyone_needs_are_left_alone(library: Library, models: Path) -> None:
    put(models.joinpath(*"abcdefghi") / "deep.gguf")
    put(models.joinpath(*"abcdefgh") / "less.gguf")
    assert names(library) == ["guide", "less"]


def test_looking_again_reads_only_what_changed(library: Library, models: Path) -> None:
    file = put(models / "one.gguf")
    put(models / "two.gguf")
    library.list_models()
    with patch("app.hub.library.inspection.read_gguf", wraps=read_gguf) as read:
        library.list_models()
        assert read.call_count == 0
        put(file, {"general.name": "Changed"})
        assert library.find_model("one").title == "Changed"
        assert read.call_count == 1


def test_a_known_name_is_found_without_looking_through_the_folders(library: Library, models: Path) -> None:
    file = put(models / "one.gguf")
    library.list_models()
    with patch("app.hub.library.library.find_candidates", side_effect=AssertionError("looked")):
        assert library.find_model("ONE").path == str(file)
        file.unlink()
        with pytest.raises(AssertionError, match="looked"):
            library.find_model("one")


def test_a_folder_that_is_no_longer_wanted_takes_its_models_along(tmp_path: Path, models: Path, guide: Path) -> None:
    folders = [models]
    library = Library(lambda: folders, tmp_path / "models.json", guide)
    put(models / "one.gguf")
    assert library.find_model("one").name == "one"
    folders.clear()
    with pytest.raises(NotFound):
        library.find_model("one")


def test_an_unreadable_registry_is_put_aside(tmp_path: Path, library: Library) -> None:
    registry = tmp_path / "state" / "models.json"
    registry.parent.mkdir()
    registry.write_text("{ not json")
    assert names(library) == ["guide"]
    library.register_path(put(tmp_path / "mine.gguf"))
    assert json.loads(registry.read_text())["files"] == [str(tmp_path / "mine.gguf")]
    assert registry.with_suffix(".unreadable").read_text() == "{ not json"


def test_a_registry_that_cannot_be_written_is_said(tmp_path: Path, guide: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    library = Library(list, tmp_path / "file" / "models.json", guide)
    with pytest.raises(StorageFault, match="could not be saved"):
        library.register_path(put(tmp_path / "mine.gguf"))


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="modes are a POSIX thing")
def test_the_registry_is_private(tmp_path: Path, library: Library) -> None:
    library.register_path(put(tmp_path / "mine.gguf"))
    assert (tmp_path / "state" / "models.json").stat().st_mode & 0o077 == 0


def test_what_was_pulled_by_a_short_name_answers_to_it(library: Library, models: Path, tmp_path: Path) -> None:
    snapshot = models / "models--bartowski--Qwen2.5-7B-Instruct-GGUF" / "snapshots" / ("0" * 40)
    put(snapshot / "Qwen2.5-7B-Instruct-Q4_K_M.gguf")
    with pytest.raises(NotFound):
        library.find_model("qwen2.5:7b")
    library.expand_short_name = ModelCatalogue(tmp_path / "none.json").list_pull_names
    known_paths = {library.find_model(name).path for name in ("qwen2.5:7b", "qwen2.5:7b-instruct-q4_K_M", "Qwen2.5-7B")}
    assert known_paths == {str(snapshot / "Qwen2.5-7B-Instruct-Q4_K_M.gguf")}
    for name in ("qwen2.5:7b-q8_0", "qwen2.5:14b", "qwen2.5:7b-base", "nobody"):
        with pytest.raises(NotFound):
            library.find_model(name)
