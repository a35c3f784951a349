"""Space that equal files take twice: found, given back, and taken again. What was found and done is kept in memory.

The methods that do something are called in a thread, one at a time, by the library's work.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from app.core.errors import NotFound
from app.core.library import Duplicate
from app.hub.disk import duplicates, sharing
from app.hub.disk.duplicates import Copy
from app.hub.disk.reading import Said

Work = Callable[[Said, Callable[..., None]], None]
"""Reads, saying how far it is; and says what it found."""


class _Found(NamedTuple):
    told: Duplicate
    kept: Copy
    free: list[Copy]


class Reclaiming:
    """What the last search found, and what was shared since and can be taken apart again."""

    def __init__(self) -> None:
        self._found: list[_Found] = []
        self._shared: list[sharing.Shared] = []

    def search(self, groups: Sequence[Sequence[Copy]], *, reclaim: bool) -> Work:
        """Return what finds equal files among those of equal size, and with `reclaim` lets them share at once."""

        def work(said: Said, found: Callable[..., None]) -> None:
            self._found, freed = [], 0
            for group in groups:
                for digest, copies in duplicates.equal(group, said):
                    one = _Found(*duplicates.described(digest, copies))
                    self._found.append(one)
                    freed += self._share(one) if reclaim else 0
                    found(duplicates=[known.told for known in self._found], reclaimed_bytes=freed, can_undo=self._can)
            if reclaim:
                self._found = []

        return work

    def reclaim(self, hashes: Iterable[str]) -> tuple[int, Work]:
        """Return how much can be freed, and what does it: for all that was found, or for contents of these hashes.

        Raises NotFound (not_found_before) for a hash that the last search did not come to.
        """
        wanted = frozenset(hashes)
        chosen = [one for one in self._found if not wanted or one.told.sha256 in wanted]
        if not chosen or wanted - {one.told.sha256 for one in chosen}:
            raise NotFound(
                "No such equal files were found.", hint="Look for duplicates first.", code="not_found_before"
            )

        def work(said: Said, found: Callable[..., None]) -> None:
            freed = 0
            for one in chosen:
                said(one.kept.path, one.told.reclaims_bytes)
                freed += self._share(one)
                self._found.remove(one)
                left = [known.told for known in self._found]
                found(reclaimed_bytes=freed, duplicates=left, can_undo=self._can)

        return sum(one.told.reclaims_bytes for one in chosen), work

    def separate(self) -> tuple[int, Work]:
        """Return how much is to be copied, and what does it: each file that was shared has space of its own again.

        Raises NotFound (nothing_reclaimed), StorageFault (disk_full).
        """
        self._shared = [one for one in self._shared if one.is_as_it_was()]
        if not self._shared:
            raise NotFound(
                "Nothing was shared since Roundhouse started that could be taken apart.", code="nothing_reclaimed"
            )
        sharing.check_room(self._shared)

        def work(said: Said, found: Callable[..., None]) -> None:
            taken = 0
            while self._shared:
                if sharing.separate(self._shared[-1], said):
                    taken += self._shared[-1].size
                self._shared.pop()
                found(reclaimed_bytes=-taken, can_undo=self._can)

        return sum(one.size for one in self._shared), work

    @property
    def _can(self) -> bool:
        return bool(self._shared)

    def _share(self, one: _Found) -> int:
        done = [shared for copy in one.free if (shared := sharing.share(one.kept, copy)) is not None]
        self._shared += [shared for shared in done if not shared.is_clone]
        return sum(shared.size for shared in done)
