"""Requests that wait at a replica elsewhere that answers nothing more: given back, so that another answers them.

Its connection stays open when a machine is frozen or cut off, and only the router knows which of its requests wait
there. Those that were sent before the replica was taken out, and of which nothing has come since, are given back once
they are no more than the router had with it, or after two minutes, whatever they are: a whole answer that another
replica is still writing then is asked for again.
"""

import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from app.core.errors import EngineFailed
from app.gateway.exchange.observer import Observation

LEAST_S = 10.0
"""A replica that was only busy is back by then."""
MOST_S = 120.0
NONE_S = 30.0
"""So long may nothing come of a request where no replica works: whichever has it is lost."""

ListSilent = Callable[[str, float], Sequence[Observation]]
"""Returns the answers of a model of which nothing has come since a time of `time.perf_counter()`."""


class _LostReplica(msgspec.Struct, kw_only=True):
    since: float
    requests: int | None
    """So many the router had with it; None where it does not say."""
    is_done: bool = False


class LostReplicas:
    """Those of one fleet that were taken out because of a problem. Belongs to the event loop."""

    def __init__(self, fleet: str, list_silent: ListSilent, clock: Callable[[], float] = time.perf_counter) -> None:
        self._fleet, self._list_silent, self._clock = fleet, list_silent, clock
        self._replicas: dict[str, _LostReplica] = {}

    def put_lost(self, loads: Mapping[str, int | None]) -> None:
        """Take the addresses of all replicas that are out now, and what the router had with each."""
        for url in self._replicas.keys() - loads.keys():
            del self._replicas[url]
        for url, load in loads.items():
            if url not in self._replicas:
                self._replicas[url] = _LostReplica(since=self._clock(), requests=load)

    def give_back(self, *, is_none_left: bool) -> int:
        """End the connections of requests that wait there, as far as that is known, and return how many."""
        if is_none_left:
            return sum(self._end_silent(url, self._clock() - NONE_S) for url in list(self._replicas)[:1])
        return sum(self._give_back_from(url, replica) for url, replica in self._replicas.items())

    def _give_back_from(self, url: str, replica: _LostReplica) -> int:
        age_s = self._clock() - replica.since
        if replica.is_done or age_s < LEAST_S:
            return 0
        silent_count = len(self._list_silent(self._fleet, replica.since))
        replica.is_done = age_s >= MOST_S or (replica.requests is not None and silent_count <= replica.requests)
        return self._end_silent(url, replica.since) if replica.is_done else 0

    def _end_silent(self, url: str, since: float) -> int:
        silent_answers = self._list_silent(self._fleet, since)
        for observation in silent_answers:
            observation.break_off(_gone_error(url))
        return len(silent_answers)


def _gone_error(url: str) -> EngineFailed:
    return EngineFailed(
        f"The replica at {url} answers nothing any more.", hint="Ask again: others answer.", code="engine_broke_off"
    )
