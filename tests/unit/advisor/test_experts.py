"""The advisor beside people who measure: what they run on twelve machines, and speeds they published."""

from statistics import median

import pytest

from tests.expert_docs import (
    PAGE,
    TALK,
    ExpertMachine,
    as_generated,
    compare_speeds,
    expert_machines,
    is_named_or_better,
    list_picks,
)


@pytest.mark.parametrize("machine", expert_machines(), ids=lambda machine: machine.title)
def test_the_first_is_what_people_run_or_ranked_above(machine: ExpertMachine) -> None:
    first, *others = list_picks(machine.title)
    assert first.is_best
    assert first.card.fits
    assert first.card.decode is not None
    assert is_named_or_better(machine, first), [first.name, *(pick.name for pick in others[:5])]
    assert first.card.decode.tokens_per_second >= (5 if machine.title.startswith("Raspberry") else TALK)


def test_published_speeds_are_met() -> None:
    rows = compare_speeds()
    assert len(rows) >= 70
    assert median(row.error for row in rows) <= 0.15
    assert sum(row.is_inside for row in rows) / len(rows) >= 0.8


def test_a_small_board_writes_as_fast_as_its_memory_lets_it() -> None:
    rows = [
        row for row in compare_speeds() if row.row.machine.startswith("Raspberry") and row.row.model == "Llama 3.2 3B"
    ]
    assert [row.error <= 0.15 for row in rows] == [True]


def test_the_docs_have_the_tables_of_today() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert as_generated(page) == page, "python -m tests.expert_docs --write"
