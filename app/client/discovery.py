"""Find the running gateway, or start one.

The port file says where it is; only an answer to the token in it proves that it is the one. A process id alone proves
nothing: it can be reused, and clocks change.
"""

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from app.client.http import GatewayClient
from app.config.paths import Paths
from app.config.privacy import check_owner, is_own
from app.config.programs import child_environment, standalone_command
from app.core.api import EXIT_ALREADY_RUNNING, EXIT_DISK_FULL, EXIT_NO_KEY, PortFile, Status
from app.core.errors import (
    DISK_FULL,
    EnvironmentFault,
    ErrorBody,
    GatewayGone,
    RoundhouseError,
    StorageFault,
    is_disk_full,
)

_POLL_S = 0.01
_SAME_MOMENT_S = 2.0
_START_S = 60.0
"""A start takes under a second; on a computer where fourteen programs wanted two cores, it took more than twenty."""
_GATEWAY = "app.gateway"
"""In its command line. Linux counts creation times from a boot time that moves when the clock is set, by a day too."""


class BackgroundProcess(subprocess.Popen[bytes]):
    """A child that may outlive this program: forgetting it is no mistake, which Popen would warn about."""

    def __del__(self) -> None:
        """Leave it alone."""


_LAST_LINES = 5
KEY_REQUIRED = "key_required"
"""The gateway was to listen beyond this computer and has no access key."""
NO_ROOM = ErrorBody(
    code=DISK_FULL,
    sentence="The disk is full, so Roundhouse's service cannot start.",
    hint="Free some space and start it again; what was saved before is kept.",
)
"""The service's own words would be in a file on that disk."""


def read_port_file(path: Path) -> PortFile | None:
    """Return what the port file says, or None when there is none that can be read, or another account wrote it."""
    try:
        if not is_own(path):
            return None
        return msgspec.json.decode(path.read_bytes(), type=PortFile)
    except (OSError, msgspec.MsgspecError):
        return None


def find_running_gateway(paths: Paths, *, timeout_s: float = 2.0) -> PortFile | None:
    """Return the running gateway's port file, or None when nobody answers to it.

    Raises EnvironmentFault (home_not_ours) where the folders are another account's.
    """
    check_owner(paths)
    port_file = read_port_file(paths.port_file)
    if port_file is None:
        return None
    try:
        status = GatewayClient(port_file, timeout_s=timeout_s).get("/status", Status)
    except RoundhouseError:
        return None
    return port_file if status.pid == port_file.pid else None


def has_ended(gateway: PortFile) -> bool:
    """Say whether the process of a gateway is gone, not only its port file: it goes on while answers may finish."""
    import psutil  # noqa: PLC0415 -- most commands never ask

    try:
        process = psutil.Process(gateway.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return True
        is_same = abs(process.create_time() - gateway.created_at) <= _SAME_MOMENT_S
        return not is_same and not any(_GATEWAY in word for word in process.cmdline())
    except psutil.AccessDenied:
        return True  # somebody else's
    except psutil.NoSuchProcess:
        return True


def start_log_file(paths: Paths) -> Path:
    """Return the file that holds what a gateway said before its own log was open."""
    return paths.logs / "gateway-start.log"


def spawn_gateway(paths: Paths, extra: Mapping[str, str] | None = None) -> BackgroundProcess:
    """Start a gateway of its own session, so that it outlives this program; do not wait for it.

    `extra` is added to its environment.
    """
    paths.create_folders()
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    with start_log_file(paths).open("wb") as log:
        return BackgroundProcess(
            standalone_command("app.gateway"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=child_environment(extra),
            start_new_session=sys.platform != "win32",
            creationflags=flags,
        )


def ensure_gateway(paths: Paths, *, timeout_s: float = _START_S, extra: Mapping[str, str] | None = None) -> PortFile:
    """Return the running gateway, starting one if needed; it first waits for one that is ending.

    Raises GatewayGone with its last words if it won't start (code KEY_REQUIRED if for want of an access key),
    EnvironmentFault if nothing can be written, StorageFault if the disk is full. `extra` is added to the environment
    of one that is started.
    """
    gateway = find_running_gateway(paths)
    if gateway is not None:
        return gateway
    try:
        child = spawn_gateway(paths, extra)
    except OSError as error:
        if is_disk_full(error):
            raise _no_room_fault() from error
        raise EnvironmentFault(
            f"Roundhouse's service cannot be started: {error}.",
            hint="Check who owns that folder, and whether the disk is read-only.",
            code="home_unwritable",
        ) from error
    import http.client  # noqa: F401, PLC0415 -- what its first answer takes, brought in while it starts

    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and not _has_failed(child):
        gateway = find_running_gateway(paths)
        if gateway is not None:
            return gateway
        time.sleep(_POLL_S)
    if child.poll() == EXIT_DISK_FULL:
        raise _no_room_fault()
    if child.poll() is None:
        raise GatewayGone(
            f"Roundhouse's service is still starting after {timeout_s:.0f} s.",
            hint="This computer is very busy. Try again in a moment: the service goes on starting by itself.",
        )
    raise GatewayGone(
        "Roundhouse's service did not start.",
        hint=read_start_log_tail(paths) or "See the logs.",
        code=KEY_REQUIRED if child.poll() == EXIT_NO_KEY else "",
    )


def _no_room_fault() -> StorageFault:
    return StorageFault(NO_ROOM.sentence, hint=NO_ROOM.hint, code=NO_ROOM.code)


def _has_failed(child: BackgroundProcess) -> bool:
    """Say whether a started gateway gave up. One that lost the race to another has not: the other will answer."""
    return child.poll() not in {None, EXIT_ALREADY_RUNNING}


def read_start_log_tail(paths: Paths) -> str:
    """Return the last lines a gateway wrote while starting, for an error's hint."""
    try:
        text = start_log_file(paths).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.strip().splitlines()[-_LAST_LINES:])
