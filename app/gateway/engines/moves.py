"""Another installed version of an engine for a model that the one in use cannot run, where a person wants that done.

Each version is tried once for a model. When none helped, the one that was used first is used again, and nobody moves
for that model until it has been loaded after all.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from app.core.engine_store import BUNDLED
from app.core.engines import EngineStatus, FailureReport
from app.core.events import Notice
from app.engine_store.choosing import elsewhere
from app.engine_store.shelf import Shelf, State
from engines.api import RemedyKind


class Move(NamedTuple):
    """Which version to use from now on, and whether that is worth another load."""

    to: str
    is_hope: bool


class Moves:
    """Remembers what was tried. `bundled` are the engines that come with Roundhouse."""

    def __init__(self, shelf: Shelf, bundled: Collection[str], may_move: Callable[[], bool]) -> None:
        self._shelf = shelf
        self._bundled = bundled
        self._may_move = may_move
        self._tried: dict[tuple[str, str], list[str]] = {}
        self._hopeless: set[tuple[str, str]] = set()

    def wanted(self, status: EngineStatus) -> bool:
        """Tell whether another version may help against what a model failed of, and may be used."""
        failure, key = status.failure, (status.engine, status.model)
        return failure is not None and key not in self._hopeless and _offers(failure) and self._may_move()

    def next(self, status: EngineStatus, state: State) -> Move | None:
        """Return where to go from a failure; None where there is nowhere. Touches the disk."""
        key = (status.engine, status.model)
        tried = self._tried.setdefault(key, [])
        if state.current not in tried:
            tried.append(state.current)
        names = [manifest.name for manifest in self._shelf.manifests(status.engine)]
        if status.engine in self._bundled or state.previous == BUNDLED:
            names.append(BUNDLED)
        to = elsewhere(state, names, tried)
        if to:
            return Move(to, is_hope=True)
        del self._tried[key]
        self._hopeless.add(key)
        return Move(tried[0], is_hope=False) if tried[0] != state.current else None

    def loaded(self, status: EngineStatus) -> None:
        """Forget what was tried for a model that runs."""
        self._tried.pop((status.engine, status.model), None)
        self._hopeless.discard((status.engine, status.model))


def told(engine: str, model: str, left: str, move: Move, why: str) -> Notice:
    """Return what people are told of a move."""
    sentence = (
        f"{engine} {left} cannot run {model}, so {move.to} is used. {why}"
        if move.is_hope
        else f"No version of {engine} that is installed can run {model}, so {move.to} is used again. {why}"
    )
    hint = f"The Engines page goes back, and so does `roundhouse engines use {engine} {left}`." if move.is_hope else ""
    return Notice(level="warn", code="engine_moved", sentence=sentence, hint=hint)


def _offers(failure: FailureReport) -> bool:
    return any(offer.kind == RemedyKind.OTHER_RUNTIME for offer in failure.remedies)
