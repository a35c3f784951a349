"""How settings files are read and written with care: whole, for their owner alone, never over others' changes."""

import errno
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from app.connect.document_paths import UnreadableSettings
from app.connect.files import FileState, change_conflict, make_folders, read_file_state, remove_file, write_file
from app.core.errors import Conflict, EnvironmentFault


def test_a_settings_file_has_four_mebibytes_at_most(tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_bytes(b"x" * 4 * 1024 * 1024)
    assert len(read_file_state(file).text) == 4 * 1024 * 1024
    file.write_bytes(b"x" * (4 * 1024 * 1024 + 1))
    with pytest.raises(UnreadableSettings, match="too large"):
        read_file_state(file)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_bytes(b"\xff\xfe")
    state = read_file_state(file)
    with pytest.raises(UnreadableSettings, match="not UTF-8"):
        assert state.text
    assert FileState(file, None).text == ""


@pytest.mark.skipif(sys.platform == "win32", reason="rights as POSIX has them")
def test_what_is_made_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made_folders = make_folders(tmp_path / "a" / "b")
        write_file(FileState(tmp_path / "a" / "b" / "file", None), b"x")
    finally:
        os.umask(before)
    assert made_folders == [tmp_path / "a", tmp_path / "a" / "b"]
    assert [folder.stat().st_mode & 0o777 for folder in made_folders] == [0o700, 0o700]
    assert (tmp_path / "a" / "b" / "file").stat().st_mode & 0o777 == 0o600
    assert make_folders(tmp_path / "a" / "b") == []


def test_a_file_that_somebody_wrote_to_meanwhile_is_neither_replaced_nor_removed(tmp_path: Path) -> None:
    file = tmp_path / "settings"
    for before in (FileState(file, None), FileState(file, b"older")):
        file.write_bytes(b"theirs")
        for act in (partial(write_file, before, b"ours"), partial(remove_file, before)):
            with pytest.raises(Conflict, match="changed in the meantime") as refusal:
                act()
            assert (refusal.value.code, refusal.value.hint) == ("tool_file_changed", "Try again.")
        assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"theirs"]
    assert isinstance(change_conflict(file), Conflict)
    remove_file(FileState(file, b"theirs"))
    assert not file.exists()


def change_something(step: str, state: FileState) -> None:
    if step == "mkdir":
        make_folders(state.path.parent / "new")
    elif step == "unlink":
        remove_file(state)
    else:
        write_file(state, b"new")


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, "disk_full"), (errno.EDQUOT, "disk_full"), (errno.EACCES, "tool_file_unwritable")],
)
@pytest.mark.parametrize("step", ["mkstemp", "fsync", "mkdir", "unlink"])
def test_a_write_that_fails_says_whether_the_disk_is_full(
    step: str, number: int, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **_options: object) -> None:
        raise OSError(number, os.strerror(number))

    file = tmp_path / "settings"
    file.write_bytes(b"old")
    state = read_file_state(file)
    owner = {"mkstemp": tempfile, "fsync": os, "mkdir": Path, "unlink": Path}[step]
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, refuse)
        with pytest.raises(EnvironmentFault) as fault:
            change_something(step, state)
    assert fault.value.code == code
    assert file.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["settings"]
