"""The records of attached endpoints: private, under names nobody has, and gone with their keys."""

import stat
from pathlib import Path

import pytest

from app.core.errors import BadRequest, Conflict
from app.core.models import ModelInfo, Preset
from app.hub.library.attached import Attachment, EndpointKnowledge
from app.hub.library.library import Library
from tests.gguf_files import TinyLlama

FAR = Attachment(name="big", url="http://box:8000/v1", served_as="org/Big", known=EndpointKnowledge(context=4096))


@pytest.fixture
def library(tmp_path: Path) -> Library:
    models = tmp_path / "models"
    models.mkdir()
    TinyLlama().write(models / "base.gguf")
    return Library(lambda: [models], tmp_path / "state" / "models.json", TinyLlama().write(tmp_path / "guide.gguf"))


def attach(library: Library, name: str = "big", url: str = FAR.url, key: str = "sk-1") -> ModelInfo:
    (model,) = library.attach_models(
        [Attachment(name=name, url=url, served_as="org/Big", known=EndpointKnowledge(context=4096))], key
    )
    return model


def test_it_is_listed_like_any_other_and_found_again(library: Library) -> None:
    model = attach(library)
    assert (model.name, model.attached, model.served_as, model.trained_context) == (
        "big",
        "http://box:8000/v1",
        "org/Big",
        4096,
    )
    assert library.find_model("BIG:latest") == model
    assert [entry.name for entry in library.list_models()] == ["guide", "base", "big"]


def test_record_and_key_are_private_and_the_key_is_in_its_own_file_only(library: Library) -> None:
    record = Path(attach(library).path)
    key = record.with_suffix(".key")
    assert key.read_text() == "sk-1"
    assert "sk-1" not in record.read_text()
    assert [stat.S_IMODE(file.stat().st_mode) for file in (record, key)] == [0o600, 0o600]
    assert sorted(file.suffix for file in record.parent.iterdir()) == [".json", ".key"]


def test_attached_anew_it_keeps_its_name_and_has_the_new_key(library: Library) -> None:
    before = Path(attach(library).path)
    stamp = before.stat().st_mtime_ns
    again = attach(library, key="sk-2")
    assert again.name == "big"
    assert Path(again.path).with_suffix(".key").read_text() == "sk-2"
    assert before.stat().st_mtime_ns >= stamp
    assert [model.name for model in library.list_models()] == ["guide", "base", "big"]


def test_a_name_that_is_taken_gets_the_hosts_added(library: Library) -> None:
    assert attach(library, "base").name == "base@box"
    assert attach(library, "base", "http://box:9000/v1").name == "base@box-9000"
    with pytest.raises(Conflict, match="already"):
        attach(library, "base", "http://box:9000/v2")


def test_impossible_names_are_refused(library: Library) -> None:
    for name in ("", "../x", "a b"):
        with pytest.raises(BadRequest):
            attach(library, name)


def test_forgetting_it_deletes_its_key_and_what_was_made_of_it_says_so(library: Library) -> None:
    model = attach(library)
    library.make_model("terse", Path(model.path), Preset(system="Be brief."))
    assert library.find_model("terse").attached == FAR.url
    assert library.find_model("terse").runs_as == "big"
    library.forget_model("big")
    assert list(Path(model.path).parent.iterdir()) == []
    assert "no longer here" in library.find_model("terse").problem


def test_a_record_that_cannot_be_read_costs_that_one_only(library: Library) -> None:
    broken_record, whole = attach(library, "one"), attach(library, "two")
    Path(broken_record.path).write_text("{")
    library.look_again()
    assert [model.name for model in library.list_models()] == ["guide", "base", whole.name]
