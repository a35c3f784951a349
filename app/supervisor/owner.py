"""The one task that owns one model's engine. Others send it messages and await the answer.

It takes one message at a time, asks the state machine what to do, does it, and says what changed. Nobody else changes
anything, so nobody can act on what was true a moment ago.

Taking a message never waits, so whoever asks has it taken at once, after those that came before: a lease of a ready
engine costs no turn of the event loop. The task takes what nobody waits for.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, assert_never

from app.core.engines import EngineState, EngineStatus, FailureReport
from app.core.errors import Bug
from app.core.events import EngineChanged, Event
from app.supervisor import messages as m
from app.supervisor.alarm import Alarm
from app.supervisor.announcer import Announcer
from app.supervisor.facts import Facts
from app.supervisor.faults import as_error, turned_away, was_stopped
from app.supervisor.lease import CLIENT, Lease, Reachable
from app.supervisor.logs import EngineLog
from app.supervisor.machine import Machine
from app.supervisor.measured import corrected
from app.supervisor.policy import LoadRequest, Policy, Terms
from app.supervisor.run import Means, Run
from app.supervisor.scheduling import Seat
from app.supervisor.status import report_of, status_of
from engines.api import Failure

log = logging.getLogger(__name__)

_S = EngineState
_MISTAKE = "The owner of %s ended by a mistake of ours"


class Room(Protocol):
    """Where an owner queues before it starts an engine."""

    def enter(self, model: str, run: int, needs: Mapping[str, int] | None) -> None:
        """Queue; `RoomGranted` or `RoomRefused` answers. `needs` in bytes by pool, None if nobody knows."""

    def leave(self, model: str) -> None:
        """Give the place back, or leave the queue."""

    def reconsider(self) -> None:
        """Somebody became idle, or busy."""

    def is_queued(self, model: str) -> bool:
        """Tell whether a model waits for another to make room."""


class Held(NamedTuple):
    """What a caller hears that asked to hold a run. Others hear how things stood when they were answered."""

    run: Run
    slot: bool


class Owner:
    """One model's engine. Make it in the event loop."""

    def __init__(
        self, model: str, means: Means, room: Room, *, policy: Callable[[], Policy], publish: Callable[[Event], None]
    ) -> None:
        self.model = model
        self.log = EngineLog(model, means.folders.logs, publish)
        self.machine = Machine(policy, model)
        self._means = means
        self._room = room
        self._run: Run | None = None
        self._facts = Facts()
        self._inbox: asyncio.Queue[m.Message | None] = asyncio.Queue()
        self._tickets = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Held | EngineStatus]] = {}
        self._alarm = Alarm(lambda: self._inbox.put_nowait(None))
        self._announcer = Announcer(lambda: publish(EngineChanged(status=self.status())))
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._own(), name=f"engine owner {model}")

    def send(self, message: m.Message) -> None:
        """Tell the owner; it acts when it gets to it."""
        self._inbox.put_nowait(message)

    async def lease(self, request: LoadRequest, terms: Terms) -> Lease:
        """Wait until it is ready and hold it. Give it back with `Release`. Raises EngineFailed or Unavailable."""
        asked_s = time.monotonic()
        # A ready one is taken as it runs: nobody would compare.
        seen = () if self.machine.state is _S.READY else await asyncio.to_thread(_fingerprint, request.source.path)
        who = CLIENT.get()
        said = await self._ask(
            lambda ticket: m.Ask(ticket=ticket, request=request, holds=True, fingerprint=seen, terms=terms, client=who)
        )
        if not isinstance(said, Held):
            raise _broken(self.model)
        facts = said.run.facts
        was_ready = facts.ready_at_s is not None and facts.ready_at_s <= asked_s
        return Lease(
            base_url=facts.base_url,
            key=facts.key,
            served_name=facts.served_name,
            engine=request.engine,
            context=facts.context,
            see=self.status,
            load_s=0.0 if was_ready else time.monotonic() - asked_s,
            end=said.run.end,
            run=said.run.number,
            slot=said.slot,
        )

    def release(self, lease: Lease) -> None:
        """Give a lease back."""
        self._take_at_once(m.Release(run=lease.run, slot=lease.slot))

    async def is_answering(self, lease: Lease) -> bool | None:
        """Ask the engine of a lease, given back or not; None if that is over, or the answer would tell nothing."""
        run = self._run_of(lease)
        return None if run is None else await run.is_answering()

    def note_stuck(self, lease: Lease) -> bool:
        """Note that the engine of a lease is stuck; return whether that is news of one that still serves."""
        run = self._run_of(lease)
        if run is None or run.facts.stuck_at is not None:
            return False
        run.facts.stuck_at = time.time()
        return True

    def _run_of(self, lease: Lease) -> Run | None:
        is_current = self._run is not None and self._run.number == lease.run
        return self._run if is_current and self.machine.state is _S.READY else None

    async def ensure_ready(self, request: LoadRequest, *, any_options: bool = False) -> EngineStatus:
        """Wait until it is ready with exactly these options, or any. Raises EngineFailed or Unavailable."""
        seen = await asyncio.to_thread(_fingerprint, request.source.path)
        return await self._told(
            lambda ticket: m.Ask(
                ticket=ticket, request=request, explicit=True, any_options=any_options, fingerprint=seen
            )
        )

    async def stop(self, how: m.How) -> EngineStatus:
        """Wait until it is stopped, or has failed, or somebody called the stop off."""
        return await self._told(lambda ticket: m.Stop(ticket=ticket, how=how))

    async def close(self) -> None:
        """Stop the engine for good, and end the task."""
        if not self._task.done():
            await self.stop(m.How.CLOSE)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.log.close()

    async def _told(self, message: Callable[[int], m.Message]) -> EngineStatus:
        said = await self._ask(message)
        if isinstance(said, Held):
            raise _broken(self.model)
        return said

    async def _ask(self, message: Callable[[int], m.Message]) -> Held | EngineStatus:
        if self._task.done():
            raise _broken(self.model)
        ticket = next(self._tickets)
        answer: asyncio.Future[Held | EngineStatus] = self._loop.create_future()
        self._waiting[ticket] = answer
        self._take_at_once(message(ticket))
        try:
            return await answer
        except asyncio.CancelledError:
            self._withdraw(ticket, answer)
            raise

    def _withdraw(self, ticket: int, answer: "asyncio.Future[Held | EngineStatus]") -> None:
        self._waiting.pop(ticket, None)
        if not answer.done() or answer.cancelled():
            self.send(m.Leave(ticket=ticket))
        elif answer.exception() is None and isinstance(held := answer.result(), Held):
            self.send(m.Release(run=held.run.number, slot=held.slot))  # handed out while this caller was cancelled

    async def _own(self) -> None:
        try:
            while True:
                self._take(await self._inbox.get())
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception(_MISTAKE, self.model)
        finally:
            self._let_go()

    def _take_at_once(self, message: m.Message) -> None:
        """Take a message in the time of whoever sends it, after all that were sent before."""
        try:
            while not self._inbox.empty():
                self._take(self._inbox.get_nowait())
            self._take(message)
        except Exception:
            log.exception(_MISTAKE, self.model)
            self._task.cancel()

    def _take(self, message: m.Message | None) -> None:
        now = time.monotonic()
        before = self.machine.state
        effects = self.machine.tick(now) if message is None else self.machine.step(message, now)
        self._settle_leases()
        for effect in effects:
            self._perform(effect)
        self._alarm.set(self.machine.deadline)
        if not isinstance(message, m.Alive):
            self._announcer.announce(at_once=self.machine.state is not before)
            self._room.reconsider()

    def _perform(self, effect: m.Effect) -> None:
        match effect:
            case m.Answer(ticket=ticket, outcome=outcome):
                self._answer(ticket, outcome)
            case m.EnterRoom(run=run):
                self._facts = Facts()
                self._room.enter(self.model, run, _needs(self.machine.request))
            case m.LeaveRoom():
                self._room.leave(self.model)
            case m.Launch():
                self._launch(effect)
            case _:
                self._order(effect)

    def _order(self, effect: m.AskToEnd | m.Kill | m.Abandon) -> None:
        if self._run is None:
            return
        match effect:
            case m.AskToEnd():
                self._run.ask_to_end()
            case m.Kill():
                self._run.kill()
            case m.Abandon():
                self._run.abandon()
            case _:
                assert_never(effect)

    def _launch(self, order: m.Launch) -> None:
        if self._run is not None and not self._run.end.done():
            self._run.end.set_result(was_stopped(self.model))
        self._run = Run(
            order,
            self._means,
            log=self.log,
            tell=self.send,
            changed=lambda: self._announcer.announce(at_once=False),
        )
        self._facts = self._run.facts

    def _answer(self, ticket: int, outcome: m.Outcome) -> None:
        answer = self._waiting.pop(ticket, None)
        is_there = answer is not None and not answer.done()
        match outcome:
            case m.Granted(run=run, slot=slot) if not is_there:
                self.send(m.Release(run=run, slot=slot))
            case _ if answer is None or not is_there:
                pass
            case m.Granted(slot=slot) if self._run is not None:
                answer.set_result(Held(self._run, slot))
            case m.Granted() | m.Told():
                answer.set_result(self.status())
            case m.Refused(failure=failure):
                answer.set_exception(as_error(self._report(failure)))
            case m.TurnedAway(reason=reason, retry_s=retry_s):
                answer.set_exception(turned_away(self.model, reason, retry_s=retry_s))

    def _settle_leases(self) -> None:
        if self._run is None or self._run.end.done():
            return
        if self.machine.failure is not None:
            self._run.end.set_result(as_error(self._report(self.machine.failure)))
        elif self.machine.state is _S.STOPPED:
            self._run.end.set_result(was_stopped(self.model))

    def _let_go(self) -> None:
        self._alarm.set(None)
        self._announcer.close()
        if self._run is not None:
            self._run.kill()
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(_broken(self.model))

    def seat(self) -> Seat:
        """Return what the scheduler wants to know."""
        machine = self.machine
        return Seat(
            model=self.model,
            last_used=machine.last_used,
            is_idle=machine.state is _S.READY and not machine.in_flight,
            is_busy=machine.state is _S.READY and machine.in_flight > 0,
            is_leaving=machine.state in {_S.DRAINING, _S.STOPPING},
            is_pinned=machine.is_pinned,
            load_s=self._facts.load_s or 0.0,
            holds=self._holds(),
            pid=self._facts.pid,
        )

    def _holds(self) -> Mapping[str, int] | None:
        """Return what it takes by pool: the estimate, put right by what the engine says once it is ready."""
        needs = self.machine.request.needs if self.machine.request else None
        is_measured = self._facts.ready_at_s is not None and self._facts.buffers
        return corrected(needs, sum(self._facts.buffers.values())) if is_measured else _needs(self.machine.request)

    def reachable(self) -> Reachable | None:
        """Return where the engine is, None if it is not ready."""
        machine, facts = self.machine, self._facts
        if machine.state is not _S.READY or machine.request is None:
            return None
        return Reachable(model=self.model, engine=machine.request.engine, base_url=facts.base_url, key=facts.key)

    def status(self) -> EngineStatus:
        """Return what everybody may know."""
        is_queued = self._room.is_queued(self.model)
        return status_of(self.model, self.machine, self._facts, now=time.monotonic(), is_queued=is_queued)

    def _report(self, failure: Failure) -> FailureReport:
        return report_of(self.model, failure, self._facts, self.machine.request)


def _needs(request: LoadRequest | None) -> Mapping[str, int] | None:
    return None if request is None or request.needs is None else request.needs.pools


def _fingerprint(path: Path) -> tuple[int, ...]:
    """Return what tells one content of a file from another, cheaply; nothing for a file that is not there."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_size, found.st_mtime_ns, found.st_ino)


def _broken(model: str) -> Bug:
    return Bug(f"Roundhouse lost track of {model}.", hint="Restart it, and please report this with the log.")
