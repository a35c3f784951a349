"""Finding a gateway: only an answer proves one, and one that won't start is reported in its own words."""

import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from app.client import discovery
from app.config.paths import Paths, default_paths
from app.core.api import PortFile
from app.core.errors import EnvironmentFault, GatewayGone


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path))
    path_list = default_paths()
    path_list.create_folders()
    return path_list


def test_no_file_a_broken_file_and_a_stale_file_mean_nobody_runs(paths: Paths) -> None:
    assert discovery.find_running_gateway(paths) is None
    paths.port_file.write_text("{")
    assert discovery.find_running_gateway(paths) is None
    stale = PortFile(pid=1, created_at=0.0, url="http://127.0.0.1:9", token="t", version="1")
    paths.port_file.write_bytes(msgspec.json.encode(stale))
    assert discovery.find_running_gateway(paths) is None


def test_a_gateway_that_dies_is_reported_with_its_last_words(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    dying_command = [sys.executable, "-c", "import sys; sys.exit('The database is on fire.')"]
    monkeypatch.setattr(discovery, "standalone_command", lambda _module: dying_command)
    with pytest.raises(GatewayGone, match="did not start") as error:
        discovery.ensure_gateway(paths)
    assert error.value.hint == "The database is on fire."


def test_one_that_takes_long_is_said_to_be_still_starting(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = [sys.executable, "-c", "import sys; sys.stdin.read(); import time; time.sleep(5)"]
    monkeypatch.setattr(discovery, "standalone_command", lambda _module: slow)
    with pytest.raises(GatewayGone, match="still starting after 0 s") as error:
        discovery.ensure_gateway(paths, timeout_s=0.2)
    assert "very busy" in error.value.hint


def test_losing_the_race_is_no_failure(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        discovery, "standalone_command", lambda _module: [sys.executable, "-c", "import sys; sys.exit(3)"]
    )
    winner = PortFile(pid=1, created_at=0.0, url="http://127.0.0.1:9", token="t", version="1")
    answers = iter([None, None, None, winner])
    monkeypatch.setattr(discovery, "find_running_gateway", lambda _paths: next(answers))
    assert discovery.ensure_gateway(paths) == winner


def test_a_home_that_cannot_be_written_is_said_plainly(paths: Paths) -> None:
    paths.logs.rmdir()
    paths.logs.write_bytes(b"")
    with pytest.raises(EnvironmentFault, match="cannot be started"):
        discovery.ensure_gateway(paths)


def test_a_process_id_that_somebody_else_has_now_is_no_gateway() -> None:
    this = psutil.Process()
    here = PortFile(pid=this.pid, created_at=this.create_time(), url="", token="", version="")
    assert not discovery.has_ended(here)
    assert discovery.has_ended(msgspec.structs.replace(here, created_at=here.created_at - 60))
