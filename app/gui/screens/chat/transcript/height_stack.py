"""Heights one below the other: where each begins, and which lies at a given place.

Sums are kept up to the first height that changed and made anew from there when asked for, so that a change at the end,
where answers grow, costs nothing.
"""

from bisect import bisect_right
from itertools import accumulate


class HeightStack:
    """A column of heights that change."""

    def __init__(self) -> None:
        self._heights: list[float] = []
        self._tops: list[float] = [0.0]

    def __len__(self) -> int:
        return len(self._heights)

    @property
    def total(self) -> float:
        """The height of all together."""
        return self._update_tops()[-1]

    def append(self, height: float) -> None:
        """Add one at the end."""
        self._heights.append(height)

    def replace_from(self, start: int, heights: list[float]) -> None:
        """Put `heights` in the place of everything from `start` on."""
        self._heights[start:] = heights
        del self._tops[start + 1 :]

    def set_height(self, index: int, height: float) -> None:
        """Change one."""
        if self._heights[index] != height:
            self._heights[index] = height
            del self._tops[index + 1 :]

    def height_of(self, index: int) -> float:
        """Return the height of one."""
        return self._heights[index]

    def top_of(self, index: int) -> float:
        """Return where one begins."""
        return self._update_tops()[index]

    def index_at(self, place: float) -> int:
        """Return which one covers `place`; the first or last for a place outside. Must not be empty."""
        index = bisect_right(self._update_tops(), place) - 1
        return min(max(index, 0), len(self._heights) - 1)

    def _update_tops(self) -> list[float]:
        known_count = len(self._tops) - 1
        if known_count < len(self._heights):
            tail = accumulate(self._heights[known_count:], initial=self._tops[known_count])
            self._tops[known_count:] = tail
        return self._tops
