"""The one task that owns one model's engine. Others send it messages and await the answer.

It takes one message at a time, asks the state machine what to do, does it, and says what changed. Nobody else changes
anything, so nobody can act on what was true a moment ago.

Taking a message never waits, so whoever asks has it taken at once, after those that came before: a lease of a ready
engine costs no turn of the event loop, and where it is one of many not even a message. The task takes what nobody waits
for.

Say that something changed: at once when it matters, and otherwise at most ten times a second, the last time too.
"""

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, assert_never

from app.core.engines import EngineState, EngineStatus, FailureReport
from app.core.errors import Bug
from app.core.events import EngineChanged, Event
from app.supervisor import messages as m
from app.supervisor.alarm import SLEEP_S, Alarm
from app.supervisor.facts import RunFacts
from app.supervisor.faults import UNRESPONSIVE, as_error, engine_stop_error, turn_away_error
from app.supervisor.lease import CLIENT, Lease, ReadyEndpoint
from app.supervisor.logs import EngineLog
from app.supervisor.machine import EngineMachine
from app.supervisor.memory_limits import correct_holdings
from app.supervisor.policy import LeaseOptions, LoadRequest, SupervisorPolicy
from app.supervisor.run import EngineRun, RunDeps
from app.supervisor.scheduling import Resident
from app.supervisor.states import StateFacts
from app.supervisor.status import report_of, status_of
from engines.api import Failure

log = logging.getLogger(__name__)

_S = EngineState
_HOLDERS_S = 0.1
"""Between two looks whether everybody has given back who held an engine."""
_MISTAKE = "The owner of %s ended by a mistake of ours"


class MemoryQueue(Protocol):
    """Where an owner queues before it starts an engine."""

    def join_queue(self, model: str, run: int, needs: Mapping[str, int] | None) -> None:
        """Queue; `RoomGranted` or `RoomRefused` answers. `needs` in bytes by pool, None if nobody knows."""

    def leave_queue(self, model: str) -> None:
        """Give the place back, or leave the queue."""

    def reconsider_queue(self) -> None:
        """Somebody became idle, or busy."""

    def is_queued(self, model: str) -> bool:
        """Tell whether a model waits for another to make room."""


class RunHandle(NamedTuple):
    """What a caller hears that asked to hold a run. Others hear how things stood when they were answered."""

    run: EngineRun
    slot: bool


class EngineOwner:
    """One model's engine. Make it in the event loop."""

    def __init__(
        self,
        model: str,
        deps: RunDeps,
        room: MemoryQueue,
        *,
        policy: Callable[[], SupervisorPolicy],
        publish: Callable[[Event], None],
    ) -> None:
        self.model = model
        self.log = EngineLog(model, deps.folders.logs, publish)
        self.machine = EngineMachine(policy, model)
        self._deps = deps
        self._room = room
        self._run: EngineRun | None = None
        self._facts = RunFacts()
        self._inbox: deque[m.Message | None] = deque()
        self._has_message = asyncio.Event()
        self._tickets = itertools.count(1)
        self._serials = itertools.count(1)
        self._lease_serials: dict[int, int] = {}
        """The leases that are out, by their id, in the order in which they were given."""
        self._waiters: dict[int, asyncio.Future[RunHandle | EngineStatus]] = {}
        self._alarm = Alarm(lambda: self.send_message(None))
        self._announcer = Announcer(lambda: publish(EngineChanged(status=self.engine_status())))
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run_inbox(), name=f"engine owner {model}")

    def send_message(self, message: m.Message | None) -> None:
        """Tell the owner, or have it look what is due; it acts when it gets to it."""
        self._inbox.append(message)
        self._has_message.set()

    def lease_at_once(self, request: LoadRequest, terms: LeaseOptions) -> Lease | None:
        """Hold it if it is ready and has room, None if that takes waiting or a decision."""
        run, was_idle = self._run, not self.machine.in_flight
        if run is None or self._inbox or not self.machine.hold_at_once(request, terms):
            return None
        self._note_holder(is_turn=was_idle)
        return self._build_lease(run, request, slot=terms.takes_slot, load_s=0.0)

    async def acquire_lease(self, request: LoadRequest, terms: LeaseOptions) -> Lease:
        """Wait until it is ready and hold it. Raises EngineFailed or Unavailable."""
        asked_s = time.monotonic()
        # A ready one is taken as it runs: nobody would compare.
        fingerprint = (
            () if self.machine.state is _S.READY else await asyncio.to_thread(_file_fingerprint, request.source.path)
        )
        client = CLIENT.get()
        held_run = await self._send_and_wait(
            lambda ticket: m.ReadyRequest(
                ticket=ticket, request=request, holds=True, fingerprint=fingerprint, terms=terms, client=client
            )
        )
        if not isinstance(held_run, RunHandle):
            raise _owner_bug(self.model)
        ready_s = held_run.run.facts.ready_at_s
        was_ready = ready_s is not None and ready_s <= asked_s
        load_s = 0.0 if was_ready else time.monotonic() - asked_s
        return self._build_lease(held_run.run, request, slot=held_run.slot, load_s=load_s)

    def release_lease(self, lease: Lease) -> None:
        """Give a lease back."""
        self._lease_serials.pop(id(lease), None)
        if not self._inbox and self.machine.release_at_once(lease.run, time.monotonic(), slot=lease.slot):
            self._note_holder(is_turn=not self.machine.in_flight)
        else:
            self._handle_at_once(m.ReleaseLease(run=lease.run, slot=lease.slot))

    def _build_lease(self, run: EngineRun, request: LoadRequest, *, slot: bool, load_s: float) -> Lease:
        facts = run.facts
        lease = Lease(
            base_url=facts.base_url,
            key=facts.key,
            served_name=facts.served_name,
            engine=request.engine,
            context=facts.context,
            see=self.engine_status,
            load_s=load_s,
            end=run.end,
            model=self.model,
            run=run.number,
            slot=slot,
            states=facts.states,
        )
        self._lease_serials[id(lease)] = next(self._serials)
        return lease

    async def wait_for_holders(self) -> None:
        """Wait until everybody has given back who holds it now; who comes later is not waited for."""
        last = next(self._serials)
        while any(serial < last for serial in self._lease_serials.values()):  # noqa: ASYNC110 -- every request would set an Event
            await asyncio.sleep(_HOLDERS_S)

    def _note_holder(self, *, is_turn: bool) -> None:
        """Have what follows from a lease taken or given back happen; `is_turn`: the engine became busy, or idle."""
        if is_turn:
            self._note_change(at_once=False)
        elif not self._announcer.is_due:
            self._announcer.announce(at_once=False)

    def _note_change(self, *, at_once: bool) -> None:
        """Have what follows from a change happen: the next deadline, the announcement, room for others."""
        self._alarm.set_due(self.machine.deadline)
        self._announcer.announce(at_once=at_once)
        self._room.reconsider_queue()

    async def is_answering(self, lease: Lease) -> bool | None:
        """Ask the engine of a lease, given back or not; None if that is over, or there is nothing to ask it."""
        run = self._run_of(lease)
        return None if run is None else await run.is_answering()

    async def still_computes(self) -> bool | None:
        """Ask it for a token while nobody uses it; None where it cannot be asked, or somebody uses it by then."""
        run = self._run
        if run is None or self.machine.state is not _S.READY or self.machine.in_flight:
            return None
        number, answer = self.machine.run, await run.still_computes()
        is_over = self.machine.run != number or self._is_stopped()
        return None if is_over or self.machine.in_flight else answer

    def _is_stopped(self) -> bool:
        """Whether somebody had it stopped: then it is not missed."""
        return self.machine.state is _S.STOPPED

    async def end_broken(self) -> None:
        """Have the engine killed, which computes no more, if it still runs, and wait for its end."""
        run = self._run
        if run is not None and self.machine.state is _S.READY:
            self._handle_at_once(m.EngineStuck(run=run.number, failure=UNRESPONSIVE))
            await asyncio.wait([run.end])

    def end_stuck(self, lease: Lease) -> bool:
        """Have the engine of a lease killed, which is stuck; return whether it still runs."""
        if self._run_of(lease) is None:
            return False
        self._handle_at_once(m.EngineStuck(run=lease.run, failure=UNRESPONSIVE))
        return True

    def fail_run(self, failure: Failure) -> None:
        """Have the engine killed, which loads or is ready, for what it cannot know itself."""
        if self._run is not None:
            self._handle_at_once(m.EngineStuck(run=self._run.number, failure=failure))

    def _run_of(self, lease: Lease) -> EngineRun | None:
        is_current = self._run is not None and self._run.number == lease.run
        return self._run if is_current and self.machine.state is _S.READY else None

    async def ensure_ready(
        self, request: LoadRequest, *, any_options: bool = False, is_patient: bool = False
    ) -> EngineStatus:
        """Wait until it is ready with exactly these options, or any. Raises EngineFailed or Unavailable."""
        fingerprint = await asyncio.to_thread(_file_fingerprint, request.source.path)
        return await self._request_status(
            lambda ticket: m.ReadyRequest(
                ticket=ticket,
                request=request,
                explicit=True,
                any_options=any_options,
                is_patient=is_patient,
                fingerprint=fingerprint,
            )
        )

    async def stop_engine(self, how: m.StopReason) -> EngineStatus:
        """Wait until it is stopped, or has failed, or somebody called the stop off."""
        return await self._request_status(lambda ticket: m.StopRequest(ticket=ticket, how=how))

    async def close(self) -> None:
        """Stop the engine for good, and end the task."""
        if not self._task.done():
            await self.stop_engine(m.StopReason.CLOSE)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.log.close()

    async def _request_status(self, message: Callable[[int], m.Message]) -> EngineStatus:
        status = await self._send_and_wait(message)
        if isinstance(status, RunHandle):
            raise _owner_bug(self.model)
        return status

    async def _send_and_wait(self, message: Callable[[int], m.Message]) -> RunHandle | EngineStatus:
        if self._task.done():
            raise _owner_bug(self.model)
        ticket = next(self._tickets)
        answer: asyncio.Future[RunHandle | EngineStatus] = self._loop.create_future()
        self._waiters[ticket] = answer
        self._handle_at_once(message(ticket))
        try:
            return await answer
        except asyncio.CancelledError:
            self._withdraw_ticket(ticket, answer)
            raise

    def _withdraw_ticket(self, ticket: int, answer: "asyncio.Future[RunHandle | EngineStatus]") -> None:
        self._waiters.pop(ticket, None)
        if not answer.done() or answer.cancelled():
            self.send_message(m.WithdrawTicket(ticket=ticket))
        elif answer.exception() is None and isinstance(run_handle := answer.result(), RunHandle):
            self.send_message(
                m.ReleaseLease(run=run_handle.run.number, slot=run_handle.slot)
            )  # handed out while this caller was cancelled

    async def _run_inbox(self) -> None:
        try:
            while True:
                await self._has_message.wait()
                self._has_message.clear()
                self._handle_inbox()
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception(_MISTAKE, self.model)
        finally:
            self._shut_down()

    def _handle_at_once(self, message: m.Message) -> None:
        """Take a message in the time of whoever sends it, after all that were sent before."""
        try:
            self._handle_inbox()
            self._handle_message(message)
        except Exception:
            log.exception(_MISTAKE, self.model)
            self._task.cancel()

    def _handle_inbox(self) -> None:
        while self._inbox:
            self._handle_message(self._inbox.popleft())

    def _handle_message(self, message: m.Message | None) -> None:
        now = time.monotonic()
        before, due = self.machine.state, self.machine.deadline
        if message is None and due is not None and now - due > SLEEP_S:
            self.machine.note_sleep(now)
        effects = self.machine.tick(now) if message is None else self.machine.step(message, now)
        self._settle_leases()
        for effect in effects:
            self._perform_effect(effect)
        if isinstance(message, m.SignOfLife):
            self._alarm.set_due(self.machine.deadline)
        else:
            self._note_change(at_once=self.machine.state is not before)

    def _perform_effect(self, effect: m.MachineEffect) -> None:
        match effect:
            case m.AnswerCaller(ticket=ticket, outcome=outcome):
                self._answer_caller(ticket, outcome)
            case m.EnterRoom(run=run):
                self._facts = RunFacts()
                self._room.join_queue(self.model, run, _pool_needs(self.machine.request))
            case m.LeaveRoom():
                self._room.leave_queue(self.model)
            case m.LaunchRun():
                self._launch_run(effect)
            case _:
                self._order_run(effect)

    def _order_run(self, effect: m.AskToEnd | m.KillRun | m.AbandonRun) -> None:
        if self._run is None:
            return
        match effect:
            case m.AskToEnd():
                self._run.ask_to_end()
            case m.KillRun():
                self._run.kill()
            case m.AbandonRun():
                self._run.abandon()
            case _:
                assert_never(effect)

    def _launch_run(self, order: m.LaunchRun) -> None:
        if self._run is not None and not self._run.end.done():
            self._run.end.set_result(engine_stop_error(self.model))
        self._run = EngineRun(
            order,
            self._deps,
            log=self.log,
            tell=self.send_message,
            on_change=lambda: self._announcer.announce(at_once=False),
        )
        self._facts = self._run.facts

    def _answer_caller(self, ticket: int, outcome: m.CallOutcome) -> None:
        answer = self._waiters.pop(ticket, None)
        is_there = answer is not None and not answer.done()
        match outcome:
            case m.LeaseGranted(run=run, slot=slot) if not is_there:
                self.send_message(m.ReleaseLease(run=run, slot=slot))
            case _ if answer is None or not is_there:
                pass
            case m.LeaseGranted(slot=slot) if self._run is not None:
                answer.set_result(RunHandle(self._run, slot))
            case m.LeaseGranted() | m.Acknowledgement():
                answer.set_result(self.engine_status())
            case m.LoadRefused(failure=failure):
                answer.set_exception(as_error(self._build_report(failure)))
            case m.LoadTurnedAway(reason=reason, retry_s=retry_s):
                answer.set_exception(turn_away_error(self.model, reason, retry_s=retry_s))

    def _settle_leases(self) -> None:
        if self._run is None or self._run.end.done():
            return
        if self.machine.failure is not None:
            self._run.end.set_result(as_error(self._build_report(self.machine.failure)))
        elif self.machine.state is _S.STOPPED:
            self._run.end.set_result(engine_stop_error(self.model))

    def _shut_down(self) -> None:
        self._alarm.close()
        self._announcer.close()
        if self._run is not None:
            self._run.kill()
        waiting_tickets, self._waiters = self._waiters, {}
        for answer in waiting_tickets.values():
            if not answer.done():
                answer.set_exception(_owner_bug(self.model))

    def describe_resident(self) -> Resident:
        """Return what the scheduler wants to know."""
        machine = self.machine
        return Resident(
            model=self.model,
            last_used=machine.last_used,
            is_idle=machine.state is _S.READY and not machine.in_flight,
            is_busy=machine.state is _S.READY and machine.in_flight > 0,
            is_leaving=machine.state in {_S.DRAINING, _S.STOPPING},
            is_pinned=machine.is_pinned,
            is_kept=machine.is_kept,
            load_s=self._facts.load_s or 0.0,
            holds=self._memory_holdings(),
            pid=self._facts.pid,
        )

    def _memory_holdings(self) -> Mapping[str, int] | None:
        """Return what it takes by pool: the estimate, put right by what the engine says once it is ready."""
        needs = self.machine.request.needs if self.machine.request else None
        is_measured = self._facts.ready_at_s is not None and self._facts.buffers
        return (
            correct_holdings(needs, sum(self._facts.buffers.values()))
            if is_measured
            else _pool_needs(self.machine.request)
        )

    def ready_endpoint(self) -> ReadyEndpoint | None:
        """Return where the engine is, None if it is not ready."""
        machine, facts = self.machine, self._facts
        if machine.state is not _S.READY or machine.request is None:
            return None
        return ReadyEndpoint(
            model=self.model,
            engine=machine.request.engine,
            base_url=facts.base_url,
            key=facts.key,
            metrics_url=facts.metrics_url,
        )

    def state_facts(self) -> StateFacts:
        """Tell whether the states of its slots are kept."""
        return StateFacts(is_kept=self._facts.states is not None, reason=self._facts.stateless_reason)

    def engine_status(self) -> EngineStatus:
        """Return what everybody may know."""
        is_queued = self._room.is_queued(self.model)
        return status_of(self.model, self.machine, self._facts, now=time.monotonic(), is_queued=is_queued)

    def _build_report(self, failure: Failure) -> FailureReport:
        return report_of(self.model, failure, self._facts, self.machine.request)


def _pool_needs(request: LoadRequest | None) -> Mapping[str, int] | None:
    return None if request is None or request.needs is None else request.needs.pools


def _file_fingerprint(path: Path) -> tuple[int, ...]:
    """Return what tells one content of a file from another, cheaply; nothing for a file that is not there."""
    try:
        stat = path.stat()
    except OSError:
        return ()
    return (stat.st_size, stat.st_mtime_ns, stat.st_ino)


def _owner_bug(model: str) -> Bug:
    return Bug(f"Roundhouse lost track of {model}.", hint="Restart it, and please report this with the log.")


INTERVAL_S = 0.1


class Announcer:
    """Bounds how often `say` is called. Belongs to the event loop it is made in."""

    def __init__(self, say: Callable[[], None]) -> None:
        self._say = say
        self._loop = asyncio.get_running_loop()
        self.is_due = False
        """Whether it will be called soon."""
        self._timer: asyncio.TimerHandle | None = None
        self._said_at = -INTERVAL_S

    def announce(self, *, at_once: bool) -> None:
        """Call `say` now, or soon. What is said is what is true when it is said."""
        wait_s = self._said_at + INTERVAL_S - time.monotonic()
        if at_once or wait_s <= 0:
            self._say_now()
        elif not self.is_due:
            self.is_due, self._timer = True, self._loop.call_later(wait_s, self._say_now)

    def close(self) -> None:
        """Say nothing more."""
        self.is_due = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _say_now(self) -> None:
        self.close()
        self._said_at = time.monotonic()
        self._say()
