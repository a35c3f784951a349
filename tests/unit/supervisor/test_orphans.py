"""A gateway that was killed leaves nothing running for ever, and the next one kills nothing that is not ours."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from app.core.events import Notice
from app.supervisor.pool import Supervisor, SupervisorFolders, SupervisorPolicy
from app.supervisor.records import TOKEN_VARIABLE, LaunchRecord, LaunchRecords, RecordedProcess
from tests.fake_engine.adapter import ROOT, FakeAdapter
from tests.unit.supervisor.conftest import WAIT_S, Recorder

posix = pytest.mark.skipif(sys.platform == "win32", reason="a job object does this there")

PARENT = """
import asyncio, sys
from pathlib import Path
from app.supervisor.pool import LoadRequest, Supervisor, SupervisorFolders, SupervisorPolicy
from engines.api import ModelFormat, ModelSource
from tests.fake_engine.adapter import FakeAdapter
from tests.fake_engine.behaviour import Behaviour

async def main(home, lifeline):
    adapter = FakeAdapter({"m": Behaviour(refuses_to_end=True, child=True)}, has_lifeline=lifeline)
    folders = SupervisorFolders(records=home / "records", logs=home / "logs", scratch=home / "scratch")
    supervisor = Supervisor({"fake": adapter}, folders, SupervisorPolicy(), lambda event: None)
    source = ModelSource(name="m", path=home / "m.gguf", format=ModelFormat.GGUF)
    status = await supervisor.ensure_ready(LoadRequest(engine="fake", source=source))
    print(status.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "lifeline"))
"""

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


def killed_parent(home: Path, guard: str) -> psutil.Process:
    """Run a supervisor with a stubborn engine, kill it with SIGKILL, and return the engine."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(home), guard],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
    ) as parent:
        assert parent.stdout is not None
        engine = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    return engine


def carriers(token: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if token_of(process) == token]


def token_of(process: psutil.Process) -> str:
    try:
        return "" if process.status() == psutil.STATUS_ZOMBIE else process.environ().get(TOKEN_VARIABLE, "")
    except psutil.Error:
        return ""


def only_record(folders: SupervisorFolders) -> LaunchRecord:
    (path,) = folders.records.glob("*.json")
    return msgspec.json.decode(path.read_bytes(), type=LaunchRecord)


@posix
async def test_the_next_start_stops_an_engine_that_refuses_to_end_and_all_it_started(
    tmp_path: Path, folders: SupervisorFolders, recorder: Recorder
) -> None:
    engine = killed_parent(tmp_path, "lifeline")
    record = only_record(folders)
    assert engine.is_running()
    assert len(carriers(record.token)) == 2
    supervisor = Supervisor({"fake": FakeAdapter()}, folders, SupervisorPolicy(), recorder.publish)
    assert await supervisor.start() == 1
    assert carriers(record.token) == []
    assert list(folders.records.iterdir()) == []
    (notice,) = recorder.events
    assert isinstance(notice, Notice)
    assert "m" in notice.sentence
    assert await supervisor.start() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal")
async def test_without_a_lifeline_the_kernel_kills_the_engine_and_the_next_start_the_rest(
    tmp_path: Path, folders: SupervisorFolders, recorder: Recorder
) -> None:
    engine = killed_parent(tmp_path, "none")
    psutil.wait_procs([engine], timeout=WAIT_S)
    record = only_record(folders)
    (child,) = carriers(record.token)
    assert child.pid not in {known_process.pid for known_process in record.processes}, (
        "only its environment tells that it is ours"
    )
    supervisor = Supervisor({"fake": FakeAdapter()}, folders, SupervisorPolicy(), recorder.publish)
    assert await supervisor.start() == 1
    assert carriers(record.token) == []


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(SLEEPER, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def record_of(process: "subprocess.Popen[bytes]", *, age_s: float) -> LaunchRecord:
    created_at = psutil.Process(process.pid).create_time() - age_s
    known_process = RecordedProcess(pid=process.pid, created_at=created_at, executable=SLEEPER[0])
    return LaunchRecord(token="t" * 32, model="m", engine="fake", processes=(known_process,))


def next_start(folder: Path, record: LaunchRecord) -> LaunchRecords:
    LaunchRecords(folder).write_record(record)
    return LaunchRecords(folder)


def test_a_process_with_our_id_and_another_age_is_a_stranger(
    tmp_path: Path, stranger: "subprocess.Popen[bytes]"
) -> None:
    records = next_start(tmp_path, record_of(stranger, age_s=3600.0))
    assert records.reap_orphans() == []
    assert stranger.poll() is None
    assert list(tmp_path.iterdir()) == []


def test_a_process_with_our_id_and_our_age_is_ours(tmp_path: Path, stranger: "subprocess.Popen[bytes]") -> None:
    record = record_of(stranger, age_s=0.5)
    assert next_start(tmp_path, record).reap_orphans() == [record]
    assert not psutil.pid_exists(stranger.pid)


def test_a_process_whose_record_was_never_completed_is_known_by_its_token(tmp_path: Path) -> None:
    token = "u" * 32
    with subprocess.Popen(SLEEPER, env={**os.environ, TOKEN_VARIABLE: token}) as process:
        record = LaunchRecord(token=token, model="m", engine="fake")
        wait_for_exec(process.pid)
        assert next_start(tmp_path, record).reap_orphans() == [record]
        assert not psutil.pid_exists(process.pid)


def wait_for_exec(pid: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while not token_of(psutil.Process(pid)):
        assert time.monotonic() < deadline


def test_a_launch_of_this_gateway_is_not_an_orphan(tmp_path: Path, stranger: "subprocess.Popen[bytes]") -> None:
    records = LaunchRecords(tmp_path)
    records.write_record(record_of(stranger, age_s=0.0))
    assert records.reap_orphans() == []
    assert stranger.poll() is None


def test_a_record_that_cannot_be_read_names_nobody(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b'{"token": 5')
    assert LaunchRecords(tmp_path).reap_orphans() == []
    assert list(tmp_path.iterdir()) == []


def test_a_record_is_for_its_owner_only(tmp_path: Path) -> None:
    LaunchRecords(tmp_path / "new").write_record(LaunchRecord(token="v" * 32, model="m", engine="fake"))
    (path,) = (tmp_path / "new").iterdir()
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_process_that_has_gone_already_is_not_recorded() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    record = LaunchRecord(token="w" * 32, model="m", engine="fake")
    assert record.with_process(process.pid, "python") == record


@posix
def test_orphans_are_killed_not_asked(tmp_path: Path) -> None:
    deaf = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        next_start(tmp_path, record_of(process, age_s=0.0)).reap_orphans()
        assert not psutil.pid_exists(process.pid)


def test_a_folder_among_the_records_keeps_nothing_from_being_reaped(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    (tmp_path / "b.json").write_text("no record")
    assert LaunchRecords(tmp_path).reap_orphans() == []
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
