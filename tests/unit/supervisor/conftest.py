"""A supervisor over fake engines, in folders of its own, with every event noted; whatever it started is gone after."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from app.core.engines import EngineState, EngineStatus
from app.core.events import EngineChanged, Event, LogLine
from app.supervisor.pool import LoadRequest, Supervisor, SupervisorFolders, SupervisorPolicy
from app.supervisor.records import TOKEN_VARIABLE
from engines.api import LaunchOptions, ModelFormat, ModelSource
from tests.fake_engine.adapter import FakeAdapter
from tests.patience import PATIENCE_S

WAIT_S = PATIENCE_S
"""Longer than anything here takes on a busy machine: reaching it means it never happens."""


@dataclass
class Recorder:
    """Everything that was published, and a way to wait for it."""

    events: list[Event] = field(default_factory=list)
    change_event: asyncio.Event = field(default_factory=asyncio.Event)

    def publish(self, event: Event) -> None:
        self.events.append(event)
        self.change_event.set()

    def statuses(self, model: str = "m") -> list[EngineStatus]:
        events = [event.status for event in self.events if isinstance(event, EngineChanged)]
        return [status for status in events if status.model == model]

    def states(self, model: str = "m") -> list[EngineState]:
        """The states gone through, without repeats."""
        names = [status.state for status in self.statuses(model)]
        return [state for at, state in enumerate(names) if at == 0 or names[at - 1] is not state]

    def lines(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, LogLine)]

    async def until(self, is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not is_so():
                self.change_event.clear()
                await self.change_event.wait()

    async def until_state(self, state: EngineState, model: str = "m") -> EngineStatus:
        await self.until(lambda: self.statuses(model) and self.statuses(model)[-1].state is state)
        return self.statuses(model)[-1]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def folders(tmp_path: Path) -> SupervisorFolders:
    return SupervisorFolders(records=tmp_path / "records", logs=tmp_path / "logs", scratch=tmp_path / "scratch")


@pytest.fixture
def adapter() -> FakeAdapter:
    return FakeAdapter()


Ask = Callable[..., LoadRequest]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    def request(model: str = "m", *, engine: str = "fake", **options: object) -> LoadRequest:
        source = ModelSource(name=model, path=tmp_path / f"{model}.gguf", format=ModelFormat.GGUF)
        chosen_options = LaunchOptions(**options)  # type: ignore[arg-type]  # the test knows which it names
        return LoadRequest(engine=engine, source=source, options=chosen_options)

    return request


@pytest.fixture
async def supervisor(adapter: FakeAdapter, folders: SupervisorFolders, recorder: Recorder) -> AsyncIterator[Supervisor]:
    new_supervisor = Supervisor({"fake": adapter}, folders, SupervisorPolicy(), recorder.publish)
    yield new_supervisor
    async with asyncio.timeout(WAIT_S):
        await new_supervisor.close()
    assert list(folders.records.glob("*")) == []
    assert list(folders.scratch.glob("*")) == []


@pytest.fixture(autouse=True)
def nothing_left_running(tmp_path: Path) -> Iterator[None]:
    """No process that a supervisor of this test started may survive it."""
    yield
    assert launched_below(tmp_path) == []


def launched_below(folder: Path) -> list[psutil.Process]:
    """The live processes, wherever init may have put them, that were launched for supervisors with folders there."""
    return [process for process in psutil.process_iter() if _was_launched_below(process, folder)]


def _was_launched_below(process: psutil.Process, folder: Path) -> bool:
    try:
        # What costs least comes first: this is asked of every process of the computer after every test.
        is_below = process.cwd().startswith(str(folder))
        return is_below and process.status() != psutil.STATUS_ZOMBIE and TOKEN_VARIABLE in process.environ()
    except psutil.Error:
        return False
