"""How much tests try: `make test` the quick ones, `make test-all` all, `make test-deep` all with every combination.

A test that takes over half a second of a processor, and tries a path that a quicker one tries too, is marked `slow`.
`make test` leaves it out, or runs as many of its cases as `slow(cases=2)` says. As a plug-in of pytest, this chooses.
"""

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

import pytest

VARIABLE = "ROUNDHOUSE_TEST_DEPTH"
QUICK, DEEP = "quick", "deep"
IS_QUICK, IS_DEEP = (os.environ.get(VARIABLE) == depth for depth in (QUICK, DEEP))
_SHARE_OF_TRIALS = 3
T = TypeVar("T")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if IS_QUICK:
        quick_items = set(_choose_quick(items))
        config.hook.pytest_deselected(items=[item for item in items if item not in quick_items])
        items[:] = [item for item in items if item in quick_items]


def _choose_quick(items: Iterable[pytest.Item]) -> Iterable[pytest.Item]:
    """Yield the tests that are not slow, and of those that are as many cases as their mark says."""
    slow_tests: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow") is None:
            yield item
        else:
            slow_tests[item.nodeid.partition("[")[0]].append(item)
    for cases in slow_tests.values():
        count = max(mark.kwargs.get("cases", 0) for mark in cases[0].iter_markers("slow"))
        yield from _spread(sorted(cases, key=_case_place), count)


def _case_place(item: pytest.Item) -> tuple[int, ...]:
    """Return where a case stands among those of its test, which may have been shuffled already."""
    callspec = getattr(item, "callspec", None)
    return () if callspec is None else tuple(callspec.indices.values())


def sample(values: Sequence[T], count: int) -> Sequence[T]:
    """Return `count` of the values, spread evenly over them from the first to the last; all of them in depth."""
    return values if IS_DEEP else _spread(values, count)


def _spread(values: Sequence[T], count: int) -> Sequence[T]:
    if count >= len(values):
        return values
    if count <= 1:
        return values[:count]
    return [values[round(number * (len(values) - 1) / (count - 1))] for number in range(count)]


def trials(count: int, *, deep: int) -> int:
    """Return how many made-up inputs to try."""
    return deep if IS_DEEP else math.ceil(count / _SHARE_OF_TRIALS) if IS_QUICK else count


def deep_only(reason: str) -> pytest.MarkDecorator:
    """Return the mark of a test that runs in depth alone."""
    return pytest.mark.skipif(not IS_DEEP, reason=f"{reason}: `make test-deep`")
