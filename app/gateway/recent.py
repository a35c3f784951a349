"""What the last requests named, kept for a moment.

A client that streams asks for the same model again and again; finding it takes a thread and a look at the disk, which
on a busy machine is most of what a request waits for here. The key says when an answer no longer counts.
"""

import time
from collections.abc import Hashable
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

    def get(self, key: Hashable) -> Found | None:
        """Return what was found under this key a moment ago."""
        at, found = self._found.get(key, (0.0, None))
        return found if time.monotonic() - at < self._kept_s else None

    def put(self, key: Hashable, found: Found) -> None:
        """Remember it."""
        if len(self._found) >= _MOST:
            self._found.clear()
        self._found[key] = (time.monotonic(), found)
