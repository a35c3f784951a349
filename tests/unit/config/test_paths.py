"""One home per installation, private to its owner."""

import stat
import sys
from pathlib import Path

import pytest

from app.config.paths import default_paths, expand_path


def test_home_moves_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path / "home"))
    paths = default_paths()
    for path in (paths.settings_file, paths.database, paths.models, paths.lock_file, paths.port_file, paths.logs):
        assert path.is_relative_to(tmp_path / "home")
    assert not (tmp_path / "home").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_folders_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path))
    paths = default_paths()
    paths.create_folders()
    assert stat.S_IMODE(paths.state.stat().st_mode) == 0o700


def test_without_a_home_the_platform_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROUNDHOUSE_HOME", raising=False)
    assert default_paths().data.name == "roundhouse"


@pytest.mark.skipif(sys.platform == "win32", reason="there every ~name has a folder")
def test_a_home_that_is_nobodys_is_left_as_it_is() -> None:
    assert expand_path("~/models") == Path.home() / "models"
    assert expand_path("~nobody-at-all/models") == Path("~nobody-at-all/models")
