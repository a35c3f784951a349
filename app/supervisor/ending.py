"""The half of an engine's state machine that goes down: stopping, failing, backing off, and what falls due.

`EngineMachine` adds the half that comes up. It is one machine in two files: the state, the timers and the rules they
share are here.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum

from app.core.engines import TRANSITIONS, AppliedRemedy, EngineState
from app.core.errors import Bug
from app.supervisor import messages as m
from app.supervisor.faults import TOO_SLOW, UNKILLABLE, stall_failure
from app.supervisor.policy import (
    NOT_BY_ITSELF,
    TRIES,
    LoadRequest,
    SupervisorPolicy,
    apply_auto_remedy,
    back_off_delay,
    recent_restarts,
)
from app.supervisor.slot_queue import SlotQueue, WaitEstimate
from engines.api import Failure, FailureKind, Readiness, StopPlan

_S = EngineState

PORT_TRIES = 3
KILL_S = 10.0
"""A killed process that is still there after this long hangs in the kernel: nothing more can be done here."""

UNWAITED_S = 30.0
"""A load goes on for so long after the last who waited has left: a page that is reloaded asks again within seconds."""

_USUAL = Readiness()
_USUAL_STOP = StopPlan()
"""What counts until a run has told what its adapter wants."""

COMING_UP = frozenset({_S.STARTING, _S.LOADING})


class EngineTimer(StrEnum):
    """What can fall due."""

    STALL = "stall"
    HARD = "hard"
    IDLE = "idle"
    DRAIN = "drain"
    GRACE = "grace"
    GONE = "gone"
    RETRY = "retry"
    UNWAITED = "unwaited"


class EngineStateBase(ABC):
    """The state of one engine, and how it ends. `timers` holds monotonic times."""

    def __init__(self, policy: Callable[[], SupervisorPolicy], model: str = "") -> None:
        self.model = model
        self.state = _S.STOPPED
        self.run = 0
        self.request: LoadRequest | None = None
        self.failure: Failure | None = None
        self.in_flight = 0
        self.last_used = 0.0
        self.keep_s: float | None = None
        self.restarts: list[float] = []
        self.timers: dict[EngineTimer, float] = {}
        self.waiters: dict[int, m.ReadyRequest] = {}
        self.later: list[m.ReadyRequest] = []
        self.slot_queue = SlotQueue()
        self.wait_estimate = WaitEstimate()
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
        self._remedied_request: LoadRequest | None = None
        self._turn_away_reason = m.TurnAwayReason.UNLOADED
        self._effects: list[m.MachineEffect] = []

    @property
    def deadline(self) -> float | None:
        """When `tick` is due next."""
        return min(self.timers.values(), default=None)

    @property
    def idle_s(self) -> float:
        """How long it is kept unused, in seconds: for ever where a person wants that, else as a lease asked last.

        A lease may still have a kept one stopped at once: that is how Ollama's clients unload.
        """
        policy = self._policy()
        own = policy.for_model(self.model)
        if self.is_pinned or (own.is_kept and self.keep_s != 0):
            return math.inf
        return policy.keeps_s(self.model) if self.keep_s is None else self.keep_s

    @property
    def is_pinned(self) -> bool:
        """Whether a person wants it to stay, as everybody does who starts a fleet."""
        has_seat = self.request is not None and self.request.seat is not None
        return has_seat or self._policy().for_model(self.model).is_pinned

    @property
    def is_kept(self) -> bool:
        """Whether it goes after all others."""
        return self._policy().for_model(self.model).is_kept

    @property
    def queue_length(self) -> int:
        """How many wait to be served, for whatever reason."""
        return len(self.waiters) + len(self.later) + self.slot_queue.count

    @property
    def has_free_slot(self) -> bool:
        """Whether a request would be served at once."""
        is_serving = self.state is _S.READY and not self._verdict
        return is_serving and (self.slots is None or self.in_slots < self.slots)

    @property
    def effective_request(self) -> LoadRequest | None:
        """What it is or was started with: `request`, or what was made of it so that it fits.

        `request` stays what was asked for: whoever asks the same gets what runs, not another start that fails.
        """
        return self._remedied_request or self.request

    @property
    def awaits_room(self) -> bool:
        """Whether a load is wanted and has not been let in."""
        return self.state is _S.STARTING and not self._is_launched

    @abstractmethod
    def _handle_ask(self, ask: m.ReadyRequest, now: float) -> None:
        """Take in somebody who wants the model ready."""

    def _move_to(self, to: EngineState) -> None:
        if to not in TRANSITIONS[self.state]:
            raise Bug(f"An engine went from {self.state} to {to}.", hint="Please report this with the log.")
        self.state = to

    def _answer_caller(self, ticket: int, outcome: m.CallOutcome) -> None:
        if ticket:
            self._effects.append(m.AnswerCaller(ticket=ticket, outcome=outcome))

    def _answer_waiters(self, outcome: m.CallOutcome) -> None:
        waiters, self.waiters = self.waiters, {}
        for ticket in waiters:
            self._answer_caller(ticket, outcome)

    def _tell_stoppers(self) -> None:
        stoppers, self.stoppers = self.stoppers, []
        for ticket in stoppers:
            self._answer_caller(ticket, m.Acknowledgement())

    def _postpone_queue(self) -> None:
        """Have those who wait for a slot wait for the next run instead."""
        self.later += self.slot_queue.drain_all()

    def _turn_away_later(self, reason: m.TurnAwayReason) -> None:
        asks, self.later = self.later, []
        for ask in asks:
            self._answer_caller(ask.ticket, m.LoadTurnedAway(reason=reason))

    def _retry_later_asks(self, now: float) -> None:
        asks, self.later = self.later, []
        for ask in asks:
            self._handle_ask(ask, now)

    def _enter_queue(self) -> None:
        self.failure = None
        self.run += 1
        self._move_to(_S.STARTING)
        self._effects.append(m.EnterRoom(run=self.run))

    def _launch_run(self, now: float) -> None:
        request = self.effective_request
        if request is None:
            raise Bug("An engine was to start without a model.")
        self._is_launched = True
        self._launched_at = now
        self._grace_s = _USUAL_STOP.grace_s
        is_left = EngineTimer.UNWAITED in self.timers
        unwaited_timer = {EngineTimer.UNWAITED: self.timers[EngineTimer.UNWAITED]} if is_left else {}
        self.timers = {EngineTimer.HARD: now + (self._policy().hard_s or _USUAL.hard_s), **unwaited_timer}
        self._effects.append(m.LaunchRun(run=self.run, request=request))

    def _arm_idle(self) -> None:
        self.timers.pop(EngineTimer.IDLE, None)
        if self.state is _S.READY and not self.in_flight and math.isfinite(idle_s := self.idle_s):
            self.timers[EngineTimer.IDLE] = self.last_used + idle_s

    def _handle_stop(self, stop: m.StopRequest, now: float) -> None:
        if stop.how in {m.StopReason.IF_IDLE, m.StopReason.YIELD, m.StopReason.PAUSE}:
            self._make_room(stop.how, now)
            self._answer_caller(stop.ticket, m.Acknowledgement())
            return
        if stop.how is m.StopReason.LET_GO and self.is_pinned:
            self._answer_caller(stop.ticket, m.Acknowledgement())
            return
        if stop.how in {m.StopReason.EXPIRE, m.StopReason.LET_GO} and (self.in_flight or self.waiters):
            self.keep_s = 0.0
            self._answer_caller(stop.ticket, m.Acknowledgement())
            return
        self._is_closed = self._is_closed or stop.how is m.StopReason.CLOSE
        self._turn_away_reason = m.TurnAwayReason.CLOSING if self._is_closed else m.TurnAwayReason.UNLOADED
        self._postpone_queue()
        self._turn_away_later(self._turn_away_reason)
        self.stoppers.append(stop.ticket)
        if self.state in {_S.STOPPED, _S.FAILED, _S.BACKING_OFF}:
            self._forget_failure()
        else:
            self._end_run(0.0 if stop.how in {m.StopReason.NOW, m.StopReason.CLOSE} else self._policy().drain_s, now)

    def _make_room(self, how: m.StopReason, now: float) -> None:
        if how is m.StopReason.PAUSE:
            self._pause_engine(now)
        elif self.state is _S.READY and (how is m.StopReason.YIELD or not self.in_flight):
            self._wind_down(math.inf, now)

    def _pause_engine(self, now: float) -> None:
        """Give the memory back once what is being answered is done; tell everybody who waits. A failure is kept."""
        takes_memory = self.request is not None and self.request.takes_memory
        if not takes_memory or self._is_closed or self.state in {_S.STOPPED, _S.FAILED}:
            return
        self._turn_away_reason = m.TurnAwayReason.PAUSED
        self._postpone_queue()
        self._turn_away_later(self._turn_away_reason)
        if self.state is _S.BACKING_OFF:
            self._forget_failure()
            self._turn_away_reason = m.TurnAwayReason.UNLOADED
        elif self.state not in {_S.DRAINING, _S.STOPPING}:
            self._wind_down(math.inf, now)

    def _forget_failure(self) -> None:
        self.timers.clear()
        self.failure = None
        if self.state is not _S.STOPPED:
            self._move_to(_S.STOPPED)
        self._answer_waiters(m.LoadTurnedAway(reason=self._turn_away_reason))
        self._tell_stoppers()

    def _end_run(self, drain_s: float, now: float) -> None:
        if self.state is _S.STOPPING:
            if not drain_s and EngineTimer.GRACE in self.timers:
                self._kill_run(now)
        elif self.state is not _S.DRAINING:
            self._wind_down(drain_s, now)
        elif not drain_s:
            self._ask_to_end(now)
        else:
            self.timers.setdefault(EngineTimer.DRAIN, now + drain_s)

    def _wind_down(self, drain_s: float, now: float) -> None:
        self._postpone_queue()
        if not self.in_flight or not drain_s:
            self._ask_to_end(now)
            return
        self._move_to(_S.DRAINING)
        self.timers = {} if math.isinf(drain_s) else {EngineTimer.DRAIN: now + drain_s}

    def _ask_to_end(self, now: float) -> None:
        self._postpone_queue()
        self._move_to(_S.STOPPING)
        if not self._is_launched:
            self._finish_stop(now)
        elif not self._verdict:  # otherwise it is being killed already
            self.timers = {EngineTimer.GRACE: now + self._grace_s}
            self._effects.append(m.AskToEnd(run=self.run))

    def _kill_run(self, now: float) -> None:
        self.timers = {EngineTimer.GONE: now + KILL_S}
        self._effects.append(m.KillRun(run=self.run))

    def _handle_end(self, message: m.RunEnded, now: float) -> None:
        if message.run != self.run or not self._is_launched:
            return
        if self.state is _S.STOPPING:
            self._finish_stop(now)
        elif self._may_try_another_port(message.failure):
            self._port_tries += 1
            self.run += 1
            self._launch_run(now)
        elif self._try_remedy(message.failure):
            self.run += 1
            self._launch_run(now)
        else:
            self._fail_run(self._verdict or message.failure, now)

    def _may_try_another_port(self, failure: Failure) -> bool:
        is_port = failure.kind is FailureKind.PORT_IN_USE and self.state in COMING_UP
        return is_port and not self._verdict and self._port_tries < PORT_TRIES

    def _try_remedy(self, failure: Failure) -> bool:
        """Change the load so that it needs less, where a person wants that done, and say whether it was."""
        if self.request is None or self._verdict or self.state not in COMING_UP or len(self.applied) >= TRIES:
            return False
        remedy = apply_auto_remedy(self._remedied_request or self.request, failure, self._policy().mends)
        if remedy is None:
            return False
        self._remedied_request = remedy.request
        self.applied.append(remedy.applied)
        return True

    def _finish_stop(self, now: float) -> None:
        self._forget_run()
        self._move_to(_S.STOPPED)
        self._answer_waiters(m.LoadTurnedAway(reason=self._turn_away_reason))
        self._tell_stoppers()
        self._turn_away_reason = m.TurnAwayReason.UNLOADED
        self._retry_later_asks(now)

    def _forget_run(self) -> None:
        self._postpone_queue()
        self._is_launched = False
        self._verdict = None
        self.timers.clear()
        self.in_flight = self.in_slots = 0
        self.slots = None
        self.keep_s = None
        self.wait_estimate.note_idle()
        self._effects.append(m.LeaveRoom())

    def _fail_run(self, failure: Failure, now: float) -> None:
        starts_again = self._is_wanted() and failure.kind not in NOT_BY_ITSELF and not self._is_closed
        self._forget_run()
        self.failure, self._failed_at = failure, now
        self._move_to(_S.FAILED)
        self._answer_waiters(m.LoadRefused(failure=failure))
        self._tell_stoppers()
        delay = back_off_delay(self.restarts, now) if starts_again else None
        if delay is not None:
            self._back_off(delay, now)
        self._retry_later_asks(now)

    def _is_wanted(self) -> bool:
        return self.state is not _S.DRAINING and bool(self.waiters or self.in_flight)

    def _back_off(self, delay: float, now: float) -> None:
        due = max(now, self._failed_at + delay)
        self.restarts = [*recent_restarts(self.restarts, now), due]
        if due > now:
            self._move_to(_S.BACKING_OFF)
            self.timers[EngineTimer.RETRY] = due
        else:
            self._enter_queue()

    def _handle_timer(self, timer: EngineTimer, now: float) -> None:
        match timer:
            case EngineTimer.STALL:
                self._give_up(stall_failure(self._stall_s), now)
            case EngineTimer.HARD:
                self._give_up(TOO_SLOW, now)
            case EngineTimer.IDLE | EngineTimer.DRAIN | EngineTimer.UNWAITED:
                self._ask_to_end(now)
            case EngineTimer.GRACE:
                self._kill_run(now)
            case EngineTimer.GONE:
                self._effects.append(m.AbandonRun(run=self.run))
                self._handle_end(m.RunEnded(run=self.run, failure=UNKILLABLE), now)
            case EngineTimer.RETRY:
                self.restarts[-1] = now  # a machine that slept comes to it long after it was due
                self._enter_queue()

    def _give_up(self, verdict: Failure, now: float) -> None:
        self._verdict = verdict
        self._kill_run(now)
