"""The engines this build knows, and which of them are installed here.

An engine is asked once, and again when another version of it is used; one that is missing is asked again each time.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from app.core.engine_store import BUNDLED
from app.core.engines import EngineInfo
from app.core.errors import EngineFailed
from app.engine_store.own_programs import OwnPrograms
from app.engine_store.recipe import InstallRecipe, read_recipes
from app.engine_store.version_store import VersionStore
from app.engine_store.versioned_adapter import VersionedAdapters
from engines.api import EngineAdapter, EngineInstallation, Failure, FailureKind


class EngineCatalogue:
    """Every known engine by id, in the registry's order."""

    def __init__(self, adapters: Mapping[str, EngineAdapter], shelf: VersionStore) -> None:
        self.adapters = adapters
        self.versioned: Mapping[str, EngineAdapter] = VersionedAdapters(adapters, shelf)
        """The adapters everybody should use: each looks at the version in use."""
        self.own_programs = OwnPrograms(adapters)
        self.shelf = shelf
        self._installations: dict[str, tuple[str, EngineInstallation]] = {}

    @cached_property
    def recipes(self) -> dict[str, InstallRecipe]:
        """How engines are installed, by id. Raises Bug."""
        return {engine: recipe for engine, recipe in read_recipes().items() if engine in self.adapters}

    def list_engines(self) -> list[EngineInfo]:
        """Return every engine, installed or not."""
        return [self._describe_engine(engine, adapter) for engine, adapter in self.versioned.items()]

    def readers_of(self, model_format: str) -> Sequence[EngineInfo]:
        """Return the engines that read a format, installed or not. No other is looked for: that may run programs."""
        readers = (
            (engine, candidate)
            for engine, candidate in self.versioned.items()
            if model_format in candidate.descriptor.formats
        )
        return [self._describe_engine(engine, adapter) for engine, adapter in readers]

    def backend_of(self, engine_id: str) -> str:
        """Return what an engine computes with; empty where it is not here or not known."""
        result = self._probe_engine(engine_id) if engine_id in self.versioned else None
        return result.backend if isinstance(result, EngineInstallation) else ""

    def find_installation(self, engine_id: str) -> EngineInstallation:
        """Return where an engine is. Raises EngineFailed (code not_installed) if it is not here or not known."""
        if engine_id not in self.versioned:
            raise unknown_engine(engine_id)
        result = self._probe_engine(engine_id)
        if isinstance(result, Failure):
            raise EngineFailed(result.sentence, hint=result.hint, code=result.kind)
        return result

    def _probe_engine(self, engine_id: str) -> EngineInstallation | Failure:
        current = self.shelf.read_state(engine_id).current
        version, cached = self._installations.get(engine_id, ("", None))
        if cached is not None and version == current:
            return cached
        result = self.versioned[engine_id].probe()
        if isinstance(result, EngineInstallation):
            self._installations[engine_id] = (current, result)
        return result

    def _describe_engine(self, engine_id: str, adapter: EngineAdapter) -> EngineInfo:
        about = adapter.descriptor
        result, state = self._probe_engine(engine_id), self.shelf.read_state(engine_id)
        installation = result if isinstance(result, EngineInstallation) else None
        return EngineInfo(
            id=about.id,
            name=about.name,
            licence=about.licence,
            homepage=about.homepage,
            formats=sorted(kind.value for kind in about.formats),
            installed=installation is not None,
            version=installation.version if installation else "",
            backend=installation.backend if installation else "",
            verified=about.verified,
            unverified=about.unverified,
            problem=result.sentence if isinstance(result, Failure) else state.bad.get(state.current, ""),
            is_broken=installation is None and state.current != BUNDLED,
        )


def is_preinstalled(adapters: Mapping[str, EngineAdapter], engine: str) -> bool:
    """Tell whether an engine is here without our having installed it. May run a program."""
    return engine in adapters and isinstance(adapters[engine].probe(), EngineInstallation)


def unknown_engine(engine_id: str) -> EngineFailed:
    """Return the error for an engine nobody has heard of."""
    return EngineFailed(
        f"This version of Roundhouse has no engine called {engine_id!r}.",
        hint="`roundhouse engines list` shows the engines it has.",
        code=FailureKind.NOT_INSTALLED,
    )
