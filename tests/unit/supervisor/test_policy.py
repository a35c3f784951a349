"""The supervisor's decisions, as the pure functions they are."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.supervisor.policy import (
    MAX_RESTARTS,
    RESTART_WINDOW_S,
    Evict,
    Grant,
    Policy,
    Seat,
    Waiting,
    back_off,
    evict,
    next_overdue,
    schedule,
)


def idle(model: str, last_used: float) -> Seat:
    return Seat(model=model, last_used=last_used, is_idle=True)


def busy(model: str, last_used: float = 0.0) -> Seat:
    return Seat(model=model, last_used=last_used, is_busy=True)


def leaving(model: str) -> Seat:
    return Seat(model=model, last_used=0.0, is_leaving=True)


def loading(model: str) -> Seat:
    return Seat(model=model, last_used=0.0)


def queue(*models: str, since: float = 0.0) -> list[Waiting]:
    return [Waiting(model=model, since=since) for model in models]


def decide(waiting: Sequence[Waiting], running: Sequence[Seat], limit: int, now: float = 1.0) -> list[Grant | Evict]:
    return schedule(waiting, running, now=now, policy=Policy(max_loaded=limit, patience_s=30.0))


def test_the_least_recently_used_idle_engine_makes_room() -> None:
    assert evict(1, [idle("new", 9.0), idle("old", 1.0), busy("b")], 3) == ["old"]


def test_a_busy_engine_is_never_evicted() -> None:
    assert evict(2, [busy("a"), busy("b")], 2) == []


def test_nobody_is_evicted_while_there_is_room() -> None:
    assert evict(1, [idle("a", 1.0)], 2) == []


def test_an_engine_that_is_leaving_counts_as_room_to_come() -> None:
    assert evict(1, [leaving("a"), idle("b", 1.0)], 2) == []


def test_a_lowered_limit_evicts_without_anybody_waiting() -> None:
    assert decide([], [idle("a", 1.0), idle("b", 2.0), busy("c")], 1) == [Evict(model="a"), Evict(model="b")]


SEATS = st.lists(st.tuples(st.sampled_from(["idle", "busy", "leaving", "loading"]), st.floats(0, 100)), max_size=6).map(
    lambda kinds: [
        Seat(
            model=f"m{at}",
            last_used=used,
            is_idle=kind == "idle",
            is_busy=kind == "busy",
            is_leaving=kind == "leaving",
        )
        for at, (kind, used) in enumerate(kinds)
    ]
)


@given(needed=st.integers(0, 5), running=SEATS, limit=st.integers(1, 6))
def test_eviction_takes_only_idle_engines_only_as_many_as_needed_and_the_oldest(
    needed: int, running: list[Seat], limit: int
) -> None:
    victims = evict(needed, running, limit)
    by_name = {seat.model: seat for seat in running}
    assert all(by_name[victim].is_idle for victim in victims)
    staying = [seat for seat in running if not seat.is_leaving]
    assert len(victims) <= max(0, len(staying) + needed - limit)
    spared = [seat.last_used for seat in running if seat.is_idle and seat.model not in victims]
    assert not spared or all(by_name[victim].last_used <= min(spared) for victim in victims)


@given(waiting=st.integers(0, 5), running=SEATS, limit=st.integers(1, 6), now=st.floats(0, 100))
def test_never_more_are_let_in_than_there_is_room(waiting: int, running: list[Seat], limit: int, now: float) -> None:
    effects = decide(queue(*(f"w{at}" for at in range(waiting))), running, limit, now)
    granted = [effect.model for effect in effects if isinstance(effect, Grant)]
    assert granted == [f"w{at}" for at in range(len(granted))], "in the order of asking"
    assert not granted or len(granted) + len(running) <= limit
    evicted = [effect.model for effect in effects if isinstance(effect, Evict)]
    assert len(evicted) == len(set(evicted))


def test_the_first_to_ask_is_the_first_to_be_let_in() -> None:
    assert decide(queue("a", "b"), [busy("x")], 2) == [Grant(model="a")]


def test_an_engine_that_is_loading_is_left_alone() -> None:
    assert decide(queue("a"), [loading("x")], 1, now=100.0) == []


def test_a_load_that_waited_long_enough_makes_the_least_used_busy_engine_finish() -> None:
    running = [busy("often", 9.0), busy("seldom", 2.0)]
    assert decide(queue("a"), running, 2, now=29.0) == []
    assert decide(queue("a"), running, 2, now=30.0) == [Evict(model="seldom", drain=True)]


def test_one_that_is_leaving_already_is_enough_for_one_that_waits() -> None:
    assert decide(queue("a"), [leaving("x"), busy("y")], 2, now=99.0) == []


def test_the_scheduler_says_when_to_ask_again() -> None:
    assert next_overdue(queue("a", since=5.0) + queue("b", since=3.0), Policy(patience_s=30.0)) == 33.0
    assert next_overdue([], Policy()) is None


@pytest.mark.parametrize(("restarts", "expected"), [([], 1.0), ([100.0], 2.0), ([100.0, 110.0], 4.0)])
def test_back_off_doubles(restarts: list[float], expected: float) -> None:
    assert back_off(restarts, 120.0) == expected


def test_too_many_restarts_are_enough() -> None:
    assert back_off([100.0] * MAX_RESTARTS, 120.0) is None


def test_old_restarts_are_forgotten() -> None:
    assert back_off([100.0] * MAX_RESTARTS, 100.0 + RESTART_WINDOW_S) == 1.0
