"""The request inspector: the last requests at the endpoint, those that go on, and what clients used.

It keeps a bounded number, newest last, and what goes on is never let go of. News is told at most ten times a second
per request, and once a second while it goes on; nobody pays for it when nobody listens. What was used is stored once a
second, many requests at a time. All of it belongs to the event loop's thread.
"""

import asyncio
import logging
import time
from collections.abc import Iterator
from itertools import islice

from aiohttp import hdrs, web

from app.core.api import PREFIX
from app.core.errors import NotFound, RoundhouseError
from app.core.events import RequestChanged, RequestsForgotten
from app.core.requests import Peer, RequestDetail, RequestInfo, Usage
from app.gateway.background import Background
from app.gateway.dialects.registry import dialect_of
from app.gateway.exchange.engine.error_document import understood
from app.gateway.services import Services
from app.gateway.watching.exchange import BODY_BYTES, Exchange, Origin, client_name
from app.gateway.watching.watch import LISTENER, Outcome
from app.store.usage import Used
from app.supervisor.lease import CLIENT

log = logging.getLogger(__name__)

SOON_S = 0.1
EVERY_S = 1.0
_ERROR_STATUS = 400
_LOOPBACK = ("127.", "::1")
_DAY_S = 24 * 3600
_DAYS = 7


class Inspector:
    """Keeps exchanges by id, in the order they came."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._kept: dict[str, Exchange] = {}
        self._news: dict[str, Exchange] = {}
        self._used: list[Used] = []
        self._timer: asyncio.TimerHandle | None = None
        self._tells_soon = False
        self._stored_at = 0.0
        self._background = Background()

    def arrived(self, request: web.Request, request_id: str) -> Exchange | None:
        """Begin to follow a request of a client; None for all that asks a model nothing."""
        if request.method != hdrs.METH_POST or request.path.startswith(PREFIX):
            return None
        exchange = Exchange(self._origin(request, request_id), request.task, self._moved)
        LISTENER.set(exchange)
        CLIENT.set(f"{exchange.origin.client} {request.remote}")
        return exchange

    def left(self, exchange: Exchange, response: web.StreamResponse | None) -> None:
        """Note that a request was answered, or (None) that its client had gone."""
        status = None if response is None else response.status
        is_refused = status is not None and status >= _ERROR_STATUS
        if exchange.origin.id not in self._kept and not is_refused:
            return
        self._kept.setdefault(exchange.origin.id, exchange)
        body = response.body if is_refused and isinstance(response, web.Response) else None
        said = _sentence(bytes(body), status or 0) if isinstance(body, (bytes, bytearray)) else ""
        if exchange.origin.keeps_bodies and isinstance(body, (bytes, bytearray)):
            exchange.answered_body = bytes(body[:BODY_BYTES])
        exchange.end(status, said)
        self._trim()

    def infos(self, *, limit: int, model: str = "", outcome: str = "") -> list[RequestInfo]:
        """Return requests, newest first; with `outcome` only those that ended so."""
        engines = self._services.supervisor.statuses()
        found = (exchange.info(engines) for exchange in reversed(self._kept.values()))
        wanted = (info for info in found if model in ("", info.model) and outcome in ("", info.outcome))
        return [info for info, _ in zip(wanted, range(limit), strict=False)]

    def live(self) -> Iterator[RequestInfo]:
        """Yield the requests that go on."""
        engines = self._services.supervisor.statuses()
        return (exchange.info(engines) for exchange in self._kept.values() if not exchange.is_over)

    def detail(self, request_id: str) -> RequestDetail:
        """Return one request with its words, as far as they were kept. Raises NotFound."""
        exchange = self._find(request_id)
        return RequestDetail(
            request=exchange.info(self._services.supervisor.statuses()),
            has_bodies=exchange.origin.keeps_bodies,
            asked=exchange.asked_body.decode(errors="replace"),
            answered=exchange.answered_body.decode(errors="replace"),
            cut_at_bytes=BODY_BYTES if exchange.origin.keeps_bodies else 0,
        )

    def stop(self, request_id: str) -> RequestInfo:
        """Have a request end now; one that is over stays as it is. Raises NotFound."""
        exchange = self._find(request_id)
        exchange.stop()
        return exchange.info(self._services.supervisor.statuses())

    def forget(self) -> None:
        """Let go of every request that is over."""
        self._kept = {key: exchange for key, exchange in self._kept.items() if not exchange.is_over}
        self._services.events.publish(RequestsForgotten())

    def settings_changed(self) -> None:
        """Keep no more than is wanted now."""
        self._trim()
        if not self._services.settings.flag("inspector.bodies"):
            for exchange in self._kept.values():
                exchange.forget_bodies()

    async def usage(self) -> Usage:
        """Return what clients used today and this week, with what has just ended."""
        await self._store()
        midnight = _midnight(time.time())
        today, week = (
            await self._services.chats.usage_since(midnight),
            await self._services.chats.usage_since(_midnight(midnight - (_DAYS - 1) * _DAY_S + _DAY_S / 2)),
        )
        return Usage(today=today, week=week)

    async def close(self) -> None:
        """Store what was used and stop telling."""
        if self._timer is not None:
            self._timer.cancel()
        await self._background.join()
        await self._store()

    def _origin(self, request: web.Request, request_id: str) -> Origin:
        return Origin(
            id=request_id,
            client=client_name(request.headers.get(hdrs.USER_AGENT, "")),
            peer=Peer.THIS_COMPUTER if (request.remote or "").startswith(_LOOPBACK) else Peer.NETWORK,
            dialect=dialect_of(request.path, request.headers).name,
            path=request.path,
            keeps_bodies=self._services.settings.flag("inspector.bodies"),
        )

    def _find(self, request_id: str) -> Exchange:
        if request_id not in self._kept:
            raise NotFound("There is no such request.", hint="It may have been forgotten.", code="request_not_found")
        return self._kept[request_id]

    def _moved(self, exchange: Exchange) -> None:
        key = exchange.origin.id
        if exchange.is_over:
            self._used.append(_used(exchange.info()))
            self._services.metrics.finished(exchange.info())
        else:
            self._kept[key] = exchange
        self._news[key] = exchange
        if not self._tells_soon:
            self._tells_soon = True
            self._tell_in(SOON_S)

    def _trim(self) -> None:
        excess = len(self._kept) - self._services.settings.integer("inspector.requests")
        if excess > 0:
            over = (key for key, exchange in self._kept.items() if exchange.is_over)
            for key in list(islice(over, excess)):
                del self._kept[key]

    def _tell_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._tick)

    def _tick(self) -> None:
        self._timer, self._tells_soon = None, False
        going_on = {key: exchange for key, exchange in self._kept.items() if not exchange.is_over}
        if self._services.events.has_listeners:
            engines = self._services.supervisor.statuses()
            for exchange in (self._news | going_on).values():
                self._services.events.publish(RequestChanged(request=exchange.info(engines)))
        self._news.clear()
        if self._used and time.monotonic() - self._stored_at >= EVERY_S:
            self._background.spawn(self._store())
        if going_on or self._used:
            self._tell_in(EVERY_S)

    async def _store(self) -> None:
        used, self._used = self._used, []
        self._stored_at = time.monotonic()
        if not used:
            return
        try:
            await self._services.chats.add_usage(used)
        except RoundhouseError as error:  # a full disk: requests are answered all the same
            log.warning("What clients used was not kept: %s", error)


INSPECTOR = web.AppKey("inspector", Inspector)


def _sentence(body: bytes, status: int) -> str:
    """Return what an error document of any dialect says."""
    return understood(body, status).text


def _used(info: RequestInfo) -> Used:
    return Used(
        at=info.at,
        client=info.client,
        route=info.route,
        model=info.model,
        engine=info.engine,
        status=info.outcome or Outcome.BUG,
        prompt_tokens=info.prompt_tokens,
        cached_tokens=info.cached_tokens,
        completion_tokens=info.completion_tokens,
        seconds=info.total_s,
    )


def _midnight(at: float) -> float:
    """Return when the day of `at` began on this computer's clock."""
    day = time.localtime(at)
    return time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))
