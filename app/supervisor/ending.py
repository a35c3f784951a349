"""The half of an engine's state machine that goes down: stopping, failing, backing off, and what falls due.

`Machine` adds the half that comes up. It is one machine in two files: the state, the timers and the rules they share
are here.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum

from app.core.engines import TRANSITIONS, AppliedRemedy, EngineState
from app.core.errors import Bug
from app.supervisor import messages as m
from app.supervisor.faults import TOO_SLOW, UNKILLABLE, stalled
from app.supervisor.line import Line, Pace
from app.supervisor.mending import TRIES, mended
from app.supervisor.policy import NOT_BY_ITSELF, LoadRequest, Policy, back_off, recent
from engines.api import Failure, FailureKind, Readiness, Stop

_S = EngineState

PORT_TRIES = 3
KILL_S = 10.0
"""A killed process that is still there after this long hangs in the kernel: nothing more can be done here."""

_USUAL = Readiness()
_USUAL_STOP = Stop()
"""What counts until a run has told what its adapter wants."""

COMING_UP = frozenset({_S.STARTING, _S.LOADING})


class Timer(StrEnum):
    """What can fall due."""

    STALL = "stall"
    HARD = "hard"
    IDLE = "idle"
    DRAIN = "drain"
    GRACE = "grace"
    GONE = "gone"
    RETRY = "retry"


class Ending(ABC):
    """The state of one engine, and how it ends. `timers` holds monotonic times."""

    def __init__(self, policy: Callable[[], Policy], model: str = "") -> None:
        self.model = model
        self.state = _S.STOPPED
        self.run = 0
        self.request: LoadRequest | None = None
        self.failure: Failure | None = None
        self.in_flight = 0
        self.last_used = 0.0
        self.keep_s: float | None = None
        self.restarts: list[float] = []
        self.timers: dict[Timer, float] = {}
        self.waiters: dict[int, m.Ask] = {}
        self.later: list[m.Ask] = []
        self.line = Line()
        self.pace = Pace()
        self.slots: int | None = None
        self.in_slots = 0
        """Of those in flight, how many take a slot."""
        self.stoppers: list[int] = []
        self._policy = policy
        self._fingerprint: tuple[int, ...] = ()
        self._failed_at = 0.0
        self._stall_s = _USUAL.stall_s
        self._grace_s = _USUAL_STOP.grace_s
        self._is_launched = False
        self._launched_at = 0.0
        self._is_closed = False
        self._verdict: Failure | None = None
        self._port_tries = 0
        self.applied: list[AppliedRemedy] = []
        """What was changed so that it fits."""
        self._mended: LoadRequest | None = None
        self._called_off = m.Reason.UNLOADED
        self._effects: list[m.Effect] = []

    @property
    def deadline(self) -> float | None:
        """When `tick` is due next."""
        return min(self.timers.values(), default=None)

    @property
    def idle_s(self) -> float:
        """How long it is kept unused, in seconds: for ever if pinned, what a lease asked for last, else the policy."""
        if self.is_pinned:
            return math.inf
        return self._policy().keeps_s(self.model) if self.keep_s is None else self.keep_s

    @property
    def is_pinned(self) -> bool:
        """Whether a person wants it to stay."""
        return self._policy().of(self.model).is_pinned

    @property
    def queued(self) -> int:
        """How many wait to be served, for whatever reason."""
        return len(self.waiters) + len(self.later) + len(self.line)

    @property
    def has_free_slot(self) -> bool:
        """Whether a request would be served at once."""
        return self.state is _S.READY and (self.slots is None or self.in_slots < self.slots)

    @property
    def runs(self) -> LoadRequest | None:
        """What it is or was started with: `request`, or what was made of it so that it fits.

        `request` stays what was asked for: whoever asks the same gets what runs, not another start that fails.
        """
        return self._mended or self.request

    @property
    def awaits_room(self) -> bool:
        """Whether a load is wanted and has not been let in."""
        return self.state is _S.STARTING and not self._is_launched

    @abstractmethod
    def _ask(self, ask: m.Ask, now: float) -> None:
        """Take in somebody who wants the model ready."""

    def _move(self, to: EngineState) -> None:
        if to not in TRANSITIONS[self.state]:
            raise Bug(f"An engine went from {self.state} to {to}.", hint="Please report this with the log.")
        self.state = to

    def _answer(self, ticket: int, outcome: m.Outcome) -> None:
        if ticket:
            self._effects.append(m.Answer(ticket=ticket, outcome=outcome))

    def _answer_waiters(self, outcome: m.Outcome) -> None:
        waiters, self.waiters = self.waiters, {}
        for ticket in waiters:
            self._answer(ticket, outcome)

    def _tell_stoppers(self) -> None:
        stoppers, self.stoppers = self.stoppers, []
        for ticket in stoppers:
            self._answer(ticket, m.Told())

    def _break_up_line(self) -> None:
        """Have those who wait for a slot wait for the next run instead."""
        self.later += self.line.empty()

    def _turn_away_later(self, reason: m.Reason) -> None:
        asks, self.later = self.later, []
        for ask in asks:
            self._answer(ask.ticket, m.TurnedAway(reason=reason))

    def _reconsider(self, now: float) -> None:
        asks, self.later = self.later, []
        for ask in asks:
            self._ask(ask, now)

    def _enter(self) -> None:
        self.failure = None
        self.run += 1
        self._move(_S.STARTING)
        self._effects.append(m.EnterRoom(run=self.run))

    def _launch(self, now: float) -> None:
        request = self.runs
        if request is None:
            raise Bug("An engine was to start without a model.")
        self._is_launched = True
        self._launched_at = now
        self._grace_s = _USUAL_STOP.grace_s
        self.timers = {Timer.HARD: now + (self._policy().hard_s or _USUAL.hard_s)}
        self._effects.append(m.Launch(run=self.run, request=request))

    def _arm_idle(self) -> None:
        self.timers.pop(Timer.IDLE, None)
        if self.state is _S.READY and not self.in_flight and math.isfinite(self.idle_s):
            self.timers[Timer.IDLE] = self.last_used + self.idle_s

    def _stop(self, stop: m.Stop, now: float) -> None:
        if stop.how in {m.How.IF_IDLE, m.How.YIELD, m.How.PAUSE}:
            self._make_room(stop.how, now)
            self._answer(stop.ticket, m.Told())
            return
        if stop.how is m.How.LET_GO and self.is_pinned:
            self._answer(stop.ticket, m.Told())
            return
        if stop.how in {m.How.EXPIRE, m.How.LET_GO} and (self.in_flight or self.waiters):
            self.keep_s = 0.0
            self._answer(stop.ticket, m.Told())
            return
        self._is_closed = self._is_closed or stop.how is m.How.CLOSE
        self._called_off = m.Reason.CLOSING if self._is_closed else m.Reason.UNLOADED
        self._break_up_line()
        self._turn_away_later(self._called_off)
        self.stoppers.append(stop.ticket)
        if self.state in {_S.STOPPED, _S.FAILED, _S.BACKING_OFF}:
            self._forget_failure()
        else:
            self._end(0.0 if stop.how in {m.How.NOW, m.How.CLOSE} else self._policy().drain_s, now)

    def _make_room(self, how: m.How, now: float) -> None:
        if how is m.How.PAUSE:
            self._pause(now)
        elif self.state is _S.READY and (how is m.How.YIELD or not self.in_flight):
            self._wind_down(math.inf, now)

    def _pause(self, now: float) -> None:
        """Give the memory back once what is being answered is done; tell everybody who waits. A failure is kept."""
        takes_memory = self.request is not None and self.request.takes_memory
        if not takes_memory or self._is_closed or self.state in {_S.STOPPED, _S.FAILED}:
            return
        self._called_off = m.Reason.PAUSED
        self._break_up_line()
        self._turn_away_later(self._called_off)
        if self.state is _S.BACKING_OFF:
            self._forget_failure()
            self._called_off = m.Reason.UNLOADED
        elif self.state not in {_S.DRAINING, _S.STOPPING}:
            self._wind_down(math.inf, now)

    def _forget_failure(self) -> None:
        self.timers.clear()
        self.failure = None
        if self.state is not _S.STOPPED:
            self._move(_S.STOPPED)
        self._answer_waiters(m.TurnedAway(reason=self._called_off))
        self._tell_stoppers()

    def _end(self, drain_s: float, now: float) -> None:
        if self.state is _S.STOPPING:
            if not drain_s and Timer.GRACE in self.timers:
                self._kill(now)
        elif self.state is not _S.DRAINING:
            self._wind_down(drain_s, now)
        elif not drain_s:
            self._ask_to_end(now)
        else:
            self.timers.setdefault(Timer.DRAIN, now + drain_s)

    def _wind_down(self, drain_s: float, now: float) -> None:
        self._break_up_line()
        if not self.in_flight or not drain_s:
            self._ask_to_end(now)
            return
        self._move(_S.DRAINING)
        self.timers = {} if math.isinf(drain_s) else {Timer.DRAIN: now + drain_s}

    def _ask_to_end(self, now: float) -> None:
        self._break_up_line()
        self._move(_S.STOPPING)
        if not self._is_launched:
            self._stopped(now)
        elif not self._verdict:  # otherwise it is being killed already
            self.timers = {Timer.GRACE: now + self._grace_s}
            self._effects.append(m.AskToEnd(run=self.run))

    def _kill(self, now: float) -> None:
        self.timers = {Timer.GONE: now + KILL_S}
        self._effects.append(m.Kill(run=self.run))

    def _ended(self, ended: m.Ended, now: float) -> None:
        if ended.run != self.run or not self._is_launched:
            return
        if self.state is _S.STOPPING:
            self._stopped(now)
        elif self._may_try_another_port(ended.failure):
            self._port_tries += 1
            self.run += 1
            self._launch(now)
        elif self._mend(ended.failure):
            self.run += 1
            self._launch(now)
        else:
            self._fail(self._verdict or ended.failure, now)

    def _may_try_another_port(self, failure: Failure) -> bool:
        is_port = failure.kind is FailureKind.PORT_IN_USE and self.state in COMING_UP
        return is_port and not self._verdict and self._port_tries < PORT_TRIES

    def _mend(self, failure: Failure) -> bool:
        """Change the load so that it needs less, where a person wants that done, and say whether it was."""
        if self.request is None or self._verdict or self.state not in COMING_UP or len(self.applied) >= TRIES:
            return False
        better = mended(self._mended or self.request, failure, self._policy().mends)
        if better is None:
            return False
        self._mended = better.request
        self.applied.append(better.applied)
        return True

    def _stopped(self, now: float) -> None:
        self._forget_run()
        self._move(_S.STOPPED)
        self._answer_waiters(m.TurnedAway(reason=self._called_off))
        self._tell_stoppers()
        self._called_off = m.Reason.UNLOADED
        self._reconsider(now)

    def _forget_run(self) -> None:
        self._break_up_line()
        self._is_launched = False
        self._verdict = None
        self.timers.clear()
        self.in_flight = self.in_slots = 0
        self.slots = None
        self.keep_s = None
        self.pace.paused()
        self._effects.append(m.LeaveRoom())

    def _fail(self, failure: Failure, now: float) -> None:
        starts_again = self._is_wanted() and failure.kind not in NOT_BY_ITSELF and not self._is_closed
        self._forget_run()
        self.failure, self._failed_at = failure, now
        self._move(_S.FAILED)
        self._answer_waiters(m.Refused(failure=failure))
        self._tell_stoppers()
        delay = back_off(self.restarts, now) if starts_again else None
        if delay is not None:
            self._back_off(delay, now)
        self._reconsider(now)

    def _is_wanted(self) -> bool:
        return self.state is not _S.DRAINING and bool(self.waiters or self.in_flight)

    def _back_off(self, delay: float, now: float) -> None:
        due = max(now, self._failed_at + delay)
        self.restarts = [*recent(self.restarts, now), due]
        if due > now:
            self._move(_S.BACKING_OFF)
            self.timers[Timer.RETRY] = due
        else:
            self._enter()

    def _fell_due(self, timer: Timer, now: float) -> None:
        match timer:
            case Timer.STALL:
                self._give_up(stalled(self._stall_s), now)
            case Timer.HARD:
                self._give_up(TOO_SLOW, now)
            case Timer.IDLE | Timer.DRAIN:
                self._ask_to_end(now)
            case Timer.GRACE:
                self._kill(now)
            case Timer.GONE:
                self._effects.append(m.Abandon(run=self.run))
                self._ended(m.Ended(run=self.run, failure=UNKILLABLE), now)
            case Timer.RETRY:
                self.restarts[-1] = now  # a machine that slept comes to it long after it was due
                self._enter()

    def _give_up(self, verdict: Failure, now: float) -> None:
        self._verdict = verdict
        self._kill(now)
