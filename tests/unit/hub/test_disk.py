"""What lies where is counted once, under the folder it was found in; what cannot be looked into says why."""

import os
import sys
from pathlib import Path

import pytest

from app.core.library import DiskUse, FolderKind
from app.core.models import ModelInfo, Preset
from app.hub.disk.trash import Trash
from app.hub.disk.usage import ELSEWHERE, SearchFolder, disk_use, problem_of

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="links and rights as POSIX has them")


def model(file: Path, size: int, **more: object) -> ModelInfo:
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.write_bytes(bytes(size))
    fields = {"name": file.stem, "title": file.stem.upper(), **more}
    return ModelInfo(path=str(file), format="gguf", size_bytes=size, **fields)  # type: ignore[arg-type]  # by name


def measure_use(tmp_path: Path, models: list[ModelInfo], *folders: SearchFolder) -> DiskUse:
    return disk_use(models, folders, Trash(tmp_path / "share" / "Trash", platform="linux"))


def make_folder(folder: Path, title: str = "") -> SearchFolder:
    folder.mkdir(parents=True, exist_ok=True)
    return SearchFolder(folder, FolderKind.NAMED, title or folder.name)


def test_models_are_counted_under_their_folder_the_largest_first(tmp_path: Path) -> None:
    small, large = model(tmp_path / "own/a.gguf", 100), model(tmp_path / "other/deep/b.gguf", 300)
    use = measure_use(
        tmp_path, [small, large], make_folder(tmp_path / "own", "Own"), make_folder(tmp_path / "other", "Jan")
    )
    assert [(entry.model, entry.title, entry.place, entry.size_bytes) for entry in use.holdings] == [
        ("b", "B", "Jan", 300),
        ("a", "A", "Own", 100),
    ]
    assert [(entry.title, entry.models, entry.size_bytes, entry.problem) for entry in use.folders] == [
        ("Own", 1, 100, ""),
        ("Jan", 1, 300, ""),
    ]
    (drive,) = use.drives
    assert drive.models_bytes == 400
    assert drive.free_bytes is not None
    assert drive.total_bytes is not None
    assert {entry.drive for entry in use.holdings} == {drive.path}
    assert tmp_path.resolve().is_relative_to(drive.path)


def test_a_folder_in_a_folder_counts_for_itself(tmp_path: Path) -> None:
    inner = model(tmp_path / "all/mine/a.gguf", 10)
    use = measure_use(tmp_path, [inner], make_folder(tmp_path / "all"), make_folder(tmp_path / "all/mine"))
    assert [(folder.title, folder.models) for folder in use.folders] == [("all", 0), ("mine", 1)]
    assert use.holdings[0].folder == str(tmp_path / "all/mine")


def test_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    models = [model(tmp_path / "one/models/a.gguf", 10), model(tmp_path / "two/models/b.gguf", 20)]
    use = measure_use(tmp_path, models, make_folder(tmp_path / "one/models"), make_folder(tmp_path / "two/models"))
    assert [(folder.models, folder.size_bytes) for folder in use.folders] == [(1, 10), (1, 20)]


def test_a_file_by_itself_is_under_its_program_or_by_itself(tmp_path: Path) -> None:
    models = [model(tmp_path / "a.gguf", 2), model(tmp_path / "b.gguf", 1, store="Ollama")]
    assert [entry.place for entry in measure_use(tmp_path, models).holdings] == [ELSEWHERE, "Ollama"]


def test_what_takes_no_space_here_is_left_out(tmp_path: Path) -> None:
    weights = model(tmp_path / "m/a.gguf", 10)
    models = [
        weights,
        model(tmp_path / "m/a.gguf", 10, name="terse", preset=Preset(base="a")),
        model(tmp_path / "m/guide.gguf", 10, is_builtin=True),
        ModelInfo(name="far", title="", path="", format="", size_bytes=0, attached="http://box:1"),
    ]
    assert [entry.model for entry in measure_use(tmp_path, models, make_folder(tmp_path / "m")).holdings] == ["a"]


def test_uploaded_weights_count_for_the_model_made_of_them(tmp_path: Path) -> None:
    uploaded_model = model(tmp_path / "m/blob", 10, name="mine", preset=Preset())
    assert [entry.model for entry in measure_use(tmp_path, [uploaded_model], make_folder(tmp_path / "m")).holdings] == [
        "mine"
    ]


@POSIX
def test_what_two_models_share_is_there_once(tmp_path: Path) -> None:
    first = model(tmp_path / "m/a.gguf", 1000)
    os.link(tmp_path / "m/a.gguf", tmp_path / "m/b.gguf")
    second = model(tmp_path / "m/b.gguf", 1000)
    use = measure_use(tmp_path, [first, second, model(tmp_path / "m/c.gguf", 5)], make_folder(tmp_path / "m"))
    assert use.saved_bytes == 1000
    assert use.drives[0].models_bytes == 1005
    assert [(entry.model, entry.shared_bytes) for entry in use.holdings] == [("a", 1000), ("b", 1000), ("c", 0)]


@POSIX
def test_a_model_whose_drive_is_away_is_on_none(tmp_path: Path) -> None:
    model_info = ModelInfo(name="x", title="x", path=str(tmp_path / "usb/x.gguf"), format="gguf", size_bytes=7)
    use = measure_use(tmp_path, [model_info], SearchFolder(tmp_path / "usb", FolderKind.NAMED, "usb"))
    assert [(entry.drive, entry.size_bytes) for entry in use.holdings] == [("", 0)]
    assert "It is missing" in use.folders[0].problem
    assert use.drives == []


def test_a_folder_of_ours_that_is_not_made_yet_is_no_problem(tmp_path: Path) -> None:
    use = measure_use(tmp_path, [], SearchFolder(tmp_path / "hub", FolderKind.HUB, "Hugging Face cache"))
    assert use.folders[0].problem == ""


def test_a_file_in_place_of_a_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "m").touch()
    assert "not a folder" in problem_of(tmp_path / "m") or "not there" in problem_of(tmp_path / "m")
    assert problem_of(tmp_path) == ""


@pytest.mark.parametrize(
    ("error", "words"),
    [(PermissionError(13, "Permission denied"), "no permission to read it"), (OSError(5, "I/O error"), "I/O error")],
)
def test_a_folder_that_cannot_be_read_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, words: str
) -> None:
    def raise_error(_folder: Path) -> None:
        raise error

    monkeypatch.setattr("app.hub.disk.usage.os.scandir", raise_error)
    assert words in problem_of(tmp_path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's trash")
def test_the_trash_of_the_drive_is_counted(tmp_path: Path) -> None:
    trash = Trash(tmp_path / "share" / "Trash")
    file = tmp_path / "m/a.gguf"
    held_model = model(file, 500)
    folder = make_folder(tmp_path / "m")
    before = disk_use([held_model], [folder], trash).drives[0].trash_bytes
    assert before is not None
    trash.put_file(file)
    (drive,) = disk_use([], [folder], trash).drives
    assert (drive.trash_bytes, drive.models_bytes) == (before + 500, 0)
    (tmp_path / "share/Trash/files/folder").mkdir()
    (tmp_path / "share/Trash/files/folder/deep").write_bytes(b"four")
    assert trash.size_on(Path(drive.path)) == before + 504


def test_a_trash_that_only_the_system_knows_is_unknown(tmp_path: Path) -> None:
    assert Trash(tmp_path, platform="darwin").size_on(tmp_path) is None
