"""How a copy came to its computer: by its packer's note, else by its place; and what then updates it."""

import sys
from pathlib import Path

import pytest

from app.config import programs
from app.config.programs import NOTE, encode_note, read_note, this_installation
from app.core.updates import InstallationKind


@pytest.fixture
def program_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A frozen copy's folder."""
    folder = tmp_path / "roundhouse"
    folder.mkdir()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(folder / "roundhouse"))
    return folder


@pytest.mark.parametrize("kind", [InstallationKind.DEB, InstallationKind.ARCHIVE, InstallationKind.EXE])
def test_the_packer_s_note_decides(program_folder: Path, kind: InstallationKind) -> None:
    (program_folder / NOTE).write_bytes(encode_note(kind, "1.2.3"))
    installation = this_installation({})
    assert (installation.kind, installation.place, installation.command) == (kind, program_folder, "")
    install_note = read_note(program_folder)
    assert install_note is not None
    assert install_note.version == "1.2.3"


@pytest.mark.parametrize(
    ("platform", "kind"),
    [("linux", InstallationKind.ARCHIVE), ("darwin", InstallationKind.DMG), ("win32", InstallationKind.EXE)],
)
@pytest.mark.parametrize("content", [None, b"\xff", b'{"kind": "floppy"}'])
def test_without_a_note_that_can_be_read_the_place_decides(
    program_folder: Path, monkeypatch: pytest.MonkeyPatch, platform: str, kind: InstallationKind, content: bytes | None
) -> None:
    if content is not None:
        (program_folder / NOTE).write_bytes(content)
    monkeypatch.setattr(sys, "platform", platform)
    assert this_installation({}).kind is kind


@pytest.mark.skipif(sys.platform == "win32", reason="a path of Linux")
def test_what_lies_below_usr_is_the_system_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "executable", "/usr/lib/roundhouse-that-is-not-here/roundhouse")
    assert this_installation({}).kind is InstallationKind.DEB


def test_on_macos_it_is_the_whole_application(program_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    application = program_folder / "Roundhouse.app"
    note = application / "Contents/Resources" / NOTE
    note.parent.mkdir(parents=True)
    note.write_bytes(encode_note(InstallationKind.DMG, "1.2.3"))
    monkeypatch.setattr(sys, "executable", str(application / "Contents/MacOS/roundhouse"))
    installation = this_installation({})
    assert (installation.kind, installation.place) == (InstallationKind.DMG, application)


def test_an_appimage_is_one_file_and_only_for_what_lies_in_it(program_folder: Path) -> None:
    environ = {"APPIMAGE": "/home/me/Roundhouse.AppImage", "APPDIR": str(program_folder)}
    installation = this_installation(environ)
    assert (installation.kind, installation.place) == (InstallationKind.APPIMAGE, Path("/home/me/Roundhouse.AppImage"))
    of_another_program = {**environ, "APPDIR": "/tmp/.mount_terminal"}  # noqa: S108 -- only a name
    assert this_installation(of_another_program).kind is not InstallationKind.APPIMAGE


def test_a_checkout_is_updated_by_git() -> None:
    installation = this_installation({})
    assert installation.kind is InstallationKind.SOURCE
    assert "git -C" in installation.command


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        ("/home/me/.local/share/uv/tools/roundhouse-ai", "uv tool upgrade roundhouse-ai"),
        ("/home/me/.local/share/pipx/venvs/roundhouse-ai", "pipx upgrade roundhouse-ai"),
        ("/home/me/venv", "-m pip install --upgrade roundhouse-ai"),
    ],
)
def test_a_wheel_is_updated_by_what_installed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, command: str
) -> None:
    monkeypatch.setattr(programs, "_ROOT", tmp_path)
    monkeypatch.setattr(sys, "prefix", prefix)
    installation = this_installation({})
    assert installation.kind is InstallationKind.WHEEL
    assert command in installation.command
