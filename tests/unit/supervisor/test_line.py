"""Requests that find every slot taken: whose turn it is, how many may wait, and when to come back."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.engines import EngineState
from app.core.errors import Overloaded, Unavailable
from app.supervisor import messages as m
from app.supervisor.lease import CLIENT
from app.supervisor.policy import LeaseOptions, LoadRequest, SupervisorPolicy
from app.supervisor.pool import Supervisor
from app.supervisor.slot_queue import LONGEST_S, SHORTEST_S, SlotQueue, WaitEstimate, order_by_turns
from engines.api import Failure, FailureKind, ModelFormat, ModelSource
from tests.unit.supervisor.conftest import Ask, Recorder
from tests.unit.supervisor.test_machine import Driver

S = EngineState
REQUEST = LoadRequest(engine="e", source=ModelSource(name="m", path=Path("m.gguf"), format=ModelFormat.GGUF))


def ask(ticket: int, client: str = "") -> m.ReadyRequest:
    return m.ReadyRequest(ticket=ticket, request=REQUEST, holds=True, client=client)


def order(*clients: str) -> list[int]:
    return [turn.ticket for turn in order_by_turns(ask(ticket, client) for ticket, client in enumerate(clients))]


def test_one_that_sends_many_requests_does_not_keep_the_others_waiting() -> None:
    assert order("a", "a", "a", "b", "a", "c") == [0, 3, 5, 1, 2, 4]


def test_a_client_s_own_requests_stay_in_their_order() -> None:
    assert order("a", "a", "a") == [0, 1, 2]


def test_who_leaves_is_not_served() -> None:
    line = SlotQueue()
    for ticket, client in enumerate("aab"):
        line.append_ask(ask(ticket, client))
    line.remove_ticket(2)
    line.remove_ticket(0)
    line.remove_ticket(99)
    assert [waiting_request.ticket for waiting_request in line] == [1]
    assert [waiting_request.ticket for waiting_request in line.drain_all()] == [1]
    assert line.count == 0


@given(st.lists(st.sampled_from("abcd"), max_size=40))
def test_nobody_is_served_twice_before_another_who_waits_is_served_once(clients: list[str]) -> None:
    served_clients = [clients[ticket] for ticket in order(*clients)]
    assert sorted(served_clients) == sorted(clients)
    for client in set(clients):
        turns = [at for at, name in enumerate(served_clients) if name == client]
        for at, after in pairwise(turns):
            between = served_clients[at + 1 : after]
            waiting_clients = {name for name in served_clients[after:] if name != client}
            assert waiting_clients <= set(between), "passed over"


def test_when_to_come_back_is_what_was_measured_times_how_many_wait() -> None:
    pace = WaitEstimate()
    for at in (10.0, 12.0, 14.0, 16.0):
        pace.note_served(at)
    assert pace.retry_s(5) == pytest.approx(10.0)
    pace.note_idle()
    pace.note_served(1000.0)
    assert pace.retry_s(5) == pytest.approx(10.0), "a time in which nobody waited is no gap"
    assert pace.retry_s(500) == LONGEST_S
    assert LONGEST_S <= 60, "clients of OpenAI and Anthropic heed no longer time"
    assert pace.retry_s(0) == SHORTEST_S


def test_while_it_loads_what_is_left_of_the_loading_comes_first() -> None:
    pace = WaitEstimate()
    pace.note_served(0.0)
    pace.note_served(1.0)
    pace.load_s = 20.0
    assert pace.retry_s(3, loading_s=5.0) == pytest.approx(18.0)
    assert pace.retry_s(3, loading_s=50.0) == pytest.approx(3.0)


class Counter(Driver):
    """A driver whose engine has one slot."""

    def lease(self, client: str = "", *, takes_slot: bool = True) -> int:
        self.tickets += 1
        terms = LeaseOptions(takes_slot=takes_slot)
        self.say(
            m.ReadyRequest(
                ticket=self.tickets, request=REQUEST, holds=True, fingerprint=(0,), terms=terms, client=client
            )
        )
        return self.tickets

    def say(self, message: m.Message) -> list[m.MachineEffect]:
        effects = super().say(message)
        self.answers = [effect for effect in effects if isinstance(effect, m.AnswerCaller)]
        return effects

    def up(self) -> "Counter":
        self.lease("a")
        self.start()
        self.say(m.EngineReady(run=self.machine.run, slots=1))
        return self

    def free(self) -> list[int]:
        self.say(m.ReleaseLease(run=self.machine.run))
        return [answer.ticket for answer in self.answers if isinstance(answer.outcome, m.LeaseGranted)]


def test_a_slot_goes_to_whoever_s_turn_it_is() -> None:
    driver = Counter().up()
    first, second, other = driver.lease("a"), driver.lease("a"), driver.lease("b")
    assert driver.machine.queue_length == 3
    assert [driver.free() for _ in range(4)] == [[first], [other], [second], []]


def test_what_needs_no_slot_does_not_stand_in_line() -> None:
    driver = Counter().up()
    driver.lease("a")
    driver.lease("a", takes_slot=False)
    assert [type(answer.outcome) for answer in driver.answers] == [m.LeaseGranted]
    driver.say(m.ReleaseLease(run=driver.machine.run, slot=False))
    assert driver.answers == [], "no slot became free"


def test_those_in_line_are_served_by_the_next_run_when_this_one_makes_room() -> None:
    driver = Counter().up()
    waiting_lease = driver.lease("b")
    driver.say(m.StopRequest(how=m.StopReason.YIELD))
    assert driver.answers == []
    driver.free()
    driver.end()
    driver.start()
    driver.say(m.EngineReady(run=driver.machine.run, slots=1))
    assert [answer.ticket for answer in driver.answers] == [waiting_lease]


def test_those_in_line_are_sent_away_when_a_person_unloads_it() -> None:
    driver = Counter().up()
    driver.lease("b")
    driver.say(m.StopRequest(how=m.StopReason.DRAIN))
    assert [answer.outcome for answer in driver.answers] == [m.LoadTurnedAway(reason=m.TurnAwayReason.UNLOADED)]


def test_those_in_line_are_served_after_a_crash() -> None:
    driver = Counter().up()
    waiting_lease = driver.lease("b")
    driver.say(m.RunEnded(run=driver.machine.run, failure=Failure(kind=FailureKind.CRASHED, sentence="")))
    assert driver.answers == []
    assert waiting_lease in driver.machine.waiters


def test_who_finds_the_line_full_is_sent_away_and_told_when_to_come_back() -> None:
    driver = Counter()
    driver.policy = SupervisorPolicy(queue_limit=2)
    driver.up()
    for _ in range(2):
        driver.lease("a")
    driver.lease("b")
    assert [answer.outcome for answer in driver.answers] == [
        m.LoadTurnedAway(reason=m.TurnAwayReason.FULL, retry_s=5.0)
    ]


def test_a_refused_load_answers_everybody_and_leaves_nothing_behind() -> None:
    driver = Counter()
    driver.lease("a")
    failure = Failure(kind=FailureKind.OUT_OF_MEMORY, sentence="It does not fit.")
    driver.say(m.RoomRefused(run=driver.machine.run, failure=failure))
    assert [answer.outcome for answer in driver.answers] == [m.LoadRefused(failure=failure)]
    assert (driver.state(), driver.machine.failure) == (S.STOPPED, None)


async def test_real_requests_take_turns(supervisor: Supervisor, ask: Ask, recorder: Recorder) -> None:
    served_names: list[str] = []

    async def use(client: str) -> None:
        CLIENT.set(client)
        async with supervisor.lease(ask(slots=1)):
            served_names.append(client)
            await asyncio.sleep(0)

    async with supervisor.lease(ask(slots=1)):
        tasks = [asyncio.create_task(use(client)) for client in ("a", "a", "a", "b")]
        await recorder.until(lambda: supervisor.list_statuses()[0].queued == 4)
    await asyncio.gather(*tasks)
    assert served_names == ["a", "b", "a", "a"]


async def test_what_takes_no_slot_waits_for_nobody_while_the_line_is_full(
    supervisor: Supervisor, ask: Ask, recorder: Recorder
) -> None:
    supervisor.policy = SupervisorPolicy(queue_limit=1)

    async def use() -> None:
        async with supervisor.lease(ask(slots=1)):
            pass

    async with supervisor.lease(ask(slots=1)):
        waiter = asyncio.create_task(use())
        await recorder.until(lambda: supervisor.list_statuses()[0].queued == 1)
        async with supervisor.lease(ask(slots=1), LeaseOptions(takes_slot=False)):
            assert not waiter.done()
    await waiter


async def test_who_leaves_the_line_frees_its_place(supervisor: Supervisor, ask: Ask, recorder: Recorder) -> None:
    supervisor.policy = SupervisorPolicy(queue_limit=1)

    async def use() -> None:
        async with supervisor.lease(ask(slots=1)):
            pass

    async with supervisor.lease(ask(slots=1)):
        waiter = asyncio.create_task(use())
        await recorder.until(lambda: supervisor.list_statuses()[0].queued == 1)
        with pytest.raises(Overloaded) as full:
            await use()
        assert full.value.retry_s >= SHORTEST_S
        waiter.cancel()
        await recorder.until(lambda: supervisor.list_statuses()[0].queued == 0)
        again = asyncio.create_task(use())
        await recorder.until(lambda: supervisor.list_statuses()[0].queued == 1)
    await again


async def test_a_forced_unload_answers_those_in_line(supervisor: Supervisor, ask: Ask, recorder: Recorder) -> None:
    async def use() -> None:
        async with supervisor.lease(ask(slots=1)):
            pass

    async with supervisor.lease(ask(slots=1)):
        waiter = asyncio.create_task(use())
        await recorder.until(lambda: supervisor.list_statuses()[0].queued == 1)
        await supervisor.unload_model("m", force=True)
        with pytest.raises(Unavailable):
            await waiter


async def test_an_engine_is_free_while_a_slot_is(supervisor: Supervisor, ask: Ask) -> None:
    assert supervisor.free_endpoint("m") is None, "nobody has loaded it"
    async with supervisor.lease(ask(slots=1)) as lease:
        assert supervisor.free_endpoint("m") is None
    endpoint = supervisor.free_endpoint("m")
    assert endpoint is not None
    assert endpoint.base_url == lease.base_url
