"""Who waits for a slot of a ready engine: each client has its turn, however many requests it sends. Pure.

`WaitEstimate` measures how fast the line moves, so that whoever finds it full can be told when to come back.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator

from app.supervisor.messages import ReadyRequest

_NEWEST = 0.3
"""Weight of the newest gap: a few answers tell, and one long one does not frighten everybody away."""
_UNKNOWN_S = 5.0
"""What is said before anything was measured."""
SHORTEST_S = 1.0
LONGEST_S = 60.0
"""SDKs of OpenAI and Anthropic heed no longer time than this."""


class SlotQueue:
    """Asks by client. Whoever was served goes behind the others; its own asks stay in their order."""

    def __init__(self) -> None:
        self._asks: OrderedDict[str, deque[ReadyRequest]] = OrderedDict()
        self.count = 0
        """How many wait. No `__len__`: every lease looks at it."""

    def __iter__(self) -> Iterator[ReadyRequest]:
        """Yield everybody, by client."""
        for asks in self._asks.values():
            yield from asks

    def append_ask(self, ask: ReadyRequest) -> None:
        """Put somebody at the end of its client's own line."""
        self._asks.setdefault(ask.client, deque()).append(ask)
        self.count += 1

    def take_next(self) -> ReadyRequest:
        """Return who is next. Raises KeyError for an empty line."""
        client, asks = self._asks.popitem(last=False)
        ask = asks.popleft()
        if asks:
            self._asks[client] = asks
        self.count -= 1
        return ask

    def remove_ticket(self, ticket: int) -> None:
        """Let somebody go who no longer waits."""
        for client, asks in self._asks.items():
            remaining_asks = deque(ask for ask in asks if ask.ticket != ticket)
            if len(remaining_asks) < len(asks):
                self._asks[client] = remaining_asks
                self.count -= len(asks) - len(remaining_asks)
                break
        else:
            return
        if not self._asks[client]:
            del self._asks[client]

    def drain_all(self) -> list[ReadyRequest]:
        """Return everybody in the order they would have been served, and forget them."""
        return [self.take_next() for _ in range(self.count)]


def order_by_turns(asks: Iterable[ReadyRequest]) -> list[ReadyRequest]:
    """Return asks in the order in which a line would serve them."""
    queue = SlotQueue()
    for ask in asks:
        queue.append_ask(ask)
    return queue.drain_all()


class WaitEstimate:
    """How long it takes until the next slot is free, and until the model is loaded, as seen so far. In seconds."""

    def __init__(self) -> None:
        self._gap_s: float | None = None
        self._served_at: float | None = None
        self.load_s: float | None = None

    def note_served(self, now: float) -> None:
        """Note that somebody was served from the line."""
        if self._served_at is not None:
            gap = now - self._served_at
            self._gap_s = gap if self._gap_s is None else _NEWEST * gap + (1 - _NEWEST) * self._gap_s
        self._served_at = now

    def note_idle(self) -> None:
        """Note that nobody waits any more: the time until somebody does is no gap."""
        self._served_at = None

    def retry_s(self, waiting_count: int, *, loading_s: float | None = None) -> float:
        """Return when to try again with so many waiting; `loading_s`: it has been loading for so long."""
        seconds_left = 0.0 if loading_s is None else max(0.0, (self.load_s or _UNKNOWN_S) - loading_s)
        queue_s = _UNKNOWN_S if self._gap_s is None else self._gap_s * waiting_count
        return min(LONGEST_S, max(SHORTEST_S, seconds_left + queue_s))
