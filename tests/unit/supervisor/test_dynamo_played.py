"""NVIDIA Dynamo's two processes under the real supervisor, played: ready when a worker registered, gone together."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from app.core.engines import EngineState
from app.core.errors import EngineFailed
from app.supervisor.pool import LoadRequest, Supervisor, SupervisorFolders, SupervisorPolicy
from engines.api import EngineInstallation, EngineLocation, FailureKind, LaunchOptions, ModelFormat, ModelSource
from engines.dynamo.launch import DynamoAdapter
from tests.patience import PATIENCE_S
from tests.unit.supervisor.conftest import Recorder

ROOT = Path(__file__).resolve().parents[3]
LOGS = ROOT / "tests" / "fixtures" / "engine_logs" / "vllm"


class Here(DynamoAdapter):
    """Dynamo as it would be installed, on the Python that runs the test."""

    def probe(self, _place: EngineLocation | None = None) -> EngineInstallation:
        return EngineInstallation(engine="dynamo", version="99.0", backend="cuda", python=Path(sys.executable))


@pytest.fixture
async def fleet(folders: SupervisorFolders, recorder: Recorder) -> AsyncIterator[Supervisor]:
    new_supervisor = Supervisor({"dynamo": Here()}, folders, SupervisorPolicy(), recorder.publish)
    yield new_supervisor
    await new_supervisor.close()


def request(tmp_path: Path, **env: str) -> LoadRequest:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "fake_servers")])
    source = ModelSource(name="m", path=tmp_path / "model", format=ModelFormat.SAFETENSORS)
    extra = {"PYTHONPATH": path, "PLAYED_GO": str(tmp_path / "go"), **env}
    return LoadRequest(engine="dynamo", source=source, options=LaunchOptions(context=512, extra_env=extra))


def processes() -> set[psutil.Process]:
    me = psutil.Process()
    return {child for child in me.children(recursive=True) if any("dynamo." in word for word in words_of(child))}


def words_of(process: psutil.Process) -> list[str]:
    """Return a process's command line; nothing for one that has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


async def test_it_is_ready_once_a_worker_has_registered_and_not_when_the_frontend_is_well(
    fleet: Supervisor, recorder: Recorder, tmp_path: Path
) -> None:
    load = asyncio.create_task(fleet.ensure_ready(request(tmp_path)))
    await recorder.until(lambda: any("[frontend]" in line for line in recorder.lines()))
    await recorder.until(lambda: any("Model loading took" in line for line in recorder.lines()))
    assert not load.done()
    (status,) = fleet.list_statuses()
    assert (status.state, status.stage) == (EngineState.LOADING, "Preparing")
    (tmp_path / "go").touch()
    status = await load
    assert (status.state, status.context) == (EngineState.READY, 512)
    both = processes()
    assert len(both) == 2
    await fleet.unload_model("m")
    assert psutil.wait_procs(both, timeout=PATIENCE_S)[1] == []


async def test_a_worker_that_ends_takes_the_frontend_with_it_and_its_cause_is_named(
    fleet: Supervisor, tmp_path: Path
) -> None:
    with pytest.raises(EngineFailed) as error:
        await fleet.ensure_ready(request(tmp_path, PLAYED_END=str(LOGS / "weights_do_not_fit.log"), PLAYED_CODE="1"))
    assert error.value.code == FailureKind.OUT_OF_GPU_MEMORY
    assert processes() == set()
