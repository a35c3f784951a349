"""Roundhouse's service as each system's own keeper of services knows it: the file that says it, and who is told.

Linux has systemd's user units, macOS launchd's agents, Windows tasks at log-on: all of one person, none an
administrator's. Run for real: none of the three; on Linux systemd checks the unit, and a stand-in plays systemctl.

The window at log-in: the one file, or on Windows the one value, by which each system opens programs by itself.

Linux is tried (a desktop reads the entry as any other); macOS and Windows were never run.
"""

import os
import plistlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from app.config.paths import Home, Paths, this_home
from app.config.programs import child_environment, standalone_command, window_command
from app.core.api import EXIT_ALREADY_RUNNING, EXIT_NO_KEY
from app.core.errors import EnvironmentFault, StorageFault

NAME, LABEL = "roundhouse", "ai.roundhouse.service"
_KEPT_VARIABLES = ("ROUNDHOUSE_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
"""What says where things lie: a keeper starts programs without the shell's variables."""
_WITHIN_S = 60

_UNIT = """\
[Unit]
Description=Roundhouse: AI models on this computer at one endpoint

[Service]
Type=exec
ExecStart={argv}
{environment}Restart=on-failure
RestartPreventExitStatus={never}
KillMode=mixed
TimeoutStopSec=60

[Install]
WantedBy=default.target
"""
_TASK = """\
<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo><Description>Roundhouse: AI models on this computer at one endpoint</Description></RegistrationInfo>
  <Triggers><LogonTrigger><UserId>{user}</UserId></LogonTrigger></Triggers>
  <Principals>
    <Principal id="Author"><UserId>{user}</UserId><LogonType>InteractiveToken</LogonType></Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure><Interval>PT1M</Interval><Count>3</Count></RestartOnFailure>
  </Settings>
  <Actions><Exec><Command>{program}</Command><Arguments>{arguments}</Arguments></Exec></Actions>
</Task>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUnit:
    """What one system wants: a file, and commands after it is there, before it goes, and to see whether it counts."""

    file: Path
    data: bytes
    start_commands: tuple[tuple[str, ...], ...]
    stop_commands: tuple[tuple[str, ...], ...]
    query_command: tuple[str, ...]


def this_service_unit(paths: Paths) -> ServiceUnit:
    """Return how the service is kept for the person this process runs as."""
    return build_service_unit(this_home(), child_environment(), data=paths.data, user=this_user())


def build_service_unit(home: Home, environ: Mapping[str, str], *, data: Path, user: str) -> ServiceUnit:
    """Return how the service is kept on the system of `home`; `data` is our own folder, `user` an id or a name."""
    argv = standalone_command("app.gateway")
    if home.system == "macos":
        file = home.folder / "Library/LaunchAgents" / f"{LABEL}.plist"
        place = f"gui/{user}"
        return ServiceUnit(
            file=file,
            data=launch_agent(argv, _select_variables(environ)),
            start_commands=(("launchctl", "bootstrap", place, str(file)),),
            stop_commands=(("launchctl", "bootout", f"{place}/{LABEL}"),),
            query_command=("launchctl", "print", f"{place}/{LABEL}"),
        )
    if home.system == "windows":
        file = data / "service-task.xml"
        return ServiceUnit(
            file=file,
            data=windows_task(argv, user),
            start_commands=(
                ("schtasks", "/Create", "/TN", NAME, "/XML", str(file), "/F"),
                ("schtasks", "/Run", "/TN", NAME),
            ),
            stop_commands=(("schtasks", "/Delete", "/TN", NAME, "/F"),),
            query_command=("schtasks", "/Query", "/TN", NAME),
        )
    unit = f"{NAME}.service"
    return ServiceUnit(
        file=home.config / "systemd/user" / unit,
        data=systemd_unit(argv, _select_variables(environ)),
        start_commands=(("systemctl", "--user", "daemon-reload"), ("systemctl", "--user", "enable", "--now", unit)),
        stop_commands=(("systemctl", "--user", "disable", "--now", unit),),
        query_command=("systemctl", "--user", "is-enabled", unit),
    )


def systemd_unit(argv: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """Return a user unit, quoted as systemd.service(5) has it under "Command lines"."""
    assignments = "".join(
        f"Environment={_quote_value(f'{name}={value}')}\n" for name, value in sorted(environment.items())
    )
    text = _UNIT.format(
        argv=" ".join(_quote_value(part).replace("$", "$$") for part in argv),
        environment=assignments,
        never=f"{EXIT_ALREADY_RUNNING} {EXIT_NO_KEY}",
    )
    return text.encode()


def launch_agent(argv: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """Return a property list for launchd; see launchd.plist(5)."""
    properties = {
        "Label": LABEL,
        "ProgramArguments": list(argv),
        "EnvironmentVariables": dict(environment),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ProcessType": "Interactive",
        "ExitTimeOut": 60,
    }
    return plistlib.dumps(properties)


def windows_task(argv: Sequence[str], user: str) -> bytes:
    """Return a task for the task scheduler, in the encoding it demands."""
    arguments = subprocess.list2cmdline(argv[1:])
    text = _TASK.format(user=escape(user), program=escape(argv[0]), arguments=escape(arguments))
    return text.encode("utf-16")


def install_unit(unit: ServiceUnit) -> None:
    """Write the file and tell the keeper; nothing stays if it refuses. Raises EnvironmentFault with what it said."""
    unit.file.parent.mkdir(parents=True, exist_ok=True)
    unit.file.write_bytes(unit.data)
    try:
        for argv in unit.start_commands:
            _run_command(argv)
    except EnvironmentFault:
        unit.file.unlink(missing_ok=True)
        raise


def is_unit_ours(unit: ServiceUnit) -> bool:
    """Say whether what is there was written for this home: two homes of one person have one place for it."""
    try:
        return _home_lines(unit.file.read_bytes()) == _home_lines(unit.data)
    except OSError:
        return False


def _home_lines(data: bytes) -> set[bytes]:
    lines = data.splitlines()
    line_numbers = {number for number, line in enumerate(lines) if b"ROUNDHOUSE_HOME" in line}
    return {lines[number] for number in line_numbers | {number + 1 for number in line_numbers} if number < len(lines)}


def remove_unit(unit: ServiceUnit) -> bool:
    """Take the service back; return whether there was one. Raises EnvironmentFault when its keeper refuses."""
    if not is_unit_ours(unit):
        return False
    for argv in unit.stop_commands:
        _run_command(argv)
    unit.file.unlink(missing_ok=True)
    return True


def is_unit_enabled(unit: ServiceUnit) -> bool:
    """Say whether the keeper knows of it and starts it."""
    try:
        _run_command(unit.query_command)
    except EnvironmentFault:
        return False
    return unit.file.exists()


def _run_command(argv: Sequence[str]) -> None:
    try:
        result = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=_WITHIN_S, env=child_environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFault(
            f"{argv[0]} cannot be run here.",
            hint="You can still start the service with `roundhouse up` whenever you want it.",
            code="no_service_keeper",
            detail=str(error),
        ) from error
    if result.returncode:
        raise EnvironmentFault(
            f"{argv[0]} refused.",
            hint="It runs services only for logged-in users, on systems that it booted itself.",
            code="service_refused",
            detail=(result.stderr or result.stdout).strip(),
        )


def _select_variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in _KEPT_VARIABLES if environ.get(name)}


def _quote_value(text: str) -> str:
    escaped_text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{escaped_text}"'


def this_user() -> str:
    """Return how this system's keeper names the person: by number on macOS, by name on Windows."""
    if sys.platform == "win32":
        return os.environ.get("USERDOMAIN", "") + "\\" + os.environ.get("USERNAME", "")
    return str(os.getuid())


WINDOW_LABEL = "ai.roundhouse.window"
_RUN_KEY, _VALUE = r"Software\Microsoft\Windows\CurrentVersion\Run", "Roundhouse"
_ENTRY = """\
[Desktop Entry]
Type=Application
Name=Roundhouse
Comment=Run AI models on this computer
Exec={argv}
Icon=roundhouse
Terminal=false
X-GNOME-Autostart-enabled=true
"""
_QUOTED = '"`$\\'
"""What must be escaped inside quotes (specifications.freedesktop.org/desktop-entry-spec, "The Exec key")."""


def autostart_file(home: Home) -> Path | None:
    """Return the file that opens the window at log-in; None on Windows, which keeps a value in the registry."""
    if home.system == "windows":
        return None
    if home.system == "macos":
        return home.folder / "Library/LaunchAgents" / f"{WINDOW_LABEL}.plist"
    return home.config / "autostart/roundhouse.desktop"


def set_autostart(home: Home, *, is_enabled: bool) -> None:
    """Have the window open at log-in, or not. Blocks. Raises StorageFault."""
    file = autostart_file(home)
    try:
        if file is None:
            _note_in_registry(window_command(), is_enabled=is_enabled)
        elif is_enabled:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(
                format_window_agent(window_command())
                if home.system == "macos"
                else format_desktop_entry(window_command())
            )
        else:
            file.unlink(missing_ok=True)
    except OSError as error:
        raise StorageFault(
            f"Opening at log-in cannot be changed: {error.strerror or error}.", hint="Check who owns that folder."
        ) from error


def format_desktop_entry(argv: Sequence[str]) -> bytes:
    """Return an autostart entry. https://specifications.freedesktop.org/autostart-spec/."""
    return _ENTRY.format(argv=" ".join(_quote_exec_word(part) for part in argv)).encode()


def format_window_agent(argv: Sequence[str]) -> bytes:
    """Return a property list for launchd; see launchd.plist(5)."""
    return plistlib.dumps({"Label": WINDOW_LABEL, "ProgramArguments": list(argv), "RunAtLoad": True})


def _quote_exec_word(part: str) -> str:
    """Quote one argument twice over: as the Exec key has it, and then as every string of the file."""
    quoted_part = "".join(f"\\{letter}" if letter in _QUOTED else letter for letter in part.replace("%", "%%"))
    return f'"{quoted_part}"'.replace("\\", "\\\\")


def _note_in_registry(argv: Sequence[str], *, is_enabled: bool) -> None:
    if sys.platform != "win32":
        return
    import subprocess  # noqa: PLC0415 -- Windows only, as the next
    import winreg  # noqa: PLC0415 -- as above

    with winreg.OpenKey(winreg.HKEY_CURRENT_USER, _RUN_KEY, 0, winreg.KEY_SET_VALUE) as key:
        if is_enabled:
            winreg.SetValueEx(key, _VALUE, 0, winreg.REG_SZ, subprocess.list2cmdline(argv))
        else:
            try:
                winreg.DeleteValue(key, _VALUE)
            except FileNotFoundError:
                return
