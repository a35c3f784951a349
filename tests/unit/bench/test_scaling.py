"""The tables about growing fleets are the simulation's own, and it keeps to what it says of caches and routers."""

import pytest

from tests.bench.scaling import (
    CACHE_TOKENS,
    PAGE,
    SPAN,
    SYSTEM_TOKENS,
    TABLES,
    Policy,
    Replica,
    fleet_line,
    people_served,
    served_line,
    simulate,
)
from tests.depth import deep_only


def test_the_pages_small_fleets_are_those_of_the_script() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert {match["name"] for match in SPAN.finditer(page)} == set(TABLES)
    lines = page.splitlines()
    assert [fleet_line(size, policy) for size in (1, 3) for policy in Policy] == [
        text for text in lines if text.startswith(("| 1 | r", "| 1 | l", "| 1 | c", "| 3 |"))
    ]
    assert served_line(1) in lines


@deep_only("two minutes of simulation")
@pytest.mark.timeout(900)
def test_every_table_is_that_of_the_script() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for match in SPAN.finditer(page):
        assert "\n".join(TABLES[match["name"]]()) in match[0]


@pytest.mark.slow
def test_one_replica_does_the_same_under_every_router_and_many_do_not() -> None:
    assert simulate(10, Policy.CACHE_AWARE).hit > 1.5 * simulate(10, Policy.ROUND_ROBIN).hit
    assert people_served(3, Policy.CACHE_AWARE) > people_served(3, Policy.ROUND_ROBIN)


def test_a_replica_forgets_first_what_was_used_longest_ago() -> None:
    replica = Replica()
    own = CACHE_TOKENS // 3
    for conversation in (1, 2, 3, 1, 4):
        replica.keep(conversation, own + SYSTEM_TOKENS)
    assert [replica.recall(conversation) for conversation in (1, 2, 3, 4)] == [own, 0, own, own]
