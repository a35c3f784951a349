"""What a slot knows and has still to compute: its sequence in llama.cpp's memory, and the request that runs in it."""

from collections.abc import Sequence
from typing import Any

from engines.llama_cpp_python.batch import Batch
from engines.serving.backend import WorkItem


class Slot:
    """One sequence. `known` are the tokens in its memory, `ahead` those still to be read, the last one written too."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.known: list[int] = []
        self.ahead: list[int] = []
        self.work: WorkItem | None = None
        self.sampler: Any = None
        self.output = -1
        """Where in the last batch its next token can be drawn; -1 if its prompt is not read yet."""
        self._written = 0
        self._cached: int | None = None

    @property
    def is_full(self) -> bool:
        """Whether as many tokens are written as were asked for."""
        return self.work is not None and self._written >= self.work.max_tokens

    def prefix_match_length(self, prompt: Sequence[int]) -> int:
        """Return how many tokens of a prompt it knows already; one is always left to compute."""
        same = 0
        for ours, theirs in zip(self.known, prompt[:-1], strict=False):
            if ours != theirs:
                break
            same += 1
        return same

    def begin(self, work: WorkItem, sampler: Any, same: int) -> None:  # noqa: ANN401 -- a pointer
        """Take on a request of which it knows the first `same` tokens."""
        self.work, self.sampler, self._written, self._cached = work, sampler, 0, same
        self.known, self.ahead = list(work.prompt[:same]), list(work.prompt[same:])
        self.output = -1

    def add_to(self, batch: Batch) -> None:
        """Put as much of what is ahead into a batch as there is room for."""
        count = min(len(self.ahead), batch.room)
        now, self.ahead = self.ahead[:count], self.ahead[count:]
        self.output = batch.add(now, at=len(self.known), sequence=self.number, wants_output=not self.ahead)
        self.known += now

    def take_cached(self) -> int | None:
        """Return how much of the prompt it knew, once."""
        cached, self._cached = self._cached, None
        return cached

    def write(self, token: int) -> None:
        """Note a token that was drawn; it is read with the next batch."""
        self._written += 1
        self.ahead.append(token)

    def end(self) -> None:
        """Let go of the request; what was read stays known."""
        self.work = self.sampler = None
        self.ahead, self.output = [], -1


def choose_slot(slots: Sequence[Slot], prompt: Sequence[int]) -> Slot:
    """Return the free slot that knows most of a prompt; of those that know nothing, the one with least to lose."""
    free = [slot for slot in slots if slot.work is None]
    return max(free, key=lambda slot: (slot.prefix_match_length(prompt), -len(slot.known)))
