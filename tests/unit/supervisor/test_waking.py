"""After sleep, or a reset of the driver: engines are asked for a token, and those that give none are loaded again."""

import asyncio
import sys

import psutil
import pytest

from app.core.engines import EngineState, EngineStatus, FailureReport
from app.core.events import EngineChanged, Notice
from app.supervisor import run
from app.supervisor.pool import Supervisor
from app.supervisor.waking import LOOK_S, Clocks, SleepMeter, WakeWatch, read_clocks
from engines.api import FailureKind
from tests.fake_engine.adapter import FakeAdapter
from tests.fake_engine.behaviour import Behaviour
from tests.unit.supervisor.conftest import Ask, Recorder

HOUR_S = 3600.0


class SetClocks:
    """Clocks that a test sets."""

    def __init__(self) -> None:
        self.now = Clocks(1000.0, 5000.0)

    def __call__(self) -> Clocks:
        return self.now

    def run(self, awake_s: float, total_s: float) -> None:
        self.now = Clocks(self.now.awake_s + awake_s, self.now.total_s + total_s)


class Sleeper:
    """A computer that sleeps when a test says so, and what looks after its engines then."""

    def __init__(self, supervisor: Supervisor, recorder: Recorder) -> None:
        self.clocks, self._recorder = SetClocks(), recorder
        self.watch = WakeWatch(supervisor, recorder.publish, self.clocks)

    async def sleep(self, awake_s: float = LOOK_S, total_s: float = LOOK_S + HOUR_S) -> None:
        self.clocks.run(awake_s, total_s)
        await self.watch.look_once()

    @property
    def notices(self) -> list[Notice]:
        return [event for event in self._recorder.events if isinstance(event, Notice)]


@pytest.fixture
def sleeper(supervisor: Supervisor, recorder: Recorder) -> Sleeper:
    return Sleeper(supervisor, recorder)


@pytest.mark.parametrize(
    ("awake_s", "total_s", "is_sleep"),
    [
        (LOOK_S, LOOK_S, False),
        (LOOK_S + 5.0, LOOK_S + 5.0, False),  # a busy machine
        (LOOK_S, LOOK_S + HOUR_S, True),  # Linux and macOS: one clock stood still
        (LOOK_S + HOUR_S, LOOK_S + HOUR_S, True),  # Windows: no clock did
        (LOOK_S, LOOK_S + 1.0, False),
    ],
)
def test_sleep_is_told_from_the_clocks_whichever_stands_still(awake_s: float, total_s: float, is_sleep: bool) -> None:  # noqa: FBT001 -- a case of the table
    meter = SleepMeter(Clocks(10.0, 20.0))
    assert bool(meter.note_look(Clocks(10.0 + awake_s, 20.0 + total_s))) is is_sleep
    assert not meter.note_look(Clocks(10.0 + awake_s + LOOK_S, 20.0 + total_s + LOOK_S)), "it is told once"


def test_the_clocks_of_this_system_go_on() -> None:
    first, second = read_clocks(), read_clocks()
    assert second.awake_s >= first.awake_s
    assert second.total_s >= first.total_s


async def test_without_sleep_nobody_is_asked_and_a_well_engine_stays(
    supervisor: Supervisor, ask: Ask, sleeper: Sleeper
) -> None:
    before = await supervisor.ensure_ready(ask())
    for slept_s in (0.0, HOUR_S):
        await sleeper.sleep(total_s=LOOK_S + slept_s)
        (status,) = supervisor.list_statuses()
        assert (status.pid, status.state) == (before.pid, EngineState.READY)
    assert not sleeper.notices


async def test_an_engine_that_says_it_is_well_and_computes_nothing_is_loaded_again(
    adapter: FakeAdapter, supervisor: Supervisor, ask: Ask, sleeper: Sleeper
) -> None:
    adapter.behaviours["m"] = Behaviour(lies=True)
    before = await supervisor.ensure_ready(ask())
    adapter.behaviours["m"] = Behaviour()
    await sleeper.sleep()
    (status,) = supervisor.list_statuses()
    assert status.state is EngineState.READY
    assert status.pid != before.pid
    assert [notice.code for notice in sleeper.notices] == ["engine_reloaded"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="in a venv the process is a launcher there; its child serves")
async def test_an_engine_that_is_stuck_is_found_before_anybody_asks(
    supervisor: Supervisor, ask: Ask, sleeper: Sleeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "PULSE_S", 0.05)
    monkeypatch.setattr(run, "WAKE_S", 0.2)
    before = await supervisor.ensure_ready(ask())
    psutil.Process(before.pid).suspend()
    await sleeper.sleep(LOOK_S + HOUR_S, LOOK_S + HOUR_S)
    (status,) = supervisor.list_statuses()
    assert (status.state, status.pid == before.pid) == (EngineState.READY, False)


@pytest.mark.slow
async def test_an_engine_that_died_meanwhile_comes_back(supervisor: Supervisor, ask: Ask, sleeper: Sleeper) -> None:
    before = await supervisor.ensure_ready(ask())
    psutil.Process(before.pid).kill()  # whoever hears of it first, the supervisor or the question
    await sleeper.sleep()
    status = await supervisor.ensure_ready(ask(), any_options=True)
    assert (status.state, status.pid == before.pid) == (EngineState.READY, False)


async def test_one_that_answers_is_left_alone(
    adapter: FakeAdapter, supervisor: Supervisor, ask: Ask, sleeper: Sleeper
) -> None:
    adapter.behaviours["m"] = Behaviour(lies=True)
    before = await supervisor.ensure_ready(ask())
    async with supervisor.lease(ask()) as lease:
        await sleeper.sleep()
        assert lease.status.pid == before.pid
        assert lease.status.state is EngineState.READY


def lost_driver() -> EngineChanged:
    failure = FailureReport(code=FailureKind.DRIVER, sentence="The driver is gone.")
    return EngineChanged(status=EngineStatus(model="x", engine="fake", state=EngineState.FAILED, failure=failure))


@pytest.mark.slow
async def test_one_lost_driver_has_the_others_asked_but_not_again_and_again(
    adapter: FakeAdapter, supervisor: Supervisor, ask: Ask, sleeper: Sleeper
) -> None:
    adapter.behaviours["m"] = Behaviour(lies=True)
    await supervisor.ensure_ready(ask())
    for _ in range(3):
        sleeper.watch.note_event(lost_driver())
        await sleeper.sleep(total_s=LOOK_S)
    (notice,) = sleeper.notices
    assert "lost its driver" in notice.sentence


async def test_the_supervisor_watches_by_itself(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = asyncio.Event()

    async def look_once() -> None:
        looks.set()

    monkeypatch.setattr("app.supervisor.waking.LOOK_S", 0.01)
    monkeypatch.setattr(supervisor._wake_watch, "look_once", look_once)
    await supervisor.start()
    await looks.wait()
