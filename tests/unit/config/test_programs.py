"""How our own programs are started."""

import subprocess
import sys
from pathlib import Path

import pytest

from app import __version__
from app.config import programs
from app.config.programs import (
    UV_VARIABLE,
    module_command,
    removal_instructions,
    standalone_command,
    uv_program,
    window_command,
)


def test_a_folder_called_app_where_the_command_is_typed_is_not_taken_for_ours(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("raise SystemExit('somebody else runs here')")
    result = subprocess.run(
        module_command("app.cli", "--version"), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert __version__ in result.stdout, result.stderr


def test_an_installed_package_starts_its_programs_by_itself_as_nobody_else_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_ROOT", tmp_path)  # no checkout's
    start = [sys.executable, "-P", "-m", "roundhouse_ai"]
    assert module_command("app.hardware", "cpu") == [*start, "-P", "-m", "app.hardware", "cpu"]
    assert standalone_command("app.gateway") == [*start, "-P", "-m", "app.gateway"]
    assert window_command() == [*start, "-P", "-m", "app.gui"]


NAME = "uv.exe" if sys.platform == "win32" else "uv"


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation without uv beside it or on PATH."""
    monkeypatch.delenv(UV_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setattr(programs, "__file__", str(tmp_path / "checkout" / "app" / "config" / "programs.py"))
    return tmp_path


def test_uv_may_be_nowhere(nowhere: Path) -> None:
    assert uv_program() is None


@pytest.mark.parametrize("folder", ["path", "checkout/.uv/bin", "bin"])
def test_uv_is_found_beside_us_in_a_checkout_and_on_the_path(nowhere: Path, folder: str) -> None:
    uv = nowhere / folder / NAME
    uv.parent.mkdir(parents=True)
    uv.write_bytes(b"")
    uv.chmod(0o755)
    assert uv_program() == uv


def test_a_uv_that_was_named_counts_alone(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = nowhere / "bin" / NAME
    beside.parent.mkdir()
    beside.write_bytes(b"")
    monkeypatch.setenv(UV_VARIABLE, str(nowhere / "mine"))
    assert uv_program() is None


def test_what_outlives_an_appimage_starts_it_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usual = (module_command("app.gateway"), module_command("app.gui"))
    assert (standalone_command("app.gateway"), window_command()) == usual
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "usr/lib/roundhouse/roundhouse"))
    monkeypatch.setenv("APPIMAGE", "/home/me/Roundhouse.AppImage")
    monkeypatch.setenv("APPDIR", str(tmp_path))
    assert standalone_command("app.gateway") == ["/home/me/Roundhouse.AppImage", "-P", "-m", "app.gateway"]
    assert window_command() == ["/home/me/Roundhouse.AppImage"]
    assert module_command("app.hardware")[0].endswith("roundhouse"), "it ends before us"
    monkeypatch.setenv("APPDIR", str(tmp_path / "other"))
    assert standalone_command("app.gateway")[0].endswith("roundhouse"), "another AppImage started us"


@pytest.mark.parametrize(
    ("platform", "executable", "instruction"),
    [
        ("linux", "/usr/lib/roundhouse/roundhouse", "apt remove roundhouse"),
        ("linux", "/home/me/roundhouse-1/roundhouse", "/home/me/roundhouse-1;"),
        ("darwin", "/Applications/Roundhouse.app/Contents/MacOS/roundhouse", "Roundhouse.app;"),
        ("win32", "/x/roundhouse.exe", "installed apps"),
    ],
)
def test_how_the_program_is_removed_depends_on_how_it_came(
    platform: str, executable: str, instruction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "checkout" in removal_instructions()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(sys, "executable", executable)
    assert instruction in removal_instructions()


def test_the_version_before_is_to_be_removed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "roundhouse"
    place.mkdir()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "executable", str(place / "roundhouse"))
    assert "version before" not in removal_instructions()
    (tmp_path / ".roundhouse.previous").mkdir()
    assert str(tmp_path / ".roundhouse.previous") in removal_instructions()
