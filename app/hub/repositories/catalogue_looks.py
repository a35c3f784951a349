"""Which models of the catalogue somebody has seen, so that those that came since can be marked. Blocks."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from app.hub.library.registry_file import JsonFile


class _LookRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The makers' repositories of all models that the catalogue had at the last look."""

    bases: list[str]


class CatalogueLooks:
    """What the catalogue had when somebody last looked through it."""

    def __init__(self, file: Path) -> None:
        self._json_file = JsonFile(file, _LookRecord, "what the catalogue had at the last look")

    def read_seen(self) -> frozenset[str] | None:
        """Return the models of the last look; None before the first, when nothing can be new."""
        seen_ids = self._json_file.read_value()
        return None if seen_ids is None else frozenset(seen_ids.bases)

    def note_look(self, bases: Iterable[str]) -> None:
        """Remember what somebody has seen now. Raises StorageFault."""
        self._json_file.write_value(_LookRecord(bases=sorted(bases)))
