"""The state machine, one decision at a time; `test_machine_laws` lets hypothesis look for the rest."""

from pathlib import Path
from typing import Any

import pytest

from app.core.engines import EngineState
from app.core.errors import Bug
from app.supervisor import messages as m
from app.supervisor.ending import KILL_S, PORT_TRIES, UNWAITED_S, EngineTimer
from app.supervisor.faults import UNRESPONSIVE
from app.supervisor.machine import EngineMachine
from app.supervisor.policy import RESTART_WINDOW_S, LoadRequest, SupervisorPolicy
from engines.api import NEVER_RETRY_UNCHANGED, Failure, FailureKind, LaunchOptions, ModelFormat, ModelSource

S = EngineState
REQUEST = LoadRequest(engine="e", source=ModelSource(name="m", path=Path("m.gguf"), format=ModelFormat.GGUF))
OTHER = LoadRequest(engine="e", source=REQUEST.source, options=LaunchOptions(context=99))
STARTED = {"stall_s": 10.0, "hard_s": 100.0, "grace_s": 5.0}


class Driver:
    """A machine, a clock, and a count of tickets."""

    def __init__(self, policy: SupervisorPolicy | None = None) -> None:
        self.policy = policy or SupervisorPolicy(drain_s=20.0, idle_s=1000.0)
        self.machine = EngineMachine(lambda: self.policy)
        self.now = 1000.0
        self.tickets = 0

    def state(self) -> EngineState:
        return self.machine.state

    def say(self, message: m.Message) -> list[m.MachineEffect]:
        return self.machine.step(message, self.now)

    def pass_time(self, seconds: float) -> list[m.MachineEffect]:
        self.now += seconds
        return self.machine.tick(self.now)

    def ask(
        self,
        request: LoadRequest = REQUEST,
        *,
        holds: bool = True,
        file: int = 0,
        **how: Any,  # noqa: ANN401 -- the fields of an Ask
    ) -> list[m.MachineEffect]:
        self.tickets += 1
        return self.say(m.ReadyRequest(ticket=self.tickets, request=request, holds=holds, fingerprint=(file,), **how))

    def stop(self, how: m.StopReason = m.StopReason.DRAIN) -> list[m.MachineEffect]:
        self.tickets += 1
        return self.say(m.StopRequest(how=how, ticket=self.tickets))

    def let_in(self) -> list[m.MachineEffect]:
        return self.say(m.RoomGranted(run=self.machine.run))

    def start(self) -> None:
        self.let_in()
        self.say(m.ProcessesStarted(run=self.machine.run, **STARTED))

    def ready(self) -> list[m.MachineEffect]:
        return self.say(m.EngineReady(run=self.machine.run))

    def end(self, kind: FailureKind = FailureKind.CRASHED) -> list[m.MachineEffect]:
        return self.say(m.RunEnded(run=self.machine.run, failure=Failure(kind=kind, sentence=kind.value)))

    def come_up(self) -> "Driver":
        self.ask()
        self.start()
        self.ready()
        return self


def outcomes(effects: list[m.MachineEffect]) -> dict[int, m.CallOutcome]:
    return {effect.ticket: effect.outcome for effect in effects if isinstance(effect, m.AnswerCaller)}


def list_refusals(effects: list[m.MachineEffect]) -> list[FailureKind]:
    return [outcome.failure.kind for outcome in outcomes(effects).values() if isinstance(outcome, m.LoadRefused)]


def turned_away(effects: list[m.MachineEffect]) -> list[m.TurnAwayReason]:
    return [outcome.reason for outcome in outcomes(effects).values() if isinstance(outcome, m.LoadTurnedAway)]


def test_the_way_up_answers_everybody_who_waits() -> None:
    driver = Driver()
    assert driver.ask() == [m.EnterRoom(run=1)]
    driver.ask(explicit=True, holds=False)
    assert driver.let_in() == [m.LaunchRun(run=1, request=REQUEST)]
    driver.say(m.ProcessesStarted(run=1, **STARTED))
    assert driver.state() is S.LOADING
    assert outcomes(driver.ready()) == {1: m.LeaseGranted(run=1), 2: m.Acknowledgement()}
    assert (driver.state(), driver.machine.in_flight) == (S.READY, 1)


def test_a_jump_that_is_not_in_the_table_is_a_bug() -> None:
    with pytest.raises(Bug):
        Driver().machine._move_to(S.READY)


def test_a_lease_takes_the_model_as_it_runs() -> None:
    assert outcomes(Driver().come_up().ask(OTHER)) == {2: m.LeaseGranted(run=1)}


def test_an_explicit_load_with_other_options_starts_it_again() -> None:
    driver = Driver().come_up()
    driver.say(m.ReleaseLease(run=1))
    assert driver.ask(OTHER, explicit=True, holds=False) == [m.AskToEnd(run=1)]
    effects = driver.end()
    assert driver.state() is S.STARTING
    assert m.EnterRoom(run=2) in effects
    assert driver.machine.request == OTHER


def test_an_explicit_load_that_names_no_options_takes_it_as_it_runs_but_not_a_changed_file() -> None:
    driver = Driver().come_up()
    driver.say(m.ReleaseLease(run=1))
    assert outcomes(driver.ask(OTHER, explicit=True, any_options=True, holds=False)) == {2: m.Acknowledgement()}
    assert driver.ask(OTHER, explicit=True, any_options=True, holds=False, file=1) == [m.AskToEnd(run=1)]


def test_an_explicit_load_of_a_file_that_changed_starts_it_again() -> None:
    driver = Driver().come_up()
    driver.say(m.ReleaseLease(run=1))
    assert driver.ask(explicit=True, file=1) == [m.AskToEnd(run=1)]


def test_replacing_a_load_turns_away_who_waited_for_the_old_one() -> None:
    driver = Driver()
    driver.ask()
    driver.start()
    driver.ask(OTHER, explicit=True)
    assert turned_away(driver.end()) == [m.TurnAwayReason.REPLACED]
    assert driver.state() is S.STARTING


@pytest.mark.parametrize("kind", sorted(NEVER_RETRY_UNCHANGED))
def test_what_the_same_arguments_would_repeat_is_told_again_at_once(kind: FailureKind) -> None:
    driver = Driver()
    driver.ask()
    driver.start()
    assert list_refusals(driver.end(kind)) == [kind]
    assert driver.state() is S.FAILED
    assert list_refusals(driver.ask()) == [kind]
    driver.pass_time(10 * RESTART_WINDOW_S)
    assert list_refusals(driver.ask()) == [kind]


def fail(kind: FailureKind = FailureKind.MODEL_CORRUPT) -> Driver:
    driver = Driver()
    driver.ask()
    driver.start()
    driver.end(kind)
    return driver


def test_another_file_other_options_or_an_explicit_load_try_again() -> None:
    changed_load = fail()
    changed_load.ask(file=1)
    other = fail()
    other.ask(OTHER)
    explicit = fail()
    explicit.ask(explicit=True)
    assert [changed_load.state(), other.state(), explicit.state()] == [S.STARTING] * 3


def test_a_crash_while_somebody_waits_starts_it_again_after_a_moment() -> None:
    driver = fail(FailureKind.CRASHED)
    assert driver.state() is S.BACKING_OFF
    assert driver.pass_time(0.9) == []
    assert driver.pass_time(0.1) == [m.EnterRoom(run=2)]
    assert driver.state() is S.STARTING


def test_a_crash_while_idle_waits_for_somebody_to_ask() -> None:
    driver = Driver().come_up()
    driver.say(m.ReleaseLease(run=1))
    driver.end()
    assert driver.state() is S.FAILED
    driver.ask()
    assert driver.state() is S.BACKING_OFF
    driver.pass_time(1.0)
    assert driver.state() is S.STARTING


def test_a_crash_under_a_lease_starts_it_again() -> None:
    driver = Driver().come_up()
    driver.end()
    assert (driver.state(), driver.machine.in_flight) == (S.BACKING_OFF, 0)
    assert driver.say(m.ReleaseLease(run=1)) == []


def test_who_asks_while_it_backs_off_waits_for_the_next_run() -> None:
    driver = fail(FailureKind.CRASHED)
    assert driver.ask() == []
    driver.pass_time(1.0)
    driver.start()
    assert outcomes(driver.ready()) == {2: m.LeaseGranted(run=2)}


def crash_again(driver: Driver, wait_s: float) -> list[m.MachineEffect]:
    driver.pass_time(wait_s)
    driver.ask()
    driver.start()
    return driver.end()


def test_it_gives_up_after_three_restarts_in_ten_minutes() -> None:
    driver = fail(FailureKind.CRASHED)
    for wait_s in (1.0, 2.0, 4.0):
        assert driver.state() is S.BACKING_OFF
        crash_again(driver, wait_s)
    assert driver.state() is S.FAILED
    (outcome,) = outcomes(driver.ask()).values()
    assert isinstance(outcome, m.LoadRefused)
    assert outcome.failure.kind is FailureKind.CRASHED
    assert "4 times within 10 minutes" in outcome.failure.hint
    assert f"`roundhouse load {driver.machine.model}`" in outcome.failure.hint
    driver.pass_time(RESTART_WINDOW_S)
    driver.ask()
    assert driver.state() is S.STARTING


def test_a_restart_counts_from_when_it_happened_not_from_when_it_was_due() -> None:
    driver = fail(FailureKind.CRASHED)
    driver.pass_time(RESTART_WINDOW_S + 100.0)
    assert driver.machine.restarts == [driver.now]


def test_an_explicit_load_counts_restarts_afresh() -> None:
    driver = fail(FailureKind.CRASHED)
    for wait_s in (1.0, 2.0, 4.0):
        crash_again(driver, wait_s)
    driver.ask(explicit=True)
    assert (driver.state(), driver.machine.restarts) == (S.STARTING, [])


def test_an_explicit_load_does_not_wait_for_the_back_off() -> None:
    driver = fail(FailureKind.CRASHED)
    driver.ask(explicit=True)
    assert driver.state() is S.STARTING


@pytest.mark.parametrize("kind", [FailureKind.STALLED, FailureKind.TOO_SLOW])
def test_what_costs_minutes_is_not_repeated_unasked(kind: FailureKind) -> None:
    assert fail(kind).state() is S.FAILED


def test_silence_while_loading_is_a_stall_and_signs_of_life_put_it_off() -> None:
    driver = Driver()
    driver.ask()
    driver.start()
    driver.pass_time(9.0)
    driver.say(m.SignOfLife(run=1))
    assert driver.pass_time(9.0) == []
    assert driver.pass_time(1.0) == [m.KillRun(run=1)]
    assert driver.say(m.SignOfLife(run=1)) == []
    assert driver.ready() == [], "it is being killed"
    assert list_refusals(driver.end(FailureKind.KILLED)) == [FailureKind.STALLED]


def test_signs_of_life_do_not_put_off_the_hard_limit() -> None:
    driver = Driver()
    driver.ask()
    driver.start()
    for _ in range(11):
        driver.say(m.SignOfLife(run=1))
        effects = driver.pass_time(9.5)
    assert effects == [m.KillRun(run=1)]
    assert list_refusals(driver.end(FailureKind.KILLED)) == [FailureKind.TOO_SLOW]


def test_a_policy_overrules_the_adapters_times() -> None:
    driver = Driver(SupervisorPolicy(stall_s=3.0))
    driver.ask()
    driver.start()
    assert driver.pass_time(3.0) == [m.KillRun(run=1)]


def test_a_taken_port_is_tried_again_within_the_same_load() -> None:
    driver = Driver()
    driver.ask()
    driver.start()
    for attempt in range(PORT_TRIES):
        assert driver.end(FailureKind.PORT_IN_USE) == [m.LaunchRun(run=attempt + 2, request=REQUEST)]
        assert driver.state() is S.LOADING
        driver.say(m.ProcessesStarted(run=driver.machine.run, **STARTED))
    assert list_refusals(driver.end(FailureKind.PORT_IN_USE)) == [FailureKind.PORT_IN_USE]


def test_news_of_an_earlier_run_is_ignored() -> None:
    driver = fail(FailureKind.CRASHED)
    driver.pass_time(1.0)
    driver.start()
    for message in (
        m.EngineReady(run=1),
        m.RoomGranted(run=1),
        m.ProcessesStarted(run=1, **STARTED),
        m.SignOfLife(run=1),
    ):
        assert driver.say(message) == []
    assert driver.say(m.RunEnded(run=1, failure=Failure(kind=FailureKind.CRASHED, sentence=""))) == []
    assert driver.state() is S.LOADING


def test_draining_waits_for_leases_and_then_stops() -> None:
    driver = Driver().come_up()
    driver.stop()
    assert driver.state() is S.DRAINING
    assert driver.say(m.ReleaseLease(run=1)) == [m.AskToEnd(run=1)]
    assert driver.end() == [m.LeaveRoom(), m.AnswerCaller(ticket=2, outcome=m.Acknowledgement())]
    assert driver.state() is S.STOPPED


def test_draining_has_an_end() -> None:
    driver = Driver().come_up()
    driver.stop()
    assert driver.pass_time(20.0) == [m.AskToEnd(run=1)]


def test_a_soft_stop_that_is_ignored_becomes_a_kill_and_a_kill_that_is_ignored_is_given_up() -> None:
    driver = Driver().come_up()
    assert driver.stop(m.StopReason.NOW) == [m.AskToEnd(run=1)]
    assert driver.pass_time(5.0) == [m.KillRun(run=1)]
    effects = driver.pass_time(KILL_S)
    assert effects[0] == m.AbandonRun(run=1)
    assert driver.state() is S.STOPPED


def test_asking_to_stop_now_twice_kills() -> None:
    driver = Driver().come_up()
    driver.stop(m.StopReason.NOW)
    assert driver.stop(m.StopReason.NOW) == [m.KillRun(run=1)]


def test_a_request_during_draining_is_served_by_the_next_run() -> None:
    driver = Driver().come_up()
    driver.stop()
    assert driver.ask() == []
    driver.say(m.ReleaseLease(run=1))
    driver.end()
    assert driver.state() is S.STARTING
    driver.start()
    assert outcomes(driver.ready()) == {3: m.LeaseGranted(run=2)}


def test_an_explicit_load_calls_draining_off() -> None:
    driver = Driver().come_up()
    driver.stop()
    driver.ask()
    effects = driver.ask(explicit=True, holds=False)
    assert outcomes(effects) == {2: m.Acknowledgement(), 4: m.Acknowledgement(), 3: m.LeaseGranted(run=1)}
    assert (driver.state(), driver.machine.in_flight) == (S.READY, 2)


def test_stopping_a_load_turns_its_waiters_away() -> None:
    driver = Driver()
    driver.ask()
    driver.start()
    assert driver.stop() == [m.AskToEnd(run=1)]
    effects = driver.end(FailureKind.KILLED)
    assert turned_away(effects) == [m.TurnAwayReason.UNLOADED]
    assert driver.state() is S.STOPPED


def test_stopping_before_there_is_room_needs_no_process() -> None:
    driver = Driver()
    driver.ask()
    effects = driver.stop()
    assert m.LeaveRoom() in effects
    assert outcomes(effects) == {1: m.LoadTurnedAway(reason=m.TurnAwayReason.UNLOADED), 2: m.Acknowledgement()}
    assert driver.let_in() == []


def test_a_queued_load_nobody_waits_for_is_dropped_and_one_that_began_goes_on() -> None:
    queued_driver = Driver()
    queued_driver.ask()
    queued_driver.say(m.WithdrawTicket(ticket=1))
    assert queued_driver.state() is S.STOPPED
    begun_driver = Driver()
    begun_driver.ask()
    begun_driver.start()
    begun_driver.say(m.WithdrawTicket(ticket=1))
    begun_driver.ready()
    assert begun_driver.state() is S.READY


def load_on(driver: Driver, seconds: float) -> list[m.MachineEffect]:
    """Have time pass while loading goes on; return what came of it."""
    effects: list[m.MachineEffect] = []
    for _ in range(round(seconds)):
        driver.say(m.SignOfLife(run=1))
        effects += driver.pass_time(1.0)
    return effects


def test_a_load_nobody_waits_for_any_more_ends() -> None:
    driver = Driver()
    driver.ask()
    driver.start()
    driver.say(m.WithdrawTicket(ticket=1))
    assert load_on(driver, UNWAITED_S - 1.0) == []
    assert load_on(driver, 1.0) == [m.AskToEnd(run=1)]
    assert driver.state() is S.STOPPING


def test_who_comes_back_in_time_finds_the_load_going_on() -> None:
    driver = Driver()
    driver.ask()
    driver.start()
    driver.say(m.WithdrawTicket(ticket=1))
    load_on(driver, UNWAITED_S - 1.0)
    driver.ask()
    assert load_on(driver, 2.0) == []
    driver.ready()
    assert driver.state() is S.READY


def test_an_engine_that_is_stuck_is_killed_and_serves_nobody_meanwhile() -> None:
    driver = Driver().come_up()
    stuck_event = m.EngineStuck(run=driver.machine.run, failure=UNRESPONSIVE)
    assert driver.say(stuck_event) == [m.KillRun(run=driver.machine.run)]
    assert not driver.machine.has_free_slot
    assert driver.say(stuck_event) == [], "once"


def test_an_engine_that_cannot_know_what_happened_fails_with_what_somebody_else_knows() -> None:
    loss = Failure(kind=FailureKind.UNREACHABLE, sentence="desk went away.")
    driver = Driver()
    driver.ask()
    driver.start()
    assert driver.say(m.EngineStuck(run=driver.machine.run, failure=loss)) == [m.KillRun(run=driver.machine.run)]
    crash = Failure(kind=FailureKind.CRASHED, sentence="It crashed.")
    driver.say(m.RunEnded(run=driver.machine.run, failure=crash))
    assert (driver.state(), driver.machine.failure) == (S.FAILED, loss)


def test_an_unused_engine_is_stopped_in_time_and_never_while_it_is_used() -> None:
    driver = Driver().come_up()
    assert driver.pass_time(5000.0) == []
    driver.say(m.ReleaseLease(run=1))
    assert driver.pass_time(999.0) == []
    assert driver.pass_time(1.0) == [m.AskToEnd(run=1)]


def test_an_idle_time_that_is_changed_counts_from_the_last_use() -> None:
    driver = Driver().come_up()
    driver.say(m.ReleaseLease(run=1))
    driver.pass_time(100.0)
    driver.policy = SupervisorPolicy(idle_s=150.0)
    driver.say(m.PolicyChanged())
    assert driver.machine.deadline == driver.now + 50.0
    driver.policy = SupervisorPolicy(idle_s=0.0)
    driver.say(m.PolicyChanged())
    assert EngineTimer.IDLE not in driver.machine.timers


def test_only_an_idle_engine_makes_room_and_a_busy_one_yields_without_a_deadline() -> None:
    driver = Driver().come_up()
    driver.say(m.StopRequest(how=m.StopReason.IF_IDLE))
    assert driver.state() is S.READY
    driver.say(m.StopRequest(how=m.StopReason.YIELD))
    assert (driver.state(), driver.machine.deadline) == (S.DRAINING, None)
    assert driver.say(m.ReleaseLease(run=1)) == [m.AskToEnd(run=1)]


def test_an_idle_engine_makes_room_at_once() -> None:
    driver = Driver().come_up()
    driver.say(m.ReleaseLease(run=1))
    assert driver.say(m.StopRequest(how=m.StopReason.IF_IDLE)) == [m.AskToEnd(run=1)]


def test_unloading_forgets_a_failure() -> None:
    driver = fail()
    assert outcomes(driver.stop()) == {2: m.Acknowledgement()}
    assert (driver.state(), driver.machine.failure) == (S.STOPPED, None)


def test_unloading_while_backing_off_turns_waiters_away() -> None:
    driver = fail(FailureKind.CRASHED)
    driver.ask()
    assert turned_away(driver.stop()) == [m.TurnAwayReason.UNLOADED]
    assert driver.pass_time(10.0) == []


def test_a_crash_while_draining_is_a_failure_and_starts_nothing() -> None:
    driver = Driver().come_up()
    driver.stop()
    assert outcomes(driver.end()) == {2: m.Acknowledgement()}
    assert driver.state() is S.FAILED


def test_once_closed_it_never_starts_again() -> None:
    driver = Driver().come_up()
    driver.stop()
    driver.ask()
    assert turned_away(driver.stop(m.StopReason.CLOSE)) == [m.TurnAwayReason.CLOSING]
    driver.end()
    assert turned_away(driver.ask(explicit=True)) == [m.TurnAwayReason.CLOSING]
    assert driver.state() is S.STOPPED
