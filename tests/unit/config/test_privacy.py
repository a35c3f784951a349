"""Our folders are ours alone: tightened where they were wide, refused where they are somebody else's."""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli.uninstall import uninstall
from app.client.discovery import ensure_gateway, find_running_gateway
from app.config.paths import Paths
from app.config.privacy import check_owner, is_own, secure_folders
from app.core.errors import EnvironmentFault

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps a person's folders by itself")


@pytest.fixture(autouse=True)
def mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    home = tmp_path / "home"
    own_paths = Paths(config=home / "config", data=home / "data", state=home / "state", logs=home / "logs")
    own_paths.create_folders()
    return own_paths


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_wide_folders_and_files_are_tightened(paths: Paths) -> None:
    paths.state.chmod(0o777)
    paths.data.chmod(0o755)
    paths.database.write_bytes(b"chats")
    paths.keys_file.write_text("{}")
    for file in (paths.database, paths.keys_file):
        file.chmod(0o644)
    secure_folders(paths)
    assert {mode(folder) for folder in (paths.config, paths.data, paths.state, paths.logs)} == {0o700}
    assert {mode(file) for file in (paths.database, paths.keys_file)} == {0o600}


def test_models_keep_their_mode(paths: Paths) -> None:
    model = paths.models / "shared.gguf"
    model.write_bytes(b"weights")
    model.chmod(0o644)
    secure_folders(paths)
    assert mode(model) == 0o644


def test_new_files_are_for_nobody_else(paths: Paths) -> None:
    secure_folders(paths)
    (paths.state / "new").write_text("")
    assert mode(paths.state / "new") == 0o600


@pytest.mark.parametrize("name", ["gateway.json", "gateway.json.part", "gateway.lock"])
def test_a_link_that_was_planted_goes(paths: Paths, tmp_path: Path, name: str) -> None:
    target = tmp_path / "theirs"
    target.write_text("theirs")
    (paths.state / name).symlink_to(target)
    secure_folders(paths)
    assert not (paths.state / name).is_symlink()
    assert target.read_text() == "theirs"


def test_settings_that_a_person_keeps_elsewhere_stay_a_link(paths: Paths, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.toml"
    target.write_text("")
    paths.settings_file.symlink_to(target)
    secure_folders(paths)
    assert paths.settings_file.is_symlink()


def test_a_folder_of_another_account_is_refused(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = paths.state.stat().st_uid + 1
    monkeypatch.setattr(os, "geteuid", lambda: theirs)
    with pytest.raises(EnvironmentFault, match="belongs to another account"):
        secure_folders(paths)


def test_every_program_says_whose_folders_they_are(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    check_owner(paths)
    theirs = paths.data.stat().st_uid + 1
    monkeypatch.setattr(os, "geteuid", lambda: theirs)
    for look in (check_owner, find_running_gateway, ensure_gateway):
        with pytest.raises(EnvironmentFault, match="belongs to another account") as error:
            look(paths)
        assert error.value.code == "home_not_ours"
    result = CliRunner().invoke(uninstall, ["--yes"], env={"ROUNDHOUSE_HOME": str(paths.data.parent)})
    assert result.exit_code == 1
    assert "belongs to another account" in result.stderr
    assert paths.data.is_dir()


def test_folders_that_are_not_there_yet_are_nobodys(tmp_path: Path) -> None:
    check_owner(Paths(config=tmp_path / "a", data=tmp_path / "b", state=tmp_path / "c", logs=tmp_path / "d"))


def test_what_another_account_wrote_is_not_our_own(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    paths.port_file.write_text("{}")
    mine = paths.port_file.stat().st_uid or 1000
    if sys.platform != "win32" and paths.port_file.stat().st_uid == 0:
        os.chown(paths.port_file, mine, -1)
    monkeypatch.setattr(os, "geteuid", lambda: mine)
    assert is_own(paths.port_file)
    link = paths.state / "link"
    link.symlink_to(paths.port_file)
    if link.lstat().st_uid == mine:
        assert not is_own(link)
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert not is_own(paths.port_file)
