"""Vectors in a file: the nearest of all, whatever was written when."""

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.documents.vectors import VectorFile, quantise

SIZE = 32


def vector(seed: int) -> list[float]:
    numbers = random.Random(seed)  # noqa: S311 -- any numbers do
    return [numbers.gauss(0, 1) for _ in range(SIZE)]


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True)) / math.hypot(*left) / math.hypot(*right)


def test_the_nearest_are_those_that_exact_arithmetic_has(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "vectors", SIZE)
    vectors = {place: vector(place) for place in range(5000)}
    file.write({place: quantise(numbers) for place, numbers in vectors.items()})
    question = vector(-1)

    nearest = file.nearest(quantise(question), 20)

    exact = sorted(vectors, key=lambda place: -cosine(question, vectors[place]))[:20]
    assert len(set(nearest) & set(exact)) >= 18
    assert nearest[0] in exact[:3]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("spread", [1e-4, 0.3, 1.0, 30.0])
def test_near_and_far_ones_are_found_alike(tmp_path: Path, spread: float) -> None:
    """From vectors that are nearly the question, for distances of any size, to such that have nothing of it."""
    chance = random.Random(7)  # noqa: S311 -- any numbers do
    question = vector(-1)
    vectors = [quantise([number + chance.gauss(0, spread) for number in question]) for _ in range(5000)]
    vectors[4500] = quantise(question)
    file = VectorFile(tmp_path / "vectors", SIZE)
    file.write(dict(enumerate(vectors)))

    nearest = file.nearest(quantise(question), 50)

    bytes_ = [list(memoryview(item).cast("b")) for item in vectors]
    query = list(memoryview(quantise(question)).cast("b"))
    exact = sorted((-cosine(query, item), place) for place, item in enumerate(bytes_))[:50]
    worst = -exact[-1][0]
    assert all(cosine(query, bytes_[place]) >= worst - 1e-5 for place in nearest)
    assert len(set(nearest)) == sum(-score > 1e-6 for score, _ in exact)
    if spread >= 0.3:
        assert nearest[0] == 4500


def test_places_that_were_never_written_are_near_to_nothing(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "vectors", SIZE)
    file.write({4000: quantise(vector(1))})

    assert file.nearest(quantise(vector(1)), 10) == [4000]


def test_a_place_is_written_again(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "vectors", SIZE)
    file.write({place: quantise(vector(place)) for place in range(10)})
    file.write({3: quantise(vector(99))})

    assert file.nearest(quantise(vector(99)), 1) == [3]


def test_no_file_and_another_size_find_nothing(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "vectors", SIZE)
    assert file.nearest(quantise(vector(1)), 3) == []

    file.write({0: quantise(vector(1))})
    assert file.nearest(b"\x01", 3) == []


@pytest.mark.parametrize("numbers", [[], [0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_a_vector_without_direction_is_refused(numbers: list[float]) -> None:
    with pytest.raises(ValueError, match="direction"):
        quantise(numbers)


def test_the_whole_range_is_used() -> None:
    assert quantise([0.001, -0.002]) == bytes([64, 256 - 127])
