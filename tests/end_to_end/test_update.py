"""A folder of the person's own is updated for real and brought back: a service, a server of releases, the command.

The folder is a stand-in for a frozen one: its executable runs this checkout's programs as the version that is noted.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.client.discovery import find_running_gateway, read_port_file
from app.config.paths import Paths
from app.config.programs import previous_path
from app.core.api import PortFile
from app.updates.exchange import next_of
from tests.end_to_end.conftest import stop
from tests.patience import wait_until
from tests.range_server import Hub, serve_ranges
from tests.releases import Publisher, archive

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a script")

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = f"""\
#!{sys.executable}
import json, pathlib, runpy, sys
here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [{str(ROOT)!r}]
sys.path.remove(str(here))
sys.frozen, sys.executable = True, str(here / "roundhouse")
import app
app.__version__ = json.loads((here / "installation.json").read_text())["version"]
runpy.run_path({str(ROOT / "packaging" / "python" / "roundhouse_ai" / "start.py")!r}, run_name="__main__")
"""
START_S = 60


class Copy:
    """One installed folder, its home, and the command in it."""

    def __init__(self, folder: Path, publisher: Publisher) -> None:
        self.place = folder / "apps" / "roundhouse"
        self.place.mkdir(parents=True)
        (self.place / "roundhouse").write_text(PROGRAM)
        (self.place / "roundhouse").chmod(0o755)
        (self.place / "installation.json").write_text('{"kind": "tar.xz", "version": "0.1.0"}')
        home = folder / "home"
        self.paths = Paths(config=home / "config", data=home / "data", state=home / "state", logs=home / "logs")
        self.paths.create_folders()
        self.paths.update_keys_file.write_text(publisher.public_key)
        self.environ = {
            **os.environ,
            "ROUNDHOUSE_HOME": str(home),
            "ROUNDHOUSE_UPDATES_URL": publisher.url,
            "ROUNDHOUSE_MODELS_OTHER_PROGRAMS": "false",
            "HF_ENDPOINT": "http://127.0.0.1:1",
        }

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(self.place / "roundhouse"), *arguments],
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
            env=self.environ,
        )

    @property
    def version(self) -> str:
        note = json.loads((self.place / "installation.json").read_text())
        return str(note["version"])

    def service(self) -> PortFile:
        wait_until(lambda: find_running_gateway(self.paths) is not None, within_s=START_S)
        port_file = read_port_file(self.paths.port_file)
        assert port_file is not None
        return port_file


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[Publisher]:
    with serve_ranges(Hub()) as hub:
        yield Publisher(tmp_path, hub)


@pytest.fixture
def copy(tmp_path: Path, publisher: Publisher) -> Iterator[Copy]:
    own_copy = Copy(tmp_path, publisher)
    yield own_copy
    stop(own_copy.paths)


@pytest.mark.slow
def test_a_folder_is_updated_and_brought_back_while_its_service_runs(copy: Copy, publisher: Publisher) -> None:
    publisher.publish("0.2.0", {"roundhouse-0.2.0-linux-x86_64.tar.xz": archive("0.2.0", PROGRAM)})
    result = copy.run("update", "--check")
    assert "0.1.0 -> 0.2.0" in result.stdout, result.stderr
    before = copy.service()
    assert (before.version, copy.version) == ("0.1.0", "0.1.0")

    update = copy.run("update", "--yes")
    assert update.stdout == "Roundhouse 0.2.0 is running.\n", update.stderr
    after = copy.service()
    assert (after.version, copy.version) == ("0.2.0", "0.2.0")
    assert after.pid == before.pid, "whoever keeps the service running sees one process"
    assert previous_path(copy.place).is_dir()
    assert not next_of(copy.place).exists()
    assert "is the newest" in copy.run("update", "--check").stdout

    back = copy.run("update", "--rollback", "--yes")
    assert back.stdout == "Roundhouse 0.1.0 is running.\n", back.stderr
    assert (copy.service().version, copy.version) == ("0.1.0", "0.1.0")
    assert "0.1.0 -> 0.2.0" in copy.run("update", "--check").stdout


def test_a_version_that_does_not_start_changes_nothing(copy: Copy, publisher: Publisher) -> None:
    broken_program = f"#!{sys.executable}\nraise SystemExit('this needs a newer system')\n"
    publisher.publish("0.2.0", {"roundhouse-0.2.0-linux-x86_64.tar.xz": archive("0.2.0", broken_program)})
    failed_update = copy.run("update", "--yes")
    assert failed_update.returncode == 1
    assert "does not run on this computer" in failed_update.stderr
    assert "this needs a newer system" in failed_update.stderr
    assert (copy.service().version, copy.version) == ("0.1.0", "0.1.0")
    assert sorted(path.name for path in copy.place.parent.iterdir()) == ["roundhouse"]
