"""The life of one engine, pure: messages and the time go in, effects come out, and nothing else happens.

`app.core.engines.TRANSITIONS` is the law, and `EngineStateBase._move_to` the only place that changes `state`. Whoever
waits is answered by the time a settled state is entered. What the decisions are:

- A lease takes the model as it runs; only an explicit `ReadyRequest` for other options, or a changed file, restarts it.
- A lease that needs more context than it runs with restarts it too, after everybody who uses it is done.
- A failure that the same arguments would repeat is told again at once, until the file changed or somebody asks
  explicitly. Other failures use up restarts (three in ten minutes); an explicit `ReadyRequest` starts counting afresh.
- After a crash it starts again by itself only if somebody was waiting for it or being served by it.
- Who asks while it stops is served by the next run. An explicit `ReadyRequest` for what is draining calls the
  draining off.
- One that answers nothing any more is killed: requests it had are told, those that wait are for the next run.
- A taken port is tried again within the same load, up to three times, without failing it.
- A load that waits for room is dropped when nobody waits for it any more; one that has begun, half a minute later.
- One that is refused room leaves no failure behind: the next request finds out anew.
- Who finds every slot taken stands in line, each client in its turn; too many who wait for one model are sent away.
- While a person has paused everything nobody is let in, whatever the state; what is being answered is finished.
"""

import math
from typing import assert_never

from app.core.engines import EngineState
from app.supervisor import messages as m
from app.supervisor.ending import COMING_UP, UNWAITED_S, EngineStateBase, EngineTimer
from app.supervisor.faults import give_up_failure
from app.supervisor.policy import RETRIED_AT_ONCE, LeaseOptions, LoadRequest, back_off_delay
from app.supervisor.slot_queue import order_by_turns
from engines.api import NEVER_RETRY_UNCHANGED

_S = EngineState
_OF_A_LOAD = frozenset({EngineTimer.STALL, EngineTimer.HARD, EngineTimer.UNWAITED})


class EngineMachine(EngineStateBase):
    """One engine's state. Read its attributes freely; change them only through its public methods."""

    def tick(self, now: float) -> list[m.MachineEffect]:
        """Do what has fallen due."""
        self._effects = []
        while due := [timer for timer, at in self.timers.items() if at <= now]:
            del self.timers[due[0]]
            self._handle_timer(due[0], now)
        return self._effects

    def note_sleep(self, now: float) -> None:
        """Take note that this computer slept until now: a load that was going on slept too, and gets its time again.

        Whether a monotonic clock counts the time asleep depends on the system.
        """
        for timer in _OF_A_LOAD & self.timers.keys():
            self.timers[timer] = max(self.timers[timer], now + self._stall_s)

    def step(self, message: m.Message, now: float) -> list[m.MachineEffect]:
        """Take in one message at a monotonic time."""
        self._effects = []
        match message:
            case m.ReadyRequest():
                self._handle_ask(message, now)
            case m.WithdrawTicket(ticket=ticket):
                self._remove_ticket(ticket, now)
            case m.ReleaseLease():
                self._release_lease(message, now)
            case m.StopRequest():
                self._handle_stop(message, now)
            case m.PolicyChanged():
                self._arm_idle()
            case _:
                self._handle_news(message, now)
        return self._effects

    def hold_at_once(self, request: LoadRequest, terms: LeaseOptions) -> bool:
        """Hold the engine for a lease that needs no decision: one of many while it is ready and has room.

        As `step` would with a `ReadyRequest`, without a message and an answer. Returns False, and has changed nothing,
        where `step` has to decide.
        """
        has_room = self.has_free_slot if terms.takes_slot else self.state is _S.READY and not self._verdict
        if not has_room or self._is_closed or self.queue_length or terms.context is not None:
            return False
        if request.least_context is not None:
            return False
        if not self._is_same_model(request) or (self._policy().is_paused and request.takes_memory):
            return False
        self._hold(terms)
        return True

    def release_at_once(self, run: int, now: float, *, slot: bool) -> bool:
        """Take a lease back that nobody waited for. Returns False, and has changed nothing, where `step` has to act."""
        if run != self.run or self.state is not _S.READY or not self.in_flight or self.slot_queue.count:
            return False
        self._drop_hold(now, slot=slot)
        if not self.in_flight:
            self._arm_idle()
        return True

    def _handle_news(self, news: m.News, now: float) -> None:
        match news:
            case m.RoomGranted(run=run):
                self._launch_granted(run, now)
            case m.RoomAwaited():
                pass  # its status says so
            case m.RoomRefused():
                self._refuse_waiters(news, now)
            case m.ProcessesStarted():
                self._note_started(news, now)
            case m.SignOfLife(run=run):
                self._note_alive(run, now)
            case m.EngineReady():
                self._enter_ready(news, now)
            case m.EngineStuck():
                self._restart_stuck(news, now)
            case m.RunEnded():
                self._handle_end(news, now)
            case _:
                assert_never(news)

    def _handle_ask(self, ask: m.ReadyRequest, now: float) -> None:
        if self._is_closed:
            self._answer_caller(ask.ticket, m.LoadTurnedAway(reason=m.TurnAwayReason.CLOSING))
        elif self._policy().is_paused and ask.request.takes_memory:
            self._answer_caller(ask.ticket, m.LoadTurnedAway(reason=m.TurnAwayReason.PAUSED))
        elif ask.holds and not self._is_served_beside(ask) and self.queue_length >= self._policy().queue_limit:
            self._answer_caller(ask.ticket, m.LoadTurnedAway(reason=m.TurnAwayReason.FULL, retry_s=self._retry_s(now)))
        else:
            self._take_in(ask, now)

    def _is_served_beside(self, ask: m.ReadyRequest) -> bool:
        """Whether it waits for nobody: the engine is ready, and answers it beside its slots."""
        return self.state is _S.READY and not ask.terms.takes_slot

    def _take_in(self, ask: m.ReadyRequest, now: float) -> None:
        match self.state:
            case _S.STOPPED:
                self._begin_load(ask)
            case _S.FAILED:
                self._ask_after_failure(ask, now)
            case _S.BACKING_OFF:
                self._ask_backing_off(ask)
            case _S.STARTING | _S.LOADING | _S.READY if not self._fits_request(ask):
                self._replace_load(ask, now)
            case _S.READY:
                self._serve_or_grow(ask, now)
            case _S.STARTING | _S.LOADING:
                self.waiters[ask.ticket] = ask
                self.timers.pop(EngineTimer.UNWAITED, None)
            case _S.DRAINING if ask.explicit and self._fits_request(ask):
                self._call_off_draining(ask, now)
            case _S.DRAINING | _S.STOPPING:
                self.later.append(ask)
            case _:
                assert_never(self.state)

    def _fits_request(self, ask: m.ReadyRequest) -> bool:
        if self.request is None or not self._is_same_model(ask.request):
            return False
        same = ask.any_options or ask.request.options == self.request.options
        return (same and ask.fingerprint == self._fingerprint) or not ask.explicit

    def _is_same_model(self, request: LoadRequest) -> bool:
        own = self.request
        return own is not None and (request is own or request.is_served_by(own))

    def _is_too_small(self, ask: m.ReadyRequest) -> bool:
        has = self.request.options.context if self.request else None
        would_have, least = ask.request.options.context, ask.terms.context or ask.request.least_context
        if has is None or would_have is None or least is None:
            return False
        return has < least and has < would_have

    def _begin_load(self, ask: m.ReadyRequest) -> None:
        self.request, self._fingerprint = ask.request, ask.fingerprint
        self.waiters[ask.ticket] = ask
        self._port_tries = 0
        self.applied, self._remedied_request = [], None
        self._enter_queue()

    def _serve_ask(self, ask: m.ReadyRequest) -> None:
        if not ask.holds:
            self._answer_caller(ask.ticket, m.Acknowledgement())
            return
        if ask.terms.takes_slot and not self.has_free_slot:
            self.slot_queue.append_ask(ask)
            return
        self._hold(ask.terms)
        self._answer_caller(ask.ticket, m.LeaseGranted(run=self.run, slot=ask.terms.takes_slot))

    def _hold(self, terms: LeaseOptions) -> None:
        self.in_flight += 1
        self.in_slots += terms.takes_slot
        self.timers.pop(EngineTimer.IDLE, None)
        if terms.keep_s is not None:
            self.keep_s = terms.keep_s

    def _drop_hold(self, now: float, *, slot: bool) -> None:
        self.in_flight -= 1
        self.in_slots -= slot
        self.last_used = now

    def _replace_load(self, ask: m.ReadyRequest, now: float) -> None:
        self.later.append(ask)
        self._turn_away_reason = m.TurnAwayReason.REPLACED
        self._wind_down(math.inf if ask.is_patient else self._policy().drain_s, now)

    def _serve_or_grow(self, ask: m.ReadyRequest, now: float) -> None:
        if not self._is_too_small(ask):
            self._serve_ask(ask)
            return
        self.later.append(ask)
        self._turn_away_reason = m.TurnAwayReason.REPLACED
        self._wind_down(math.inf, now)

    def _ask_after_failure(self, ask: m.ReadyRequest, now: float) -> None:
        is_unchanged = ask.request.is_for(self.request) and ask.fingerprint == self._fingerprint
        if ask.explicit or not is_unchanged or self.failure is None or self.failure.kind in RETRIED_AT_ONCE:
            self.restarts.clear()
            self._begin_load(ask)
            return
        if self.failure.kind in NEVER_RETRY_UNCHANGED:
            self._answer_caller(ask.ticket, m.LoadRefused(failure=self.failure))
            return
        delay = back_off_delay(self.restarts, now)
        if delay is None:
            self._answer_caller(ask.ticket, m.LoadRefused(failure=give_up_failure(self.failure, self.model)))
            return
        self.waiters[ask.ticket] = ask
        self._back_off(delay, now)

    def _ask_backing_off(self, ask: m.ReadyRequest) -> None:
        if not self._fits_request(ask):
            self._answer_waiters(m.LoadTurnedAway(reason=m.TurnAwayReason.REPLACED))
        elif not ask.explicit:
            self.waiters[ask.ticket] = ask
            return
        self.timers.clear()
        self.restarts.clear()
        self._begin_load(ask)

    def _call_off_draining(self, ask: m.ReadyRequest, now: float) -> None:
        self._move_to(_S.READY)
        self.timers.clear()
        self._tell_stoppers()
        self._serve_ask(ask)
        self._arm_idle()
        self._retry_later_asks(now)

    def _remove_ticket(self, ticket: int, now: float) -> None:
        is_left = self.waiters.pop(ticket, None) is not None and not self.waiters
        self.later = [ask for ask in self.later if ask.ticket != ticket]
        self.slot_queue.remove_ticket(ticket)
        self.stoppers = [stopper for stopper in self.stoppers if stopper != ticket]
        if self.awaits_room and not self.waiters:
            self._wind_down(0.0, now)
        elif is_left and self.state in COMING_UP and not self._verdict:
            self.timers[EngineTimer.UNWAITED] = now + UNWAITED_S

    def _launch_granted(self, run: int, now: float) -> None:
        if run == self.run and self.awaits_room:
            self._launch_run(now)

    def _refuse_waiters(self, message: m.RoomRefused, now: float) -> None:
        if message.run == self.run and self.awaits_room:
            self._answer_waiters(m.LoadRefused(failure=message.failure))
            self._wind_down(0.0, now)

    def _note_started(self, message: m.ProcessesStarted, now: float) -> None:
        if message.run != self.run:
            return
        self._grace_s = message.grace_s
        if self.state not in COMING_UP or self._verdict:
            return
        if self.state is _S.STARTING:
            self._move_to(_S.LOADING)
        policy = self._policy()
        self._stall_s = policy.stall_s or message.stall_s
        self.timers[EngineTimer.STALL] = now + self._stall_s
        self.timers[EngineTimer.HARD] = now + (policy.hard_s or message.hard_s)

    def _note_alive(self, run: int, now: float) -> None:
        if run == self.run and EngineTimer.STALL in self.timers:
            self.timers[EngineTimer.STALL] = now + self._stall_s

    def _enter_ready(self, message: m.EngineReady, now: float) -> None:
        if message.run != self.run or self.state is not _S.LOADING or self._verdict:
            return
        self._move_to(_S.READY)
        self.timers.clear()
        self.last_used, self.slots = now, message.slots
        self.wait_estimate.load_s = now - self._launched_at
        waiters, self.waiters = self.waiters, {}
        for ask in sorted(order_by_turns(waiters.values()), key=self._is_too_small):
            self._handle_ask(ask, now)
        self._arm_idle()

    def _restart_stuck(self, message: m.EngineStuck, now: float) -> None:
        """Kill it: its end is a failure, after most of which it starts again for those who wait for a slot."""
        is_there = self.state in {_S.LOADING, _S.READY, _S.DRAINING}
        if message.run == self.run and is_there and not self._verdict:
            self._give_up(message.failure, now)

    def _release_lease(self, release: m.ReleaseLease, now: float) -> None:
        if release.run != self.run or not self.in_flight:
            return
        self._drop_hold(now, slot=release.slot)
        if self.slot_queue.count:
            self._serve_next(now)
        if self.in_flight:
            return
        if self.state is _S.DRAINING:
            self._ask_to_end(now)
        self._arm_idle()

    def _serve_next(self, now: float) -> None:
        """Give the free slot to whoever's turn it is; one that needs more context has everybody wait for that."""
        if not self.has_free_slot:
            return
        self.wait_estimate.note_served(now)
        self._serve_or_grow(self.slot_queue.take_next(), now)
        if not self.slot_queue.count:
            self.wait_estimate.note_idle()

    def _retry_s(self, now: float) -> float:
        is_coming_up = self.state in COMING_UP and self._is_launched
        return self.wait_estimate.retry_s(
            self.queue_length, loading_s=now - self._launched_at if is_coming_up else None
        )
