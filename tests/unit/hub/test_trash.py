"""What is put into the trash lies where the system looks for it, and comes back."""

import errno
import os
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from app.core.errors import Conflict, StorageFault
from app.hub.disk.trash import Trash

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's trash")


@pytest.fixture
def trash(tmp_path: Path) -> Trash:
    return Trash(tmp_path / "share" / "Trash")


def test_a_file_goes_there_with_a_note_and_comes_back(trash: Trash, tmp_path: Path) -> None:
    file = tmp_path / "my model.gguf"
    file.write_bytes(b"weights")
    trash_path = trash.put_file(file)
    assert trash_path == tmp_path / "share/Trash/files/my model.gguf"
    assert not file.exists()
    note = (tmp_path / "share/Trash/info/my model.gguf.trashinfo").read_text()
    head, path, when, whose = note.splitlines()
    assert head == "[Trash Info]"
    assert unquote(path.removeprefix("Path=")) == str(file)
    assert when.startswith("DeletionDate=2")
    assert whose == "X-Roundhouse=model"
    trash.restore_file(trash_path, file)
    assert file.read_bytes() == b"weights"
    assert list((tmp_path / "share/Trash/info").iterdir()) == []


def test_two_of_a_name_have_places_of_their_own(trash: Trash, tmp_path: Path) -> None:
    trash_paths = []
    for content in (b"one", b"two"):
        (tmp_path / "model.gguf").write_bytes(content)
        trash_paths.append(trash.put_file(tmp_path / "model.gguf"))
    assert [place.name for place in trash_paths if place] == ["model.gguf", "model.gguf.2"]
    assert trash_paths[0] is not None
    assert trash_paths[0].read_bytes() == b"one"


def test_where_a_file_has_one_name_only_it_is_renamed_back(
    trash: Trash, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_refusal(_source: Path, _target: Path, *, follow_symlinks: bool) -> None:
        assert not follow_symlinks
        raise OSError(errno.EPERM, "Operation not permitted")  # as on FAT

    file = tmp_path / "model.gguf"
    file.write_bytes(b"old")
    trash_path = trash.put_file(file)
    assert trash_path is not None
    monkeypatch.setattr(os, "link", raise_refusal)
    file.write_bytes(b"new")
    with pytest.raises(StorageFault):
        trash.restore_file(trash_path, file)
    assert (file.read_bytes(), trash_path.read_bytes()) == (b"new", b"old")
    file.unlink()
    trash.restore_file(trash_path, file)
    assert (file.read_bytes(), trash_path.exists()) == (b"old", False)


def test_what_came_in_the_meantime_is_not_overwritten(trash: Trash, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"old")
    trash_path = trash.put_file(file)
    assert trash_path is not None
    file.write_bytes(b"new")
    with pytest.raises(StorageFault, match="could not be restored"):
        trash.restore_file(trash_path, file)
    assert (file.read_bytes(), trash_path.read_bytes()) == (b"new", b"old")


def test_a_name_that_is_no_text_goes_there_and_comes_back(trash: Trash, tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"mod\xe8le.gguf")
    file.write_bytes(b"weights")
    trash_path = trash.put_file(file)
    assert trash_path is not None
    assert b"mod%E8le.gguf" in (tmp_path / "share/Trash/info" / f"{trash_path.name}.trashinfo").read_bytes()
    trash.restore_file(trash_path, file)
    assert file.read_bytes() == b"weights"


@pytest.mark.parametrize(("platform", "hint"), [("darwin", "Finder"), ("win32", "Recycle Bin"), ("other", "there")])
def test_where_the_system_keeps_the_trash_it_is_the_systems_to_empty(tmp_path: Path, platform: str, hint: str) -> None:
    Trash(tmp_path, platform="linux").check_ours()
    with pytest.raises(Conflict) as error:
        Trash(tmp_path, platform=platform).check_ours()
    assert hint in error.value.hint
    assert error.value.code == "trash_of_system"
    assert Trash(tmp_path, platform=platform).places_on(tmp_path) == []


def test_where_there_is_no_trash_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "in the way").touch()
    file = tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    with pytest.raises(StorageFault) as error:
        Trash(tmp_path / "in the way" / "Trash").put_file(file)
    assert error.value.code == "no_trash"
    assert file.exists()
