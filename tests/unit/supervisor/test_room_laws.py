"""Laws of room, logs and waiting that hold whatever is asked: exact bounds, nobody spared or sent away in vain."""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.core.events import LogLine
from app.supervisor import logs
from app.supervisor.logs import EngineLog, LineSplitter, LogRedactor, file_slug
from app.supervisor.memory_arbiter import BACK_S, LOOK_S, MemoryLedger, memory_state
from app.supervisor.memory_limits import MemoryReading, correct_holdings, is_memory_back, limits_of
from app.supervisor.memory_watch import CALM_S, MemoryPressure
from app.supervisor.policy import (
    MAX_RESTARTS,
    RESTART_WINDOW_S,
    LoadRequest,
    MemoryNeeds,
    ModelPolicy,
    SupervisorPolicy,
    back_off_delay,
    recent_restarts,
)
from app.supervisor.scheduling import (
    PLACES,
    SYSTEM,
    EvictEngine,
    GrantRoom,
    MemoryLimits,
    PendingLoad,
    RefuseLoad,
    ReservationTable,
    Resident,
    engines_in_the_way,
    engines_to_free,
    keep_worth,
    next_overdue,
    schedule_loads,
)
from app.supervisor.slot_queue import LONGEST_S, SHORTEST_S, WaitEstimate
from engines.api import LaunchOptions, ModelFormat, ModelSource
from engines.api.options import RemoteEndpoint

GPU = "gpu"
MIB = 1024**2
SLACK = 256 * MIB


def resident(model: str, kind: str = "idle", last_used: float = 0.0, **fields: object) -> Resident:
    """Return an engine that is "idle", "busy", "leaving" or "loading"."""
    flags = {} if kind == "loading" else {f"is_{kind}": True}
    return msgspec.structs.replace(Resident(model=model, last_used=last_used), **flags, **fields)


def load(model: str, needs: Mapping[str, int] | None, since: float = 0.0) -> PendingLoad:
    return PendingLoad(model=model, since=since, needs=needs)


def table_of(*residents: Resident, limits: MemoryLimits, policy: SupervisorPolicy | None = None) -> ReservationTable:
    return ReservationTable(residents, limits, policy or SupervisorPolicy())


# ----- what is taken of each pool


@pytest.mark.parametrize(("taken_bytes", "size", "shortfall"), [(60, 40, 0), (60, 41, 1), (60, 42, 2), (100, 1, 1)])
def test_a_pool_is_full_at_its_limit_and_not_a_byte_before(taken_bytes: int, size: int, shortfall: int) -> None:
    table = table_of(resident("a", holds={SYSTEM: taken_bytes}), limits=MemoryLimits(pools={SYSTEM: 100}))
    assert table.shortfall_of({SYSTEM: size}) == ({SYSTEM: shortfall} if shortfall else {})
    assert table.shortfall_of({SYSTEM: 0, "elsewhere": 10**9}) == {}


@given(counts=st.lists(st.dictionaries(st.sampled_from([SYSTEM, GPU, PLACES]), st.integers(0, 9)), max_size=5))
def test_what_is_counted_in_and_out_again_leaves_nothing(counts: list[dict[str, int]]) -> None:
    table = table_of(limits=MemoryLimits(pools={SYSTEM: 50, GPU: 50}), policy=SupervisorPolicy(max_loaded=20))
    for needs in counts:
        table.add_engine(needs)
    for pool, limit in ((SYSTEM, 50), (GPU, 50)):
        taken_bytes = sum(needs.get(pool, 0) for needs in counts)
        assert table.shortfall_of({pool: 51, PLACES: 0}) == {pool: taken_bytes + 51 - limit}
    places = sum(needs.get(PLACES, 1) for needs in counts)
    assert table.shortfall_of({PLACES: 21}) == {PLACES: places + 1}
    assert table.excess_engines() == ({PLACES: places - 20} if places > 20 else {})
    for needs in counts:
        table.remove_engine(needs)
    assert table.shortfall_of({SYSTEM: 50, GPU: 50, PLACES: 20}) == table.excess_engines() == {}


@pytest.mark.parametrize(
    ("limit", "is_settled", "taken_bytes"), [(100, True, 100), (100, False, 111), (0, True, 1), (-5, False, 12)]
)
def test_an_engine_of_unknown_size_takes_all_there_is_and_all_that_may_still_come(
    limit: int, taken_bytes: int, *, is_settled: bool
) -> None:
    limits = MemoryLimits(pools={SYSTEM: limit, GPU: 7}, head_room=10, is_settled=is_settled)
    table = table_of(limits=limits, policy=SupervisorPolicy(max_loaded=3))
    beyond = 0 if is_settled else 11
    assert table.demand_of(None) == {SYSTEM: taken_bytes, GPU: 7 + beyond, PLACES: 1}
    assert table.demand_of({SYSTEM: 5, GPU: 0, "else": 3}) == {SYSTEM: 5, PLACES: 1}
    assert table.demand_of({PLACES: 0}) == {}
    assert table.demand_of({PLACES: 2}) == {PLACES: 2}
    assert table_of(limits=limits).demand_of({SYSTEM: 5}) == {SYSTEM: 5}


def test_head_room_is_for_who_is_alone_and_all_there_is_for_who_may_be_tried() -> None:
    limits = MemoryLimits(pools={SYSTEM: 100}, head_room=10)
    alone, beside = table_of(limits=limits), table_of(resident("a", holds={SYSTEM: 1}), limits=limits)
    assert (alone.allowance_of(SYSTEM), beside.allowance_of(SYSTEM)) == (110, 100)
    tried_policy = SupervisorPolicy(refuses_too_large=False, max_loaded=2)
    assert table_of(limits=limits, policy=tried_policy).allowance_of(SYSTEM) == math.inf
    assert table_of(limits=limits, policy=tried_policy).allowance_of(PLACES) == 2
    unsettled_limits = msgspec.structs.replace(limits, is_settled=False)
    assert table_of(limits=unsettled_limits, policy=tried_policy).allowance_of(SYSTEM) == 110


def test_without_limits_nothing_is_ever_short() -> None:
    assert MemoryLimits() == MemoryLimits(pools={}, head_room=0, is_settled=True)
    table = table_of(resident("a", holds=None), limits=MemoryLimits())
    assert table.shortfall_of(None) == table.shortfall_of({SYSTEM: 10**12}) == table.excess_engines() == {}


def test_one_that_nobody_described_is_neither_idle_nor_busy_nor_on_its_way_out() -> None:
    bare = Resident(model="a", last_used=0.0)
    assert (bare.is_idle, bare.is_busy, bare.is_leaving, bare.is_pinned, bare.may_go) == (False,) * 4 + (True,)
    assert (bare.holds, bare.pid, bare.load_s) == ({}, None, 0.0)
    assert not EvictEngine(model="a").drain
    for fields in ({"is_leaving": True}, {"is_pinned": True}):
        assert not msgspec.structs.replace(bare, **fields).may_go


# ----- who makes room

SIZES = st.integers(0, 4)
IDLE = st.lists(st.tuples(SIZES, SIZES), max_size=5)


@given(sizes=IDLE, shortfall=st.dictionaries(st.sampled_from([SYSTEM, GPU]), st.integers(-1, 8)))
@example(sizes=[(1, 0), (1, 0)], shortfall={SYSTEM: 1})
@example(sizes=[(1, 1), (0, 1)], shortfall={SYSTEM: 1, GPU: 2})
def test_as_few_go_as_are_enough_and_all_that_hold_some_where_none_is(
    sizes: list[tuple[int, int]], shortfall: dict[str, int]
) -> None:
    idle = [
        resident(f"m{at}", last_used=at, holds={SYSTEM: ram, GPU: vram} if at % 2 else {GPU: vram, SYSTEM: ram})
        for at, (ram, vram) in enumerate(sizes)
    ]
    held_bytes = {f"m{at}": {SYSTEM: ram, GPU: vram} for at, (ram, vram) in enumerate(sizes)}
    chosen_models = engines_to_free(idle, shortfall, now=10.0)

    def is_enough(models: Sequence[str]) -> bool:
        return all(sum(held_bytes[model][pool] for model in models) >= amount for pool, amount in shortfall.items())

    assert is_enough(chosen_models) == is_enough(list(held_bytes))
    if is_enough(chosen_models):
        assert not any(is_enough([other for other in chosen_models if other != model]) for model in chosen_models)
    else:
        lacking_pools = [
            pool for pool, amount in shortfall.items() if amount > sum(held_bytes[model][pool] for model in held_bytes)
        ]
        holders = {model for model in held_bytes if any(held_bytes[model][pool] for pool in lacking_pools)}
        assert holders <= set(chosen_models)
    assert chosen_models == sorted(chosen_models), "the longest unused first"


def test_engines_without_figures_free_nothing_that_could_be_counted() -> None:
    assert engines_to_free([resident("a", holds=None), resident("b", holds={GPU: 5})], {GPU: 1}, now=1.0) == ["b"]


@given(
    load_s=st.floats(0, 100),
    unused_s=st.floats(0, 10_000),
    more_s=st.floats(0.001, 1000),
    longer_s=st.floats(0.001, 99),
)
def test_worth_falls_with_time_and_grows_with_the_load_it_saves(
    load_s: float, unused_s: float, more_s: float, longer_s: float
) -> None:
    worth = keep_worth(resident("a", last_used=-unused_s, load_s=load_s), now=0.0)
    assert worth == pytest.approx(max(1.0, load_s) * 60 / (60 + unused_s))
    assert keep_worth(resident("a", last_used=-unused_s - more_s, load_s=load_s), now=0.0) <= worth
    assert keep_worth(resident("a", last_used=-unused_s, load_s=load_s + longer_s), now=0.0) >= worth
    assert keep_worth(resident("a", last_used=more_s, load_s=load_s), now=0.0) == max(1.0, load_s), "used in a moment"


def test_a_busy_one_is_drained_from_the_very_moment_that_patience_ends() -> None:
    residents = [resident("new", "busy", 9.0), resident("old", "busy", 1.0), resident("p", "busy", 0.0, is_pinned=True)]
    policy = SupervisorPolicy(max_loaded=3, patience_s=30.0)
    waiting_loads = [load("w", {}, since=5.0)]
    assert next_overdue(waiting_loads, policy) == 35.0
    for now, effects in ((34.999, []), (35.0, [EvictEngine(model="old", drain=True)])):
        assert schedule_loads(waiting_loads, residents, now=now, policy=policy) == effects


def test_what_was_freed_for_the_first_is_not_given_to_the_second() -> None:
    residents = [resident("a", holds={SYSTEM: 50}), resident("b", last_used=1.0, holds={SYSTEM: 50})]
    limits = MemoryLimits(pools={SYSTEM: 100})
    both = [load("v", {SYSTEM: 50}), load("w", {SYSTEM: 50})]
    policy = SupervisorPolicy()
    assert schedule_loads(both, residents, now=2.0, policy=policy, limits=limits) == [
        EvictEngine(model="a"),
        EvictEngine(model="b"),
    ]
    assert schedule_loads(both[:1], residents, now=2.0, policy=policy, limits=limits) == [EvictEngine(model="a")]
    small = [load("v", {SYSTEM: 25}), load("w", {SYSTEM: 25})]
    assert schedule_loads(small, residents, now=2.0, policy=policy, limits=limits) == [EvictEngine(model="a")]


@pytest.mark.parametrize(("most", "evicted_models"), [(4, []), (3, ["a"]), (2, ["a", "b"]), (1, ["a", "b"])])
def test_as_many_go_as_there_are_too_many_while_nobody_waits(most: int, evicted_models: list[str]) -> None:
    residents = [
        resident("a", last_used=1.0),
        resident("b", last_used=2.0),
        resident("c", "busy"),
        resident("d", is_pinned=True),
    ]
    effects = schedule_loads([], residents, now=3.0, policy=SupervisorPolicy(max_loaded=most))
    assert effects == [EvictEngine(model=model) for model in evicted_models]


@pytest.mark.parametrize(
    ("needs", "pinned_sizes", "refusal"),
    [
        ({SYSTEM: 101}, [], (SYSTEM, 101, 100)),
        ({SYSTEM: 100}, [], None),
        ({SYSTEM: 71}, [30], (SYSTEM, 71, 70)),
        ({SYSTEM: 70}, [30], None),
        ({SYSTEM: 200, GPU: 70}, [30], (SYSTEM, 200, 70)),
        ({SYSTEM: 80, GPU: 200}, [30], (GPU, 200, 60)),
        (None, [30], (SYSTEM, None, 70)),
        ({SYSTEM: 20}, [120], (SYSTEM, 20, 0)),
    ],
)
def test_a_load_is_refused_for_what_it_lacks_most_beside_what_is_pinned(
    needs: dict[str, int] | None, pinned_sizes: list[int], refusal: tuple[str, int | None, int] | None
) -> None:
    residents = [resident(f"p{size}", is_pinned=True, holds={SYSTEM: size}) for size in pinned_sizes]
    residents += [resident("idle", holds={SYSTEM: 40, GPU: 60})]
    limits = MemoryLimits(pools={SYSTEM: 100, GPU: 60})
    effects = schedule_loads([load("w", needs)], residents, now=1.0, policy=SupervisorPolicy(), limits=limits)
    refusals = [effect for effect in effects if isinstance(effect, RefuseLoad)]
    if refusal is None:
        assert not refusals
        assert effects == [EvictEngine(model="idle")]
        return
    pool, needed_bytes, available = refusal
    names = tuple(f"p{size}" for size in pinned_sizes if pool == SYSTEM)
    assert refusals == [RefuseLoad(model="w", pool=pool, needed=needed_bytes, available=available, pinned=names)]


@pytest.mark.parametrize("kind", ["loading", "leaving"])
def test_nobody_is_refused_before_all_has_come_to_rest(kind: str) -> None:
    limits = MemoryLimits(pools={SYSTEM: 100})
    waiting_loads = [load("w", {SYSTEM: 500})]
    for residents in ([resident("a", kind, holds={SYSTEM: 1})], [resident("a", kind), resident("b", "busy")]):
        assert not schedule_loads(waiting_loads, residents, now=1.0, policy=SupervisorPolicy(), limits=limits)
    assert schedule_loads(
        [load("v", {SYSTEM: 1}), *waiting_loads], [], now=1.0, policy=SupervisorPolicy(), limits=limits
    ) == [GrantRoom(model="v")]
    assert isinstance(
        schedule_loads(waiting_loads, [resident("b", "busy")], now=1.0, policy=SupervisorPolicy(), limits=limits)[0],
        RefuseLoad,
    )


def test_in_the_way_is_who_holds_what_is_short_and_is_not_idle() -> None:
    residents = [
        resident("busy", "busy", holds={GPU: 60}),
        resident("leaving", "leaving", holds={GPU: 1}),
        resident("loading", "loading", holds=None),
        resident("idle", holds={GPU: 5}),
        resident("else", "busy", holds={SYSTEM: 5}),
        resident("nothing", "busy", holds={GPU: 0}),
    ]
    limits = MemoryLimits(pools={GPU: 100, SYSTEM: 500})
    in_the_way = engines_in_the_way(load("w", {GPU: 50}), residents, SupervisorPolicy(), limits)
    assert in_the_way == ["busy", "leaving", "loading"]


# ----- readings of memory


def test_limits_are_what_is_free_and_what_engines_would_give_back() -> None:
    memory_reading = MemoryReading(free={SYSTEM: 100, GPU: 50}, private={7: 30, 8: 4})
    seats = [
        resident("idle", pid=7, holds={GPU: 10, SYSTEM: 999}),
        resident("busy", "busy", pid=8, holds={GPU: 20}),
        resident("leaving", "leaving", pid=9, holds={GPU: 3}),
        resident("loading", "loading", pid=None, holds={GPU: 400}),
        resident("unknown", holds=None),
    ]
    assert limits_of(memory_reading, seats, 5) == MemoryLimits(
        pools={SYSTEM: 100 + 34 - 5, GPU: 50 + 33 - 5}, head_room=5
    )


def test_what_an_engine_says_it_allocated_goes_to_the_pools_by_their_share() -> None:
    needs = MemoryNeeds(pools={SYSTEM: 100, GPU: 300}, buffers=200)
    assert correct_holdings(needs, 200) == {SYSTEM: 100, GPU: 300}
    assert correct_holdings(needs, 280) == {SYSTEM: 120, GPU: 360}
    assert correct_holdings(needs, 0) == {SYSTEM: 50, GPU: 150}
    assert correct_holdings(msgspec.structs.replace(needs, buffers=1000), 0) == {SYSTEM: 0, GPU: 0}
    assert correct_holdings(None, 42) == {SYSTEM: 42}
    for unknown in (
        MemoryNeeds(pools={SYSTEM: 9}),
        MemoryNeeds(pools={}, buffers=5),
        MemoryNeeds(pools={GPU: 0}, buffers=5),
    ):
        assert correct_holdings(unknown, 10**6) == unknown.pools


def test_memory_is_back_but_for_what_others_take_in_a_moment() -> None:
    before = {SYSTEM: 10**9, GPU: 10**9}
    assert is_memory_back(before, {SYSTEM: 10**9 - SLACK, GPU: 2 * 10**9})
    assert not is_memory_back(before, {SYSTEM: 10**9 - SLACK - 1, GPU: 2 * 10**9})
    assert is_memory_back(before, {SYSTEM: 10**9}), "what cannot be read any more is not waited for"
    assert is_memory_back({}, {SYSTEM: 1})


# ----- making way for other programs

SOURCE = ModelSource(name="m", path=Path("m.gguf"), format=ModelFormat.GGUF)


def request(name: str, **pools: int) -> LoadRequest:
    needs = MemoryNeeds(pools=pools) if pools else None
    return LoadRequest(engine="e", source=msgspec.structs.replace(SOURCE, name=name), needs=needs)


def test_engines_go_while_too_little_is_free_and_not_before_what_went_is_seen() -> None:
    pressure = MemoryPressure()
    idle = resident("a", holds={SYSTEM: 10})
    assert pressure.models_to_stop({SYSTEM: 100}, 100, [idle], 0.0) == []
    assert pressure.models_to_stop({SYSTEM: 99}, 100, [idle], 0.0) == ["a"]
    assert pressure.models_to_stop({SYSTEM: 99}, 100, [idle, resident("b", "leaving")], 0.0) == []


def test_what_went_last_comes_back_first_after_a_calm_in_which_there_was_room() -> None:
    pressure = MemoryPressure()
    for at, name in enumerate("ab"):
        pressure.note_unloaded(name, request(name, system=10), float(at))
    pressure.note_unloaded("big", request("big", system=1000), 9.0)
    pressure.note_unloaded("unknown", request("unknown"), 10.0)
    assert pressure.model_to_load({SYSTEM: 109}, 100, 50.0) is None, "one byte too little"
    assert pressure.model_to_load({SYSTEM: 110}, 100, 100.0) is None
    assert pressure.model_to_load({SYSTEM: 110}, 100, 100.0 + CALM_S - 0.1) is None
    again = pressure.model_to_load({SYSTEM: 110}, 100, 100.0 + CALM_S)
    assert again is not None
    assert again.source.name == "b"
    pressure.note_loaded("b")
    pressure.note_loaded("b")
    assert pressure.models_to_stop({SYSTEM: 5}, 100, [], 130.0) == []
    assert pressure.model_to_load({SYSTEM: 110}, 100, 131.0) is None, "the calm was interrupted"
    first = pressure.model_to_load({SYSTEM: 110}, 100, 131.0 + CALM_S)
    assert first is not None
    assert first.source.name == "a"
    pressure.note_loaded("a")
    assert pressure.model_to_load({SYSTEM: 110}, 100, 500.0) is None
    assert pressure.model_to_load({}, 0, 501.0) is None, "a pool that cannot be read has nothing to give"


# ----- places and the queue


def ledger_of(residents: Mapping[str, Resident], policy: SupervisorPolicy | None = None) -> MemoryLedger:
    return MemoryLedger(lambda: policy or SupervisorPolicy(), lambda model: residents[model])


def test_who_left_is_waited_for_until_the_memory_is_back_or_two_seconds_are_over() -> None:
    ledger = ledger_of({"a": resident("a", holds={SYSTEM: 60}), "b": resident("b", holds={SYSTEM: 60})})
    full = MemoryLimits(pools={SYSTEM: 10**9})
    ledger.join_queue(load("a", {SYSTEM: 60}, since=0.0), run=3)
    assert ledger.decide_effects(full, 0.0) == [(GrantRoom(model="a"), 3)]
    ledger.leave_queue("a", 10.0)
    less = MemoryLimits(pools={SYSTEM: 10**9 - SLACK - 1})
    ledger.join_queue(load("b", {SYSTEM: 2 * 10**9}, since=10.0), run=4)
    assert ledger.decide_effects(less, 10.5) == [], "too early to refuse"
    assert not ledger.limits.is_settled
    assert ledger.take_newly_blocked() == [("b", 4)]
    assert ledger.take_newly_blocked() == []
    assert (ledger.is_queued("b"), ledger.is_queued("a")) == (True, False)
    assert ledger.next_due(10.5) == 10.5 + LOOK_S
    assert ledger.next_due(10.0 + BACK_S) == 10.0 + SupervisorPolicy().patience_s
    [(refusal, run)] = ledger.decide_effects(less, 10.0 + BACK_S)
    assert (type(refusal), run) == (RefuseLoad, 4)
    assert ledger.limits.is_settled
    assert ledger.pending_loads == []


def test_a_load_that_takes_graphics_memory_leaves_the_limits_unsettled_until_it_is_ready() -> None:
    for kind, pools, is_settled in (
        ("loading", {GPU: 5}, False),
        ("loading", {SYSTEM: 5}, True),
        ("loading", {GPU: 0}, True),
        ("idle", {GPU: 5}, True),
        ("busy", {GPU: 5}, True),
        ("leaving", {GPU: 5}, True),
    ):
        ledger = ledger_of({"a": resident("a", kind, holds=pools)})
        ledger.join_queue(load("a", {}), run=1)
        ledger.decide_effects(MemoryLimits(pools={GPU: 100, SYSTEM: 100}), 5.0)
        ledger.decide_effects(MemoryLimits(pools={GPU: 100, SYSTEM: 100}), 6.0)
        assert ledger.limits.is_settled is is_settled, (kind, pools)


@pytest.mark.parametrize(("most", "is_needed"), [(0, False), (1, True), (2, False), (3, False)])
def test_a_decision_is_needed_while_somebody_waits_or_too_many_are_in(most: int, *, is_needed: bool) -> None:
    policy = SupervisorPolicy()
    ledger = MemoryLedger(lambda: policy, resident)
    for model in ("a", "b"):
        ledger.join_queue(load(model, {}), run=1)
        assert ledger.needs_deciding
        ledger.decide_effects(MemoryLimits(), 1.0)
    policy = SupervisorPolicy(max_loaded=most)
    assert ledger.needs_deciding is is_needed
    assert [each.model for each in ledger.residents] == ["a", "b"]


def test_people_are_shown_who_holds_what_and_who_waits_for_whom() -> None:
    residents = {
        "busy": resident("busy", "busy", holds={SYSTEM: 60}),
        "idle": resident("idle", holds=None, is_pinned=True),
        "other": resident("other", holds={GPU: 5}),
    }
    ledger = ledger_of(residents)
    for run, model in enumerate(residents):
        ledger.join_queue(load(model, {}), run)
    ledger.decide_effects(MemoryLimits(), 0.0)
    ledger.join_queue(load("w", {SYSTEM: 50}, since=3.0), 9)
    ledger.join_queue(load("v", None, since=9.0), 9)
    limits = MemoryLimits(pools={SYSTEM: 100}, head_room=4)
    state = memory_state(ledger, limits, SupervisorPolicy(max_loaded=7), now=8.0)
    [pool] = state.pools
    assert (pool.id, pool.name, pool.limit, pool.head_room, state.max_loaded) == (SYSTEM, SYSTEM, 100, 4, 7)
    holders = [(each.model, each.bytes, each.is_pinned, each.is_busy, each.is_idle) for each in pool.holders]
    assert holders == [("busy", 60, False, True, False), ("idle", None, True, False, True)]
    waiting_rows = [(each.model, each.seconds, each.needs, each.waits_for) for each in state.waiting]
    assert waiting_rows == [("w", 5.0, {SYSTEM: 50}, ["busy"]), ("v", 0.0, None, ["busy"])]


# ----- restarts and waiting


def test_a_restart_waits_twice_as_long_as_the_one_before_until_there_were_too_many() -> None:
    assert (MAX_RESTARTS, RESTART_WINDOW_S) == (3, 600.0)
    assert [back_off_delay([100.0] * count, 100.0) for count in range(5)] == [1.0, 2.0, 4.0, None, None]
    restarts = [0.0, 1.0, 2.0]
    assert recent_restarts(restarts, 600.0) == [1.0, 2.0]
    assert back_off_delay(restarts, 599.9) is None
    assert back_off_delay(restarts, 600.0) == 4.0
    assert back_off_delay(restarts, 602.0) == 1.0


@pytest.mark.parametrize(
    ("own", "general", "expected_s"),
    [(None, 5.0, 5.0), (None, 0.0, math.inf), (7.0, 5.0, 7.0), (0.0, 5.0, math.inf)],
)
def test_an_engine_is_kept_as_its_model_says_else_as_all_are(
    own: float | None, general: float, expected_s: float
) -> None:
    policy = SupervisorPolicy(idle_s=general, models={"m": ModelPolicy(idle_s=own)})
    assert policy.keeps_s("m") == expected_s
    assert policy.keeps_s("else") == (general or math.inf)
    assert (policy.for_model("else").is_pinned, policy.for_model("else").idle_s) == (False, None)


def test_only_what_runs_here_takes_memory_and_what_differs_starts_something_else() -> None:
    mine = request("a", system=5)
    assert mine.takes_memory
    away = msgspec.structs.replace(
        SOURCE, remote=RemoteEndpoint(url="http://127.0.0.1:1", served_as="x", key_file=Path("key"))
    )
    assert not msgspec.structs.replace(mine, source=away).takes_memory
    assert mine.is_for(msgspec.structs.replace(mine, needs=None))
    assert not mine.is_for(None)
    for fields in ({"engine": "x"}, {"source": away}, {"options": LaunchOptions(context=1)}):
        assert not mine.is_for(msgspec.structs.replace(mine, **fields))


@given(
    gaps=st.lists(st.floats(0.01, 20), min_size=1, max_size=10),
    waiter_count=st.integers(0, 50),
    load_s=st.none() | st.floats(0, 100),
    loading_s=st.none() | st.floats(0, 200),
)
def test_when_to_come_back_is_a_weighted_mean_within_what_clients_heed(
    gaps: list[float], waiter_count: int, load_s: float | None, loading_s: float | None
) -> None:
    estimate = WaitEstimate()
    assert estimate.retry_s(99) == 5.0
    for at in itertools.accumulate([10.0, *gaps]):
        estimate.note_served(at)
    mean = gaps[0]
    for gap in gaps[1:]:
        mean = 0.3 * gap + 0.7 * mean
    estimate.load_s = load_s
    seconds_left = 0.0 if loading_s is None else max(0.0, (load_s or 5.0) - loading_s)
    expected_s = min(60.0, max(1.0, seconds_left + mean * waiter_count))
    assert estimate.retry_s(waiter_count, loading_s=loading_s) == pytest.approx(expected_s)
    assert (SHORTEST_S, LONGEST_S) == (1.0, 60.0)


# ----- logs

TEXTS = st.text(st.sampled_from("ab\r\n é😀"), max_size=60)


@given(text=TEXTS, cuts=st.lists(st.integers(0, 200), max_size=6))
def test_lines_are_the_same_however_their_bytes_come(text: str, cuts: list[int]) -> None:
    data = text.encode()
    splitter, lines = LineSplitter(), []
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(bounds):
        lines += splitter.feed_bytes(data[start:end])
    whole = [line for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if line]
    ends_line = text.endswith("\n")
    assert lines + splitter.flush_rest() == whole
    assert splitter.flush_rest() == []
    if ends_line and whole:
        assert lines == whole, "what has ended is not kept back"


def test_a_line_is_cut_at_four_thousand_characters_and_a_return_waits_for_its_feed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert logs.LINE_CHARACTERS == 4096
    splitter = LineSplitter()
    assert splitter.feed_bytes(b"x" * 4096) == []
    assert splitter.feed_bytes(b"x") == ["x" * 4096]
    assert splitter.feed_bytes(b"\n") == ["x"]
    assert splitter.feed_bytes(b"y" * 9000 + b"\nz\r") == ["y" * 4096, "y" * 4096, "y" * 808]
    assert splitter.feed_bytes(b"\nw\r") == ["z"]
    assert splitter.feed_bytes(b"v\n") == ["w", "v"]


def test_the_longest_secret_is_taken_out_first() -> None:
    redactor = LogRedactor(["abc", "", "abcdef"])
    assert redactor.redact_text("abcdef abc ab") == "*** *** ab"


def published_log(tmp_path: Path) -> tuple[EngineLog, list[LogLine]]:
    published_lines: list[LogLine] = []
    return EngineLog("Model A", tmp_path, published_lines.append), published_lines


def test_subscribers_get_two_hundred_lines_a_second_and_are_told_of_the_rest(tmp_path: Path) -> None:
    log, published_lines = published_log(tmp_path)
    log.add_lines("stderr", [str(number) for number in range(203)], at=10.2)
    assert [line.text for line in published_lines] == [str(number) for number in range(200)]
    log.add_lines("stderr", ["next"], at=11.0)
    assert [line.text for line in published_lines[200:]] == [
        f"[3 lines are not shown here; {log.path} has them]",
        "next",
    ]
    log.add_lines("stdout", ["later"], at=12.0)
    assert [(line.text, line.stream, line.at, line.model) for line in published_lines[202:]] == [
        ("later", "stdout", 12.0, "Model A")
    ]
    assert [line.text for line in log.tail_lines(2)] == ["next", "later"]
    assert log.tail_lines(0) == []
    log.add_lines("stderr", ["x"] * 3000, at=13.0)
    assert len(log.tail_lines(10**6)) == logs.RING_LINES == 2000


def test_a_log_is_kept_in_a_file_of_a_mebibyte_and_three_older_ones(tmp_path: Path) -> None:
    log, _ = published_log(tmp_path / "deep" / "logs")
    for _ in range(50):
        log.append_to_file(["y" * 1023] * 128)
    log.close()
    log.append_to_file(["last"])
    log.close()
    files = sorted(path.name for path in log.path.parent.iterdir())
    assert files == [log.path.name, *(f"{log.path.name}.{number}" for number in (1, 2, 3))]
    assert all(path.stat().st_size <= MIB for path in log.path.parent.iterdir())
    assert log.path.read_text(encoding="utf-8").endswith("last\n")
    assert log.path.parent.stat().st_mode & 0o077 == 0 or log.path.drive


@pytest.mark.parametrize(("name", "slug"), [("plain-1.5_x", "plain-1.5_x"), ("a" * 60, "a" * 60)])
def test_a_plain_name_is_its_own_file(name: str, slug: str) -> None:
    assert file_slug(name) == slug


@given(first=st.text(max_size=80), second=st.text(max_size=80))
def test_different_names_have_different_files_on_every_file_system(first: str, second: str) -> None:
    for name in (first, second):
        assert len(file_slug(name)) <= 69
        assert file_slug(name) == file_slug(name).lower()
    assert (file_slug(first) == file_slug(second)) == (first == second)
