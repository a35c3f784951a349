"""Leaving: after data and package are purged the computer is as it was, but for what is documented."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.conftest import Computer, computer_of, install

pytestmark = pytest.mark.packaging
DOCUMENTED = (
    "home/person/.cache/fontconfig",  # fontconfig's own, of whichever program drew first
    "var/lib/dpkg",
    "var/log",
    "var/cache",
)
"""What the system notes for itself when a package comes and goes, and a program draws; see docs/guide/installing.md."""


@pytest.fixture
def fresh(clean: Path, package: Path, display: str, tmp_path: Path) -> Iterator[Computer]:
    with computer_of(clean, tmp_path, display) as computer:
        install(computer, package)
        yield computer


def list_leftovers(computer: Computer) -> list[str]:
    """Return the files that are on the computer and were not before."""
    paths = (
        path for path in computer.upper_folder.rglob("*") if path.is_symlink() or not (path.is_dir() or is_hole(path))
    )
    names = (path.relative_to(computer.upper_folder).as_posix() for path in paths)
    return sorted(name for name in names if not name.startswith(DOCUMENTED))


def is_hole(path: Path) -> bool:
    """Tell whether this is how the layer notes that something was removed."""
    return sys.platform != "win32" and path.is_char_device() and path.stat().st_rdev == 0


def test_after_everything_is_removed_no_file_is_left(fresh: Computer) -> None:
    assert fresh.run("roundhouse", "run", "guide", "What is Roundhouse?", "--temperature", "0").returncode == 0
    assert fresh.run("roundhouse", "settings", "window.scale", "120").returncode == 0
    fresh.run("roundhouse", "engines", "install", "openvino")  # which fails without a network, and leaves uv's folders
    stdout = fresh.run("roundhouse", "uninstall", "--purge", "--models", "--dry-run").stdout
    assert "/home/person/.local/share/roundhouse/roundhouse.db" in stdout
    result = fresh.run("roundhouse", "uninstall", "--purge", "--models", "--yes")
    assert result.returncode == 0, result.stderr
    assert "apt remove roundhouse" in result.stdout
    wait_until_quiet(fresh)
    assert fresh.run("dpkg", "--purge", "roundhouse", as_root=True).returncode == 0
    assert list_leftovers(fresh) == []


def test_removing_the_package_keeps_what_the_person_made(fresh: Computer) -> None:
    assert fresh.run("roundhouse", "run", "guide", "What is Roundhouse?", "--temperature", "0").returncode == 0
    fresh.run("roundhouse", "down")
    wait_until_quiet(fresh)
    assert fresh.run("dpkg", "--purge", "roundhouse", as_root=True).returncode == 0
    assert not (fresh.upper_folder / "usr/lib/roundhouse").exists()
    assert "home/person/.local/share/roundhouse/roundhouse.db" in list_leftovers(fresh)
    assert all(name.startswith("home/person/") for name in list_leftovers(fresh))


def wait_until_quiet(computer: Computer) -> None:
    """Wait until nothing runs; the pause only spares the processor."""
    deadline = time.monotonic() + 60
    while computer.list_processes():
        assert time.monotonic() < deadline
        time.sleep(0.05)
