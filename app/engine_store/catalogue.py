"""The engines this build knows, and which of them are installed here.

An engine is asked once; what is installed does not change while a gateway runs. One that is missing is asked again.
"""

from collections.abc import Mapping

from app.core.engines import EngineInfo
from app.core.errors import EngineFailed
from engines.api import Adapter, Failure, FailureKind, Installation


class Catalogue:
    """Every known engine by id, in the registry's order."""

    def __init__(self, adapters: Mapping[str, Adapter]) -> None:
        self._adapters = adapters
        self._found: dict[str, Installation] = {}

    def list(self) -> list[EngineInfo]:
        """Return every engine, installed or not."""
        return [self._describe(engine, adapter) for engine, adapter in self._adapters.items()]

    def installation(self, engine_id: str) -> Installation:
        """Return where an engine is. Raises EngineFailed (code not_installed) if it is not here or not known."""
        if engine_id not in self._adapters:
            raise EngineFailed(
                f"This version of Roundhouse knows no engine called {engine_id!r}.",
                hint="`roundhouse engines` lists those it knows.",
                code=FailureKind.NOT_INSTALLED,
            )
        found = self._probe(engine_id)
        if isinstance(found, Failure):
            raise EngineFailed(found.sentence, hint=found.hint, code=found.kind)
        return found

    def _probe(self, engine_id: str) -> Installation | Failure:
        if engine_id in self._found:
            return self._found[engine_id]
        found = self._adapters[engine_id].probe()
        if isinstance(found, Installation):
            self._found[engine_id] = found
        return found

    def _describe(self, engine_id: str, adapter: Adapter) -> EngineInfo:
        about = adapter.descriptor
        found = self._probe(engine_id)
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
            problem=found.sentence if isinstance(found, Failure) else "",
        )
