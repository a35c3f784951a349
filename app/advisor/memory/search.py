"""The largest that still fits: contexts, layers on the GPU, experts off it. All by bisection over the real sums.

More context takes more memory and more layers on the GPU take more of the GPU's, so what fits is a range with one end.
"""

from collections.abc import Callable


def largest_fit(fits: Callable[[int], bool], *, most: int, step: int = 1) -> int:
    """Return the largest multiple of `step` up to `most` (or `most` itself) that fits; 0 for none."""
    if most <= 0:
        return 0
    if fits(most):
        return most
    low, high = 0, -(-most // step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle * step) else (low, middle)
    return low * step


def smallest_fit(fits: Callable[[int], bool], *, most: int) -> int | None:
    """Return the smallest number from 0 to `most` that fits, or None."""
    if not fits(most):
        return None
    low, high = -1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
