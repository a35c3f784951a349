"""What everybody may know of an engine: its state and its run, put together; nothing of a process that is gone."""

import time

import msgspec
import pytest

from app.core.engines import EngineState, EngineStatus
from app.supervisor import messages as m
from app.supervisor.facts import LAST_LINES, RunFacts
from app.supervisor.policy import ModelPolicy, SupervisorPolicy
from app.supervisor.status import report_of, status_of
from engines.api import Failure, FailureKind, LaunchOptions, Suspicion
from tests.unit.supervisor.test_machine import REQUEST, Driver

S = EngineState
FACTS = {
    "version": "7",
    "backend": "cuda",
    "pid": 42,
    "progress": 0.5,
    "stage": "Reading weights",
    "context": 4096,
    "slots": 2,
    "loaded_at": 1e9,
    "load_s": 3.0,
    "left_out": ("It runs without a draft.",),
}


def facts_of(**changes: object) -> RunFacts:
    """Return what is known of a run that came up."""
    return RunFacts(**{**FACTS, **changes})  # type: ignore[arg-type] # fields by name


def read_status(driver: Driver, facts: RunFacts | None = None, *, is_queued: bool = False) -> EngineStatus:
    return status_of("m", driver.machine, facts or facts_of(), now=driver.now, is_queued=is_queued)


def test_a_ready_one_shows_its_process_and_when_it_goes() -> None:
    driver = Driver(SupervisorPolicy(idle_s=100.0)).come_up()
    driver.now += 5
    busy = read_status(driver)
    assert (busy.state, busy.pid, busy.loaded_at, busy.load_seconds) == (S.READY, 42, 1e9, 3.0)
    assert (busy.engine, busy.version, busy.backend, busy.context, busy.slots) == ("e", "7", "cuda", 4096, 2)
    assert (busy.progress, busy.stage, busy.in_flight, busy.restarts) == (None, "", 1, 0)
    assert busy.notes == ["It runs without a draft."]
    assert busy.unload_at == pytest.approx(time.time() + 100, abs=5), "counted from now while it works"
    driver.say(m.ReleaseLease(run=driver.machine.run))
    driver.now += 30
    idle = read_status(driver)
    assert idle.unload_at == pytest.approx(time.time() + 70, abs=5)
    assert idle.last_used_at == pytest.approx(time.time() - 30, abs=5)
    driver.policy = SupervisorPolicy(idle_s=100.0, models={"m": ModelPolicy(is_pinned=True)})
    driver.machine.model = "m"
    pinned_status = read_status(driver)
    assert (pinned_status.is_pinned, pinned_status.unload_at) in {(True, None), (False, idle.unload_at)}


def test_one_that_comes_up_shows_how_far_it_is_and_what_it_waits_for() -> None:
    driver = Driver()
    driver.ask()
    assert read_status(driver, is_queued=True).stage == "Waiting for another model to free memory"
    assert read_status(driver, facts_of(stage="")).stage == "Starting"
    driver.start()
    loading_status = read_status(driver)
    assert (loading_status.state, loading_status.stage, loading_status.progress) == (S.LOADING, "Reading weights", 0.5)
    assert loading_status.unload_at is None


def test_of_one_that_failed_nothing_is_left_but_why() -> None:
    driver = Driver().come_up()
    driver.end(FailureKind.MODEL_CORRUPT)
    status = read_status(driver)
    assert status.failure is not None
    assert status.failure.code == "model_corrupt"
    assert (status.pid, status.loaded_at, status.load_seconds, status.memory_bytes) == (None, None, None, None)
    assert (status.notes, status.buffers, status.unload_at) == ([], {}, None)


@pytest.mark.parametrize(
    ("buffers", "resident", "memory"),
    [({"model": 5, "kv": 2}, 100, 7), ({}, 100, 100), ({}, 0, None)],
)
def test_its_memory_is_what_it_names_or_what_its_processes_had(
    buffers: dict[str, int], resident: int, memory: int | None
) -> None:
    status = read_status(Driver().come_up(), facts_of(buffers=buffers, resident=resident))
    assert (status.memory_bytes, status.buffers) == (memory, buffers)


def test_the_next_try_is_told_by_the_clock_on_the_wall() -> None:
    driver = Driver().come_up()
    driver.end()
    waiting_status = read_status(driver)
    assert waiting_status.state is S.BACKING_OFF or waiting_status.failure is not None
    due = [at for timer, at in driver.machine.timers.items() if timer.name == "RETRY"]
    for at in due:
        assert waiting_status.retry_at == pytest.approx(time.time() + at - driver.now, abs=5)
    assert (waiting_status.retry_at is None) == (not due)


def test_what_it_was_loaded_with_is_told() -> None:
    driver = Driver()
    driver.ask(msgspec.structs.replace(REQUEST, options=LaunchOptions(kv_type="q8_0")))
    driver.start()
    driver.ready()
    assert read_status(driver).kv_type == "q8_0"
    assert read_status(Driver().come_up()).kv_type == ""


def test_a_report_has_the_last_twenty_lines_and_the_exit_code() -> None:
    facts = facts_of(exit_code=-11)
    facts.tail.extend(f"line {number}" for number in range(30))
    report = report_of("m", Failure(kind=FailureKind.CRASHED, sentence="It crashed.", hint="Try."), facts, REQUEST)
    assert (report.code, report.sentence, report.hint, report.exit_code) == ("crashed", "It crashed.", "Try.", -11)
    assert report.log_tail == [f"line {number}" for number in range(10, 30)]


def test_of_one_that_served_only_the_last_lines_tell_why_it_ended() -> None:
    early, late = (
        Suspicion(kind=FailureKind.CRASHED, line="early"),
        Suspicion(kind=FailureKind.CRASHED, line="late"),
    )
    for ready_at_s, suspicions in ((None, ("early", "late")), (5.0, ("late",))):
        facts = facts_of(ready_at_s=ready_at_s, lines=LAST_LINES + 10)
        facts.suspicions.extend([(9, early), (10, late)])
        end = facts.build_exit(LaunchOptions())
        assert tuple(each.line for each in end.suspicions) == suspicions
        assert end.was_ready == (ready_at_s is not None)
