"""A display of its own with a window manager, and the buses on which programs tell screen readers what they show."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from app.config.programs import child_environment
from tests.patience import PATIENCE_S, wait_until

SCREEN = (1600, 1000)
NEEDED = ("Xvfb", "openbox", "xdotool", "xclip", "dbus-daemon")
_BUS_LAUNCHER = "/usr/libexec/at-spi-bus-launcher"


def missing_programs() -> list[str]:
    """Return what has to be installed first."""
    missing_names = [name for name in NEEDED if shutil.which(name) is None]
    return missing_names if Path(_BUS_LAUNCHER).exists() else [*missing_names, "at-spi2-core"]


@contextmanager
def open_display(folder: Path) -> Iterator[str]:
    """Run a display until the block ends; the environment of this process points to it. Gives the bus's address."""
    with ExitStack() as stack:
        number = _start_screen(stack)
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        session = _start_session_bus(stack, runtime)
        settings = {
            "DISPLAY": f":{number}",
            "XDG_RUNTIME_DIR": str(runtime),
            "DBUS_SESSION_BUS_ADDRESS": session,
            "QT_QPA_PLATFORM": "xcb",
            "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",
        }
        os.environ.update(settings)
        run_beside(stack, [_BUS_LAUNCHER])
        run_beside(stack, ["openbox", "--sm-disable"])
        yield _accessibility_address()


def run_beside(stack: ExitStack, argv: list[str], **settings: str) -> subprocess.Popen[bytes]:
    """Run a program until the stack is left."""
    program = subprocess.Popen(
        argv, env=child_environment(settings), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    stack.callback(end_program, program)
    return program


def end_program(program: "subprocess.Popen[bytes]") -> None:
    """Ask a program to end, and see to it."""
    program.terminate()
    try:
        program.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait(PATIENCE_S)


def _start_screen(stack: ExitStack) -> str:
    """Start Xvfb on the first free number, which it says itself."""
    read_end, write_end = os.pipe()
    width, height = SCREEN
    argv = ["Xvfb", "-displayfd", str(write_end), "-screen", "0", f"{width}x{height}x24", "-nolisten", "tcp"]
    screen = subprocess.Popen(argv, pass_fds=(write_end,), stderr=subprocess.DEVNULL)
    stack.callback(end_program, screen)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        return answer.readline().strip()


def _start_session_bus(stack: ExitStack, runtime: Path) -> str:
    address = f"unix:path={runtime / 'bus'}"
    run_beside(stack, ["dbus-daemon", "--session", "--nofork", f"--address={address}"])
    wait_until((runtime / "bus").exists)
    return address


def _accessibility_address() -> str:
    """Ask the session where the bus of accessibility is; asking starts it."""
    from jeepney import DBusAddress, new_method_call  # noqa: PLC0415 -- found after the programs were
    from jeepney.io.blocking import open_dbus_connection  # noqa: PLC0415 -- as above

    launcher = DBusAddress("/org/a11y/bus", bus_name="org.a11y.Bus", interface="org.a11y.Bus")
    with open_dbus_connection("SESSION") as bus:
        addresses: list[str] = []

        def is_there() -> bool:
            body = bus.send_and_get_reply(new_method_call(launcher, "GetAddress"), timeout=PATIENCE_S).body
            if body and str(body[0]).startswith("unix:"):
                addresses.append(str(body[0]))
            return bool(addresses)

        wait_until(is_there)
        return addresses[0]
