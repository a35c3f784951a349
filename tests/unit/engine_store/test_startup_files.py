"""Code that runs whenever an environment's Python starts is refused, unless a package of the lock brought it."""

import base64
import hashlib
from pathlib import Path

import pytest

from app.engine_store.catalogue import find_missing_files
from app.engine_store.startup_files import find_foreign_startup_file, remove_makers_files
from engines.api import EngineLocation
from engines.registry import ADAPTERS

LOCK = "Some.Package==1.0 \\\n    --hash=sha256:00\n"
EVIL = "import os; os.system('evil')\n"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """The packages of an environment in a version's folder."""
    folder = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
    folder.mkdir(parents=True)
    (tmp_path / "lock.txt").write_text(LOCK)
    return folder


def record(packages: Path, distribution: str, name: str, content: str) -> None:
    """Install a file as a package would."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
    (packages / name).write_text(content)
    info = packages / f"{distribution}.dist-info"
    info.mkdir()
    (info / "RECORD").write_text(f"{name},sha256={digest},{len(content)}\n")


def find_foreign(packages: Path) -> Path | None:
    return find_foreign_startup_file(packages.parents[2], LOCK)


@pytest.mark.parametrize("name", ["evil.pth", "sitecustomize.py", "usercustomize.py", "sitecustomize.so"])
def test_what_no_package_brought_is_found(packages: Path, name: str) -> None:
    (packages / name).write_text(EVIL)
    assert find_foreign(packages) == packages / name


def test_what_a_package_of_the_lock_brought_is_accepted_until_it_is_changed(packages: Path) -> None:
    record(packages, "some_package-1.0", "hook.pth", "import some_package\n")
    assert find_foreign(packages) is None
    (packages / "hook.pth").write_text(EVIL)
    assert find_foreign(packages) == packages / "hook.pth"


def test_a_package_that_the_lock_does_not_name_vouches_for_nothing(packages: Path) -> None:
    record(packages, "other-1.0", "hook.pth", EVIL)
    assert find_foreign(packages) == packages / "hook.pth"


def test_a_list_of_folders_is_no_program(packages: Path) -> None:
    (packages / "folders.pth").write_text("/opt/more\n# import os\n")
    assert find_foreign(packages) is None


def test_lines_after_a_mark_of_order_run_too(packages: Path) -> None:
    (packages / "evil.pth").write_bytes(b"\xef\xbb\xbf" + EVIL.encode())
    assert find_foreign(packages) == packages / "evil.pth"


def test_what_uv_puts_into_every_environment_is_removed_when_it_is_made(packages: Path) -> None:
    (packages / "_virtualenv.pth").write_text("import _virtualenv\n")
    (packages / "_virtualenv.py").write_text("")
    assert find_foreign(packages) is not None
    remove_makers_files(packages.parents[2])
    assert find_foreign(packages) is None
    assert not list(packages.iterdir())


def test_such_a_version_is_not_used_and_says_what_to_do(packages: Path) -> None:
    folder = packages.parents[3]
    python = folder / "venv" / "bin" / "python"
    python.parent.mkdir()
    python.touch()
    place = EngineLocation(folder=folder, version="1.0", backend="cpu", python=python)
    about = ADAPTERS["openvino"].descriptor
    assert find_missing_files(about, place) is None
    (packages / "evil.pth").write_text(EVIL)
    failure = find_missing_files(about, place)
    assert failure is not None
    assert "evil.pth" in failure.sentence
    assert "engines install openvino" in failure.hint
