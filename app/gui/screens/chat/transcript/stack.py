"""Heights one below the other: where each begins, and which lies at a given place.

Sums are kept up to the first height that changed and made anew from there when asked for, so that a change at the end,
where answers grow, costs nothing.
"""

from bisect import bisect_right
from itertools import accumulate


class Stack:
    """A column of heights that change."""

    def __init__(self) -> None:
        self._heights: list[float] = []
        self._tops: list[float] = [0.0]

    def __len__(self) -> int:
        return len(self._heights)

    @property
    def total(self) -> float:
        """The height of all together."""
        return self._sums()[-1]

    def append(self, height: float) -> None:
        """Add one at the end."""
        self._heights.append(height)

    def replace(self, start: int, heights: list[float]) -> None:
        """Put `heights` in the place of everything from `start` on."""
        self._heights[start:] = heights
        del self._tops[start + 1 :]

    def set(self, index: int, height: float) -> None:
        """Change one."""
        if self._heights[index] != height:
            self._heights[index] = height
            del self._tops[index + 1 :]

    def height(self, index: int) -> float:
        """Return the height of one."""
        return self._heights[index]

    def top(self, index: int) -> float:
        """Return where one begins."""
        return self._sums()[index]

    def at(self, place: float) -> int:
        """Return which one covers `place`; the first or last for a place outside. Must not be empty."""
        found = bisect_right(self._sums(), place) - 1
        return min(max(found, 0), len(self._heights) - 1)

    def _sums(self) -> list[float]:
        known = len(self._tops) - 1
        if known < len(self._heights):
            tail = accumulate(self._heights[known:], initial=self._tops[known])
            self._tops[known:] = tail
        return self._tops
