"""Heights below each other, against the obvious way of adding them up."""

from hypothesis import given
from hypothesis import strategies as st

from app.gui.screens.chat.transcript.box import HeightStack

HEIGHTS = st.lists(st.integers(1, 50).map(float), min_size=1, max_size=30)


@given(HEIGHTS, st.lists(st.tuples(st.integers(0, 29), st.integers(1, 50)), max_size=10), st.integers(-5, 1600))
def test_tops_and_places(heights: list[float], changes: list[tuple[int, int]], place: int) -> None:
    stack = HeightStack()
    stack.replace_from(0, heights)
    for index, height in changes:
        heights[index % len(heights)] = float(height)
        stack.set_height(index % len(heights), float(height))
        assert stack.total == sum(heights)
    assert [stack.top_of(index) for index in range(len(heights))] == [
        sum(heights[:index]) for index in range(len(heights))
    ]
    position = stack.index_at(place)
    inside = min(max(place, 0), sum(heights) - 1)
    assert stack.top_of(position) <= inside < stack.top_of(position) + heights[position]


@given(HEIGHTS, HEIGHTS)
def test_the_end_can_be_replaced(heights: list[float], tail: list[float]) -> None:
    stack = HeightStack()
    for height in heights:
        stack.append(height)
    cut = len(heights) // 2
    stack.replace_from(cut, tail)
    assert stack.total == sum(heights[:cut]) + sum(tail)
