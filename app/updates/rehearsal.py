"""Does the new version run on this computer? Its service is started in an empty home, before anything is replaced.

It has to announce itself there as the version it should be; then it is ended again. What needs a newer system, lacks a
file or dies at once shows here, while the version in use still is.
"""

import subprocess
import tempfile
import time
from pathlib import Path
from threading import Event

import msgspec

from app.config.programs import child_environment
from app.core.api import PortFile
from app.core.errors import EnvironmentFault
from app.hub.download.wire import DownloadStopped

WITHIN_S = 120.0
"""A slow disk reads 300 MB in less."""
_POLL_S = 0.05
_END_S = 20.0
_LAST = 2000
"""Letters of what it said."""
_QUIET = {
    "ROUNDHOUSE_NETWORK_OFFLINE": "true",
    "ROUNDHOUSE_MODELS_OTHER_PROGRAMS": "false",
    "ROUNDHOUSE_GATEWAY_HOST": "127.0.0.1",
    "ROUNDHOUSE_MODELS_FOLDERS": "",
    "PYINSTALLER_RESET_ENVIRONMENT": "1",
}
"""It reaches nobody, is reached by nobody else, looks at nobody's models, and does not take itself for a part of us."""


def rehearse(program: Path, version: str, off: Event) -> None:
    """Start a new version's service once. Raises EnvironmentFault (update_does_not_run), or Stopped when `off`."""
    with tempfile.TemporaryDirectory(prefix="roundhouse-update-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        with (home / "said").open("w+b") as output:
            try:
                child = subprocess.Popen(
                    [str(program), "-P", "-m", "app.gateway"],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=child_environment({**_QUIET, "ROUNDHOUSE_HOME": str(home)}),
                )
            except OSError as error:
                raise _does_not_run_fault(version, str(error)) from error
            try:
                reported = _wait_for_port_file(child, home / "state" / "gateway.json", off)
            finally:
                _end_process(child)
            if reported is None or reported.version != version:
                output.seek(0)
                last_output = output.read().decode("utf-8", "replace")[-_LAST:]
                raise _does_not_run_fault(
                    version, last_output or f"It announced itself as {reported and reported.version}."
                )


def _wait_for_port_file(child: "subprocess.Popen[bytes]", port_file: Path, off: Event) -> PortFile | None:
    """Wait until it says where it is; None when it ended, or took too long."""
    deadline = time.monotonic() + WITHIN_S
    while child.poll() is None and time.monotonic() < deadline:
        try:
            return msgspec.json.decode(port_file.read_bytes(), type=PortFile)
        except (OSError, msgspec.MsgspecError):
            if off.wait(_POLL_S):
                raise DownloadStopped from None
    return None


def _end_process(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    try:
        child.wait(_END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _does_not_run_fault(version: str, output: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"Version {version} does not run on this computer, so nothing was changed.",
        hint="The current version stays in use. Its notes may say what it needs.",
        code="update_does_not_run",
        detail=output.strip(),
    )
