"""Who gets room, who makes room, and who is told that there is none: pure, from what is asked, what runs, what is free.

Room is counted in pools: bytes of each memory, and places where the number of models has a ceiling. A pool nobody can
read has no limit; an engine of unknown size takes all of every pool until it has been measured.

- Loads are let in as they came. One that waits keeps others from what it waits for, not from what it does not need.
- What makes room is idle and not pinned; of those, what is worth least (`keep_worth`), and no more than is needed.
  What is to be kept goes after all others.
- A busy engine is never cut. When a load has waited for `patience_s`, the busy ones that were used least recently take
  no new requests and go once the last is answered.
- A load that would not fit even if all but the pinned ones went is refused, once nothing is on its way in or out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from app.supervisor.policy import SupervisorPolicy

SYSTEM = "system"
"""The pool of system memory, whoever computes on it."""
PLACES = "places"
"""Stands among the pools for the number of models."""
_LEAST_LOAD_S = 1.0
"""Loads quicker than this cost the same: nothing to speak of."""
_HALF_LIFE_S = 60.0
"""An engine unused for this long is worth half of what it was."""


class MemoryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many bytes of each pool all engines together may take, those that run included."""

    pools: Mapping[str, int] = {}
    head_room: int = 0
    """Left free besides. An engine that is alone in a pool may have that too: nobody else is there to need it."""
    is_settled: bool = True
    """False while memory of an engine that ended is still on its way back: too early to send anybody away."""


class Resident(msgspec.Struct, frozen=True, kw_only=True):
    """One engine that takes up room. While it loads it is neither idle nor busy. `last_used` is monotonic."""

    model: str
    last_used: float
    is_idle: bool = False
    is_busy: bool = False
    is_leaving: bool = False
    is_pinned: bool = False
    is_kept: bool = False
    """Whether all other idle ones go first."""
    load_s: float = 0.0
    """How long loading it took."""
    holds: Mapping[str, int] | None = {}
    """Bytes by pool; None while nobody knows."""
    pid: int | None = None

    @property
    def may_go(self) -> bool:
        """Whether it may be told to make room at all."""
        return not (self.is_leaving or self.is_pinned)


class PendingLoad(msgspec.Struct, frozen=True, kw_only=True):
    """One load that waits for room, since a monotonic time."""

    model: str
    since: float
    needs: Mapping[str, int] | None = {}


class GrantRoom(msgspec.Struct, frozen=True, kw_only=True):
    """This model may start now."""

    model: str


class EvictEngine(msgspec.Struct, frozen=True, kw_only=True):
    """This model should stop. `drain`: it is busy, and should finish what it does and take nothing new."""

    model: str
    drain: bool = False


class RefuseLoad(msgspec.Struct, frozen=True, kw_only=True):
    """This model will not fit: of `pool` it needs so much and may have so much beside what is pinned."""

    model: str
    pool: str
    needed: int | None
    available: int
    pinned: Sequence[str] = ()


RoomEffect = GrantRoom | EvictEngine | RefuseLoad
_Holds = Callable[[Resident], Mapping[str, int]]


class ReservationTable:
    """What is taken of each pool."""

    def __init__(self, residents: Iterable[Resident], limits: MemoryLimits, policy: SupervisorPolicy) -> None:
        self._head_room = limits.head_room
        self._is_settled = limits.is_settled
        self._overcommits = limits.is_settled and not policy.refuses_too_large
        self._limits = dict(limits.pools)
        if policy.max_loaded:
            self._limits[PLACES] = policy.max_loaded
        self._taken_amounts = dict.fromkeys(self._limits, 0)
        for resident in residents:
            self.add_engine(resident.holds)

    def add_engine(self, needs: Mapping[str, int] | None) -> None:
        """Count an engine in."""
        for pool, amount in self.demand_of(needs).items():
            self._taken_amounts[pool] += amount

    def remove_engine(self, needs: Mapping[str, int] | None) -> None:
        """Count an engine out."""
        for pool, amount in self.demand_of(needs).items():
            self._taken_amounts[pool] -= amount

    def demand_of(self, needs: Mapping[str, int] | None) -> dict[str, int]:
        """Return what an engine takes of the pools that have limits: a place, and bytes; all of them if unknown."""
        beyond = 0 if self._is_settled else self._head_room + 1  # what "all" is will be known once all is back
        memory = {pool: max(1, limit) + beyond for pool, limit in self._limits.items() if pool != PLACES}
        known_demand = memory if needs is None else {pool: needs[pool] for pool in memory if needs.get(pool)}
        places = 1 if needs is None else needs.get(PLACES, 1)  # an endpoint that somebody else runs takes none
        return {PLACES: places, **known_demand} if places and PLACES in self._limits else known_demand

    def allowance_of(self, pool: str) -> float:
        """Return how much of a pool may be taken."""
        limit = self._limits[pool]
        if pool == PLACES or self._taken_amounts[pool]:
            return limit
        return float("inf") if self._overcommits else limit + self._head_room

    def shortfall_of(self, needs: Mapping[str, int] | None) -> dict[str, float]:
        """Return how much is missing by pool, for one more such engine; nothing if it fits."""
        demand = self.demand_of(needs)
        missing_bytes = {
            pool: self._taken_amounts[pool] + amount - self.allowance_of(pool) for pool, amount in demand.items()
        }
        return {pool: amount for pool, amount in missing_bytes.items() if amount > 0}

    def excess_engines(self) -> dict[str, float]:
        """Return by how many there are more engines than places."""
        excess = self._taken_amounts.get(PLACES, 0) - self._limits.get(PLACES, 0)
        return {PLACES: excess} if excess > 0 else {}


def keep_worth(resident: Resident, now: float) -> float:
    """Return what keeping an idle engine is worth: the seconds its next load would cost, the less the longer unused.

    `max(load_s, 1) / (1 + unused_s / 60)`: of two unused for as long, the one that loads in 2 s goes before the one
    that takes 60; but after an hour without use that one goes before the one that was used a minute ago.
    """
    return max(_LEAST_LOAD_S, resident.load_s) / (1.0 + max(0.0, now - resident.last_used) / _HALF_LIFE_S)


def schedule_loads(
    waiting_loads: Sequence[PendingLoad],
    residents: Sequence[Resident],
    *,
    now: float,
    policy: SupervisorPolicy,
    limits: MemoryLimits | None = None,
) -> list[RoomEffect]:
    """Give free room in the order of asking; for the rest, say who makes room, or that nobody can."""
    return _ScheduleRound(waiting_loads, residents, now, policy, limits or MemoryLimits()).decide_effects()


def engines_in_the_way(
    load: PendingLoad, residents: Sequence[Resident], policy: SupervisorPolicy, limits: MemoryLimits
) -> list[str]:
    """Name the engines a load waits for: those that hold what it is short of, and cannot go now."""
    table = ReservationTable(residents, limits, policy)
    short = table.shortfall_of(load.needs)
    return [
        resident.model
        for resident in residents
        if not resident.is_idle and not short.keys().isdisjoint(table.demand_of(resident.holds))
    ]


def engines_to_free(residents: Sequence[Resident], missing_bytes: Mapping[str, float], now: float) -> list[str]:
    """Name the idle engines to stop so that another program gets what is missing of each pool; as far as they go."""
    chosen_residents, _ = _choose_victims(
        dict(missing_bytes), _idle_residents(residents, now), lambda resident: resident.holds or {}
    )
    return [resident.model for resident in chosen_residents]


def next_overdue(waiting_loads: Sequence[PendingLoad], policy: SupervisorPolicy) -> float | None:
    """Return when `schedule_loads` has to be asked again although nothing happened."""
    return min((load.since + policy.patience_s for load in waiting_loads), default=None)


class _ScheduleRound:
    """One decision."""

    def __init__(
        self,
        waiting_loads: Sequence[PendingLoad],
        residents: Sequence[Resident],
        now: float,
        policy: SupervisorPolicy,
        limits: MemoryLimits,
    ) -> None:
        self._waiting_loads, self._running_loads, self._now, self._policy, self._limits = (
            waiting_loads,
            residents,
            now,
            policy,
            limits,
        )
        self._granted_loads: list[PendingLoad] = []
        self._evicted_models: set[str] = set()

    def decide_effects(self) -> list[RoomEffect]:
        queued_loads = self._grant_fitting()
        effects: list[RoomEffect] = [GrantRoom(model=load.model) for load in self._granted_loads]
        if not self._limits.is_settled:
            return effects
        residents = [resident for resident in self._running_loads if not resident.is_leaving]
        table = self._build_table(residents)
        for load in self._granted_loads:
            table.add_engine(load.needs)
        for load in queued_loads:
            effects += self._make_room(load, table)
        return effects + self._evict_excess(table)

    def _build_table(self, residents: Iterable[Resident]) -> ReservationTable:
        return ReservationTable(residents, self._limits, self._policy)

    def _grant_fitting(self) -> list[PendingLoad]:
        table, queued_loads = self._build_table(self._running_loads), []
        for load in self._waiting_loads:
            if table.shortfall_of(load.needs):
                queued_loads.append(load)
            else:
                self._granted_loads.append(load)
            table.add_engine(load.needs)  # kept for it also if it has to wait: nobody overtakes it for ever
        return queued_loads

    def _make_room(self, load: PendingLoad, table: ReservationTable) -> list[RoomEffect]:
        refusal = self._find_refusal(load)
        if refusal is not None:
            return [refusal]
        is_overdue = self._now - load.since >= self._policy.patience_s
        idle = [
            resident
            for resident in _idle_residents(self._running_loads, self._now)
            if resident.model not in self._evicted_models
        ]
        busy = (
            [
                resident
                for resident in _busy_residents(self._running_loads)
                if resident.model not in self._evicted_models
            ]
            if is_overdue
            else []
        )
        chosen_residents, is_enough = _choose_victims(
            table.shortfall_of(load.needs), [*idle, *busy], lambda resident: table.demand_of(resident.holds)
        )
        table.add_engine(load.needs)
        if not (is_enough or is_overdue):
            return []
        for resident in chosen_residents:
            table.remove_engine(resident.holds)
            self._evicted_models.add(resident.model)
        return [EvictEngine(model=resident.model, drain=resident.is_busy) for resident in chosen_residents]

    def _find_refusal(self, load: PendingLoad) -> RefuseLoad | None:
        """Say that it will never fit, once everything has come to rest."""
        on_the_way = any(not (resident.is_idle or resident.is_busy) for resident in self._running_loads)
        if on_the_way or self._granted_loads:
            return None
        pinned_residents = [resident for resident in self._running_loads if resident.is_pinned]
        table = self._build_table(pinned_residents)
        short = table.shortfall_of(load.needs)
        if not short:
            return None
        pool = max(short, key=lambda name: short[name])
        needed_bytes = table.demand_of(load.needs)[pool]
        return RefuseLoad(
            model=load.model,
            pool=pool,
            needed=None if load.needs is None and pool != PLACES else needed_bytes,
            available=int(max(0, needed_bytes - short[pool])),
            pinned=tuple(resident.model for resident in pinned_residents if pool in table.demand_of(resident.holds)),
        )

    def _evict_excess(self, table: ReservationTable) -> list[RoomEffect]:
        """Make do with fewer places than are taken: the ceiling was lowered."""
        idle = [
            resident
            for resident in _idle_residents(self._running_loads, self._now)
            if resident.model not in self._evicted_models
        ]
        chosen_residents, _ = _choose_victims(
            {} if self._waiting_loads else table.excess_engines(),
            idle,
            lambda resident: table.demand_of(resident.holds),
        )
        return [EvictEngine(model=resident.model) for resident in chosen_residents]


def _idle_residents(residents: Sequence[Resident], now: float) -> list[Resident]:
    """Return what may go at once, what is worth least first."""
    return sorted(
        (resident for resident in residents if resident.is_idle and resident.may_go),
        key=lambda resident: (resident.is_kept, keep_worth(resident, now)),
    )


def _busy_residents(residents: Sequence[Resident]) -> list[Resident]:
    return sorted(
        (resident for resident in residents if resident.is_busy and resident.may_go),
        key=lambda resident: resident.last_used,
    )


def _choose_victims(
    missing_bytes: dict[str, float], ranked_residents: Sequence[Resident], holds: _Holds
) -> tuple[list[Resident], bool]:
    """Take from the front until nothing is missing, then spare who was not needed. Say whether it is enough."""
    bytes_left, chosen_residents = dict(missing_bytes), []
    for resident in ranked_residents:
        if not any(amount > 0 and holds(resident).get(pool) for pool, amount in bytes_left.items()):
            continue
        chosen_residents.append(resident)
        bytes_left = {pool: amount - holds(resident).get(pool, 0) for pool, amount in bytes_left.items()}
    for resident in reversed(chosen_residents):
        without = {pool: amount + holds(resident).get(pool, 0) for pool, amount in bytes_left.items()}
        if all(amount <= 0 for amount in without.values()):
            chosen_residents, bytes_left = [other for other in chosen_residents if other is not resident], without
    return chosen_residents, all(amount <= 0 for amount in bytes_left.values())
