"""Which stream fetches which chunk: long runs, so that a stream asks once and reads on, and none is fetched twice.

A stream takes the first chunk of a run and goes on through it. When all runs are taken, the next stream takes the
second half of the longest one; whoever is reading the first half stops where the other began.
"""

import threading
from collections.abc import Iterable


class Regions:
    """The chunks that are missing, given out one at a time. Thread-safe."""

    def __init__(self, missing: Iterable[int]) -> None:
        self._free = set(missing)
        self._taken: set[int] = set()
        self._lock = threading.Lock()

    def take_run(self) -> range | None:
        """Return a run of chunks to ask for; the first of them is taken. None when nobody is needed any more."""
        with self._lock:
            runs = self._free_runs()
            if not runs:
                return None
            run = max(runs, key=len)
            start = run.start
            if start - 1 in self._taken and len(run) > 1:
                start += len(run) // 2
            return self._mark_taken(range(start, run.stop))

    def go_on(self, index: int) -> bool:
        """Note that a chunk is done, and tell whether its stream should read the next one too."""
        with self._lock:
            self._taken.discard(index)
            if index + 1 not in self._free:
                return False
            self._mark_taken(range(index + 1, index + 2))
            return True

    def give_back(self, index: int) -> None:
        """Put back a chunk whose stream broke."""
        with self._lock:
            if index in self._taken:
                self._taken.discard(index)
                self._free.add(index)

    def _mark_taken(self, run: range) -> range:
        self._free.discard(run.start)
        self._taken.add(run.start)
        return run

    def _free_runs(self) -> list[range]:
        runs: list[range] = []
        for index in sorted(self._free):
            if runs and runs[-1].stop == index:
                runs[-1] = range(runs[-1].start, index + 1)
            else:
                runs.append(range(index, index + 1))
        return runs
