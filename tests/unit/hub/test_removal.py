"""A model's files go, those of others stay, and everything comes back as it was."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.errors import Conflict, StorageFault
from app.core.models import ModelInfo, Preset
from app.hub.removal import belongings, planned, remove, restore
from app.hub.trash import Trash

OLD, NEW = "0" * 40, "1" * 40
BLOB = "a" * 64


def info(path: Path, name: str = "model", **more: object) -> ModelInfo:
    return ModelInfo(name=name, title=name, path=str(path), format="gguf", size_bytes=1, **more)  # type: ignore[arg-type]


def everything(root: Path) -> dict[str, str]:
    """What is below a folder: contents, and where links lead."""
    found = (path for path in sorted(root.rglob("*")) if path.is_symlink() or path.is_file())
    told = {str(one.relative_to(root)): str(one.readlink()) if one.is_symlink() else one.read_text() for one in found}
    return {name: content for name, content in told.items() if not name.startswith("trash")}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A repository of which two commits were fetched."""
    folder = tmp_path / "hub" / "models--org--m"
    (folder / "blobs").mkdir(parents=True)
    for digest, content in ((BLOB, "weights"), ("b" * 64, "old config"), ("c" * 64, "new config")):
        (folder / "blobs" / digest).write_text(content)
    for commit, config in ((OLD, "b" * 64), (NEW, "c" * 64)):
        snapshot = folder / "snapshots" / commit
        (snapshot / "sub").mkdir(parents=True)
        try:
            (snapshot / "sub" / "m-Q4_0.gguf").symlink_to(f"../../../blobs/{BLOB}")
            (snapshot / "config.json").symlink_to(f"../../blobs/{config}")
            (snapshot / "model.safetensors").symlink_to(f"../../blobs/{BLOB}")
        except OSError:
            pytest.skip("this system lets nobody make links")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(NEW)
    return folder


@pytest.fixture
def trash(tmp_path: Path) -> Trash:
    return Trash(tmp_path / "trash", platform="linux")


def test_all_parts_of_a_split_model_go_and_come_back(tmp_path: Path, trash: Trash) -> None:
    for number in (1, 2):
        (tmp_path / f"big-{number:05d}-of-00002.gguf").write_text(f"part {number}")
    (tmp_path / "other.gguf").write_text("other")
    before = everything(tmp_path)
    found = belongings(info(tmp_path / "big-00001-of-00002.gguf"))
    assert found.frees_bytes == 12
    undo = remove(found, trash)
    assert everything(tmp_path) == {"other.gguf": "other"}
    restore(undo, trash)
    assert everything(tmp_path) == before


def test_a_file_of_the_cache_goes_with_every_link_to_it(cache: Path, trash: Trash) -> None:
    for link in cache.glob("snapshots/*/model.safetensors"):
        link.unlink()
    before = everything(cache)
    found = belongings(info(cache / "snapshots" / NEW / "sub" / "m-Q4_0.gguf"))
    undo = remove(found, trash)
    assert set(everything(cache)) == {
        *(f"blobs/{letter * 64}" for letter in "bc"),
        *(f"snapshots/{commit}/config.json" for commit in (OLD, NEW)),
        "refs/main",
    }
    assert not (cache / "snapshots" / NEW / "sub").exists()
    restore(undo, trash)
    assert everything(cache) == before


def test_what_another_version_needs_stays(cache: Path, trash: Trash) -> None:
    before = everything(cache)
    for link in cache.glob("snapshots/*/sub/*"):
        link.unlink()
        link.parent.rmdir()
    found = belongings(info(cache / "snapshots" / NEW))
    assert "1 of its files stay" in found.left[0]
    assert [file.name for file in found.contents] == ["c" * 64]
    undo = remove(found, trash)
    left = everything(cache)
    assert f"blobs/{BLOB}" in left
    assert f"snapshots/{OLD}/model.safetensors" in left
    assert not (cache / "snapshots" / NEW).exists()
    assert "refs/main" not in left
    restore(undo, trash)
    assert everything(cache) == {name: content for name, content in before.items() if "/sub/" not in name}


def test_a_folder_keeps_what_is_not_the_models(tmp_path: Path, trash: Trash) -> None:
    folder = tmp_path / "model"
    (folder / "notes").mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "another.gguf"):
        (folder / name).write_text(name)
    found = belongings(info(folder))
    assert "another.gguf, notes" in found.left[0]
    remove(found, trash)
    assert set(everything(tmp_path)) == {"model/another.gguf"}


def test_for_good_is_for_good_and_a_further_name_frees_nothing(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_text("weights")
    os.link(file, tmp_path / "another.gguf")
    found = belongings(info(file))
    assert found.frees_bytes == 0
    assert remove(found, None).kept == []
    assert not file.exists()


def test_a_removal_that_fails_half_way_is_undone(cache: Path, tmp_path: Path) -> None:
    before = everything(cache)
    (tmp_path / "file").touch()
    found = belongings(info(cache / "snapshots" / NEW / "sub" / "m-Q4_0.gguf"))
    with pytest.raises(StorageFault):
        remove(found, Trash(tmp_path / "file" / "trash", platform="linux"))
    assert everything(cache) == before


REFUSED: dict[str, Callable[[Path], ModelInfo]] = {
    "kept by Ollama": lambda path: info(path, store="Ollama"),
    "part of Roundhouse": lambda path: info(path, is_builtin=True),
    "runs elsewhere": lambda path: info(path, attached="http://far"),
    "is a name for the weights of base": lambda path: info(path, preset=Preset(base="base")),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_not_ours_is_refused(tmp_path: Path, why: str) -> None:
    file = tmp_path / "m.gguf"
    file.touch()
    with pytest.raises(Conflict, match=why):
        belongings(REFUSED[why](file))


def test_a_plan_says_whom_it_concerns(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_text("weights")
    model = info(file, "Base")
    made = info(file, "terse", preset=Preset(base="Base"))
    plan = planned(model, [model, made, info(tmp_path / "x.gguf", "x")], ["gpt-*=base", "claude=x"])
    assert (plan.files, plan.frees_bytes) == ([str(file)], 7)
    assert (plan.made_models, plan.aliases) == (["terse"], ["gpt-*=base"])
