"""Who gets room and who makes room, as the pure function it is."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from app.supervisor.policy import SupervisorPolicy
from app.supervisor.scheduling import (
    PLACES,
    EvictEngine,
    GrantRoom,
    MemoryLimits,
    PendingLoad,
    RefuseLoad,
    ReservationTable,
    Resident,
    RoomEffect,
    engines_in_the_way,
    engines_to_free,
    keep_worth,
    next_overdue,
    schedule_loads,
)

RAM, GPU = "system", "gpu"


def make_kept(model: str, last_used: float = 0.0, **holds: int) -> Resident:
    return Resident(model=model, last_used=last_used, is_idle=True, is_kept=True, holds=holds)


def idle(model: str, last_used: float = 0.0, *, load_s: float = 0.0, is_pinned: bool = False, **holds: int) -> Resident:
    return Resident(model=model, last_used=last_used, is_idle=True, load_s=load_s, is_pinned=is_pinned, holds=holds)


def busy(model: str, last_used: float = 0.0, **holds: int) -> Resident:
    return Resident(model=model, last_used=last_used, is_busy=True, holds=holds)


def make_leaving(model: str, **holds: int) -> Resident:
    return Resident(model=model, last_used=0.0, is_leaving=True, holds=holds)


def make_loading(model: str, holds: Mapping[str, int] | None = None) -> Resident:
    return Resident(model=model, last_used=0.0, holds=holds or {})


def queue(*models: str, since: float = 0.0, **needs: int) -> list[PendingLoad]:
    return [PendingLoad(model=model, since=since, needs=needs) for model in models]


def decide(
    waiting_loads: Sequence[PendingLoad], residents: Sequence[Resident], limit: int, now: float = 1.0
) -> list[RoomEffect]:
    return schedule_loads(waiting_loads, residents, now=now, policy=SupervisorPolicy(max_loaded=limit, patience_s=30.0))


def fit(
    waiting_loads: Sequence[PendingLoad],
    residents: Sequence[Resident],
    *,
    now: float = 1.0,
    head_room: int = 0,
    is_settled: bool = True,
    **pools: int,
) -> list[RoomEffect]:
    limits = MemoryLimits(pools=pools, head_room=head_room, is_settled=is_settled)
    return schedule_loads(waiting_loads, residents, now=now, policy=SupervisorPolicy(patience_s=30.0), limits=limits)


def test_of_two_that_load_as_fast_the_one_used_least_recently_makes_room() -> None:
    assert decide(queue("w"), [idle("new", 9.0), idle("old", 1.0), busy("b")], 3, now=10.0) == [
        EvictEngine(model="old")
    ]


def test_a_model_that_loads_slowly_outlives_a_quick_one_but_not_for_ever() -> None:
    slow, quick = idle("slow", 0.0, load_s=60.0), idle("quick", 50.0, load_s=2.0)
    assert (keep_worth(slow, now=0.0), keep_worth(slow, now=60.0)) == (60.0, 30.0)
    assert keep_worth(slow, now=60.0) > keep_worth(quick, now=60.0)
    assert keep_worth(slow, now=3600.0) < keep_worth(idle("quick", 3590.0, load_s=2.0), now=3600.0)


def test_loads_that_cost_nothing_to_speak_of_cost_the_same() -> None:
    assert keep_worth(idle("a", load_s=0.1), now=9.0) == keep_worth(idle("b", load_s=0.9), now=9.0)


def test_a_busy_engine_is_never_evicted() -> None:
    assert decide(queue("v", "w"), [busy("a"), busy("b")], 2) == []


def test_nobody_is_evicted_while_there_is_room() -> None:
    assert decide(queue("w"), [idle("a", 1.0)], 2) == [GrantRoom(model="w")]


def test_an_engine_that_is_leaving_counts_as_room_to_come() -> None:
    assert decide(queue("w"), [make_leaving("a"), idle("b", 1.0)], 2) == []


def test_a_lowered_limit_evicts_without_anybody_waiting() -> None:
    assert decide([], [idle("a", 1.0), idle("b", 2.0), busy("c")], 1) == [
        EvictEngine(model="a"),
        EvictEngine(model="b"),
    ]


def test_without_a_ceiling_only_memory_counts() -> None:
    assert fit(queue("w", system=10), [idle(f"m{at}", system=1) for at in range(40)], system=50) == [
        GrantRoom(model="w")
    ]


def test_the_first_to_ask_is_the_first_to_be_let_in() -> None:
    assert decide(queue("a", "b"), [busy("x")], 2) == [GrantRoom(model="a")]


def test_a_small_load_does_not_take_what_a_large_one_waits_for() -> None:
    waiting_loads = [*queue("large", system=80), *queue("small", system=10)]
    assert fit(waiting_loads, [busy("x", system=50)], system=100) == []


def test_a_load_waits_for_those_that_hold_what_it_lacks_and_cannot_go() -> None:
    residents = [busy("wide", gpu=50), busy("elsewhere", system=90), idle("unused", gpu=20)]
    limits = MemoryLimits(pools={GPU: 100, RAM: 100})
    [load] = queue("new", gpu=60)
    assert engines_in_the_way(load, residents, SupervisorPolicy(), limits) == ["wide"]


def test_a_load_for_another_memory_need_not_wait() -> None:
    waiting_loads = [*queue("large", gpu=80), *queue("small", system=10)]
    assert fit(waiting_loads, [busy("x", gpu=50)], system=100, gpu=100) == [GrantRoom(model="small")]


def test_only_what_holds_the_memory_in_question_is_evicted_and_no_more_than_needed() -> None:
    residents = [idle("other", 0.0, gpu=90), idle("small", 1.0, system=10), idle("large", 2.0, system=60)]
    assert fit(queue("w", system=60), residents, system=100, gpu=100) == [EvictEngine(model="large")]


def test_everything_is_left_alone_while_evicting_what_is_idle_would_not_do() -> None:
    residents = [idle("a", system=10), busy("b", system=80)]
    assert fit(queue("w", system=50), residents, system=100) == []
    later = fit(queue("w", system=50), residents, system=100, now=30.0)
    assert later == [EvictEngine(model="b", drain=True)], "the idle one was not needed after all"


def test_an_engine_that_is_loading_is_left_alone() -> None:
    assert decide(queue("a"), [make_loading("x")], 1, now=100.0) == []


def test_a_load_that_waited_long_enough_makes_the_least_used_busy_engine_finish() -> None:
    residents = [busy("often", 9.0), busy("seldom", 2.0)]
    assert decide(queue("a"), residents, 2, now=29.0) == []
    assert decide(queue("a"), residents, 2, now=30.0) == [EvictEngine(model="seldom", drain=True)]


def test_one_that_is_leaving_already_is_enough_for_one_that_waits() -> None:
    assert decide(queue("a"), [make_leaving("x"), busy("y")], 2, now=99.0) == []


def test_a_pinned_model_stays_and_another_goes_instead() -> None:
    residents = [idle("pinned", 0.0, is_pinned=True, system=50), idle("b", 9.0, system=50)]
    assert fit(queue("w", system=50), residents, system=100) == [EvictEngine(model="b")]


def test_a_load_that_fits_only_without_a_pinned_model_is_refused_with_figures() -> None:
    residents = [idle("p", is_pinned=True, system=50)]
    refusal = RefuseLoad(model="w", pool=RAM, needed=60, available=50, pinned=("p",))
    assert fit(queue("w", system=60), residents, system=100) == [refusal]


def test_places_taken_by_pinned_models_refuse_too() -> None:
    refusal = RefuseLoad(model="w", pool=PLACES, needed=1, available=0, pinned=("p",))
    assert decide(queue("w"), [idle("p", is_pinned=True)], 1) == [refusal]


def test_a_load_that_does_not_fit_even_alone_is_refused_with_figures() -> None:
    assert fit(queue("w", gpu=130), [], gpu=100, head_room=20) == [
        RefuseLoad(model="w", pool=GPU, needed=130, available=120)
    ]


def test_one_that_is_alone_may_have_the_head_room_too() -> None:
    assert fit(queue("w", gpu=115), [], gpu=100, head_room=20) == [GrantRoom(model="w")]
    assert fit(queue("w", gpu=75), [busy("x", gpu=30)], gpu=100, head_room=20) == []


def test_nobody_is_refused_while_something_is_on_its_way_in_or_out() -> None:
    for other in (make_loading("x"), make_leaving("x", system=90)):
        assert fit(queue("w", system=300), [other], system=100) == []


def test_a_person_may_have_it_tried_all_the_same() -> None:
    policy = SupervisorPolicy(refuses_too_large=False)
    trial_effects = schedule_loads(
        queue("w", system=500), [], now=1.0, policy=policy, limits=MemoryLimits(pools={RAM: 100})
    )
    assert trial_effects == [GrantRoom(model="w")]


def test_memory_that_is_still_on_its_way_back_costs_nobody_its_place() -> None:
    assert fit(queue("w", system=60), [idle("a", system=30)], is_settled=False, system=50) == []
    assert fit(queue("w", system=10), [idle("a", system=30)], is_settled=False, system=50) == [GrantRoom(model="w")]


def test_an_unknown_size_is_not_zero() -> None:
    unknown = [PendingLoad(model="w", since=0.0, needs=None)]
    assert fit(unknown, [idle("a", system=1)], system=100) == [EvictEngine(model="a")]
    assert fit(unknown, [], system=100) == [GrantRoom(model="w")]
    here = Resident(model="x", last_used=0.0, holds=None)
    assert fit(queue("v", system=1), [here], system=100) == []


def test_a_pool_that_cannot_be_read_has_no_limit() -> None:
    assert fit(queue("w", gpu=1 << 40), [idle("a", gpu=1 << 40)], system=100) == [GrantRoom(model="w")]


def test_the_scheduler_says_when_to_ask_again() -> None:
    assert next_overdue(queue("a", since=5.0) + queue("b", since=3.0), SupervisorPolicy(patience_s=30.0)) == 33.0
    assert next_overdue([], SupervisorPolicy()) is None


def test_another_program_gets_what_it_lacks_from_what_is_worth_least() -> None:
    residents = [
        idle("old", 0.0, system=40),
        idle("new", 9.0, system=40),
        busy("busy", system=90),
        idle("pinned", is_pinned=True, system=90),
        idle("elsewhere", gpu=90),
    ]
    assert engines_to_free(residents, {RAM: 30}, now=10.0) == ["old"]
    assert engines_to_free(residents, {RAM: 70}, now=10.0) == ["old", "new"]
    assert engines_to_free(residents, {RAM: 500}, now=10.0) == ["old", "new"], "as far as it goes"
    assert engines_to_free(residents, {}, now=10.0) == []


def test_what_is_to_be_kept_makes_room_after_all_others_and_no_sooner() -> None:
    residents = [make_kept("k", 0.0, system=40), idle("new", 9.0, load_s=60.0, system=40)]
    assert fit(queue("w", system=50), residents, system=100, now=10.0) == [EvictEngine(model="new")]
    assert fit(queue("w", system=90), residents, system=100, now=10.0) == [
        EvictEngine(model="new"),
        EvictEngine(model="k"),
    ]
    assert fit(queue("w", system=50), residents[:1], system=80, now=10.0) == [EvictEngine(model="k")]
    assert engines_to_free(residents, {RAM: 30}, now=10.0) == ["new"]


def test_what_is_to_be_kept_goes_before_a_busy_one_is_stopped() -> None:
    residents = [make_kept("k", system=40), busy("b", system=40)]
    assert fit(queue("w", system=50), residents, system=100, now=100.0) == [EvictEngine(model="k")]


KINDS = ["idle", "busy", "leaving", "loading"]
HOLDS = st.one_of(st.none(), st.dictionaries(st.sampled_from([RAM, GPU]), st.integers(0, 60)))


@st.composite
def seats(draw: st.DrawFn) -> list[Resident]:
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=6))
    return [
        Resident(
            model=f"m{at}",
            last_used=draw(st.floats(0, 100)),
            is_idle=kind == "idle",
            is_busy=kind == "busy",
            is_leaving=kind == "leaving",
            is_pinned=draw(st.booleans()),
            load_s=draw(st.floats(0, 50)),
            holds=draw(HOLDS) if kind == "loading" else draw(HOLDS) or {},
        )
        for at, kind in enumerate(kinds)
    ]


@given(
    needs=st.lists(HOLDS, max_size=5),
    residents=seats(),
    pools=st.dictionaries(st.sampled_from([RAM, GPU]), st.integers(-10, 150)),
    most=st.integers(0, 5),
    now=st.floats(0, 100),
)
def test_whatever_is_asked_nobody_is_wronged(
    needs: list[dict[str, int] | None], residents: list[Resident], pools: dict[str, int], most: int, now: float
) -> None:
    waiting_loads = [PendingLoad(model=f"w{at}", since=0.0, needs=need) for at, need in enumerate(needs)]
    policy, limits = SupervisorPolicy(max_loaded=most), MemoryLimits(pools=pools, head_room=10)
    effects = schedule_loads(waiting_loads, residents, now=now, policy=policy, limits=limits)
    named_models = [effect.model for effect in effects]
    assert len(named_models) == len(set(named_models)), "one word to each"
    seat_of, load_of = {seat.model: seat for seat in residents}, {load.model: load for load in waiting_loads}
    book = ReservationTable(residents, limits, policy)
    for effect in effects:
        match effect:
            case GrantRoom(model=model):
                assert not book.shortfall_of(load_of[model].needs), "over budget"
                book.add_engine(load_of[model].needs)
            case EvictEngine(model=model, drain=drains):
                assert seat_of[model].may_go
                assert seat_of[model].is_busy if drains else seat_of[model].is_idle
            case RefuseLoad(model=model, pinned=pinned_models):
                assert all(seat_of[name].is_pinned for name in pinned_models)
                assert not any(seat.is_leaving for seat in residents)


def test_a_load_that_fits_beside_everybody_is_always_let_in() -> None:
    residents = [busy("a", system=40), make_leaving("b", system=20), make_loading("c", {RAM: 20})]
    for is_settled in (True, False):
        assert fit(queue("w", system=20), residents, is_settled=is_settled, system=100) == [GrantRoom(model="w")]
