"""Each kind of copy is replaced its own way; what is not right is refused before anything has changed."""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.config.programs import AppInstallation, previous_path
from app.core.errors import Conflict, EnvironmentFault, StorageFault
from app.core.updates import InstallationKind
from app.hub.download.wire import DownloadStopped
from app.updates import methods
from app.updates.exchange import next_of
from app.updates.manifest import UpdateRefused
from app.updates.methods import UPDATE_METHODS, UpdateTask, previous_version, roll_back
from tests.releases import archive

ON_LINUX = pytest.mark.skipif(sys.platform == "win32", reason="the programs are scripts")
STARTS = """\
    home = pathlib.Path(os.environ["ROUNDHOUSE_HOME"])
    (home / "state").mkdir()
    said = {{"pid": os.getpid(), "created_at": 0.0, "url": "http://127.0.0.1:1", "token": "", "version": "{version}"}}
    draft = home / "state" / "draft"
    draft.write_text(json.dumps(said))
    draft.rename(home / "state" / "gateway.json")
    signal.pause()
"""


def program(body: str) -> str:
    """Return a stand-in for the frozen executable."""
    assert sys.executable
    return f"#!{sys.executable}\nimport json, os, pathlib, signal, sys\n" + textwrap.dedent(body)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "roundhouse"
    place.mkdir()
    (place / "roundhouse").write_text("old")
    (place / "installation.json").write_text('{"kind": "tar.xz", "version": "0.1.0"}')
    return place


Made = Callable[..., UpdateTask]


@pytest.fixture
def work(tmp_path: Path, place: Path) -> Made:
    def make(
        content: bytes, *, kind: InstallationKind = InstallationKind.ARCHIVE, stages: list[str] | None = None
    ) -> UpdateTask:
        file = tmp_path / f"roundhouse.{kind}"
        file.write_bytes(content)
        installation = AppInstallation(kind=kind, place=place)
        return UpdateTask(
            installation=installation,
            file=file,
            version="0.2.0",
            report_stage=([] if stages is None else stages).append,
        )

    return make


@ON_LINUX
def test_a_folder_is_unpacked_tried_and_exchanged_by_the_last_deed(work: Made, place: Path) -> None:
    stages: list[str] = []
    update = work(archive("0.2.0", program(STARTS.format(version="0.2.0"))), stages=stages)
    way = UPDATE_METHODS[InstallationKind.ARCHIVE]
    way.check_place(place, 1000)
    way.prepare_update(update)
    assert stages == ["Unpacking", "Testing it"]
    result = way.finish_update(update)
    assert (place / "roundhouse").read_text() == "old", "nothing is replaced while the service runs"
    assert result.final_action is not None
    assert result.goes_on
    result.final_action()
    assert "signal" in (place / "roundhouse").read_text()
    assert previous_version(update.installation) == "0.1.0"
    back = roll_back(update.installation)
    assert back.final_action is not None
    back.final_action()
    assert (place / "roundhouse").read_text() == "old"
    assert previous_version(update.installation) == "0.2.0"


@ON_LINUX
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sys.exit('GLIBC_9.99 not found')", "GLIBC_9.99"),
        (STARTS.format(version="0.1.9"), "0.1.9"),
    ],
)
def test_what_does_not_run_here_is_not_installed(work: Made, place: Path, body: str, why: str) -> None:
    with pytest.raises(EnvironmentFault) as error:
        UPDATE_METHODS[InstallationKind.ARCHIVE].prepare_update(work(archive("0.2.0", program(body))))
    assert error.value.code == "update_does_not_run"
    assert why in error.value.body.detail
    assert not next_of(place).exists()
    assert (place / "roundhouse").read_text() == "old"


@ON_LINUX
def test_a_program_that_is_none_is_said(work: Made, place: Path) -> None:
    with pytest.raises(EnvironmentFault) as error:
        UPDATE_METHODS[InstallationKind.ARCHIVE].prepare_update(work(archive("0.2.0", "\0 no program")))
    assert error.value.code == "update_does_not_run"


@ON_LINUX
def test_trying_it_out_can_be_called_off(work: Made, place: Path) -> None:
    update = work(archive("0.2.0", program("    signal.pause()")))
    update.stop_requested.set()
    with pytest.raises(DownloadStopped):
        UPDATE_METHODS[InstallationKind.ARCHIVE].prepare_update(update)
    assert not next_of(place).exists()


def test_an_archive_of_another_version_is_refused(work: Made, place: Path) -> None:
    with pytest.raises(UpdateRefused, match=r"version 0\.1\.5") as error:
        UPDATE_METHODS[InstallationKind.ARCHIVE].prepare_update(work(archive("0.2.0", "", noted_version="0.1.5")))
    assert error.value.code == "update_damaged"
    assert not next_of(place).exists()


def test_what_is_no_archive_is_refused(work: Made, place: Path) -> None:
    with pytest.raises(EnvironmentFault) as error:
        UPDATE_METHODS[InstallationKind.ARCHIVE].prepare_update(work(b"no archive"))
    assert error.value.code == "bad_archive"
    assert not next_of(place).exists()


def test_a_disk_that_fills_while_unpacking_is_said(work: Made, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(methods, "unpack_archive", full)
    with pytest.raises(StorageFault, match="The disk is full"):
        UPDATE_METHODS[InstallationKind.ARCHIVE].prepare_update(work(b""))
    assert not next_of(place).exists()


def test_room_for_the_unpacked_folder_is_asked_for_first(place: Path) -> None:
    with pytest.raises(StorageFault) as error:
        UPDATE_METHODS[InstallationKind.ARCHIVE].check_place(place, 1 << 60)
    assert error.value.code == "disk_full"


def test_an_image_is_replaced_beside_the_one_that_runs(work: Made, tmp_path: Path) -> None:
    image = tmp_path / "Roundhouse.AppImage"
    image.write_bytes(b"old")
    kind = InstallationKind.APPIMAGE
    task = UpdateTask(
        installation=AppInstallation(kind=kind, place=image), file=work(b"new", kind=kind).file, version="0.2.0"
    )
    UPDATE_METHODS[kind].check_place(image, 3)
    UPDATE_METHODS[kind].prepare_update(task)
    assert image.read_bytes() == b"old"
    result = UPDATE_METHODS[kind].finish_update(task)
    assert (image.read_bytes(), previous_path(image).read_bytes()) == (b"new", b"old")
    assert image.stat().st_mode & 0o111 or sys.platform == "win32"
    assert "open it again" in result.instruction
    assert not result.goes_on
    assert previous_version(task.installation) == "before"
    assert "open it again" in roll_back(task.installation).instruction
    assert image.read_bytes() == b"old"


def test_without_a_version_before_there_is_no_way_back(place: Path) -> None:
    for kind in (InstallationKind.ARCHIVE, InstallationKind.DEB):
        with pytest.raises(Conflict) as error:
            roll_back(AppInstallation(kind=kind, place=place))
        assert error.value.code == "no_previous"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Put a stand-in for one of the system's programs on the only PATH there is; it notes its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("DISPLAY", ":9")

    def put(name: str, body: str = "") -> Path:
        record = tmp_path / f"{name}.said"
        script = folder / name
        script.write_text(f"#!/bin/sh\necho \"$@\" > '{record}'\n{body}\n")
        script.chmod(0o755)
        return record

    return put


@pytest.mark.skipif(sys.platform != "linux", reason="Debian's way")
class TestPackage:
    """A Debian package, with stand-ins for pkexec, apt-get and xdg-open."""

    def test_apt_installs_it_with_an_administrator_s_password(
        self, work: Made, system: Callable[[str, str], Path]
    ) -> None:
        calls_file = system("pkexec", "")
        system("apt-get", "")
        update = work(b"deb", kind=InstallationKind.DEB)
        result = UPDATE_METHODS[InstallationKind.DEB].finish_update(update)
        assert result.goes_on
        assert calls_file.read_text().split()[1:] == ["install", "--yes", "--", str(update.file)]

    @pytest.mark.parametrize(("status", "why"), [(126, "not allowed"), (100, "could not be installed")])
    def test_a_refusal_says_the_command(
        self, work: Made, system: Callable[[str, str], Path], status: int, why: str
    ) -> None:
        system("pkexec", f"echo E: broken packages; exit {status}")
        system("apt-get", "")
        update = work(b"deb", kind=InstallationKind.DEB)
        with pytest.raises(EnvironmentFault, match=why) as error:
            UPDATE_METHODS[InstallationKind.DEB].finish_update(update)
        assert error.value.code == "update_by_hand"
        assert f"sudo apt install {update.file}" in error.value.hint
        assert "broken packages" in error.value.body.detail

    def test_without_polkit_it_is_opened_as_a_double_click_would(
        self, work: Made, system: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        system("xdg-open", "")
        commands: list[list[str]] = []
        monkeypatch.setattr(subprocess, "Popen", lambda argv, **_how: commands.append(argv))
        update = work(b"deb", kind=InstallationKind.DEB)
        result = UPDATE_METHODS[InstallationKind.DEB].finish_update(update)
        assert [argv[1:] for argv in commands] == [[str(update.file)]]
        assert (result.goes_on, result.final_action) == (False, None)
        assert "install it there" in result.instruction

    def test_without_a_display_the_command_is_said(
        self, work: Made, system: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        system("xdg-open", "")
        monkeypatch.delenv("DISPLAY")
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        with pytest.raises(EnvironmentFault, match="There is no way to ask") as error:
            UPDATE_METHODS[InstallationKind.DEB].finish_update(work(b"deb", kind=InstallationKind.DEB))
        assert error.value.code == "update_by_hand"

    def test_waiting_for_a_password_can_be_called_off(self, work: Made, system: Callable[[str, str], Path]) -> None:
        system("pkexec", "while :; do read -r nothing < /dev/zero; done")
        system("apt-get", "")
        update = work(b"deb", kind=InstallationKind.DEB)
        update.stop_requested.set()
        with pytest.raises(DownloadStopped):
            UPDATE_METHODS[InstallationKind.DEB].finish_update(update)


def test_an_administrator_s_program_that_cannot_be_ended_is_waited_for() -> None:
    def refuse() -> None:
        raise PermissionError

    assert not methods._try_to_end(SimpleNamespace(terminate=refuse))  # type: ignore[arg-type]  # as much of a Popen as is asked


def test_windows_installer_starts_when_the_service_has_ended(work: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda argv, **_how: commands.append(argv))
    update = work(b"setup", kind=InstallationKind.EXE)
    result = UPDATE_METHODS[InstallationKind.EXE].finish_update(update)
    assert commands == []
    assert result.final_action is not None
    assert not result.goes_on
    result.final_action()
    assert commands == [[str(update.file)]]


@pytest.mark.parametrize("status", [0, 1])
def test_a_disk_image_is_shown(work: Made, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    commands: list[list[str]] = []

    def run(argv: list[str], **_how: object) -> SimpleNamespace:
        commands.append(argv)
        return SimpleNamespace(returncode=status)

    monkeypatch.setattr(subprocess, "run", run)
    update = work(b"image", kind=InstallationKind.DMG)
    if status:
        with pytest.raises(EnvironmentFault, match="cannot be opened"):
            UPDATE_METHODS[InstallationKind.DMG].finish_update(update)
    else:
        assert "drag" in UPDATE_METHODS[InstallationKind.DMG].finish_update(update).instruction
    assert commands == [["/usr/bin/open", str(update.file)]]


def test_every_kind_has_a_way_or_a_command() -> None:
    by_command = {InstallationKind.WHEEL, InstallationKind.SOURCE}
    assert set(UPDATE_METHODS) == set(InstallationKind) - by_command
