"""Single decisions of the machine, the ledger of memory and their helpers, where a slip would pass for another."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from urllib.parse import urlsplit

import msgspec
import pytest

from app.confinement.rules import LaunchOrder
from app.core.engines import EngineState
from app.supervisor import messages as m
from app.supervisor.dialing import DialTarget, ForbiddenAddress, _resolve_allowed
from app.supervisor.ending import EngineTimer
from app.supervisor.machine import EngineMachine
from app.supervisor.memory_arbiter import BACK_S, LOOK_S, MemoryLedger, decision_message
from app.supervisor.memory_limits import MemoryReading, correct_holdings, is_memory_back, limits_of
from app.supervisor.memory_watch import _leaves_room
from app.supervisor.policy import LeaseOptions, MemoryNeeds, SupervisorPolicy
from app.supervisor.process import stdin_for
from app.supervisor.run import EngineRun
from app.supervisor.scheduling import EvictEngine, GrantRoom, MemoryLimits, PendingLoad, Resident, keep_worth
from app.supervisor.slot_queue import LONGEST_S, WaitEstimate
from engines.api import FailureKind, SoftStop
from tests.unit.supervisor.test_machine import OTHER, REQUEST, Driver, outcomes

S = EngineState
GIB = 1 << 30
OTHER_FILE = msgspec.structs.replace(REQUEST, source=msgspec.structs.replace(REQUEST.source, path=Path("other.gguf")))
OTHER_ENGINE = msgspec.structs.replace(REQUEST, engine="another")
ON_TERMS = LeaseOptions()


# ----- the machine


@pytest.mark.parametrize("other", [OTHER_FILE, OTHER_ENGINE], ids=["another file", "another engine"])
def test_a_model_is_the_same_by_its_engine_and_its_file(other: object) -> None:
    driver = Driver().come_up()
    assert driver.machine.hold_at_once(REQUEST, ON_TERMS)
    assert driver.machine.hold_at_once(OTHER, ON_TERMS), "only how it runs differs: nobody compares for a lease"
    assert not driver.machine.hold_at_once(other, ON_TERMS)  # type: ignore[arg-type] # as parametrised
    driver.ask(other, explicit=True)  # type: ignore[arg-type]
    assert driver.state() is S.DRAINING


def test_nothing_is_held_at_once_that_a_pause_or_a_wish_forbids() -> None:
    driver = Driver().come_up()
    assert not driver.machine.hold_at_once(REQUEST, LeaseOptions(context=4096))
    assert not driver.machine.hold_at_once(msgspec.structs.replace(REQUEST, least_context=4096), LeaseOptions())
    driver.policy = msgspec.structs.replace(driver.policy, is_paused=True)
    assert not driver.machine.hold_at_once(REQUEST, ON_TERMS)
    driver.policy = msgspec.structs.replace(driver.policy, is_paused=False)
    assert driver.machine.hold_at_once(REQUEST, ON_TERMS)


def test_a_sign_of_life_puts_off_the_stall_of_its_own_run_only() -> None:
    driver = Driver()
    driver.ask()
    driver.start()
    before = driver.machine.timers[EngineTimer.STALL]
    driver.now += 3
    driver.say(m.SignOfLife(run=driver.machine.run + 1))
    assert driver.machine.timers[EngineTimer.STALL] == before
    driver.say(m.SignOfLife(run=driver.machine.run))
    assert driver.machine.timers[EngineTimer.STALL] == before + 3
    driver.ready()
    driver.say(m.SignOfLife(run=driver.machine.run))
    assert EngineTimer.STALL not in driver.machine.timers


def test_only_a_start_is_tried_on_another_port() -> None:
    driver = Driver()
    driver.ask()
    driver.start()
    run = driver.machine.run
    driver.end(FailureKind.PORT_IN_USE)
    assert driver.machine.run == run + 1
    driver.say(m.ProcessesStarted(run=driver.machine.run, stall_s=1.0, hard_s=9.0, grace_s=1.0))
    driver.ready()
    run = driver.machine.run
    driver.end(FailureKind.PORT_IN_USE)
    assert driver.state() in {S.FAILED, S.BACKING_OFF, S.STOPPED}
    assert driver.machine.run >= run


def full_machine() -> Driver:
    """Return one with a slot that is taken, and two who wait for it."""
    driver = Driver()
    driver.ask()
    driver.start()
    driver.say(m.EngineReady(run=driver.machine.run, slots=1))
    driver.ask()
    driver.ask()
    return driver


def test_everybody_who_waits_for_whatever_reason_is_counted() -> None:
    driver = full_machine()
    assert driver.machine.queue_length == 2
    driver.stop()
    driver.ask()
    assert driver.machine.queue_length == len(driver.machine.later) + driver.machine.slot_queue.count == 1
    loading_driver = Driver()
    loading_driver.ask()
    loading_driver.ask()
    assert loading_driver.machine.queue_length == 2


def test_a_full_line_is_told_to_come_back_sooner_the_longer_the_load_has_taken() -> None:
    driver = Driver(SupervisorPolicy(queue_limit=1, drain_s=20.0, idle_s=1000.0))
    driver.come_up()
    driver.machine.wait_estimate.load_s = 40.0
    driver.end()
    driver.pass_time(100.0)
    driver.ask()
    driver.start()

    def retry_s() -> float:
        (away,) = [out for out in outcomes(driver.ask()).values() if isinstance(out, m.LoadTurnedAway)]
        assert away.reason is m.TurnAwayReason.FULL
        return away.retry_s

    first = retry_s()
    driver.now += 10
    assert first - retry_s() == pytest.approx(10.0)


def test_the_wait_is_what_is_left_of_the_load_and_a_gap_for_each_who_waits() -> None:
    estimate = WaitEstimate()
    unknown_s = estimate.retry_s(3)
    assert estimate.retry_s(3, loading_s=0.0) == 2 * unknown_s, "how long it loads is as unknown as the line"
    estimate.load_s = 30.0
    assert estimate.retry_s(1, loading_s=10.0) == 20.0 + unknown_s
    assert estimate.retry_s(1, loading_s=50.0) == unknown_s
    for now in (100.0, 104.0):
        estimate.note_served(now)
    assert estimate.retry_s(2) == 8.0
    estimate.note_served(118.0)
    assert estimate.retry_s(1) == pytest.approx(0.3 * 14 + 0.7 * 4)
    estimate.note_idle()
    estimate.note_served(1000.0)
    assert estimate.retry_s(1) == pytest.approx(0.3 * 14 + 0.7 * 4), "the time in which nobody waited is no gap"
    assert estimate.retry_s(1000) == LONGEST_S


def test_a_context_too_small_is_grown_only_where_the_other_would_be_larger() -> None:
    machine = EngineMachine(SupervisorPolicy)

    def is_too_small(has: int | None, would_have: int | None, wish: int | None) -> bool:
        options = REQUEST.options
        machine.request = msgspec.structs.replace(REQUEST, options=msgspec.structs.replace(options, context=has))
        other = msgspec.structs.replace(REQUEST, options=msgspec.structs.replace(options, context=would_have))
        terms = LeaseOptions(context=wish)
        return machine._is_too_small(m.ReadyRequest(ticket=1, request=other, holds=True, terms=terms))

    assert is_too_small(4096, 8192, 6000)
    assert not is_too_small(8192, 8192, 9000)
    assert not is_too_small(8192, 16_384, 8192)
    assert not is_too_small(None, 8192, 9000)
    assert not is_too_small(4096, None, 9000)
    assert not is_too_small(4096, 8192, None)


# ----- memory


@pytest.mark.parametrize(
    ("needs", "reported_bytes", "holds"),
    [
        (None, 7, {"system": 7}),
        (MemoryNeeds(pools={"gpu": 300, "system": 100}, buffers=200), 240, {"gpu": 330, "system": 110}),
        (MemoryNeeds(pools={"gpu": 300, "system": 100}, buffers=200), 160, {"gpu": 270, "system": 90}),
        (MemoryNeeds(pools={"gpu": 100}, buffers=500), 1, {"gpu": 0}),
        (MemoryNeeds(pools={"gpu": 300}), 240, {"gpu": 300}),
        (MemoryNeeds(pools={"gpu": 0}, buffers=200), 240, {"gpu": 0}),
    ],
)
def test_an_estimate_is_put_right_by_what_the_engine_reports(
    needs: MemoryNeeds | None, reported_bytes: int, holds: Mapping[str, int]
) -> None:
    assert correct_holdings(needs, reported_bytes) == holds


def test_engines_may_take_what_is_free_and_what_those_here_give_back() -> None:
    seats = [
        Resident(model="a", last_used=0.0, is_idle=True, holds={"gpu": 5}, pid=1),
        Resident(model="b", last_used=0.0, is_busy=True, holds=None, pid=2),
        Resident(model="c", last_used=0.0, is_leaving=True, holds={"gpu": 3}, pid=None),
        Resident(model="loading", last_used=0.0, holds={"gpu": 100}, pid=4),
    ]
    memory_reading = MemoryReading(free={"gpu": 10, "system": 20}, private={1: 7, 2: 8, 4: 9, 5: 1000})
    limits = limits_of(memory_reading, seats, 2)
    assert limits.pools == {"gpu": 10 + 5 + 3 - 2, "system": 20 + 7 + 8 + 9 - 2}
    assert limits.head_room == 2


def test_memory_is_back_when_no_limit_is_lower_than_it_was_but_for_a_little() -> None:
    assert is_memory_back({"gpu": GIB}, {"gpu": GIB - 256 * 1024**2})
    assert not is_memory_back({"gpu": GIB}, {"gpu": GIB - 256 * 1024**2 - 1})
    assert is_memory_back({"gpu": GIB}, {}), "what cannot be read is not waited for"


def test_a_model_comes_back_where_it_leaves_free_what_is_to_stay_free() -> None:
    request = msgspec.structs.replace(REQUEST, needs=MemoryNeeds(pools={"gpu": 10}))
    assert _leaves_room(request, {"gpu": 15}, 5)
    assert not _leaves_room(request, {"gpu": 14}, 5)
    assert not _leaves_room(request, {}, 0), "a pool that nobody can read has nothing free"
    assert not _leaves_room(REQUEST, {"gpu": 100}, 0), "and neither has one of unknown size a place"


def ledger_of(limit: int, *residents: Resident) -> MemoryLedger:
    """Return a ledger in which these are in."""
    by_model = {resident.model: resident for resident in residents}
    ledger = MemoryLedger(lambda: SupervisorPolicy(max_loaded=limit), lambda model: by_model[model])
    for resident in residents:
        ledger.join_queue(PendingLoad(model=resident.model, since=0.0), 1)
        ledger._note_effect(GrantRoom(model=resident.model))
    return ledger


TWO = [Resident(model=name, last_used=0.0, is_idle=True) for name in ("a", "b")]


def test_something_is_to_be_decided_when_somebody_waits_or_more_are_in_than_may_be() -> None:
    assert not ledger_of(0, *TWO).needs_deciding, "0 is no limit"
    assert not ledger_of(2, *TWO).needs_deciding
    assert ledger_of(1, *TWO).needs_deciding
    ledger = ledger_of(0)
    assert not ledger.needs_deciding
    ledger.join_queue(PendingLoad(model="c", since=0.0), 3)
    assert ledger.needs_deciding
    ledger.leave_queue("c", 5.0)
    assert not ledger.needs_deciding
    assert ledger.left_at == -BACK_S, "it held nothing that would have to come back"


def test_memory_is_looked_for_often_while_it_may_still_come_back() -> None:
    ledger = ledger_of(0, *TWO)
    ledger.join_queue(PendingLoad(model="c", since=0.0, needs={"gpu": 9}), 3)
    ledger.leave_queue("a", 100.0)
    ledger._before = {"gpu": 100 * GIB}
    ledger.decide_effects(MemoryLimits(pools={"gpu": 1}), 100.5)
    assert ledger.next_due(100.5) == 100.5 + LOOK_S
    assert ledger.next_due(100.0 + BACK_S) != 100.0 + BACK_S + LOOK_S


def test_an_owner_is_told_what_was_decided() -> None:
    assert decision_message(GrantRoom(model="a"), 4) == m.RoomGranted(run=4)
    assert decision_message(EvictEngine(model="a"), 0) == m.StopRequest(how=m.StopReason.IF_IDLE)
    assert decision_message(EvictEngine(model="a", drain=True), 0) == m.StopRequest(how=m.StopReason.YIELD)


# ----- processes and addresses


def test_a_lifeline_is_a_pipe_that_nobody_writes_to() -> None:
    assert stdin_for(has_lifeline=True) == subprocess.PIPE
    assert stdin_for(has_lifeline=False) == subprocess.DEVNULL


LISTENS = """
import os, signal, sys
def end(number, frame):
    os.write(1, signal.Signals(number).name.encode())
    os._exit(0)
signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
sys.stdin.read()
print("end of input", flush=True)
"""


if sys.platform != "win32":  # signals as POSIX has them
    from app.supervisor.posix import Group

    @pytest.mark.parametrize(
        ("how", "word"),
        [(SoftStop.SIGINT, "SIGINT"), (SoftStop.SIGTERM, "SIGTERM"), (SoftStop.STDIN_EOF, "end of input")],
    )
    def test_an_engine_is_asked_to_end_in_its_own_way(how: SoftStop, word: str) -> None:
        group = Group(LaunchOrder(argv=(sys.executable, "-c", LISTENS), env={}, cwd=None), has_lifeline=True)
        out = group.pipes["out"]
        assert out.readline().strip() == b"ready"
        group.ask_to_end(how)
        assert out.readline().strip().decode() == word
        assert group.wait() == 0
        for pipe in group.pipes.values():
            pipe.close()
        group.close_stdin()


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://localhost:8080/v1", DialTarget("localhost", 8080, is_tls=False)),
        ("https://example.com", DialTarget("example.com", 443, is_tls=True)),
        ("http://example.com", DialTarget("example.com", 80, is_tls=False)),
    ],
)
def test_an_address_says_where_to_connect_to(url: str, target: DialTarget) -> None:
    assert DialTarget.from_url(urlsplit(url)) == target
    assert target.is_here == (target.name == "localhost")


@pytest.mark.parametrize(
    ("needs", "overhead", "is_limited"),
    [
        (None, 5, False),
        (MemoryNeeds(pools={}), 5, False),
        (MemoryNeeds(pools={}, private_limit=100), None, False),
        (MemoryNeeds(pools={}, private_limit=100), 5, True),
    ],
)
def test_an_engine_may_have_its_estimate_its_own_share_and_a_stack_for_each_core(
    needs: MemoryNeeds | None, overhead: int | None, *, is_limited: bool
) -> None:
    request = msgspec.structs.replace(REQUEST, needs=needs)
    about = None if overhead is None else SimpleNamespace(overhead_bytes=overhead)
    run = cast("EngineRun", SimpleNamespace(_request=request, _limits=about))
    stacks = 16 * 1024**2 * (os.cpu_count() or 1)
    assert EngineRun._memory_limit(run) == (105 + stacks if is_limited else 0)


async def test_a_host_is_called_by_every_address_it_has_unless_one_is_never_called() -> None:
    assert await _resolve_allowed(DialTarget("127.0.0.1", 80, is_tls=False)) == ["127.0.0.1"]
    assert set(await _resolve_allowed(DialTarget("localhost", 80, is_tls=False))) <= {"127.0.0.1", "::1"}
    assert await _resolve_allowed(DialTarget("10.1.2.3", 80, is_tls=False)) == ["10.1.2.3"]
    with pytest.raises(ForbiddenAddress):
        await _resolve_allowed(DialTarget("169.254.169.254", 80, is_tls=False))


def test_a_model_is_worth_keeping_by_its_load_and_half_as_much_after_a_minute() -> None:
    resident = Resident(model="m", last_used=100.0, load_s=8.0)
    assert keep_worth(resident, 100.0) == keep_worth(resident, 90.0) == 8.0
    assert keep_worth(resident, 160.0) == 4.0
    assert keep_worth(resident, 220.0) == pytest.approx(8.0 / 3)
    assert keep_worth(msgspec.structs.replace(resident, load_s=0.2), 100.0) == 1.0, "a second at least"
