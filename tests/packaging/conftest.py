"""A clean Debian with what the package asks for and nothing else, in namespaces of its own, without a network.

The system is made once by debootstrap into `build/`; each computer is a layer over it, so what was changed can be seen.
Needs root, Linux, and once the Debian mirror; without them these tests are left out and say so.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from tests.packaging_scripts import script

ROOT = Path(__file__).resolve().parents[2]
CLEAN = ROOT / "build" / "clean-debian"
MIRROR = "http://deb.debian.org/debian"
NEEDED = ("debootstrap", "unshare", "nsenter", "ip", "Xvfb", "xdotool", "import")
_START = """\
set -e
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/changed,workdir=$2/work" "$2/root"
mount -t proc proc "$2/root/proc"
mkdir -p "$2/root/dev/shm" "$2/root/tmp/.X11-unix"
mount -t tmpfs tmpfs "$2/root/dev/shm"
mount --bind /tmp/.X11-unix "$2/root/tmp/.X11-unix"
ip link set lo up
exec chroot "$2/root" sh -c 'echo ready; exec sleep infinity'
"""
PERSON = 1000


class Computer:
    """A running clean Debian. What its programs changed lies below `upper_folder`."""

    def __init__(self, folder: Path, first: int, display: str) -> None:
        self.upper_folder = folder / "changed"
        self.home = self.upper_folder / "home/person"
        self.display, self._first = display, first

    def run(
        self, *argv: str, as_root: bool = False, env: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program to its end, as the person who uses the computer."""
        command = self.enter_command(*argv, as_root=as_root, env=env)
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL
        )

    def start(self, *argv: str) -> "subprocess.Popen[bytes]":
        """Start a program and go on."""
        return subprocess.Popen(self.enter_command(*argv), stdin=subprocess.DEVNULL)

    def list_processes(self) -> list[psutil.Process]:
        """Return the processes that run in it, without the one that holds it open."""
        own = _namespace(self._first)
        return [
            process
            for process in psutil.process_iter()
            if process.pid != self._first and _is_alive(process) and _namespace(process.pid) == own
        ]

    def enter_command(self, *argv: str, as_root: bool = False, env: Mapping[str, str] | None = None) -> list[str]:
        """Return the command that runs `argv` in it."""
        person = [] if as_root else ["--setuid", str(PERSON), "--setgid", str(PERSON)]
        path = "/usr/sbin:/usr/bin:/sbin:/bin" if as_root else "/usr/bin:/bin"
        variables = {"HOME": "/home/person", "PATH": path, "LANG": "C.UTF-8", "DISPLAY": self.display, **(env or {})}
        enter = ["nsenter", "--target", str(self._first), "--mount", "--pid", "--net", "--root", "--wd", *person]
        return [*enter, "env", "-i", *(f"{name}={value}" for name, value in variables.items()), *argv]


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def _namespace(pid: int) -> str:
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    return ""


@pytest.fixture(scope="session")
def package() -> Path:
    """The Debian package that `make package` left."""
    packages = sorted((ROOT / "dist").glob("roundhouse_*.deb"))
    if not packages:
        pytest.skip("There is no package in dist/; `make package` makes one.")
    return packages[-1]


@pytest.fixture(scope="session")
def clean() -> Path:
    """A minimal Debian with the packages ours names as its dependencies, and a person called `person`."""
    missing_programs = [name for name in NEEDED if shutil.which(name) is None]
    if sys.platform != "linux" or os.geteuid() != 0 or missing_programs:
        pytest.skip(f"Needs root on Linux, and {', '.join(missing_programs) or 'nothing else'}.")
    if (CLEAN / "etc/clean-debian").exists():
        return CLEAN
    shutil.rmtree(CLEAN, ignore_errors=True)
    needs = ",".join(name for name in script("debian").NEEDED if "(" not in name)
    argv = ["debootstrap", "--variant=minbase", f"--include={needs}", "bookworm", str(CLEAN), MIRROR]
    result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=900)
    if result.returncode:
        pytest.skip(f"Debian's mirror did not give a clean system: {result.stdout[-300:]}")
    chroot = shutil.which("chroot") or ""
    subprocess.run([chroot, str(CLEAN), "useradd", "-m", "-s", "/bin/sh", "-u", str(PERSON), "person"], check=True)
    (CLEAN / "etc/clean-debian").touch()
    return CLEAN


@pytest.fixture(scope="session")
def display() -> Iterator[str]:
    """A screen that nobody sees."""
    out, into = os.pipe()
    xvfb = shutil.which("Xvfb") or pytest.skip("Xvfb is not installed.")
    argv = [xvfb, "-displayfd", str(into), "-screen", "0", "1280x820x24", "-nolisten", "tcp"]
    with subprocess.Popen(argv, pass_fds=[into], stderr=subprocess.DEVNULL) as server:
        os.close(into)
        with os.fdopen(out) as pipe:
            number = pipe.readline().strip()
        assert number
        yield f":{number}"
        server.terminate()


@contextlib.contextmanager
def computer_of(clean: Path, folder: Path, display: str) -> Iterator[Computer]:
    """Start a computer; everything that runs in it ends with it."""
    for name in ("changed", "work", "root"):
        (folder / name).mkdir()
    unshare = shutil.which("unshare") or ""
    argv = [unshare, "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", _START, "sh", str(clean)]
    with subprocess.Popen([*argv, str(folder)], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"
            yield Computer(folder, psutil.Process(holder.pid).children()[0].pid, display)
        finally:
            holder.kill()


def install(computer: Computer, package: Path) -> None:
    """Install the package as an administrator does."""
    with package.open("rb") as data:
        argv = computer.enter_command(
            "sh", "-c", "cat > /tmp/p.deb && dpkg -i /tmp/p.deb && rm /tmp/p.deb", as_root=True
        )
        result = subprocess.run(argv, stdin=data, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module")
def computer(clean: Path, package: Path, display: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Computer]:
    """A computer on which the package is installed."""
    with computer_of(clean, tmp_path_factory.mktemp("computer"), display) as new_computer:
        install(new_computer, package)
        yield new_computer
