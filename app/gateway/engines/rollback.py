"""What happens when the version of an engine in use fails: the one before takes over, and the same request is answered.

The decision is `engine_store.choosing`; this asks it at the two places where a failure is seen: a load that a request
waits for, and an engine that ends by itself.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from app.core.engines import EngineState, EngineStatus
from app.core.errors import EngineFailed
from app.core.events import EngineChanged, EnginesChanged, Event, Notice
from app.engine_store.choosing import CERTAIN, broken, is_to_blame, loaded, rolled_back, switched
from app.engine_store.shelf import PROVEN_LOADS, Shelf, State
from app.gateway.engines.moves import Moves, told
from app.gateway.events import EventHub
from app.supervisor.policy import LoadRequest

RECENT_S = 60.0
"""Requests that failed together with the one that brought the previous version back are tried again too."""
_DOWN = frozenset({EngineState.FAILED, EngineState.BACKING_OFF})


def announce(shelf: Shelf, events: EventHub) -> None:
    """Tell everybody what changes on the shelf. Call it in the loop; the shelf says it in whatever thread."""
    loop = asyncio.get_running_loop()

    def changed(engine: str) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(events.publish, EnginesChanged(engine=engine))

    shelf.changed = changed


class Rescuer:
    """Rolls engines back, and with `moves` on to other versions. Belongs to the event loop."""

    def __init__(self, shelf: Shelf, publish: Callable[[Event], None], moves: Moves | None = None) -> None:
        self._shelf = shelf
        self._publish = publish
        self._moves = moves
        self._switched_s: dict[str, float] = {}
        self._one_at_a_time = asyncio.Lock()
        self._loads: set[tuple[str, float]] = set()

    async def rescue(self, request: LoadRequest, status: EngineStatus, error: EngineFailed) -> bool:
        """Tell whether to load again, because another version of the engine is used from now on."""
        used = self._shelf.state(request.engine).current
        if await self._went_back(request.engine, error.code, str(error), was_ready=False):
            return True
        if self._moves is not None and await self._moved(self._moves, status, used):
            return True
        is_recent = time.monotonic() - self._switched_s.get(request.engine, -RECENT_S) < RECENT_S
        return is_recent and status.engine == request.engine

    async def watch(self, events: EventHub) -> None:
        """Count loads that went well, and roll back where an engine ended while it answered. Runs until cancelled."""
        with events.subscribe() as subscription:
            async for event in subscription:
                if isinstance(event, EngineChanged):
                    await self._saw(event.status)

    async def _saw(self, status: EngineStatus) -> None:
        if status.state is EngineState.READY and status.loaded_at is not None:
            if self._moves is not None:
                self._moves.loaded(status)
            await self._count(status.engine, (status.model, status.loaded_at))
        elif status.state in _DOWN and status.failure is not None:
            await self._went_back(status.engine, status.failure.code, status.failure.sentence, was_ready=True)

    async def _count(self, engine: str, load: tuple[str, float]) -> None:
        state = self._shelf.state(engine)
        if load in self._loads or (state.loads >= PROVEN_LOADS and state.current not in state.bad):
            return
        self._loads.add(load)
        await self._change(engine, loaded)

    async def _went_back(self, engine: str, code: str, why: str, *, was_ready: bool) -> bool:
        async with self._one_at_a_time:  # several requests and the events tell of the same failure
            state = await asyncio.to_thread(self._shelf.state, engine)
            failed = state.current
            if not is_to_blame(state, code, was_ready=was_ready):
                if code in CERTAIN and not was_ready:  # it may be installed again then, and lists say what is wrong
                    await self._change(engine, lambda now: broken(now, failed, why))
                return False
            after = await self._change(engine, lambda now: rolled_back(now, why) if now.current == failed else now)
        if after is None or after.current == failed:
            return False
        self._switched_s[engine] = time.monotonic()
        self._publish(
            Notice(
                level="warn",
                code="engine_rolled_back",
                sentence=f"{engine} {failed} failed, so {after.current} is used again. {why}",
                hint=f"`roundhouse engines list {engine}` shows both; `roundhouse engines use` tests it again.",
            )
        )
        return True

    async def _moved(self, moves: Moves, status: EngineStatus, used: str) -> bool:
        """Tell whether another version is used than the one that failed; `used` is which that was."""
        if status.failure is None or not moves.wanted(status):
            return False
        async with self._one_at_a_time:
            state = await asyncio.to_thread(self._shelf.state, status.engine)
            if state.current != used:
                return True  # of several requests that failed together, the first has seen to it
            move = await asyncio.to_thread(moves.next, status, state)
            if move is None:
                return False
            to = move.to
            after = await self._change(status.engine, lambda now: switched(now, to) if now.current == used else now)
        if after is None or after.current != to:
            return False
        if move.is_hope:
            self._switched_s[status.engine] = time.monotonic()
        self._publish(told(status.engine, status.model, used, move, status.failure.sentence))
        return move.is_hope

    async def _change(self, engine: str, make: Callable[[State], State]) -> State | None:
        try:
            return await asyncio.to_thread(self._shelf.change, engine, make)
        except OSError as error:
            logging.getLogger(__name__).warning("The state of %s could not be kept: %s", engine, error)
            return None
