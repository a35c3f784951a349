"""How much tests try: a sample of all combinations in `make test`, all of them in `make test-deep`, each night."""

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

VARIABLE = "ROUNDHOUSE_TEST_DEPTH"
IS_DEEP = os.environ.get(VARIABLE) == "deep"
T = TypeVar("T")


def sample(values: Sequence[T], count: int) -> Sequence[T]:
    """Return `count` of the values, spread evenly over them from the first to the last; all of them in depth."""
    if IS_DEEP or count >= len(values):
        return values
    return [values[round(number * (len(values) - 1) / (count - 1))] for number in range(count)]


def trials(count: int, *, deep: int) -> int:
    """Return how many made-up inputs to try."""
    return deep if IS_DEEP else count


def deep_only(reason: str) -> pytest.MarkDecorator:
    """Return the mark of a test that runs in depth alone."""
    return pytest.mark.skipif(not IS_DEEP, reason=f"{reason}: `make test-deep`")
