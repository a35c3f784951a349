"""What happens when the version of an engine in use fails: another takes over, and the same request is answered.

The one before takes over from one that fails; the decision is in `engine_store.version_store`, which is asked at the
two places where a failure is seen: a load that a request waits for, and an engine that ends by itself.

Where a person wants that done, a model that the version in use cannot run moves to any other that is installed. Each is
tried once for a model. When none helped, the one that was used first is used again, and nobody moves for that model
until it has been loaded after all.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from app.core.engine_store import BUNDLED
from app.core.engines import EngineState, EngineStatus, FailureReport
from app.core.errors import EngineFailed
from app.core.events import EngineChanged, EnginesChanged, Event, Notice
from app.engine_store.version_store import (
    CERTAIN,
    PROVEN_LOADS,
    VersionState,
    VersionStore,
    alternative_version,
    is_to_blame,
    mark_broken,
    record_load,
    roll_back,
    switch_version,
)
from app.gateway.events import EventHub
from app.supervisor.policy import LoadRequest
from engines.api import RemedyKind

RECENT_S = 60.0
"""Requests that failed together with the one that brought the previous version back are tried again too."""
_DOWN = frozenset({EngineState.FAILED, EngineState.BACKING_OFF})


class VersionMove(NamedTuple):
    """Which version to use from now on, and whether that is worth another load."""

    to: str
    is_hope: bool


class VersionMoves:
    """Remembers what was tried. `bundled` are the engines that come with Roundhouse."""

    def __init__(self, shelf: VersionStore, bundled_engines: Collection[str], may_move: Callable[[], bool]) -> None:
        self._shelf = shelf
        self._bundled_engines = bundled_engines
        self._may_move = may_move
        self._tried_versions: dict[tuple[str, str], list[str]] = {}
        self._hopeless: set[tuple[str, str]] = set()

    def may_help(self, status: EngineStatus) -> bool:
        """Tell whether another version may help against what a model failed of, and may be used."""
        failure, key = status.failure, (status.engine, status.model)
        return failure is not None and key not in self._hopeless and _offers_other_runtime(failure) and self._may_move()

    def choose_move(self, status: EngineStatus, state: VersionState) -> VersionMove | None:
        """Return where to go from a failure; None where there is nowhere. Touches the disk."""
        key = (status.engine, status.model)
        tried_versions = self._tried_versions.setdefault(key, [])
        if state.current not in tried_versions:
            tried_versions.append(state.current)
        names = [manifest.name for manifest in self._shelf.list_manifests(status.engine)]
        if status.engine in self._bundled_engines or state.previous == BUNDLED:
            names.append(BUNDLED)
        to = alternative_version(state, names, tried_versions)
        if to:
            return VersionMove(to, is_hope=True)
        del self._tried_versions[key]
        self._hopeless.add(key)
        return VersionMove(tried_versions[0], is_hope=False) if tried_versions[0] != state.current else None

    def note_loaded(self, status: EngineStatus) -> None:
        """Forget what was tried for a model that runs."""
        self._tried_versions.pop((status.engine, status.model), None)
        self._hopeless.discard((status.engine, status.model))


def move_notice(engine: str, model: str, former: str, move: VersionMove, why: str) -> Notice:
    """Return what people are told of a move."""
    sentence = (
        f"{engine} {former} cannot run {model}, so {move.to} is used. {why}"
        if move.is_hope
        else f"No version of {engine} that is installed can run {model}, so {move.to} is used again. {why}"
    )
    hint = f"To go back, use the Engines page or `roundhouse engines use {engine} {former}`." if move.is_hope else ""
    return Notice(level="warn", code="engine_moved", sentence=sentence, hint=hint)


def _offers_other_runtime(failure: FailureReport) -> bool:
    return any(offer.kind == RemedyKind.OTHER_RUNTIME for offer in failure.remedies)


def announce_changes(shelf: VersionStore, events: EventHub) -> None:
    """Tell everybody what changes on the shelf. Call it in the loop; the shelf says it in whatever thread."""
    loop = asyncio.get_running_loop()

    def publish_change(engine: str) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(events.publish, EnginesChanged(engine=engine))

    shelf.on_change = publish_change


class EngineRecovery:
    """Rolls engines back, and with `moves` on to other versions. Belongs to the event loop."""

    def __init__(
        self, shelf: VersionStore, publish: Callable[[Event], None], moves: VersionMoves | None = None
    ) -> None:
        self._shelf = shelf
        self._publish = publish
        self._moves = moves
        self._switched_s: dict[str, float] = {}
        self._moved_for: dict[str, tuple[str, FailureReport]] = {}
        """Engine -> the version and failure it last moved on from: a request may hear of that later than others."""
        self._one_at_a_time = asyncio.Lock()
        self._loads: set[tuple[str, float]] = set()

    async def recover_load(self, request: LoadRequest, status: EngineStatus, error: EngineFailed) -> bool:
        """Tell whether to load again, because another version of the engine is used from now on."""
        used_version = self._shelf.read_state(request.engine).current
        if await self._roll_back(request.engine, error.code, str(error), was_ready=False):
            return True
        if self._moves is not None and await self._move_on(self._moves, status, used_version):
            return True
        is_recent = time.monotonic() - self._switched_s.get(request.engine, -RECENT_S) < RECENT_S
        return is_recent and status.engine == request.engine

    async def watch(self, events: EventHub) -> None:
        """Count loads that went well, and roll back where an engine ended while it answered. Runs until cancelled."""
        with events.watch(EngineChanged) as subscription:
            async for event in subscription:
                if isinstance(event, EngineChanged):
                    await self._note_status(event.status)

    async def _note_status(self, status: EngineStatus) -> None:
        if status.state is EngineState.READY and status.loaded_at is not None:
            self._moved_for.pop(status.engine, None)
            if self._moves is not None:
                self._moves.note_loaded(status)
            await self._count(status.engine, (status.model, status.loaded_at))
        elif status.state in _DOWN and status.failure is not None:
            await self._roll_back(status.engine, status.failure.code, status.failure.sentence, was_ready=True)

    async def _count(self, engine: str, load: tuple[str, float]) -> None:
        state = self._shelf.read_state(engine)
        if load in self._loads or (state.loads >= PROVEN_LOADS and state.current not in state.bad):
            return
        self._loads.add(load)
        await self._change(engine, record_load)

    async def _roll_back(self, engine: str, code: str, why: str, *, was_ready: bool) -> bool:
        async with self._one_at_a_time:  # several requests and the events tell of the same failure
            state = await asyncio.to_thread(self._shelf.read_state, engine)
            failed_version = state.current
            if not is_to_blame(state, code, was_ready=was_ready):
                if code in CERTAIN and not was_ready:  # it may be installed again then, and lists say what is wrong
                    await self._change(engine, lambda now: mark_broken(now, failed_version, why))
                return False
            after = await self._change(
                engine, lambda now: roll_back(now, why) if now.current == failed_version else now
            )
        if after is None or after.current == failed_version:
            return False
        self._switched_s[engine] = time.monotonic()
        self._publish(
            Notice(
                level="warn",
                code="engine_rolled_back",
                sentence=f"{engine} {failed_version} failed, so {after.current} is used again. {why}",
                hint=f"`roundhouse engines list {engine}` shows both; `roundhouse engines use` tests it again.",
            )
        )
        return True

    async def _move_on(self, moves: VersionMoves, status: EngineStatus, used_version: str) -> bool:
        """Tell whether another version is used than the one that failed; `used` is which that was."""
        if status.failure is None or not moves.may_help(status):
            return False
        async with self._one_at_a_time:
            state = await asyncio.to_thread(self._shelf.read_state, status.engine)
            failed_version = status.version, status.failure
            if state.current != used_version or self._moved_for.get(status.engine) == failed_version:
                return True  # of several requests that failed together, the first has seen to it
            move = await asyncio.to_thread(moves.choose_move, status, state)
            if move is None:
                return False
            to = move.to
            after = await self._change(
                status.engine, lambda now: switch_version(now, to) if now.current == used_version else now
            )
        if after is None or after.current != to:
            return False
        if move.is_hope:
            self._switched_s[status.engine] = time.monotonic()
            self._moved_for[status.engine] = failed_version
        self._publish(move_notice(status.engine, status.model, used_version, move, status.failure.sentence))
        return move.is_hope

    async def _change(self, engine: str, make: Callable[[VersionState], VersionState]) -> VersionState | None:
        try:
            return await asyncio.to_thread(self._shelf.change_state, engine, make)
        except OSError as error:
            logging.getLogger(__name__).warning("The state of %s could not be kept: %s", engine, error)
            return None
