"""What shares the space of another can have space of its own again, and nothing is changed that somebody wrote."""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.core.errors import StorageFault
from app.hub.disk import duplicates
from app.hub.disk.duplicates import FileCopy, SharedFile, check_room, separate_copy, share_space

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="owners and inodes as POSIX has them")

LONG_AGO = (1_500_000_000 * 10**9, 1_400_000_000 * 10**9)
PLENTY = 1 << 50


def copy_of(path: Path) -> FileCopy:
    status = path.stat()
    return FileCopy(
        path, "m", "", status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, getattr(status, "st_uid", 0)
    )


def quiet(_file: Path, _more: int) -> None:
    pass


@pytest.fixture
def shared_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SharedFile:
    monkeypatch.setattr(duplicates, "_clone_blocks", lambda _source, _target: False)
    for name in ("kept", "copy"):
        (tmp_path / name).write_bytes(b"weights")
    os.utime(tmp_path / "copy", ns=LONG_AGO)
    (tmp_path / "copy").chmod(0o640)
    file = share_space(copy_of(tmp_path / "kept"), copy_of(tmp_path / "copy"))
    assert file is not None
    assert (tmp_path / "kept").samefile(tmp_path / "copy")
    return file


def free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=size))


def test_a_shared_file_has_space_and_times_of_its_own_again(shared_file: SharedFile, tmp_path: Path) -> None:
    amounts: list[int] = []
    assert separate_copy(shared_file, lambda _file, more: amounts.append(more))
    kept_file, copy = tmp_path / "kept", tmp_path / "copy"
    assert not kept_file.samefile(copy)
    assert (kept_file.read_bytes(), copy.read_bytes()) == (b"weights", b"weights")
    assert copy.stat().st_mtime_ns == LONG_AGO[1]
    assert sum(amounts) == shared_file.size == 7
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["copy", "kept"]
    assert not separate_copy(shared_file, quiet)  # it is done


def test_what_was_replaced_in_the_meantime_is_left_alone(shared_file: SharedFile, tmp_path: Path) -> None:
    (tmp_path / "copy").unlink()
    (tmp_path / "copy").write_bytes(b"another")
    assert not separate_copy(shared_file, quiet)
    assert (tmp_path / "copy").read_bytes() == b"another"


def test_a_copy_that_is_called_off_leaves_nothing(shared_file: SharedFile, tmp_path: Path) -> None:
    def report(_file: Path, _more: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        separate_copy(shared_file, report)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["copy", "kept"]
    assert shared_file.is_as_it_was()


def test_a_disk_that_fails_is_said(shared_file: SharedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(duplicates, "_copy_file", fails)
    with pytest.raises(StorageFault, match="The disk is full"):
        separate_copy(shared_file, quiet)
    assert shared_file.is_as_it_was()


def test_room_is_looked_for_before_anything_is_copied(shared_file: SharedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, PLENTY)
    check_room([shared_file])
    free(monkeypatch, shared_file.size)
    with pytest.raises(StorageFault, match="Separate copies need 7 B"):
        check_room([shared_file])


def test_what_is_gone_needs_no_room(shared_file: SharedFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "copy").unlink()
    free(monkeypatch, 0)
    check_room([shared_file])


def test_a_clone_keeps_its_own_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def clone_file(source: Path, target: Path) -> bool:
        target.write_bytes(source.read_bytes())
        return True

    monkeypatch.setattr(duplicates, "_clone_blocks", clone_file)
    for name in ("kept", "copy"):
        (tmp_path / name).write_bytes(b"weights")
    os.utime(tmp_path / "copy", ns=LONG_AGO)
    clone = share_space(copy_of(tmp_path / "kept"), copy_of(tmp_path / "copy"))
    assert clone is not None
    assert clone.is_clone
    assert (tmp_path / "copy").stat().st_mtime_ns == LONG_AGO[1]


@pytest.mark.parametrize("fails", ["mkdtemp", "link"])
def test_a_folder_that_refuses_leaves_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    def raise_refusal(*_arguments: object, **_options: object) -> None:
        raise PermissionError

    monkeypatch.setattr(duplicates, "_clone_blocks", lambda _source, _target: False)
    for name in ("kept", "copy"):
        (tmp_path / name).write_bytes(b"weights")
    monkeypatch.setattr(tempfile if fails == "mkdtemp" else os, fails, raise_refusal)
    assert share_space(copy_of(tmp_path / "kept"), copy_of(tmp_path / "copy")) is None
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["copy", "kept"]
