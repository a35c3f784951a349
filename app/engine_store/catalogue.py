"""The engines this build knows, and which of them are installed here.

An engine is asked once, and again when another version of it is used; one that is missing is asked again each time.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from app.core.engine_store import BUNDLED
from app.core.engines import EngineInfo
from app.core.errors import EngineFailed
from app.engine_store.own_programs import OwnPrograms
from app.engine_store.placed import PlacedAdapters
from app.engine_store.recipe import Recipe, recipes
from app.engine_store.shelf import Shelf
from engines.api import Adapter, Failure, FailureKind, Installation


class Catalogue:
    """Every known engine by id, in the registry's order."""

    def __init__(self, adapters: Mapping[str, Adapter], shelf: Shelf) -> None:
        self.adapters = adapters
        self.placed: Mapping[str, Adapter] = PlacedAdapters(adapters, shelf)
        """The adapters everybody should use: each looks at the version in use."""
        self.own = OwnPrograms(adapters)
        self.shelf = shelf
        self._found: dict[str, tuple[str, Installation]] = {}

    @cached_property
    def recipes(self) -> dict[str, Recipe]:
        """How engines are installed, by id. Raises Bug."""
        return {engine: recipe for engine, recipe in recipes().items() if engine in self.adapters}

    def list(self) -> list[EngineInfo]:
        """Return every engine, installed or not."""
        return [self._describe(engine, adapter) for engine, adapter in self.placed.items()]

    def readers_of(self, model_format: str) -> Sequence[EngineInfo]:
        """Return the engines that read a format, installed or not. No other is looked for: that may run programs."""
        readers = ((engine, one) for engine, one in self.placed.items() if model_format in one.descriptor.formats)
        return [self._describe(engine, adapter) for engine, adapter in readers]

    def backend_of(self, engine_id: str) -> str:
        """Return what an engine computes with; empty where it is not here or not known."""
        found = self._probe(engine_id) if engine_id in self.placed else None
        return found.backend if isinstance(found, Installation) else ""

    def installation(self, engine_id: str) -> Installation:
        """Return where an engine is. Raises EngineFailed (code not_installed) if it is not here or not known."""
        if engine_id not in self.placed:
            raise unknown_engine(engine_id)
        found = self._probe(engine_id)
        if isinstance(found, Failure):
            raise EngineFailed(found.sentence, hint=found.hint, code=found.kind)
        return found

    def _probe(self, engine_id: str) -> Installation | Failure:
        current = self.shelf.state(engine_id).current
        version, known = self._found.get(engine_id, ("", None))
        if known is not None and version == current:
            return known
        found = self.placed[engine_id].probe()
        if isinstance(found, Installation):
            self._found[engine_id] = (current, found)
        return found

    def _describe(self, engine_id: str, adapter: Adapter) -> EngineInfo:
        about = adapter.descriptor
        found, state = self._probe(engine_id), self.shelf.state(engine_id)
        here = found if isinstance(found, Installation) else None
        return EngineInfo(
            id=about.id,
            name=about.name,
            licence=about.licence,
            homepage=about.homepage,
            formats=sorted(kind.value for kind in about.formats),
            installed=here is not None,
            version=here.version if here else "",
            backend=here.backend if here else "",
            verified=about.verified,
            unverified=about.unverified,
            problem=found.sentence if isinstance(found, Failure) else state.bad.get(state.current, ""),
            is_broken=here is None and state.current != BUNDLED,
        )


def came_along(adapters: Mapping[str, Adapter], engine: str) -> bool:
    """Tell whether an engine is here without our having installed it. May run a program."""
    return engine in adapters and isinstance(adapters[engine].probe(), Installation)


def unknown_engine(engine_id: str) -> EngineFailed:
    """Return the error for an engine nobody has heard of."""
    return EngineFailed(
        f"This version of Roundhouse has no engine called {engine_id!r}.",
        hint="`roundhouse engines list` shows the engines it has.",
        code=FailureKind.NOT_INSTALLED,
    )
