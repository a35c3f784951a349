"""How much memory a graph of tensors needs when each is freed after its last use: ggml's allocator, in short.

ggml_gallocr gives a tensor the smallest gap it fits, else the end; what a buffer takes is the furthest end. Gaps too
small for what comes later make that more than what is ever alive at once, which is why it is played through here.
"""

from collections.abc import Sequence

ALIGNMENT = 32
"""ggml's `TENSOR_ALIGNMENT`; GPUs use 128 or 256, which changes nothing at these sizes."""
NONE = -1


class FreeGaps:
    """One buffer: which stretches are free, and how far it ever reached."""

    def __init__(self) -> None:
        self.top = 0
        self._end = 0
        self._free: list[tuple[int, int]] = []

    def take_gap(self, size: int) -> int:
        """Return a place for so many bytes: the smallest gap that holds them, the last among equals, or the end."""
        best = NONE
        for index, (_, room) in enumerate(self._free):
            if room >= size and (best == NONE or room <= self._free[best][1]):
                best = index
        if best == NONE:
            place, self._end = self._end, self._end + size
            self.top = max(self.top, self._end)
            return place
        place, room = self._free.pop(best)
        if room > size:
            self._free.insert(best, (place + size, room - size))
        return place

    def give_back(self, place: int, size: int) -> None:
        """Take back a stretch, joined with the gaps beside it."""
        start, stop = place, place + size
        kept: list[tuple[int, int]] = []
        for gap, room in self._free:
            if gap + room == start:
                start = gap
            elif gap == stop:
                stop += room
            else:
                kept.append((gap, room))
        if stop == self._end:
            self._end = start
        else:
            kept.append((start, stop - start))
            kept.sort()
        self._free = kept


class TensorGraph:
    """Tensors in the order they are computed. Sizes in bytes; a tensor is known by its number."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._sources: list[Sequence[int]] = []
        self._heirs: list[int] = []
        self._uses: list[int] = []
        self._kept: set[int] = set()

    def add_tensor(self, size: int, sources: Sequence[int] = (), *, over: int = NONE) -> int:
        """Add a tensor and return its number. `over`: the one whose memory it takes if nobody else needs that."""
        for source in sources:
            self._uses[source] += 1
        self._sizes.append(-(-size // ALIGNMENT) * ALIGNMENT)
        self._sources.append(sources)
        self._heirs.append(over)
        self._uses.append(0)
        return len(self._sizes) - 1

    def keep_tensor(self, tensor: int) -> None:
        """Never free a tensor: it is handed out, or has a view that nobody reads."""
        self._kept.add(tensor)

    def peak_bytes(self) -> int:
        """Return the bytes the whole takes."""
        gaps, uses, places = FreeGaps(), list(self._uses), dict[int, int]()
        for number, size in enumerate(self._sizes):
            over = self._heirs[number]
            if over in places and uses[over] == 1 and self._sizes[over] == size and over not in self._kept:
                places[number] = places.pop(over)
            elif size:
                places[number] = gaps.take_gap(size)
            for source in self._sources[number]:
                uses[source] -= 1
                if not uses[source] and source in places and source not in self._kept:
                    gaps.give_back(places.pop(source), self._sizes[source])
        return gaps.top
