"""The requests at the endpoint: the last ones and those that go on, for the inspector, and what clients used.

The inspector keeps a bounded number, newest last, and what goes on is never let go of. News is told at most ten times a
second per request, and once a second while it goes on; nobody pays for it when nobody listens. What a request came to
is put together when somebody first wants to see it; of its words only those stay that were wanted. What clients used is
taken down when a request has ended, and stored once a second, many requests at a time. All of it belongs to the event
loop's thread.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec
from aiohttp import web

from app.config.store import SettingsStore
from app.core.engines import EngineState, EngineStatus
from app.core.errors import NotFound, RoundhouseError
from app.core.events import RequestChanged, RequestsForgotten
from app.core.requests import KeyDay, RequestDetail, RequestInfo, RequestState, Usage
from app.gateway.background import Background
from app.gateway.entry.key_limits import RateLimitExceeded
from app.gateway.entry.keys import KeyStore
from app.gateway.events import EventHub
from app.gateway.exchange.observer import (
    BODY_BYTES,
    ExchangeFigures,
    ExchangeOutcome,
    ExchangeSink,
    Observation,
    figures_of,
    figures_so_far,
)
from app.store.database import ChatStore
from app.store.usage import UsageEntry
from app.supervisor.pool import Supervisor

log = logging.getLogger(__name__)

KEEPS_BODIES = "inspector.bodies"
"""The setting that says whether somebody wants to read what is said."""
SOON_S = 0.1
EVERY_S = 1.0
_LONGEST_ERROR = 500
_LOADING = frozenset({EngineState.STARTING, EngineState.LOADING})
_STATES = {
    ExchangeOutcome.OK: RequestState.DONE,
    ExchangeOutcome.CLIENT_GONE: RequestState.CANCELLED,
    ExchangeOutcome.STOPPED: RequestState.CANCELLED,
}
STORED_EVERY_S = 1.0
_DAY_S = 24 * 3600
_DAYS = 7


class InspectedRequest:
    """One request as the inspector shows it."""

    __slots__ = ("_final", "_loading_since", "exchange")

    def __init__(self, exchange: Observation) -> None:
        self.exchange = exchange
        self._loading_since: float | None = None
        self._final: RequestInfo | None = None

    def describe(self, engines: Iterable[EngineStatus]) -> RequestInfo:
        """Return it as it is now; `engines` tell whether it waits for a model that loads."""
        if self._final is not None:
            return self._final
        exchange = self.exchange
        if exchange.is_over:
            state = _STATES.get(exchange.outcome, RequestState.FAILED)
            self._final = _request_info(exchange, state, figures_of(exchange))
            return self._final
        state = self._current_state(engines)
        figures = figures_so_far(exchange, time.perf_counter(), loading_since=self._loading_since)
        return _request_info(exchange, state, figures)

    def _current_state(self, engines: Iterable[EngineStatus]) -> RequestState:
        exchange = self.exchange
        if exchange.first_at is not None:
            return RequestState.DECODING
        if exchange.leased_at is not None:
            return RequestState.PREFILL
        loading_engine = next(
            (each for each in engines if each.model == exchange.model and each.state in _LOADING), None
        )
        if loading_engine is None:
            return RequestState.QUEUED
        exchange.engine = loading_engine.engine
        self._loading_since = self._loading_since or time.perf_counter()
        return RequestState.LOADING


def _request_info(exchange: Observation, state: RequestState, figures: ExchangeFigures) -> RequestInfo:
    caller, is_over = exchange.caller, exchange.is_over
    return RequestInfo(
        id=caller.id,
        at=exchange.at,
        client=caller.client,
        client_version=caller.client_version,
        peer=caller.peer,
        dialect=caller.dialect,
        path=caller.path,
        route=exchange.route if exchange.model else "",
        model=exchange.model,
        engine=exchange.engine,
        state=state,
        status=exchange.status if is_over else None,
        outcome=str(exchange.outcome) if is_over else "",
        error=exchange.error[:_LONGEST_ERROR] if is_over else "",
        trace_id="" if exchange.trace is None else exchange.trace.trace_id,
        **msgspec.structs.asdict(figures),
    )


class RequestInspector(ExchangeSink):
    """Keeps requests by id, in the order they came."""

    def __init__(self, settings: SettingsStore, supervisor: Supervisor, events: EventHub) -> None:
        self._settings, self._supervisor, self._events = settings, supervisor, events
        self._requests: dict[str, InspectedRequest] = {}
        self._news: dict[str, InspectedRequest] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tells_soon = False

    def on_request(self, exchange: Observation) -> None:
        """Keep a request."""
        self._announce(self._requests.setdefault(exchange.caller.id, InspectedRequest(exchange)))

    def on_change(self, exchange: Observation) -> None:
        """Tell of it."""
        if (request := self._requests.get(exchange.caller.id)) is not None:
            self._announce(request)

    def on_end(self, exchange: Observation) -> None:
        """Keep what it came to; a request that concerns no model only if it was refused."""
        if exchange.concerns_model:
            request = self._requests.get(exchange.caller.id)
            if request is None:
                request = self._requests[exchange.caller.id] = InspectedRequest(exchange)
            self._announce(request)
            if len(self._requests) > self._settings.get_int("inspector.requests"):
                self._trim_kept()

    def list_requests(self, *, limit: int, model: str = "", outcome: str = "") -> list[RequestInfo]:
        """Return requests, newest first; with `outcome` only those that ended so."""
        engines = self._supervisor.list_statuses()
        infos = (request.describe(engines) for request in reversed(self._requests.values()))
        matching_infos = (info for info in infos if model in ("", info.model) and outcome in ("", info.outcome))
        return list(islice(matching_infos, limit))

    def list_running(self) -> Iterator[RequestInfo]:
        """Yield the requests that go on."""
        engines = self._supervisor.list_statuses()
        return (request.describe(engines) for request in self._requests.values() if not request.exchange.is_over)

    def show_request(self, request_id: str) -> RequestDetail:
        """Return one request with its words, as far as they were kept. Raises NotFound."""
        request = self._find_request(request_id)
        exchange, has_bodies = request.exchange, request.exchange.caller.keeps_bodies
        return RequestDetail(
            request=request.describe(self._supervisor.list_statuses()),
            has_bodies=has_bodies,
            asked=exchange.kept_request.decode(errors="replace"),
            answered=exchange.kept_answer.decode(errors="replace"),
            cut_at_bytes=BODY_BYTES if has_bodies else 0,
        )

    def keeps_words(self, request_id: str) -> bool:
        """Tell whether a request is still kept with its words."""
        request = self._requests.get(request_id)
        return request is not None and bool(request.exchange.kept_request)

    def stop_request(self, request_id: str) -> RequestInfo:
        """Have a request end now; one that is over stays as it is. Raises NotFound."""
        request = self._find_request(request_id)
        request.exchange.stop()
        return request.describe(self._supervisor.list_statuses())

    def forget_requests(self) -> None:
        """Let go of every request that is over."""
        self._requests = {key: request for key, request in self._requests.items() if not request.exchange.is_over}
        self._events.publish(RequestsForgotten())

    def settings_changed(self) -> None:
        """Keep no more than is wanted now."""
        self._trim_kept()
        if not self._settings.get_flag(KEEPS_BODIES):
            for request in self._requests.values():
                request.exchange.forget_bodies()

    def close(self) -> None:
        """Tell of nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _find_request(self, request_id: str) -> InspectedRequest:
        if request_id not in self._requests:
            raise NotFound("There is no such request.", hint="It may have been forgotten.", code="request_not_found")
        return self._requests[request_id]

    def _announce(self, request: InspectedRequest) -> None:
        self._news[request.exchange.caller.id] = request
        if not self._tells_soon:
            self._tells_soon = True
            self._tick_in(SOON_S)

    def _trim_kept(self) -> None:
        excess = len(self._requests) - self._settings.get_int("inspector.requests")
        if excess > 0:
            over = (key for key, request in self._requests.items() if request.exchange.is_over)
            for key in list(islice(over, excess)):
                del self._requests[key]

    def _tick_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._publish_news)

    def _publish_news(self) -> None:
        self._timer, self._tells_soon = None, False
        going_on = {key: request for key, request in self._requests.items() if not request.exchange.is_over}
        if self._events.has_listeners:
            engines = self._supervisor.list_statuses()
            for request in (self._news | going_on).values():
                self._events.publish(RequestChanged(request=request.describe(engines)))
        self._news.clear()
        if going_on:
            self._tick_in(EVERY_S)


INSPECTOR = web.AppKey("inspector", RequestInspector)


class UsageRecorder(ExchangeSink):
    """Belongs to the event loop's thread."""

    def __init__(self, store: ChatStore, keys: KeyStore) -> None:
        self._store, self._keys = store, keys
        self._unsaved_entries: list[UsageEntry] = []
        self._timer: asyncio.TimerHandle | None = None
        self._background = Background()

    def on_end(self, exchange: Observation) -> None:
        """Take down what a request used."""
        if not exchange.concerns_model:
            return
        figures = figures_of(exchange)
        self._unsaved_entries.append(
            UsageEntry(
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
                key_id=exchange.key_id,
                key_name=exchange.key_name,
                key_tokens=exchange.key_tokens,
                is_held_back=exchange.leased_at is None and exchange.error_code == RateLimitExceeded.default_code,
            )
        )
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(STORED_EVERY_S, self._save_soon)

    async def sum_usage(self) -> Usage:
        """Return what clients used today and this week, with what has just ended."""
        await self._save_usage()
        return Usage(
            today=await self._store.usage_since(_start_of(1)), week=await self._store.usage_since(_start_of(_DAYS))
        )

    async def sum_by_key(self, days: int) -> list[KeyDay]:
        """Return what each key was used for on each of the last days, today's first, under the names of now."""
        await self._save_usage()
        rows = await self._store.usage_by_key(_start_of(days))
        present = {key.id: key.name for key in self._keys.list_keys()}
        names = {row.key_id: row.key for row in reversed(rows)} | present
        return [
            msgspec.structs.replace(
                row, key=names[row.key_id], is_revoked=row.key_id not in present and _can_be_revoked(row.key_id)
            )
            for row in rows
        ]

    async def close(self) -> None:
        """Store what is left."""
        if self._timer is not None:
            self._timer.cancel()
        await self._background.join()
        await self._save_usage()

    def _save_soon(self) -> None:
        self._timer = None
        self._background.spawn(self._save_usage())

    async def _save_usage(self) -> None:
        used_tokens, self._unsaved_entries = self._unsaved_entries, []
        if not used_tokens:
            return
        try:
            await self._store.add_usage(used_tokens)
        except RoundhouseError as error:  # a full disk: requests are answered all the same
            log.warning("What clients used was not kept: %s", error)


def _can_be_revoked(key_id: str) -> bool:
    """Tell whether a key was made by a person: none was where requests show none, and those lent to programs end."""
    return bool(key_id) and "/" not in key_id


def _start_of(days: int) -> float:
    """Return when the first of the last days began, today counting as one."""
    noon = _midnight_before(time.time()) - (days - 1) * _DAY_S + _DAY_S / 2  # days are not all as long
    return _midnight_before(noon)


def _midnight_before(at: float) -> float:
    """Return when the day of `at` began on this computer's clock."""
    day = time.localtime(at)
    return time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))


USAGE = web.AppKey("usage", UsageRecorder)
