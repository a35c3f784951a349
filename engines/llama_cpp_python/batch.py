"""llama.cpp's batch: tokens of several sequences that are computed in one go."""

from collections.abc import Sequence
from typing import Any


class Batch:
    """A native batch that is filled anew for every step."""

    def __init__(self, lib: Any, size: int) -> None:  # noqa: ANN401 -- the package, imported late
        self.native = lib.llama_batch_init(size, 0, 1)
        self._size = size

    @property
    def room(self) -> int:
        """How many more tokens fit in."""
        return self._size - int(self.native.n_tokens)

    def clear(self) -> None:
        """Empty it."""
        self.native.n_tokens = 0

    def add(self, tokens: Sequence[int], *, at: int, sequence: int, wants_output: bool) -> int:
        """Add tokens of a sequence from position `at` on; return where the last one's output will be, or -1."""
        native, start = self.native, int(self.native.n_tokens)
        for place, token in enumerate(tokens, start):
            native.token[place] = token
            native.pos[place] = at + place - start
            native.n_seq_id[place] = 1
            native.seq_id[place][0] = sequence
            native.logits[place] = 0
        native.n_tokens = start + len(tokens)
        if not tokens or not wants_output:
            return -1
        native.logits[native.n_tokens - 1] = 1
        return int(native.n_tokens) - 1
