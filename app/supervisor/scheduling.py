"""Who gets room, who makes room, and who is told that there is none: pure, from what is asked, what runs, what is free.

Room is counted in pools: bytes of each memory, and places where the number of models has a ceiling. A pool nobody can
read has no limit; an engine of unknown size takes all of every pool until it has been measured.

- Loads are let in as they came. One that waits keeps others from what it waits for, not from what it does not need.
- What makes room is idle and not pinned; of those, what is worth least (`worth`), and no more than is needed.
- A busy engine is never cut. When a load has waited for `patience_s`, the busy ones that were used least recently take
  no new requests and go once the last is answered.
- A load that would not fit even if all but the pinned ones went is refused, once nothing is on its way in or out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from app.supervisor.policy import Policy

SYSTEM = "system"
"""The pool of system memory, whoever computes on it."""
PLACES = "places"
"""Stands among the pools for the number of models."""
_LEAST_LOAD_S = 1.0
"""Loads quicker than this cost the same: nothing to speak of."""
_HALF_LIFE_S = 60.0
"""An engine unused for this long is worth half of what it was."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How many bytes of each pool all engines together may take, those that run included."""

    pools: Mapping[str, int] = {}
    head_room: int = 0
    """Left free besides. An engine that is alone in a pool may have that too: nobody else is there to need it."""
    is_settled: bool = True
    """False while memory of an engine that ended is still on its way back: too early to send anybody away."""


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """One engine that takes up room. While it loads it is neither idle nor busy. `last_used` is monotonic."""

    model: str
    last_used: float
    is_idle: bool = False
    is_busy: bool = False
    is_leaving: bool = False
    is_pinned: bool = False
    load_s: float = 0.0
    """How long loading it took."""
    holds: Mapping[str, int] | None = {}
    """Bytes by pool; None while nobody knows."""
    pid: int | None = None

    @property
    def may_go(self) -> bool:
        """Whether it may be told to make room at all."""
        return not (self.is_leaving or self.is_pinned)


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """One load that waits for room, since a monotonic time."""

    model: str
    since: float
    needs: Mapping[str, int] | None = {}


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """This model may start now."""

    model: str


class Evict(msgspec.Struct, frozen=True, kw_only=True):
    """This model should stop. `drain`: it is busy, and should finish what it does and take nothing new."""

    model: str
    drain: bool = False


class Refuse(msgspec.Struct, frozen=True, kw_only=True):
    """This model will not fit: of `pool` it needs so much and may have so much beside what is pinned."""

    model: str
    pool: str
    needed: int | None
    available: int
    pinned: Sequence[str] = ()


Effect = Grant | Evict | Refuse
_Holds = Callable[[Seat], Mapping[str, int]]


class Book:
    """What is taken of each pool."""

    def __init__(self, seats: Iterable[Seat], limits: Limits, policy: Policy) -> None:
        self._head_room = limits.head_room
        self._is_settled = limits.is_settled
        self._overcommits = limits.is_settled and not policy.refuses_too_large
        self._limits = dict(limits.pools)
        if policy.max_loaded:
            self._limits[PLACES] = policy.max_loaded
        self._taken = dict.fromkeys(self._limits, 0)
        for seat in seats:
            self.add(seat.holds)

    def add(self, needs: Mapping[str, int] | None) -> None:
        """Count an engine in."""
        for pool, amount in self.wanted(needs).items():
            self._taken[pool] += amount

    def remove(self, needs: Mapping[str, int] | None) -> None:
        """Count an engine out."""
        for pool, amount in self.wanted(needs).items():
            self._taken[pool] -= amount

    def wanted(self, needs: Mapping[str, int] | None) -> dict[str, int]:
        """Return what an engine takes of the pools that have limits: a place, and bytes; all of them if unknown."""
        beyond = 0 if self._is_settled else self._head_room + 1  # what "all" is will be known once all is back
        memory = {pool: max(1, limit) + beyond for pool, limit in self._limits.items() if pool != PLACES}
        known = memory if needs is None else {pool: needs[pool] for pool in memory if needs.get(pool)}
        places = 1 if needs is None else needs.get(PLACES, 1)  # an endpoint that somebody else runs takes none
        return {PLACES: places, **known} if places and PLACES in self._limits else known

    def allowed(self, pool: str) -> float:
        """Return how much of a pool may be taken."""
        limit = self._limits[pool]
        if pool == PLACES or self._taken[pool]:
            return limit
        return float("inf") if self._overcommits else limit + self._head_room

    def short(self, needs: Mapping[str, int] | None) -> dict[str, float]:
        """Return how much is missing by pool, for one more such engine; nothing if it fits."""
        wanted = self.wanted(needs)
        missing = {pool: self._taken[pool] + amount - self.allowed(pool) for pool, amount in wanted.items()}
        return {pool: amount for pool, amount in missing.items() if amount > 0}

    def over(self) -> dict[str, float]:
        """Return by how many there are more engines than places."""
        excess = self._taken.get(PLACES, 0) - self._limits.get(PLACES, 0)
        return {PLACES: excess} if excess > 0 else {}


def worth(seat: Seat, now: float) -> float:
    """Return what keeping an idle engine is worth: the seconds its next load would cost, the less the longer unused.

    `max(load_s, 1) / (1 + unused_s / 60)`: of two unused for as long, the one that loads in 2 s goes before the one
    that takes 60; but after an hour without use that one goes before the one that was used a minute ago.
    """
    return max(_LEAST_LOAD_S, seat.load_s) / (1.0 + max(0.0, now - seat.last_used) / _HALF_LIFE_S)


def schedule(
    waiting: Sequence[Waiting], running: Sequence[Seat], *, now: float, policy: Policy, limits: Limits | None = None
) -> list[Effect]:
    """Give free room in the order of asking; for the rest, say who makes room, or that nobody can."""
    return _Round(waiting, running, now, policy, limits or Limits()).effects()


def in_the_way(load: Waiting, running: Sequence[Seat], policy: Policy, limits: Limits) -> list[str]:
    """Name the engines a load waits for: those that hold what it is short of, and cannot go now."""
    book = Book(running, limits, policy)
    short = book.short(load.needs)
    return [seat.model for seat in running if not seat.is_idle and not short.keys().isdisjoint(book.wanted(seat.holds))]


def to_free(running: Sequence[Seat], missing: Mapping[str, float], now: float) -> list[str]:
    """Name the idle engines to stop so that another program gets what is missing of each pool; as far as they go."""
    chosen, _ = _victims(dict(missing), _idle(running, now), lambda seat: seat.holds or {})
    return [seat.model for seat in chosen]


def next_overdue(waiting: Sequence[Waiting], policy: Policy) -> float | None:
    """Return when `schedule` has to be asked again although nothing happened."""
    return min((load.since + policy.patience_s for load in waiting), default=None)


class _Round:
    """One decision."""

    def __init__(
        self, waiting: Sequence[Waiting], running: Sequence[Seat], now: float, policy: Policy, limits: Limits
    ) -> None:
        self._waiting, self._running, self._now, self._policy, self._limits = waiting, running, now, policy, limits
        self._granted: list[Waiting] = []
        self._gone: set[str] = set()

    def effects(self) -> list[Effect]:
        queued = self._let_in()
        effects: list[Effect] = [Grant(model=load.model) for load in self._granted]
        if not self._limits.is_settled:
            return effects
        staying = [seat for seat in self._running if not seat.is_leaving]
        book = self._book(staying)
        for load in self._granted:
            book.add(load.needs)
        for load in queued:
            effects += self._make_room(load, book)
        return effects + self._shrink(book)

    def _book(self, seats: Iterable[Seat]) -> Book:
        return Book(seats, self._limits, self._policy)

    def _let_in(self) -> list[Waiting]:
        book, queued = self._book(self._running), []
        for load in self._waiting:
            if book.short(load.needs):
                queued.append(load)
            else:
                self._granted.append(load)
            book.add(load.needs)  # kept for it also if it has to wait: nobody overtakes it for ever
        return queued

    def _make_room(self, load: Waiting, book: Book) -> list[Effect]:
        refusal = self._refusal(load)
        if refusal is not None:
            return [refusal]
        is_overdue = self._now - load.since >= self._policy.patience_s
        idle = [seat for seat in _idle(self._running, self._now) if seat.model not in self._gone]
        busy = [seat for seat in _busy(self._running) if seat.model not in self._gone] if is_overdue else []
        chosen, is_enough = _victims(book.short(load.needs), [*idle, *busy], lambda seat: book.wanted(seat.holds))
        book.add(load.needs)
        if not (is_enough or is_overdue):
            return []
        for seat in chosen:
            book.remove(seat.holds)
            self._gone.add(seat.model)
        return [Evict(model=seat.model, drain=seat.is_busy) for seat in chosen]

    def _refusal(self, load: Waiting) -> Refuse | None:
        """Say that it will never fit, once everything has come to rest."""
        on_the_way = any(not (seat.is_idle or seat.is_busy) for seat in self._running)
        if on_the_way or self._granted:
            return None
        pinned = [seat for seat in self._running if seat.is_pinned]
        book = self._book(pinned)
        short = book.short(load.needs)
        if not short:
            return None
        pool = max(short, key=lambda name: short[name])
        needed = book.wanted(load.needs)[pool]
        return Refuse(
            model=load.model,
            pool=pool,
            needed=None if load.needs is None and pool != PLACES else needed,
            available=int(max(0, needed - short[pool])),
            pinned=tuple(seat.model for seat in pinned if pool in book.wanted(seat.holds)),
        )

    def _shrink(self, book: Book) -> list[Effect]:
        """Make do with fewer places than are taken: the ceiling was lowered."""
        idle = [seat for seat in _idle(self._running, self._now) if seat.model not in self._gone]
        chosen, _ = _victims({} if self._waiting else book.over(), idle, lambda seat: book.wanted(seat.holds))
        return [Evict(model=seat.model) for seat in chosen]


def _idle(running: Sequence[Seat], now: float) -> list[Seat]:
    """Return what may go at once, what is worth least first."""
    return sorted((seat for seat in running if seat.is_idle and seat.may_go), key=lambda seat: worth(seat, now))


def _busy(running: Sequence[Seat]) -> list[Seat]:
    return sorted((seat for seat in running if seat.is_busy and seat.may_go), key=lambda seat: seat.last_used)


def _victims(missing: dict[str, float], ranked: Sequence[Seat], holds: _Holds) -> tuple[list[Seat], bool]:
    """Take from the front until nothing is missing, then spare who was not needed. Say whether it is enough."""
    left, chosen = dict(missing), []
    for seat in ranked:
        if not any(amount > 0 and holds(seat).get(pool) for pool, amount in left.items()):
            continue
        chosen.append(seat)
        left = {pool: amount - holds(seat).get(pool, 0) for pool, amount in left.items()}
    for seat in reversed(chosen):
        spared = {pool: amount + holds(seat).get(pool, 0) for pool, amount in left.items()}
        if all(amount <= 0 for amount in spared.values()):
            chosen, left = [other for other in chosen if other is not seat], spared
    return chosen, all(amount <= 0 for amount in left.values())
