"""The engine store, made when somebody first asks for it: the gateway must be there at once, and seldom needs it."""

from typing import TYPE_CHECKING

from app.core.engine_store import EngineJob
from app.gateway.services import Services

if TYPE_CHECKING:
    from app.gateway.engines.store import EngineStore


class EnginesSlot:
    """Holds the engine store. Belongs to the event loop."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._store: EngineStore | None = None

    @property
    def store(self) -> "EngineStore":
        """The engine store."""
        if self._store is None:
            from app.gateway.engines.store import EngineStore  # noqa: PLC0415 -- see above

            self._store = EngineStore(self._services)
        return self._store

    @property
    def last_job(self) -> EngineJob | None:
        """What it does, or did last."""
        return self._store.jobs.last if self._store is not None else None

    async def close(self) -> None:
        """Call off what goes on."""
        if self._store is not None:
            await self._store.close()
