"""Whatever happens, in whatever order: the laws of the state machine, looked for by hypothesis.

The test plays the world: callers that come and leave, room that is granted, processes that start, end or do not, and
time. It keeps its own books and compares.
"""

import copy
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from app.core.engines import SETTLED, TRANSITIONS, EngineState
from app.supervisor import messages as m
from app.supervisor.ending import EngineTimer
from app.supervisor.machine import EngineMachine
from app.supervisor.policy import MAX_RESTARTS, RESTART_WINDOW_S, LeaseOptions, LoadRequest, SupervisorPolicy
from engines.api import Failure, FailureKind, LaunchOptions, ModelFormat, ModelSource

S = EngineState
SOURCE = ModelSource(name="m", path=Path("m.gguf"), format=ModelFormat.GGUF)
REQUESTS = [
    LoadRequest(engine="e", source=SOURCE),
    LoadRequest(engine="e", source=SOURCE, options=LaunchOptions(context=99)),
    LoadRequest(engine="other", source=SOURCE),
]
LARGER = LoadRequest(engine="e", source=SOURCE, options=LaunchOptions(context=999))
TERMS = st.sampled_from(
    [
        LeaseOptions(),
        LeaseOptions(keep_s=0.0),
        LeaseOptions(keep_s=math.inf),
        LeaseOptions(keep_s=5.0, takes_slot=False),
        LeaseOptions(context=50),
        LeaseOptions(context=999),
    ]
)
HOW_ASKED = {name: st.booleans() for name in ("explicit", "any_options", "holds")}
KINDS = st.sampled_from(
    [FailureKind.CRASHED, FailureKind.MODEL_CORRUPT, FailureKind.PORT_IN_USE, FailureKind.OUT_OF_MEMORY]
)


class Watched(EngineMachine):
    """Notes every state it enters."""

    def __init__(self, policy: Callable[[], SupervisorPolicy]) -> None:
        super().__init__(policy)
        self.path = [self.state]

    def _move_to(self, to: EngineState) -> None:
        super()._move_to(to)
        self.path.append(to)


def snapshot_of(machine: EngineMachine) -> dict[str, object]:
    """Return all that decides what a machine does next, as it is now."""
    fields = {name: value for name, value in vars(machine).items() if name not in {"path", "wait_estimate", "_effects"}}
    return {**copy.deepcopy(fields), "_policy": None, "slot_queue": list(machine.slot_queue)}


class Laws(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.policy = SupervisorPolicy(drain_s=20.0, idle_s=50.0, queue_limit=6)
        self.machine = Watched(lambda: self.policy)
        self.now = 1000.0
        self.tickets = 0
        self.open_tickets: set[int] = set()
        self.queued_run: int | None = None
        self.has_room = False
        self.alive: set[int] = set()
        self.leases: list[m.LeaseGranted] = []
        self.by_itself: list[float] = []
        """When it was started again after a failure although nobody said so explicitly or changed anything."""
        self.last_ask: tuple[LoadRequest, int] | None = None

    def do(self, effects: list[m.MachineEffect]) -> None:
        for effect in effects:
            match effect:
                case m.AnswerCaller(ticket=ticket, outcome=outcome):
                    assert ticket in self.open_tickets, "answered twice, or never asked"
                    self.open_tickets.remove(ticket)
                    self.leases += [outcome] if isinstance(outcome, m.LeaseGranted) else []
                case m.EnterRoom(run=run):
                    assert not self.has_room
                    self.queued_run = run
                case m.LeaveRoom():
                    self.queued_run, self.has_room = None, False
                case m.LaunchRun(run=run):
                    assert self.has_room, "a process without room"
                    assert not self.alive, "two processes of one model"
                    self.alive.add(run)
                case m.AbandonRun(run=run):
                    self.alive.discard(run)
                case m.KillRun(run=run) | m.AskToEnd(run=run):
                    assert run in self.alive, "a signal to nobody"
        assert self.machine.path[-1] is self.machine.state, "the state changed on a side path"

    def say(self, message: m.Message) -> None:
        self.do(self.machine.step(message, self.now))

    def ticket(self) -> int:
        self.tickets += 1
        self.open_tickets.add(self.tickets)
        return self.tickets

    @rule(request=st.sampled_from(REQUESTS), how=st.fixed_dictionaries(HOW_ASKED), file=st.integers(0, 1))
    def ask(self, request: LoadRequest, how: dict[str, Any], file: int) -> None:
        self.last_ask = (request, file)
        self.by_itself.clear()
        self.say(m.ReadyRequest(ticket=self.ticket(), request=request, fingerprint=(file,), **how))

    @rule(request=st.sampled_from([*REQUESTS, LARGER]), terms=TERMS)
    def ask_on_terms(self, request: LoadRequest, terms: LeaseOptions) -> None:
        """A lease; what was granted keeps its engine, and nobody is cut off for the context of another."""
        held_count = self.machine.in_flight if request.engine == "e" else 0
        self.last_ask = (request, 0)
        self.by_itself.clear()
        ticket, client = self.ticket(), str(self.tickets % 2)
        self.say(
            m.ReadyRequest(ticket=ticket, request=request, holds=True, fingerprint=(0,), terms=terms, client=client)
        )
        if held_count and self.machine.request and self.machine.request.engine == "e":
            assert self.machine.in_flight >= held_count

    @rule(request=st.sampled_from([*REQUESTS, LARGER]), terms=TERMS)
    def ask_at_once(self, request: LoadRequest, terms: LeaseOptions) -> None:
        """A lease that needs no decision comes to what asking for it comes to; one that does changes nothing."""
        before, machine_copy = snapshot_of(self.machine), copy.deepcopy(self.machine)
        if not self.machine.hold_at_once(request, terms):
            assert snapshot_of(self.machine) == before
            return
        effects = machine_copy.step(m.ReadyRequest(ticket=-1, request=request, holds=True, terms=terms), self.now)
        assert effects == [
            m.AnswerCaller(ticket=-1, outcome=m.LeaseGranted(run=machine_copy.run, slot=terms.takes_slot))
        ]
        assert snapshot_of(self.machine) == snapshot_of(machine_copy)
        self.leases.append(m.LeaseGranted(run=self.machine.run, slot=terms.takes_slot))

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def release_at_once(self, data: st.DataObject) -> None:
        lease = self.leases[data.draw(st.integers(0, len(self.leases) - 1))]
        before, machine_copy = snapshot_of(self.machine), copy.deepcopy(self.machine)
        if not self.machine.release_at_once(lease.run, self.now, slot=lease.slot):
            assert snapshot_of(self.machine) == before
            return
        assert machine_copy.step(m.ReleaseLease(run=lease.run, slot=lease.slot), self.now) == []
        assert snapshot_of(self.machine) == snapshot_of(machine_copy)
        self.leases.remove(lease)

    @invariant()
    def what_is_unused_past_its_time_goes(self) -> None:
        machine = self.machine
        if machine.state is S.READY and not machine.in_flight and math.isfinite(machine.idle_s):
            assert machine.timers == {EngineTimer.IDLE: machine.last_used + machine.idle_s}

    @rule()
    def ask_again(self) -> None:
        request, file = self.last_ask or (REQUESTS[0], 0)
        is_new = (request, (file,)) != (self.machine.request, self.machine._fingerprint)
        counts = self.machine.state is S.FAILED and not is_new
        if is_new:
            self.by_itself.clear()
        self.say(m.ReadyRequest(ticket=self.ticket(), request=request, holds=True, fingerprint=(file,)))
        if counts and self.machine.state is S.STARTING:
            self.by_itself.append(self.now)

    @rule(data=st.data())
    @precondition(lambda self: self.open_tickets)
    def leave(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.open_tickets)))
        self.open_tickets.remove(ticket)
        self.say(m.WithdrawTicket(ticket=ticket))

    @rule()
    @precondition(lambda self: self.leases)
    def release(self) -> None:
        ended_lease = self.leases.pop()
        self.say(m.ReleaseLease(run=ended_lease.run, slot=ended_lease.slot))

    @rule(how=st.sampled_from([how for how in m.StopReason if how is not m.StopReason.CLOSE]))
    def stop(self, how: m.StopReason) -> None:
        self.say(m.StopRequest(how=how, ticket=self.ticket()))

    @rule(is_paused=st.booleans())
    def pause_or_go_on(self, *, is_paused: bool) -> None:
        self.policy = msgspec.structs.replace(self.policy, is_paused=is_paused)
        if is_paused:
            self.say(m.StopRequest(how=m.StopReason.PAUSE))

    @invariant()
    def in_a_pause_it_goes_or_is_gone(self) -> None:
        if self.policy.is_paused:
            assert self.machine.state in {S.STOPPED, S.FAILED, S.DRAINING, S.STOPPING}

    @rule()
    @precondition(lambda self: self.queued_run is not None)
    def grant_room(self) -> None:
        run, self.queued_run, self.has_room = self.queued_run or 0, None, True
        self.say(m.RoomGranted(run=run))

    @rule()
    @precondition(lambda self: self.queued_run is not None)
    def refuse_room(self) -> None:
        run, self.queued_run = self.queued_run or 0, None
        self.say(m.RoomRefused(run=run, failure=Failure(kind=FailureKind.OUT_OF_MEMORY, sentence="")))

    @rule()
    @precondition(lambda self: self.alive)
    def start(self) -> None:
        self.say(m.ProcessesStarted(run=max(self.alive), stall_s=10.0, hard_s=100.0, grace_s=5.0))

    @rule()
    @precondition(lambda self: self.alive)
    def become_ready(self) -> None:
        self.say(m.EngineReady(run=max(self.alive), slots=2))

    @rule()
    @precondition(lambda self: self.alive)
    def show_life(self) -> None:
        self.say(m.SignOfLife(run=max(self.alive)))

    @rule(kind=KINDS)
    @precondition(lambda self: self.alive)
    def end(self, kind: FailureKind) -> None:
        self.say(m.RunEnded(run=self.alive.pop(), failure=Failure(kind=kind, sentence="")))

    @rule()
    def come_up(self) -> None:
        """The usual way in one step, so that what comes after it is reached often."""
        self.ask_again()
        if self.queued_run is not None:
            self.grant_room()
        if self.alive:
            self.start()
            self.become_ready()

    @rule(times=st.integers(1, 6), kind=KINDS)
    def crash_again_and_again(self, times: int, kind: FailureKind) -> None:
        for _ in range(times):
            self.come_up()
            if self.alive:
                self.end(kind)
            self.pass_time(5.0)
            self.restarts_are_few()

    @rule(run=st.integers(0, 30))
    def hear_old_news(self, run: int) -> None:
        if run in self.alive or run == self.queued_run:
            return
        for message in (m.EngineReady(run=run, slots=1), m.RoomGranted(run=run), m.SignOfLife(run=run)):
            self.say(message)
        self.say(m.RunEnded(run=run, failure=Failure(kind=FailureKind.CRASHED, sentence="")))

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 20.0, 200.0, 700.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        was_backing_off = self.machine.state is S.BACKING_OFF
        self.do(self.machine.tick(self.now))
        if was_backing_off and self.machine.state is S.STARTING:
            self.by_itself.append(self.now)

    @invariant()
    def only_jumps_of_the_table(self) -> None:
        path = self.machine.path
        assert all(to in TRANSITIONS[at] for at, to in itertools.pairwise(path))

    @invariant()
    def everybody_unanswered_is_remembered(self) -> None:
        machine = self.machine
        later = {ask.ticket for ask in machine.later}
        in_line = {ask.ticket for ask in machine.slot_queue}
        assert self.open_tickets == {*machine.waiters, *later, *in_line, *machine.stoppers}

    @invariant()
    def nobody_waits_in_a_settled_state(self) -> None:
        if self.machine.state in SETTLED:
            assert self.open_tickets == {ask.ticket for ask in self.machine.slot_queue}

    @invariant()
    def nobody_stands_in_line_while_a_slot_is_free(self) -> None:
        machine = self.machine
        if machine.slot_queue.count:
            assert machine.state is S.READY
            assert machine.in_slots == machine.slots

    @invariant()
    def leases_are_counted(self) -> None:
        if self.machine.state in {S.READY, S.DRAINING}:
            held_leases = [lease for lease in self.leases if lease.run == self.machine.run]
            assert self.machine.in_flight == len(held_leases)
            assert self.machine.in_slots == sum(lease.slot for lease in held_leases)

    @invariant()
    def nothing_runs_in_a_state_without_processes(self) -> None:
        if self.machine.state in {S.STOPPED, S.FAILED, S.BACKING_OFF}:
            assert not self.alive
            assert not self.has_room

    @invariant()
    def something_always_comes(self) -> None:
        if self.machine.state in {S.LOADING, S.STOPPING, S.BACKING_OFF}:
            assert self.machine.timers, "it could stay like this for ever"

    @invariant()
    def restarts_are_few(self) -> None:
        latest = [at for at in self.by_itself if self.now - at < RESTART_WINDOW_S]
        assert len(latest) <= MAX_RESTARTS

    def teardown(self) -> None:
        """Close it, and let the world do no more than answer."""
        self.say(m.StopRequest(how=m.StopReason.CLOSE, ticket=self.ticket()))
        self.pass_time(1000.0)
        self.pass_time(1000.0)
        assert not self.open_tickets
        assert not self.alive
        assert self.machine.state in {S.STOPPED, S.FAILED}


TestLaws = Laws.TestCase
TestLaws.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
