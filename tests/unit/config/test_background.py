"""The service as each system keeps it: the files as they should be, and what happens when a keeper refuses."""

import os
import plistlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from app.config import service_unit
from app.config.paths import this_home
from app.config.service_unit import (
    build_service_unit,
    install_unit,
    is_unit_enabled,
    launch_agent,
    remove_unit,
    systemd_unit,
    windows_task,
)
from app.core.errors import EnvironmentFault

ARGV = ["/opt/my app/roundhouse", "-P", "-m", "app.gateway"]
UNIT = """\
[Unit]
Description=Roundhouse: AI models on this computer at one endpoint

[Service]
Type=exec
ExecStart="/opt/my app/roundhouse" "-P" "-m" "app.gateway"
Environment="ROUNDHOUSE_HOME=/data/100%% mine"
Restart=on-failure
RestartPreventExitStatus=3 4
KillMode=mixed
TimeoutStopSec=60

[Install]
WantedBy=default.target
"""
TASK = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"


def test_the_unit_is_as_it_should_be() -> None:
    assert systemd_unit(ARGV, {"ROUNDHOUSE_HOME": "/data/100% mine"}).decode() == UNIT


def test_what_systemd_would_take_for_more_is_escaped() -> None:
    line = systemd_unit(['/a "b"/$HOME/%h'], {}).decode().split("ExecStart=")[1].splitlines()[0]
    assert line == r'"/a \"b\"/$$HOME/%%h"'


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_itself_has_no_complaint(tmp_path: Path) -> None:
    file = tmp_path / "roundhouse.service"
    file.write_bytes(systemd_unit([sys.executable, "-P", "-m", "app.gateway"], {"ROUNDHOUSE_HOME": "/data/100% mine"}))
    argv = [shutil.which("systemd-analyze") or "", "verify", "--man=no", str(file)]
    process = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (process.returncode, "roundhouse.service" in process.stderr) == (0, False), process.stderr


def test_the_agent_says_what_launchd_reads() -> None:
    assert plistlib.loads(launch_agent(ARGV, {"HF_HOME": "/x"})) == {
        "Label": "ai.roundhouse.service",
        "ProgramArguments": ARGV,
        "EnvironmentVariables": {"HF_HOME": "/x"},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ProcessType": "Interactive",
        "ExitTimeOut": 60,
    }


def test_the_task_is_one_persons_and_quotes_what_windows_would_cut() -> None:
    task = ET.fromstring(windows_task([r"C:\Program Files\R&D\roundhouse.exe", "-m", "a b"], r"PC\me").decode("utf-16"))  # noqa: S314 -- our own
    assert task.findtext(f"{TASK}Actions/{TASK}Exec/{TASK}Command") == r"C:\Program Files\R&D\roundhouse.exe"
    assert task.findtext(f"{TASK}Actions/{TASK}Exec/{TASK}Arguments") == '-m "a b"'
    assert task.findtext(f"{TASK}Triggers/{TASK}LogonTrigger/{TASK}UserId") == r"PC\me"
    assert task.findtext(f"{TASK}Principals/{TASK}Principal/{TASK}LogonType") == "InteractiveToken"


@pytest.mark.parametrize(
    ("platform", "file", "program"),
    [
        ("linux", ".config/systemd/user/roundhouse.service", "systemctl"),
        ("darwin", "Library/LaunchAgents/ai.roundhouse.service.plist", "launchctl"),
        ("win32", "data/service-task.xml", "schtasks"),
    ],
)
def test_each_system_has_its_keeper_and_no_administrator(
    tmp_path: Path, platform: str, file: str, program: str
) -> None:
    home = this_home({"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}, platform)
    unit = build_service_unit(home, {}, data=tmp_path / "data", user="501")
    assert unit.file == tmp_path / file
    assert {argv[0] for argv in (*unit.start_commands, *unit.stop_commands, unit.query_command)} == {program}


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for systemctl: it notes what it is told, and fails where `refuse` lies beside it."""
    if sys.platform == "win32":
        pytest.skip("a shell script plays systemctl")
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "systemctl"
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/calls\n[ ! -e {folder}/refuse ] || {{ echo no >&2; exit 1; }}\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "calls"


@pytest.fixture
def here(tmp_path: Path) -> service_unit.ServiceUnit:
    return build_service_unit(this_home({"HOME": str(tmp_path)}, "linux"), {}, data=tmp_path, user="0")


def test_installed_known_and_removed(here: service_unit.ServiceUnit, calls: Path) -> None:
    install_unit(here)
    assert here.file.read_bytes() == here.data
    assert is_unit_enabled(here)
    assert remove_unit(here)
    assert not here.file.exists()
    assert not is_unit_enabled(here)
    assert calls.read_text().splitlines()[:2] == ["--user daemon-reload", "--user enable --now roundhouse.service"]
    assert "--user disable --now roundhouse.service" in calls.read_text()


def test_what_was_never_installed_is_not_removed(here: service_unit.ServiceUnit, calls: Path) -> None:
    assert not remove_unit(here)
    assert not calls.exists()


def test_the_service_of_another_home_is_left_alone(here: service_unit.ServiceUnit, calls: Path, tmp_path: Path) -> None:
    home = this_home({"HOME": str(tmp_path)}, "linux")
    other = build_service_unit(home, {"ROUNDHOUSE_HOME": "/elsewhere"}, data=tmp_path, user="0")
    install_unit(other)
    assert not remove_unit(here)
    assert other.file.exists()
    assert remove_unit(other)


def test_a_keeper_that_refuses_leaves_no_file(here: service_unit.ServiceUnit, calls: Path) -> None:
    calls.with_name("refuse").touch()
    with pytest.raises(EnvironmentFault) as error:
        install_unit(here)
    assert (error.value.code, error.value.body.detail) == ("service_refused", "no")
    assert not here.file.exists()


def test_a_system_without_one_says_so(here: service_unit.ServiceUnit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EnvironmentFault) as error:
        install_unit(here)
    assert error.value.code == "no_service_keeper"
    assert not here.file.exists()
