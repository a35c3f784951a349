"""Pausing: all memory is given back, answers in progress are finished, and what was loaded comes back."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from app.core.engines import EngineState
from app.core.errors import Unavailable
from app.core.events import PauseChanged
from app.supervisor import messages as m
from app.supervisor.policy import LoadRequest, ModelPolicy, SupervisorPolicy
from app.supervisor.pool import Supervisor
from engines.api import FailureKind, ModelFormat, ModelSource, RemoteEndpoint
from tests.fake_engine.adapter import FakeAdapter
from tests.fake_engine.behaviour import Behaviour
from tests.unit.supervisor.conftest import Ask, Recorder
from tests.unit.supervisor.test_machine import OTHER, REQUEST, Driver, turned_away

S = EngineState


class Pausable(Driver):
    """A machine whose policy says pause, which the supervisor does before it tells the owners."""

    def pause(self) -> list[m.MachineEffect]:
        self.policy = msgspec.structs.replace(self.policy, is_paused=True)
        return self.say(m.StopRequest(how=m.StopReason.PAUSE))


def test_an_idle_engine_goes_at_once_and_whoever_asks_is_told() -> None:
    driver = Pausable()
    driver.come_up()
    driver.say(m.ReleaseLease(run=1))
    assert driver.pause() == [m.AskToEnd(run=1)]
    assert turned_away(driver.ask()) == [m.TurnAwayReason.PAUSED]
    driver.end(FailureKind.KILLED)
    assert driver.state() is S.STOPPED
    assert turned_away(driver.ask(explicit=True)) == [m.TurnAwayReason.PAUSED]


def test_a_busy_one_finishes_however_long_it_takes_and_takes_nothing_new() -> None:
    driver = Pausable()
    driver.come_up()
    assert driver.pause() == []
    assert (driver.state(), driver.machine.deadline) == (S.DRAINING, None)
    assert turned_away(driver.ask()) == [m.TurnAwayReason.PAUSED]
    assert driver.say(m.ReleaseLease(run=1)) == [m.AskToEnd(run=1)]


def test_who_stands_in_line_is_sent_away_and_who_is_served_is_not() -> None:
    driver = Pausable()
    driver.ask()
    driver.start()
    driver.say(m.EngineReady(run=1, slots=1))
    driver.ask()
    assert turned_away(driver.pause()) == [m.TurnAwayReason.PAUSED]
    assert driver.machine.in_flight == 1


def test_who_waits_for_a_load_is_told_once_it_is_called_off() -> None:
    driver = Pausable()
    driver.ask()
    driver.start()
    assert driver.pause() == [m.AskToEnd(run=1)]
    assert turned_away(driver.end(FailureKind.KILLED)) == [m.TurnAwayReason.PAUSED]


def test_a_load_that_waits_for_room_leaves_the_queue() -> None:
    driver = Pausable()
    driver.ask()
    effects = driver.pause()
    assert m.LeaveRoom() in effects
    assert turned_away(effects) == [m.TurnAwayReason.PAUSED]


def test_nothing_starts_again_by_itself() -> None:
    driver = Pausable()
    driver.come_up()
    driver.end()
    assert driver.state() is S.BACKING_OFF
    driver.pause()
    assert (driver.state(), driver.machine.timers) == (S.STOPPED, {})


def test_a_failure_is_still_there_to_be_read() -> None:
    driver = Pausable()
    driver.ask()
    driver.start()
    driver.end(FailureKind.MODEL_CORRUPT)
    driver.pause()
    assert (driver.state(), driver.machine.failure is None) == (S.FAILED, False)


def test_one_that_was_being_replaced_does_not_come_back_as_another() -> None:
    driver = Pausable()
    driver.come_up()
    driver.ask(OTHER, explicit=True)
    assert turned_away(driver.pause()) == [m.TurnAwayReason.PAUSED]
    driver.say(m.ReleaseLease(run=1))
    driver.end(FailureKind.KILLED)
    assert driver.state() is S.STOPPED


def test_an_endpoint_elsewhere_goes_on() -> None:
    remote = RemoteEndpoint(url="http://x", served_as="m", key_file=Path("m.key"))
    source = ModelSource(name="m", path=REQUEST.source.path, format=ModelFormat.REMOTE, remote=remote)
    elsewhere = LoadRequest(engine="attached", source=source)
    driver = Pausable()
    driver.ask(elsewhere)
    driver.start()
    driver.ready()
    assert driver.pause() == []
    assert driver.state() is S.READY
    assert turned_away(driver.ask(elsewhere)) == []


@pytest.mark.slow
async def test_real_engines_go_and_come_back(
    supervisor: Supervisor, ask: Ask, recorder: Recorder, adapter: FakeAdapter
) -> None:
    supervisor.policy = SupervisorPolicy(models={"pinned": ModelPolicy(is_pinned=True)})
    for model in ("idle", "pinned", "busy"):
        await supervisor.ensure_ready(ask(model))
    async with supervisor.lease(ask("busy")) as lease:
        supervisor.pausing.pause_all()
        supervisor.pausing.pause_all()
        state = supervisor.pausing.pause_state()
        assert (state.finishing, sorted(state.comes_back)) == (["busy"], ["busy", "idle", "pinned"])
        await recorder.until_state(S.STOPPED, "idle")
        await recorder.until_state(S.STOPPED, "pinned")
        assert not lease.end.done(), "an answer in progress is not cut"
        with pytest.raises(Unavailable, match="paused") as error:
            await supervisor.ensure_ready(ask("idle"))
        assert (error.value.code, "roundhouse resume" in error.value.hint) == ("paused", True)
    await recorder.until_state(S.STOPPED, "busy")
    supervisor.pausing.resume_all()
    await recorder.until(lambda: len([status for status in supervisor.list_statuses() if status.state is S.READY]) == 3)
    pauses = [event.pause.is_paused for event in recorder.events if isinstance(event, PauseChanged)]
    assert pauses == [True, False]


async def test_a_new_policy_does_not_end_a_pause(supervisor: Supervisor, ask: Ask) -> None:
    supervisor.pausing.pause_all()
    supervisor.policy = SupervisorPolicy(max_loaded=1)
    with pytest.raises(Unavailable):
        await supervisor.ensure_ready(ask())
    supervisor.pausing.resume_all()
    assert (await supervisor.ensure_ready(ask())).state is S.READY


async def test_a_pause_amid_coming_back_forgets_nobody(
    supervisor: Supervisor, ask: Ask, recorder: Recorder, adapter: FakeAdapter
) -> None:
    await supervisor.ensure_ready(ask("a"))
    await supervisor.ensure_ready(ask("b"))
    supervisor.pausing.pause_all()
    await recorder.until(lambda: supervisor.list_statuses() == [])
    adapter.behaviours = {"a": Behaviour(load_s=60.0), "b": Behaviour(load_s=60.0)}
    supervisor.pausing.resume_all()
    await recorder.until(lambda: any(status.state is S.LOADING for status in supervisor.list_statuses()))
    supervisor.pausing.pause_all()
    assert sorted(supervisor.pausing.pause_state().comes_back) == ["a", "b"]


@pytest.mark.slow
async def test_one_that_cannot_come_back_keeps_nobody_from_it(
    supervisor: Supervisor, ask: Ask, recorder: Recorder, adapter: FakeAdapter
) -> None:
    await supervisor.ensure_ready(ask("a"))
    await supervisor.ensure_ready(ask("b"))
    supervisor.pausing.pause_all()
    await recorder.until(lambda: supervisor.list_statuses() == [])
    adapter.behaviours = {"b": Behaviour(exit_code=1)}
    supervisor.pausing.resume_all()
    await recorder.until_state(S.READY, "a")
    await recorder.until_state(S.FAILED, "b")


async def test_resuming_without_a_pause_does_nothing(supervisor: Supervisor, recorder: Recorder) -> None:
    supervisor.pausing.resume_all()
    await asyncio.sleep(0)
    assert recorder.events == []
