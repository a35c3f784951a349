"""Work that goes on when the request that began it is over. It is held on to, and what goes wrong in it is logged."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar

from aiohttp import web

from app.core.errors import RoundhouseError

log = logging.getLogger(__name__)

T = TypeVar("T")


class Background:
    """The tasks of one owner."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin `work` now. Whoever wants its result awaits the task, shielded if leaving must not end the work."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)
        return task

    async def join(self, *, cancel: bool = False) -> None:
        """Wait until everything has ended, after asking it to with `cancel`."""
        while self._tasks:
            for task in self._tasks:
                if cancel:
                    task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _forget_task(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, RoundhouseError):  # those say themselves what is wrong
            log.error("Work in the background failed", exc_info=error)


BACKGROUND = web.AppKey("background", Background)
"""Of the whole application: called off when it ends."""


class SharedWork:
    """Work that several may want at once, and that is done once for all of them."""

    def __init__(self) -> None:
        self._background = Background()
        self._shared_tasks: dict[Hashable, asyncio.Task[Any]] = {}

    async def run_once(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what comes of the work that has this key. It goes on when who wanted it leaves."""
        task: asyncio.Task[T] | None = self._shared_tasks.get(key)
        if task is None:
            task = self._shared_tasks[key] = self._background.spawn(work())
            task.add_done_callback(lambda _: self._shared_tasks.pop(key, None))
        return await asyncio.shield(task)
