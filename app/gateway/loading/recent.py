"""What the last requests named, kept for a moment.

A client that streams asks for the same model again and again; finding it takes a thread and a look at the disk, which
on a busy machine is most of what a request waits for here. The key says when an answer no longer counts. A model that
runs needs no look at the disk at all.
"""

import time
from collections.abc import Callable, Hashable
from typing import NamedTuple

from app.core.models import ModelInfo
from app.supervisor.policy import LoadRequest

KEPT_S = 2.0
"""A model file that vanishes is missed after this."""
_MOST = 64


class Found(NamedTuple):
    """A model, and what loads it."""

    model: ModelInfo
    load: LoadRequest


class Recent:
    """Remembers for `KEPT_S` seconds. Belongs to the event loop's thread."""

    def __init__(self, kept_s: float = KEPT_S) -> None:
        self._kept_s = kept_s
        self._found: dict[Hashable, tuple[float, Found]] = {}

    def get(self, key: Hashable, still_holds: Callable[[Found], bool] = lambda _found: False) -> Found | None:
        """Return what was found under this key a moment ago, or longer ago if it `still_holds`."""
        at, found = self._found.get(key, (0.0, None))
        if found is None or time.monotonic() - at < self._kept_s:
            return found
        if not still_holds(found):
            return None
        self.put(key, found)
        return found

    def put(self, key: Hashable, found: Found) -> None:
        """Remember it."""
        if len(self._found) >= _MOST:
            self._found.clear()
        self._found[key] = (time.monotonic(), found)
