"""What is ours on this computer, when it leaves, and what never does."""

import os
from pathlib import Path

import pytest

from app.config.owned_paths import (
    OwnedPathKind,
    list_foreign_paths,
    list_owned_paths,
    remove_empty_folders,
    remove_owned_path,
    was_used,
)
from app.config.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Folders as they lie without ROUNDHOUSE_HOME, with something in each."""
    state = tmp_path / "state/roundhouse"
    own_paths = Paths(
        config=tmp_path / "config/roundhouse",
        data=tmp_path / "share/roundhouse",
        state=state / "run",
        logs=state / "log",
        shared_hub=tmp_path / "huggingface/hub",
    )
    own_paths.create_folders()
    own_paths.database.write_bytes(b"chats")
    own_paths.settings_file.write_text("")
    (own_paths.data / "hub/models--a").mkdir(parents=True)
    (own_paths.data / "something-new").write_text("")
    (tmp_path / "huggingface/hub").mkdir(parents=True)
    return own_paths


def kinds(paths: Paths) -> dict[Path, OwnedPathKind]:
    return {path.path: path.kind for path in list_owned_paths(paths)}


def test_every_file_lies_in_something_that_is_listed(paths: Paths, tmp_path: Path) -> None:
    entries = kinds(paths)
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert any(file.is_relative_to(path) for path in entries), file


def test_what_is_made_again_leaves_first_and_what_others_use_never(paths: Paths) -> None:
    assert kinds(paths) == {
        paths.state: OwnedPathKind.MADE,
        paths.logs: OwnedPathKind.MADE,
        paths.config: OwnedPathKind.KEPT,
        paths.database: OwnedPathKind.KEPT,
        paths.marker_file: OwnedPathKind.KEPT,
        paths.data / "something-new": OwnedPathKind.KEPT,
        paths.models: OwnedPathKind.MODELS,
        paths.data / "hub": OwnedPathKind.MODELS,
        paths.shared_hub: OwnedPathKind.SHARED,
    }


def test_after_everything_of_ours_is_removed_nothing_is_left(paths: Paths, tmp_path: Path) -> None:
    for owned_path in list_owned_paths(paths):
        if owned_path.kind is not OwnedPathKind.SHARED:
            remove_owned_path(owned_path)
    remove_empty_folders(paths)
    paths_left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert paths_left == {"config", "share", "state", "huggingface", "huggingface/hub"}


def test_the_folder_that_a_person_named_as_home_stays(tmp_path: Path) -> None:
    home = tmp_path / "mine"
    paths = Paths(config=home / "config", data=home / "data", state=home / "state", logs=home / "logs")
    paths.create_folders()
    for owned_path in list_owned_paths(paths):
        remove_owned_path(owned_path)
    remove_empty_folders(paths)
    assert [path.name for path in tmp_path.rglob("*")] == ["mine"]


def test_a_link_goes_and_what_it_leads_to_stays(paths: Paths, tmp_path: Path) -> None:
    elsewhere = tmp_path / "disk"
    elsewhere.mkdir()
    (elsewhere / "model.gguf").write_bytes(b"weights")
    paths.models.rmdir()
    paths.models.symlink_to(elsewhere)
    owned_path = next(path for path in list_owned_paths(paths) if path.path == paths.models)
    remove_owned_path(owned_path)
    assert not paths.models.is_symlink()
    assert (elsewhere / "model.gguf").exists()


def test_sizes_are_counted(paths: Paths) -> None:
    (paths.models / "deep").mkdir()
    (paths.models / "deep/model.gguf").write_bytes(bytes(1000))
    assert next(path for path in list_owned_paths(paths) if path.path == paths.models).size_bytes == 1000


@pytest.fixture
def custom_paths(tmp_path: Path) -> Paths:
    """Folders below one that a person chose, where things of theirs lie too."""
    home = tmp_path / "home"
    paths = Paths(config=home / "config", data=home / "data", state=home / "state", logs=home / "logs")
    for folder in (paths.config, paths.data, paths.state, paths.logs):
        folder.mkdir(parents=True)
        (folder / "thesis.tex").write_text("mine")
    return paths


def test_in_a_chosen_folder_only_what_we_write_is_ours(custom_paths: Paths) -> None:
    assert not was_used(custom_paths)
    custom_paths.create_folders()
    assert was_used(custom_paths)
    for file in (
        custom_paths.settings_file,
        custom_paths.database,
        custom_paths.port_file,
        custom_paths.logs / "gateway.jsonl",
    ):
        file.write_text("ours")
    for owned_path in list_owned_paths(custom_paths):
        remove_owned_path(owned_path)
    remove_empty_folders(custom_paths)
    files_left = {path for path in custom_paths.data.parent.rglob("*") if path.is_file()}
    assert files_left == set(list_foreign_paths(custom_paths))
    assert {path.name for path in files_left} == {"thesis.tex"}
    assert len(files_left) == 4


def test_what_lies_on_another_drive_stays(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    mount_point = paths.models / "disk"
    mount_point.mkdir()
    (mount_point / "big.gguf").write_bytes(b"weights")
    real = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        result = real(path)
        return os.stat_result((*result[:2], result.st_dev + 1, *result[3:10])) if path == mount_point else result

    monkeypatch.setattr(Path, "lstat", lstat)
    models = next(owned_path for owned_path in list_owned_paths(paths) if owned_path.path == paths.models)
    with pytest.raises(OSError, match="another drive"):
        remove_owned_path(models)
    assert (mount_point / "big.gguf").exists()
