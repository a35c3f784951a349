"""What a caller holds while an engine works for it: where to send the request, and with which key."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

import msgspec

from app.core.engines import EngineStatus
from app.core.errors import EngineFailed
from app.supervisor.states import SlotStateLaunch

CLIENT: ContextVar[str] = ContextVar("client", default="")
"""For whom the present task asks; set where a request comes in, so that nobody need hand it through."""


class ReadyEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a ready engine is, for a look at it that uses nothing and keeps nothing loaded."""

    model: str
    engine: str
    base_url: str
    key: str
    metrics_url: str = ""
    """Of a router that shows its own metrics, without a key: where, below the path `/metrics`."""

    def __repr__(self) -> str:
        """Leave out the key: what is shown may be logged."""
        return f"Reachable({self.model!r} at {self.base_url})"


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A ready engine that stays while this is held. `key` is the Bearer token the engine wants."""

    base_url: str
    """Without a path: an adapter's `descriptor.routes` are relative to it."""
    key: str
    served_name: str
    engine: str
    context: int | None
    """Tokens of each slot; None where nobody knows."""
    see: Callable[[], EngineStatus]
    """Says how things stand now; nobody has to know to send a request."""
    load_s: float
    """Seconds waited for loading; 0.0 when it was ready."""
    end: "asyncio.Future[EngineFailed]"
    """Set when the engine ends while the lease is held, crashed or stopped."""
    model: str = ""
    """Whose engine this is; for the supervisor."""
    run: int = 0
    """Which run of the engine this holds; for the supervisor."""
    slot: bool = True
    """Whether it takes one of the engine's slots; for the supervisor."""
    states: SlotStateLaunch | None = None
    """Where the engine writes what its slots have read; None where it does not."""

    @property
    def status(self) -> EngineStatus:
        """How things stand now."""
        return self.see()

    def __repr__(self) -> str:
        """Leave out the key: what is shown may be logged."""
        return f"Lease({self.served_name!r} at {self.base_url}, run {self.run})"

    async def wait_for_verdict(self, *, timeout_s: float = 3.0) -> EngineFailed | None:
        """Say why the engine ended, once a connection to it broke; None when it seems to be alive.

        Waits a little: a socket breaks before the process has been seen to end and its last words have been read. An
        endpoint has no process of ours to see.
        """
        done_tasks, _ = await asyncio.wait({self.end}, timeout=timeout_s if self.status.pid is not None else 0.0)
        return self.end.result() if done_tasks and not self.end.cancelled() else None
