"""What clients used: taken down when a request has ended, and stored once a second, many requests at a time."""

import asyncio
import logging
import time

from aiohttp import web

from app.core.errors import RoundhouseError
from app.core.requests import Usage
from app.gateway.background import Background
from app.gateway.exchange.figures import figures_of
from app.gateway.exchange.observer import Observation, Sink
from app.store.database import ChatStore
from app.store.usage import Used

log = logging.getLogger(__name__)

EVERY_S = 1.0
_DAY_S = 24 * 3600
_DAYS = 7


class UsageRecorder(Sink):
    """Belongs to the event loop's thread."""

    def __init__(self, store: ChatStore) -> None:
        self._store = store
        self._used: list[Used] = []
        self._timer: asyncio.TimerHandle | None = None
        self._background = Background()

    def ended(self, exchange: Observation) -> None:
        """Take down what a request used."""
        if not exchange.concerns_model:
            return
        figures = figures_of(exchange)
        self._used.append(
            Used(
                at=exchange.at,
                client=exchange.caller.client,
                route=exchange.route,
                model=exchange.model,
                engine=exchange.engine,
                status=exchange.outcome,
                prompt_tokens=figures.prompt_tokens,
                cached_tokens=figures.cached_tokens,
                completion_tokens=figures.completion_tokens,
                seconds=figures.total_s,
            )
        )
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._tick)

    async def usage(self) -> Usage:
        """Return what clients used today and this week, with what has just ended."""
        await self._save()
        midnight = _midnight(time.time())
        return Usage(
            today=await self._store.usage_since(midnight),
            week=await self._store.usage_since(_midnight(midnight - (_DAYS - 1) * _DAY_S + _DAY_S / 2)),
        )

    async def close(self) -> None:
        """Store what is left."""
        if self._timer is not None:
            self._timer.cancel()
        await self._background.join()
        await self._save()

    def _tick(self) -> None:
        self._timer = None
        self._background.spawn(self._save())

    async def _save(self) -> None:
        used, self._used = self._used, []
        if not used:
            return
        try:
            await self._store.add_usage(used)
        except RoundhouseError as error:  # a full disk: requests are answered all the same
            log.warning("What clients used was not kept: %s", error)


def _midnight(at: float) -> float:
    """Return when the day of `at` began on this computer's clock."""
    day = time.localtime(at)
    return time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))


USAGE = web.AppKey("usage", UsageRecorder)
