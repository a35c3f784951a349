"""Names made of other models: listed, found, renamed with their base, and gone without a trace."""

from pathlib import Path

import pytest

from app.core.errors import BadRequest, Conflict, NotFound
from app.core.models import ModelInfo, Preset
from app.hub.library.library import Library
from app.hub.library.made import check_name
from tests.gguf_files import TinyLlama

PIRATE = Preset(system="Talk like a pirate.", parameters={"temperature": 0.1, "stop": ["Arr"]})


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    TinyLlama().write(folder / "base.gguf")
    return folder


@pytest.fixture
def library(tmp_path: Path, models: Path) -> Library:
    return Library(lambda: [models], tmp_path / "state" / "models.json", TinyLlama().write(tmp_path / "guide.gguf"))


def make(library: Library, name: str, base: str = "base", preset: Preset = PIRATE) -> ModelInfo:
    return library.make_model(name, Path(library.find_model(base).path), preset)


def test_a_made_model_is_listed_with_its_settings_and_the_weights_of_its_base(library: Library) -> None:
    make(library, "mario:v2")
    made_model, base = library.find_model("MARIO:v2"), library.find_model("base")
    assert made_model.path == base.path
    assert made_model.size_bytes == base.size_bytes
    assert made_model.preset is not None
    assert (made_model.preset.base, made_model.preset.system) == ("base", "Talk like a pirate.")
    assert made_model.runs_as == "base", "weights that are loaded already are not loaded again"
    assert base.preset is None
    assert [model.name for model in library.list_models()] == ["guide", "base", "mario:v2"]


@pytest.mark.parametrize("preset", [Preset(parameters={"num_ctx": 512}), Preset(template="x", chat_template="x")])
def test_what_is_loaded_differently_has_an_engine_of_its_own(library: Library, preset: Preset) -> None:
    assert make(library, "mario", preset=preset).runs_as == "mario"


def test_it_is_still_there_after_a_restart(tmp_path: Path, models: Path, library: Library) -> None:
    make(library, "mario")
    again = Library(lambda: [models], tmp_path / "state" / "models.json", tmp_path / "guide.gguf")
    assert again.find_model("mario:latest").preset == library.find_model("mario").preset


def test_making_it_anew_replaces_it_and_a_copy_keeps_the_first_base(library: Library) -> None:
    make(library, "mario")
    make(library, "luigi", base="mario", preset=Preset(system="Shy."))
    luigi = library.find_model("luigi").preset
    assert luigi is not None
    assert luigi.base == "base"
    make(library, "Mario", preset=Preset(system="Loud."))
    assert [model.name for model in library.list_models()] == ["guide", "base", "luigi", "Mario"]


def test_a_name_that_a_file_has_is_refused(library: Library) -> None:
    for name in ("base", "guide:latest", "BASE"):
        with pytest.raises(Conflict, match="already"):
            make(library, name)


def test_a_file_that_comes_later_gets_another_name(library: Library, models: Path) -> None:
    make(library, "mario")
    TinyLlama().write(models / "mario.gguf")
    assert [model.name for model in library.list_models()] == ["guide", "base", "mario", "mario@models"]
    assert library.find_model("mario").preset is not None


def test_forgetting_removes_the_name_only(library: Library, models: Path) -> None:
    make(library, "mario")
    library.forget_model("mario")
    with pytest.raises(NotFound):
        library.find_model("mario")
    assert library.find_model("base").problem == ""
    assert (models / "base.gguf").is_file()


def test_it_says_so_when_its_base_is_gone_and_can_still_be_forgotten(library: Library, models: Path) -> None:
    make(library, "mario")
    (models / "base.gguf").unlink()
    assert "no longer here" in library.find_model("mario").problem
    library.forget_model("mario")
    assert [model.name for model in library.list_models()] == ["guide"]


def test_weights_that_nobody_else_lists_are_the_made_models_own(tmp_path: Path, library: Library) -> None:
    (tmp_path / "created").mkdir()
    own = TinyLlama().write(tmp_path / "created" / "weights.gguf")
    library.make_model("mine", own, Preset())
    library.make_model("copy", own, PIRATE)
    assert library.find_model("mine").runs_as == "mine"
    assert library.find_model("copy").runs_as == "mine"
    assert [model.name for model in library.list_models()] == ["guide", "base", "copy", "mine"]


@pytest.mark.parametrize("name", ["", " ", "../up", "a/../b", "/etc/passwd", "a b", "a\x00b", "x" * 201, "a:b:c", "-a"])
def test_names_no_client_could_ask_for_are_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="invalid model name"):
        check_name(name)


@pytest.mark.parametrize(
    ("name", "expected_name"),
    [("mario", "mario"), ("mario:latest", "mario"), ("team/mario:7b-q4_0", "team/mario:7b-q4_0")],
)
def test_usual_names_are_taken(name: str, expected_name: str) -> None:
    assert check_name(name) == expected_name


def test_a_list_that_cannot_be_read_costs_the_names_and_nothing_else(tmp_path: Path, library: Library) -> None:
    make(library, "mario")
    (tmp_path / "state" / "made.json").write_text("{ broken")
    library.look_again()
    assert [model.name for model in library.list_models()] == ["guide", "base"]
    assert (tmp_path / "state" / "made.unreadable").is_file()
