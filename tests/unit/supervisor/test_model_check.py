"""Ten thousand random operations on the whole scheduler, everything pure: six models, one clock, memory that runs out.

The world plays what the supervisor's tasks do: it hands the machines' effects on, starts processes that take memory,
ends them, gives the memory back a moment late, and lets other programs take some. It keeps its own books. The seed is
printed when a law is broken: `world(seed)` plays the same again.
"""

import random
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from app.core.engines import EngineState
from app.supervisor import messages as m
from app.supervisor.machine import EngineMachine
from app.supervisor.memory_arbiter import MemoryLedger, decision_message
from app.supervisor.memory_limits import MemoryReading, limits_of
from app.supervisor.policy import LeaseOptions, LoadRequest, MemoryNeeds, ModelPolicy, SupervisorPolicy
from app.supervisor.scheduling import EvictEngine, GrantRoom, MemoryLimits, PendingLoad, Resident
from engines.api import Failure, FailureKind, ModelFormat, ModelSource

S = EngineState
OPERATIONS = 2_500
SEEDS = (20_261, 42, 7, 1_905)
"""Together ten thousand operations."""
GB = 1 << 30
TOTAL = {"system": 100 * GB, "gpu": 60 * GB}
OTHERS_MOST = {"system": 15 * GB, "gpu": 10 * GB}
SIZES = {
    "small": {"system": 5 * GB},
    "middling": {"system": 40 * GB},
    "large": {"system": 70 * GB},
    "graphics": {"gpu": 35 * GB},
    "both": {"system": 20 * GB, "gpu": 25 * GB},
    "unknown": None,
    "monster": {"gpu": 500 * GB},
}
MEANT = {"unknown": {"system": 30 * GB}}
"""What a model of unknown size really takes."""
CLIENTS = ("ann", "bob", "cay")
SLOTS = 2
LONGEST_WAIT_S = 600.0
"""Under constant load everybody is served or answered within this; see `nobody_starves`."""


class Work(msgspec.Struct):
    """What a process does: it is ready at a time, ends at one if it was asked to, and holds memory."""

    run: int
    ready_at: float
    ends_at: float | None = None


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 -- a game, and one that can be played again
        self.now = 1000.0
        self.policy = SupervisorPolicy(
            drain_s=20.0,
            idle_s=200.0,
            patience_s=30.0,
            head_room=5 * GB,
            queue_limit=12,
            models={"small": ModelPolicy(is_pinned=True), "graphics": ModelPolicy(idle_s=40.0)},
        )
        self.machines = {name: EngineMachine(lambda: self.policy, name) for name in SIZES}
        self.places = MemoryLedger(lambda: self.policy, self.seat)
        self.work: dict[str, Work] = {}
        self.ghosts: list[tuple[float, dict[str, int]]] = []
        self.others = {"system": 0, "gpu": 0}
        self.tickets = 0
        self.open_requests: dict[int, tuple[str, str, float]] = {}
        self.leases: list[tuple[str, m.LeaseGranted]] = []
        self.event_counts: Counter[str] = Counter()

    # What the supervisor's tasks do

    def seat(self, name: str) -> Resident:
        machine = self.machines[name]
        is_measured = machine.state not in {S.STARTING, S.LOADING}
        return Resident(
            model=name,
            last_used=machine.last_used,
            is_idle=machine.state is S.READY and not machine.in_flight,
            is_busy=machine.state is S.READY and machine.in_flight > 0,
            is_leaving=machine.state in {S.DRAINING, S.STOPPING},
            is_pinned=machine.is_pinned,
            load_s=machine.wait_estimate.load_s or 0.0,
            holds=sizes_of(name) if is_measured else SIZES[name],
            pid=list(SIZES).index(name),
        )

    def say(self, name: str, message: m.Message | None) -> None:
        machine, state = self.machines[name], self.machines[name].state
        was_in_flight = machine.in_flight
        effects = machine.tick(self.now) if message is None else machine.step(message, self.now)
        if state is S.READY and machine.state is S.STOPPING and was_in_flight:
            assert self.is_by_hand, "a busy engine was cut"
        for effect in effects:
            self.perform(name, effect)
        if not self.is_telling:
            self.decide()

    is_by_hand = False
    is_telling = False

    def perform(self, name: str, effect: m.MachineEffect) -> None:
        match effect:
            case m.AnswerCaller(ticket=ticket, outcome=outcome):
                model, _, _ = self.open_requests.pop(ticket)
                assert model == name
                self.event_counts[type(outcome).__name__] += 1
                if isinstance(outcome, m.LeaseGranted):
                    self.leases.append((name, outcome))
            case m.EnterRoom(run=run):
                self.places.join_queue(PendingLoad(model=name, since=self.now, needs=SIZES[name]), run)
            case m.LeaveRoom():
                self.places.leave_queue(name, self.now)
            case m.LaunchRun(run=run):
                self.work[name] = Work(run=run, ready_at=self.now + self.random.uniform(0.5, 20.0))
                self.in_budget()
            case m.AskToEnd() | m.KillRun():
                work = self.work[name]
                work.ends_at = work.ends_at or self.now + self.random.uniform(0.0, 3.0)
            case m.AbandonRun():
                raise AssertionError("a process that ends when asked to was given up")

    def decide(self) -> None:
        while self.places.needs_deciding and self.decide_once():
            pass

    def decide_once(self) -> bool:
        """Decide once, and tell everybody concerned before anything else is decided. Return whether it came to that."""
        self.is_telling = True
        idle_before = {name for name in SIZES if self.seat(name).is_idle}
        decisions = self.places.decide_effects(self.limits(), self.now)
        for effect, run in decisions:
            self.event_counts[type(effect).__name__] += 1
            if isinstance(effect, EvictEngine):
                assert effect.model != "small", "a pinned model was told to go"
                assert effect.drain or effect.model in idle_before
            if isinstance(effect, GrantRoom):
                self.fits_now(effect.model)
            self.say(effect.model, decision_message(effect, run))
        self.is_telling = False
        return any(isinstance(effect, GrantRoom) for effect, _ in decisions)

    def limits(self) -> MemoryLimits:
        seats = self.places.residents
        private = {seat.pid: self.held_by(seat.model).get("system", 0) for seat in seats if seat.pid is not None}
        free = {pool: total - self.others[pool] - self.used_of(pool) for pool, total in TOTAL.items()}
        return limits_of(MemoryReading(free=free, private=private), seats, self.policy.head_room)

    # The books

    def held_by(self, name: str) -> dict[str, int]:
        """What a process has taken so far: half of it while it loads."""
        work = self.work.get(name)
        if work is None:
            return {}
        is_up = self.machines[name].state not in {S.STARTING, S.LOADING}
        return {pool: size if is_up else size // 2 for pool, size in sizes_of(name).items()}

    def used_of(self, pool: str) -> int:
        ghosts = sum(held_bytes.get(pool, 0) for _, held_bytes in self.ghosts)
        return ghosts + sum(self.held_by(name).get(pool, 0) for name in self.work)

    def fits_now(self, name: str) -> None:
        """Never over budget: what all that run may come to take, and this one, is there, now."""
        for pool, total in TOTAL.items():
            will_take = sum(sizes_of(other).get(pool, 0) for other in self.work) + sizes_of(name).get(pool, 0)
            ghosts = sum(held_bytes.get(pool, 0) for _, held_bytes in self.ghosts)
            if sizes_of(name).get(pool):
                assert will_take + ghosts + self.others[pool] <= total, f"{name} over budget in {pool}"

    def in_budget(self) -> None:
        assert len(self.work) == len({name for name in self.work if self.machines[name].state is not S.STOPPED})

    # What happens

    def ask(self) -> None:
        name = self.random.choice(list(SIZES))
        self.tickets += 1
        self.open_requests[self.tickets] = (name, client := self.random.choice(CLIENTS), self.now)
        source = ModelSource(name=name, path=Path(name), format=ModelFormat.GGUF)
        size = SIZES[name]
        request = LoadRequest(engine="e", source=source, needs=None if size is None else MemoryNeeds(pools=size))
        terms = LeaseOptions(takes_slot=self.random.random() < 0.9)
        self.say(name, m.ReadyRequest(ticket=self.tickets, request=request, holds=True, terms=terms, client=client))

    def leave(self) -> None:
        if self.open_requests:
            ticket = self.random.choice(list(self.open_requests))
            name, _, _ = self.open_requests.pop(ticket)
            self.say(name, m.WithdrawTicket(ticket=ticket))

    def release(self) -> None:
        if self.leases:
            name, lease = self.leases.pop(self.random.randrange(len(self.leases)))
            self.say(name, m.ReleaseLease(run=lease.run, slot=lease.slot))

    def unload(self) -> None:
        name, how = (
            self.random.choice(list(SIZES)),
            self.random.choice([m.StopReason.DRAIN, m.StopReason.EXPIRE, m.StopReason.LET_GO, m.StopReason.NOW]),
        )
        self.is_by_hand = True
        self.say(name, m.StopRequest(how=how))
        self.is_by_hand = False

    def crash(self) -> None:
        alive = [name for name, work in self.work.items() if work.ends_at is None]
        if alive:
            self.end(self.random.choice(alive), FailureKind.CRASHED)

    def other_program(self) -> None:
        self.others = {pool: self.random.randint(0, most) for pool, most in OTHERS_MOST.items()}
        for pool, total in TOTAL.items():  # it cannot have what engines hold
            ours = sum(sizes_of(name).get(pool, 0) for name in self.work)
            self.others[pool] = max(0, min(self.others[pool], total - ours - self.used_of(pool)))

    def end(self, name: str, kind: FailureKind) -> None:
        held_bytes = self.held_by(name)
        work = self.work.pop(name)
        self.ghosts.append((self.now + self.random.uniform(0.0, 1.0), held_bytes))
        self.leases = [(model, lease) for model, lease in self.leases if model != name]
        self.say(name, m.RunEnded(run=work.run, failure=Failure(kind=kind, sentence="")))

    def pass_time(self, seconds: float) -> None:
        """Let time pass, a small step after another, and everything fall due that does."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 0.5)
            self.ghosts = [(at, held_bytes) for at, held_bytes in self.ghosts if at > self.now]
            for name, work in list(self.work.items()):
                if work.ends_at is not None and work.ends_at <= self.now:
                    self.end(name, FailureKind.KILLED)
                elif work.ready_at <= self.now and self.machines[name].state in {S.STARTING, S.LOADING}:
                    self.say(name, m.ProcessesStarted(run=work.run, stall_s=900.0, hard_s=900.0, grace_s=900.0))
                    self.say(name, m.EngineReady(run=work.run, slots=SLOTS))
            for name, machine in self.machines.items():
                if machine.deadline is not None and machine.deadline <= self.now:
                    self.is_by_hand = machine.state is S.DRAINING
                    self.say(name, None)
                    self.is_by_hand = False
            self.decide()
            self.nobody_starves()

    def nobody_starves(self) -> None:
        for name, client, since in self.open_requests.values():
            assert self.now - since < LONGEST_WAIT_S, f"{client} waits for {name} since {since}, now {self.now}"

    def operate(self) -> None:
        random_one = self.random.choices(
            [self.ask, self.release, self.leave, self.unload, self.crash, self.other_program],
            weights=[50, 40, 3, 2, 1, 2],
        )[0]
        random_one()
        self.event_counts[random_one.__name__] += 1
        if self.random.random() < 0.4:
            self.pass_time(self.random.choice([0.5, 1.0, 4.0]))
        # An answer takes a while, not for ever.
        while len(self.leases) > 12:
            self.release()

    def finish(self) -> None:
        """Let everybody be answered: no more is asked, and answers come to their end."""
        for _ in range(400):
            while self.leases:
                self.release()
            if not self.open_requests:
                return
            self.pass_time(4.0)
        raise AssertionError(f"never answered: {sorted(self.open_requests.values())}")


def sizes_of(name: str) -> dict[str, int]:
    return dict(SIZES[name] or MEANT[name])


def world(seed: int) -> World:
    played_world = World(seed)
    for _ in range(OPERATIONS):
        played_world.operate()
    played_world.finish()
    return played_world


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_ten_thousand_random_operations_break_no_law(seed: int) -> None:
    try:
        played_world = world(seed)
    except AssertionError as failure:
        pytest.fail(f"world({seed}): {failure}")
    done_count = sum(
        played_world.event_counts[what] for what in ("ask", "release", "leave", "unload", "crash", "other_program")
    )
    assert done_count >= OPERATIONS
    for kind in ("LeaseGranted", "LoadRefused", "LoadTurnedAway", "GrantRoom", "EvictEngine", "RefuseLoad"):
        assert played_world.event_counts[kind], (
            f"{kind} never happened, so nothing was shown about it: {played_world.event_counts}"
        )


def test_there_are_ten_thousand_of_them() -> None:
    assert OPERATIONS * len(SEEDS) >= 10_000
