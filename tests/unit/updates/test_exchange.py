"""A new folder or file takes the place of the old, the old stays, and what fails leaves everything as it was."""

import os
import sys
from pathlib import Path

import pytest

from app.config.programs import previous_path
from app.core.errors import Conflict, StorageFault
from app.updates import exchange
from app.updates.exchange import check_replaceable, go_back, next_of, put_in_place, swap_paths


@pytest.fixture(params=[True, False], ids=["at once", "by two renames"])
def is_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Both ways of exchanging; the first only where the system has it."""
    if not request.param:
        monkeypatch.setattr(exchange, "_exchange_atomically", lambda _one, _other: False)
    return bool(request.param)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "roundhouse"
    for folder, content in ((place, "old"), (next_of(place), "new")):
        folder.mkdir()
        (folder / "program").write_text(content)
    return place


def read(place: Path) -> str:
    return (place / "program").read_text()


def test_the_new_takes_the_place_and_the_old_can_be_gone_back_to(place: Path, is_at_once: bool) -> None:  # noqa: FBT001 -- a fixture
    put_in_place(place)
    assert (read(place), read(previous_path(place)), next_of(place).exists()) == ("new", "old", False)
    go_back(place)
    assert (read(place), read(previous_path(place))) == ("old", "new")
    go_back(place)
    assert (read(place), read(previous_path(place))) == ("new", "old")


def test_only_the_last_version_is_kept(place: Path, is_at_once: bool) -> None:  # noqa: FBT001 -- as above
    previous_path(place).mkdir()
    (previous_path(place) / "program").write_text("ancient")
    put_in_place(place)
    assert read(previous_path(place)) == "old"
    assert sorted(path.name for path in place.parent.iterdir()) == [".roundhouse.previous", "roundhouse"]


def test_files_are_exchanged_as_folders_are(tmp_path: Path, is_at_once: bool) -> None:  # noqa: FBT001 -- as above
    image = tmp_path / "Roundhouse.AppImage"
    image.write_text("old")
    next_of(image).write_text("new")
    put_in_place(image)
    assert (image.read_text(), previous_path(image).read_text()) == ("new", "old")


def test_nothing_made_ready_leaves_everything_as_it_was(place: Path, is_at_once: bool) -> None:  # noqa: FBT001 -- as above
    (next_of(place) / "program").unlink()
    next_of(place).rmdir()
    with pytest.raises(StorageFault, match="could not be replaced"):
        put_in_place(place)
    assert read(place) == "old"


def test_a_second_rename_that_fails_undoes_the_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_exchange_atomically", lambda _one, _other: False)
    with pytest.raises(FileNotFoundError):
        swap_paths(place, place.with_name("nothing"))
    assert read(place) == "old"
    assert not place.with_name(".roundhouse.aside").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is Linux's")
def test_linux_exchanges_in_one_step(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "rename", None)
    swap_paths(place, next_of(place))
    assert (read(place), read(next_of(place))) == ("new", "old")


def test_without_a_version_before_there_is_no_way_back(place: Path) -> None:
    with pytest.raises(Conflict) as error:
        go_back(place)
    assert error.value.code == "no_previous"


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="who is root may write anywhere")
def test_what_may_not_be_written_is_said_before_anything_is_fetched(place: Path) -> None:
    check_replaceable(place)
    place.parent.chmod(0o555)
    try:
        with pytest.raises(StorageFault) as error:
            check_replaceable(place)
    finally:
        place.parent.chmod(0o755)
    assert error.value.code == "update_not_allowed"


def test_a_place_that_is_not_ours_is_told_from_one_that_is(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_replaceable(place)
    monkeypatch.setattr(os, "access", lambda *_args: False)
    with pytest.raises(StorageFault, match="you may not write") as error:
        check_replaceable(place)
    assert error.value.code == "update_not_allowed"
