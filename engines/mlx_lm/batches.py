"""How MLX-LM's server steps its batches: what it does between two steps that would wait for the next one is left out.

While tokens are handed on, the next step is being computed. A figure taken out of an array by the library's own means
is one more operation behind that step, for each token of each answer, whether anybody wants it; read from where it
lies, it is there at once.
"""

import struct
from typing import Any

_FORMATS = {"f": ("=f", b""), "e": ("=e", b""), "bfloat16": ("=f", b"\0\0")}
"""How figures of a buffer's format are read, and what completes them: bfloat16 is the upper half of a float."""
_ONE_STEP = (None,)
"""What the server may do between two looks at its queue. By its own measure, half a second of steps, whoever comes
waits as long to join the batch, and whoever has gone is computed for as long."""


def install_batches(server: Any) -> None:  # noqa: ANN401 -- mlx_lm has no types here
    """Have `mlx_lm.server` step batches of our class in the place of its own."""
    server.BatchGenerator = batch_class(server.BatchGenerator)


def look_after_each_step(generator: Any) -> None:  # noqa: ANN401 -- as above
    """Have the thread that computes take in requests, and let go of answers, between any two steps."""
    generator._time_budget = _ONE_STEP  # noqa: SLF001 -- there is no option for it


def batch_class(library_class: type) -> type:
    """Return the library's class of batches, whose figures are read where they lie."""

    class StepGenerator(library_class):  # type: ignore[misc]  # mlx_lm has no types here
        def next(self) -> tuple[Any, Any]:
            """Make a step."""
            prompts, answers = super().next()
            for answer in answers:
                answer.logprobs = StepLogprobs(answer.logprobs)
            return prompts, answers

    return StepGenerator


class StepLogprobs:
    """The logarithms of probability of one token's alternatives, which have been computed."""

    def __init__(self, figures: Any) -> None:  # noqa: ANN401 -- mlx's array
        self._figures = figures

    def __neg__(self) -> Any:  # noqa: ANN401 -- mlx's array
        """Return an array with signs changed, as the library sorts by."""
        return -self._figures

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401 -- mlx's array
        """Return one figure, or an array of several."""
        return TokenLogprob(self._figures, index) if isinstance(index, int) else self._figures[index]


class TokenLogprob:
    """One figure in an array."""

    def __init__(self, figures: Any, index: int) -> None:  # noqa: ANN401 -- mlx's array
        self._figures = figures
        self._index = index

    def item(self) -> float:
        """Return it as a number, as an array of one does."""
        view = memoryview(self._figures)
        if view.format not in _FORMATS or not view.c_contiguous:
            return float(self._figures[self._index].item())
        start = self._index * view.itemsize
        return read_figure(view.cast("B")[start : start + view.itemsize], view.format)


def read_figure(data: bytes | memoryview, form: str) -> float:
    """Return the number in a buffer's bytes, of a format that is known here."""
    struct_format, completion = _FORMATS[form]
    (figure,) = struct.unpack(struct_format, completion + data)
    return float(figure)
