"""The life of one engine, pure: messages and the time go in, effects come out, and nothing else happens.

`app.core.engines.TRANSITIONS` is the law, and `Ending._move` the only place that changes `state`. Whoever waits is
answered by the time a settled state is entered. What the decisions are:

- A lease takes the model as it runs; only an explicit `Ask` for other options, or a changed file, restarts it.
- A lease that needs more context than it runs with restarts it too, after everybody who uses it is done.
- A failure that the same arguments would repeat is told again at once, until the file changed or somebody asks
  explicitly. Other failures use up restarts (three in ten minutes); an explicit `Ask` starts counting afresh.
- After a crash it starts again by itself only if somebody was waiting for it or being served by it.
- Who asks while it stops is served by the next run. An explicit `Ask` for what is draining calls the draining off.
- A taken port is tried again within the same load, up to three times, without failing it.
- A load that waits for room is dropped when nobody waits for it any more; one that has begun goes on.
- One that is refused room leaves no failure behind: the next request finds out anew.
- Who finds every slot taken stands in line, each client in its turn; too many who wait for one model are sent away.
- While a person has paused everything nobody is let in, whatever the state; what is being answered is finished.
"""

import math
from typing import assert_never

from app.core.engines import EngineState
from app.supervisor import messages as m
from app.supervisor.ending import COMING_UP, Ending, Timer
from app.supervisor.faults import given_up
from app.supervisor.line import in_turns
from app.supervisor.policy import ASKED_AT_ONCE, back_off
from engines.api import NEVER_RETRY_UNCHANGED

_S = EngineState


class Machine(Ending):
    """One engine's state. Read its attributes freely; change them only through `step` and `tick`."""

    def tick(self, now: float) -> list[m.Effect]:
        """Do what has fallen due."""
        self._effects = []
        while due := [timer for timer, at in self.timers.items() if at <= now]:
            del self.timers[due[0]]
            self._fell_due(due[0], now)
        return self._effects

    def step(self, message: m.Message, now: float) -> list[m.Effect]:
        """Take in one message at a monotonic time."""
        self._effects = []
        match message:
            case m.Ask():
                self._ask(message, now)
            case m.Leave(ticket=ticket):
                self._leave(ticket, now)
            case m.Release():
                self._release(message, now)
            case m.Stop():
                self._stop(message, now)
            case m.PolicyChanged():
                self._arm_idle()
            case _:
                self._hear(message, now)
        return self._effects

    def _hear(self, news: m.News, now: float) -> None:
        match news:
            case m.RoomGranted(run=run):
                self._room_granted(run, now)
            case m.RoomAwaited():
                pass  # its status says so
            case m.RoomRefused():
                self._room_refused(news, now)
            case m.Started():
                self._started(news, now)
            case m.Alive(run=run):
                self._alive(run, now)
            case m.Ready():
                self._ready(news, now)
            case m.Ended():
                self._ended(news, now)
            case _:
                assert_never(news)

    def _ask(self, ask: m.Ask, now: float) -> None:
        if self._is_closed:
            self._answer(ask.ticket, m.TurnedAway(reason=m.Reason.CLOSING))
        elif self._policy().is_paused and ask.request.takes_memory:
            self._answer(ask.ticket, m.TurnedAway(reason=m.Reason.PAUSED))
        elif ask.holds and not self._is_served_beside(ask) and self.queued >= self._policy().queue_limit:
            self._answer(ask.ticket, m.TurnedAway(reason=m.Reason.FULL, retry_s=self._retry_s(now)))
        else:
            self._take_in(ask, now)

    def _is_served_beside(self, ask: m.Ask) -> bool:
        """Whether it waits for nobody: the engine is ready, and answers it beside its slots."""
        return self.state is _S.READY and not ask.terms.takes_slot

    def _take_in(self, ask: m.Ask, now: float) -> None:
        match self.state:
            case _S.STOPPED:
                self._begin(ask)
            case _S.FAILED:
                self._ask_after_failure(ask, now)
            case _S.BACKING_OFF:
                self._ask_backing_off(ask)
            case _S.STARTING | _S.LOADING | _S.READY | _S.SLEEPING if not self._fits(ask):
                self._replace(ask, now)
            case _S.READY:
                self._serve_or_grow(ask, now)
            case _S.STARTING | _S.LOADING | _S.SLEEPING:
                self.waiters[ask.ticket] = ask
            case _S.DRAINING if ask.explicit and self._fits(ask):
                self._call_off_draining(ask, now)
            case _S.DRAINING | _S.STOPPING:
                self.later.append(ask)
            case _:
                assert_never(self.state)

    def _fits(self, ask: m.Ask) -> bool:
        if self.request is None:
            return False
        is_of = ask.request is self.request or (
            ask.request.engine == self.request.engine and ask.request.source == self.request.source
        )
        if not is_of:
            return False
        same = ask.any_options or ask.request.options == self.request.options
        return (same and ask.fingerprint == self._fingerprint) or not ask.explicit

    def _is_too_small(self, ask: m.Ask) -> bool:
        has = self.request.options.context if self.request else None
        would_have = ask.request.options.context
        if has is None or would_have is None or ask.terms.context is None:
            return False
        return has < ask.terms.context and has < would_have

    def _begin(self, ask: m.Ask) -> None:
        self.request, self._fingerprint = ask.request, ask.fingerprint
        self.waiters[ask.ticket] = ask
        self._port_tries = 0
        self.applied, self._mended = [], None
        self._enter()

    def _serve(self, ask: m.Ask) -> None:
        if not ask.holds:
            self._answer(ask.ticket, m.Told())
            return
        if ask.terms.takes_slot:
            if not self.has_free_slot:
                self.line.add(ask)
                return
            self.in_slots += 1
        self.in_flight += 1
        self.timers.pop(Timer.IDLE, None)
        self.keep_s = self.keep_s if ask.terms.keep_s is None else ask.terms.keep_s
        self._answer(ask.ticket, m.Granted(run=self.run, slot=ask.terms.takes_slot))

    def _replace(self, ask: m.Ask, now: float) -> None:
        self.later.append(ask)
        self._called_off = m.Reason.REPLACED
        self._wind_down(self._policy().drain_s, now)

    def _serve_or_grow(self, ask: m.Ask, now: float) -> None:
        if not self._is_too_small(ask):
            self._serve(ask)
            return
        self.later.append(ask)
        self._called_off = m.Reason.REPLACED
        self._wind_down(math.inf, now)

    def _ask_after_failure(self, ask: m.Ask, now: float) -> None:
        unchanged = ask.request.is_for(self.request) and ask.fingerprint == self._fingerprint
        if ask.explicit or not unchanged or self.failure is None or self.failure.kind in ASKED_AT_ONCE:
            self.restarts.clear()
            self._begin(ask)
            return
        if self.failure.kind in NEVER_RETRY_UNCHANGED:
            self._answer(ask.ticket, m.Refused(failure=self.failure))
            return
        delay = back_off(self.restarts, now)
        if delay is None:
            self._answer(ask.ticket, m.Refused(failure=given_up(self.failure, self.model)))
            return
        self.waiters[ask.ticket] = ask
        self._back_off(delay, now)

    def _ask_backing_off(self, ask: m.Ask) -> None:
        if not self._fits(ask):
            self._answer_waiters(m.TurnedAway(reason=m.Reason.REPLACED))
        elif not ask.explicit:
            self.waiters[ask.ticket] = ask
            return
        self.timers.clear()
        self.restarts.clear()
        self._begin(ask)

    def _call_off_draining(self, ask: m.Ask, now: float) -> None:
        self._move(_S.READY)
        self.timers.clear()
        self._tell_stoppers()
        self._serve(ask)
        self._arm_idle()
        self._reconsider(now)

    def _leave(self, ticket: int, now: float) -> None:
        self.waiters.pop(ticket, None)
        self.later = [ask for ask in self.later if ask.ticket != ticket]
        self.line.remove(ticket)
        self.stoppers = [stopper for stopper in self.stoppers if stopper != ticket]
        if self.awaits_room and not self.waiters:
            self._wind_down(0.0, now)

    def _room_granted(self, run: int, now: float) -> None:
        if run == self.run and self.awaits_room:
            self._launch(now)

    def _room_refused(self, refused: m.RoomRefused, now: float) -> None:
        if refused.run == self.run and self.awaits_room:
            self._answer_waiters(m.Refused(failure=refused.failure))
            self._wind_down(0.0, now)

    def _started(self, started: m.Started, now: float) -> None:
        if started.run != self.run:
            return
        self._grace_s = started.grace_s
        if self.state not in COMING_UP or self._verdict:
            return
        if self.state is _S.STARTING:
            self._move(_S.LOADING)
        policy = self._policy()
        self._stall_s = policy.stall_s or started.stall_s
        self.timers[Timer.STALL] = now + self._stall_s
        self.timers[Timer.HARD] = now + (policy.hard_s or started.hard_s)

    def _alive(self, run: int, now: float) -> None:
        if run == self.run and Timer.STALL in self.timers:
            self.timers[Timer.STALL] = now + self._stall_s

    def _ready(self, ready: m.Ready, now: float) -> None:
        if ready.run != self.run or self.state is not _S.LOADING or self._verdict:
            return
        self._move(_S.READY)
        self.timers.clear()
        self.last_used, self.slots = now, ready.slots
        self.pace.load_s = now - self._launched_at
        waiters, self.waiters = self.waiters, {}
        for ask in sorted(in_turns(waiters.values()), key=self._is_too_small):
            self._ask(ask, now)
        self._arm_idle()

    def _release(self, release: m.Release, now: float) -> None:
        if release.run != self.run or not self.in_flight:
            return
        self.in_flight -= 1
        self.in_slots -= release.slot
        self.last_used = now
        if len(self.line):
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
        self.pace.moved(now)
        self._serve_or_grow(self.line.take(), now)
        if not len(self.line):
            self.pace.paused()

    def _retry_s(self, now: float) -> float:
        is_coming_up = self.state in COMING_UP and self._is_launched
        return self.pace.retry_s(self.queued, loading_s=now - self._launched_at if is_coming_up else None)
