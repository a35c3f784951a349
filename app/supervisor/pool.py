"""Every engine process of the gateway: `Supervisor.lease` and `ensure_ready` are the only ways in."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from app.core.engines import EngineStatus
from app.core.events import Event, LogLine
from app.supervisor.lease import Lease
from app.supervisor.policy import Folders, LoadRequest, Policy
from engines.api import Adapter

__all__ = ["Folders", "Lease", "LoadRequest", "Policy", "Supervisor"]


class Supervisor:
    """Start, share, watch and stop engines. Make it inside the event loop that will use it."""

    def __init__(
        self,
        adapters: Mapping[str, Adapter],
        folders: Folders,
        policy: Policy,
        publish: Callable[[Event], None],
        *,
        inherited: Mapping[str, str] | None = None,
    ) -> None:
        self.policy = policy

    async def start(self) -> int:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    @asynccontextmanager
    async def lease(self, request: LoadRequest) -> AsyncIterator[Lease]:
        raise NotImplementedError
        yield

    async def ensure_ready(self, request: LoadRequest) -> EngineStatus:
        raise NotImplementedError

    async def unload(self, model: str, *, force: bool = False) -> EngineStatus:
        raise NotImplementedError

    def statuses(self) -> list[EngineStatus]:
        raise NotImplementedError

    def log(self, model: str, *, tail: int = 200) -> list[LogLine]:
        raise NotImplementedError
