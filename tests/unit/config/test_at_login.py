"""The window at log-in: one file of the person's own, made and taken back."""

import configparser
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.config import service_unit
from app.config.paths import Home, this_home
from app.config.programs import window_command
from app.core.errors import StorageFault


def home(folder: Path, platform: str) -> Home:
    return this_home({"HOME": str(folder), "USERPROFILE": str(folder)}, platform)


@pytest.mark.parametrize(
    ("platform", "file"),
    [("linux", ".config/autostart/roundhouse.desktop"), ("darwin", "Library/LaunchAgents/ai.roundhouse.window.plist")],
)
def test_made_and_taken_back(tmp_path: Path, platform: str, file: str) -> None:
    person = home(tmp_path, platform)
    service_unit.set_autostart(person, is_enabled=False)
    service_unit.set_autostart(person, is_enabled=True)
    assert service_unit.autostart_file(person) == tmp_path / file
    assert (tmp_path / file).exists()
    service_unit.set_autostart(person, is_enabled=False)
    assert not (tmp_path / file).exists()


def test_the_entry_quotes_what_a_desktop_would_cut() -> None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(service_unit.format_desktop_entry(["/opt/my app/100%/$x", 'a"b']).decode())
    assert parser["Desktop Entry"]["Exec"] == '"/opt/my app/100%%/\\\\$x" "a\\\\"b"'


@pytest.mark.skipif(shutil.which("desktop-file-validate") is None, reason="desktop-file-utils is not here")
def test_the_entry_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "roundhouse.desktop"
    file.write_bytes(service_unit.format_desktop_entry(window_command()))
    argv = [shutil.which("desktop-file-validate") or "", str(file)]
    process = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout) == (0, "")


def test_the_agent_says_what_launchd_reads() -> None:
    body = plistlib.loads(
        service_unit.format_window_agent(["/Applications/Roundhouse.app/Contents/MacOS/roundhouse-window"])
    )
    assert body["RunAtLoad"] is True
    assert body["ProgramArguments"] == ["/Applications/Roundhouse.app/Contents/MacOS/roundhouse-window"]


def test_frozen_it_is_the_executable_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert window_command()[-1] == "app.gui"
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", "/usr/lib/roundhouse/roundhouse")
    assert window_command() == ["/usr/lib/roundhouse/roundhouse-window"]


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / ".config").write_text("a file where the folder should be")
    with pytest.raises(StorageFault, match="cannot be changed"):
        service_unit.set_autostart(home(tmp_path, "linux"), is_enabled=True)
