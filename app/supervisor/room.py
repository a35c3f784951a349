"""How many engines may be loaded at once, and the queue of those that wait.

It holds places, asks the pure `schedule` what to do whenever something changed, and passes that on. An engine keeps its
place from being let in until nothing of it is left.
"""

import asyncio
from collections.abc import Callable

from app.supervisor import messages as m
from app.supervisor.policy import Grant, Policy, Seat, Waiting, next_overdue, schedule


class Room:
    """The places, and the queue. `seat` describes a model's engine; `send` reaches its owner."""

    def __init__(
        self, policy: Callable[[], Policy], *, seat: Callable[[str], Seat], send: Callable[[str, m.Message], None]
    ) -> None:
        self._policy = policy
        self._seat = seat
        self._send = send
        self._seated: set[str] = set()
        self._queue: dict[str, tuple[Waiting, int]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def enter(self, model: str, run: int) -> None:
        """Queue for a place; the owner hears `RoomGranted` of that run."""
        self._queue[model] = (Waiting(model=model, since=self._loop.time()), run)
        self.reconsider()

    def leave(self, model: str) -> None:
        """Give up the place, or the place in the queue."""
        self._queue.pop(model, None)
        self._seated.discard(model)
        self.reconsider()

    def reconsider(self) -> None:
        """Let in who can be, and ask engines to make room for the others."""
        if not self._queue and len(self._seated) <= self._policy().max_loaded:
            return
        waiting = [place for place, _ in self._queue.values()]
        seats = [self._seat(model) for model in self._seated]
        for effect in schedule(waiting, seats, now=self._loop.time(), policy=self._policy()):
            if isinstance(effect, Grant):
                self._let_in(effect.model)
            else:
                self._send(effect.model, m.Stop(how=m.How.YIELD if effect.drain else m.How.IF_IDLE))
        self._set_alarm()

    def is_queued(self, model: str) -> bool:
        """Tell whether a model waits for another to make room."""
        return model in self._queue

    def close(self) -> None:
        """Ask nothing more of anybody."""
        if self._alarm is not None:
            self._alarm.cancel()

    def _let_in(self, model: str) -> None:
        _, run = self._queue.pop(model)
        self._seated.add(model)
        self._send(model, m.RoomGranted(run=run))

    def _set_alarm(self) -> None:
        self.close()
        due = next_overdue([place for place, _ in self._queue.values()], self._policy())
        if due is not None and due > self._loop.time():
            self._alarm = self._loop.call_at(due, self.reconsider)
