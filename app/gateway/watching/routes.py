"""Routes for programs that watch over the gateway: is it there, and what have it and its engines done.

What engines say of themselves goes beyond what is measured here: how full a KV cache is, and what a prompt cache saved.
They are asked when somebody wants the metrics, all at once and not for long; one that does not answer has no figures.
"""

import asyncio
import re
from collections.abc import Mapping

import msgspec
from aiohttp import web

from app import __version__
from app.core.errors import EngineFailed
from app.core.fleets import Fleet
from app.gateway.exchange.handling import ENGINE_ACCESS
from app.gateway.exchange.upstream import EngineAccess
from app.gateway.fleets.keeper import FLEETS, FleetKeeper
from app.gateway.services import SERVICES
from app.gateway.watching.inspector import INSPECTOR
from app.gateway.watching.metrics import CONTENT_TYPE, EngineGauges, is_number
from app.gateway.watching.router_metrics import RouterPage, merge_pages
from app.supervisor.lease import ReadyEndpoint
from engines.api import Descriptor, Gauge

_WITHIN_S = 1.0
_OK = 200
_SHARES = frozenset({Gauge.KV_USAGE, Gauge.PREFIX_HIT_RATE})
"""Of several series of one of these, a GPU's or a rank's each, the highest counts; others are added up."""


class Health(msgspec.Struct, frozen=True):
    """The gateway answers. Whether a model does is for `/metrics` and the engines' states to say."""

    status: str
    version: str


def add_routes(router: web.UrlDispatcher) -> None:
    """Add /health, by both names llama-server has for it, and /metrics."""
    router.add_get("/health", health)
    router.add_get("/v1/health", health)
    router.add_get("/metrics", metrics)


async def health(_request: web.Request) -> web.Response:
    """GET /health."""
    return web.Response(body=msgspec.json.encode(Health("ok", __version__)), content_type="application/json")


async def metrics(request: web.Request) -> web.Response:
    """GET /metrics, in Prometheus' text format."""
    services = request.app[SERVICES]
    engines = request.app[ENGINE_ACCESS]
    gauges, fleets, pages = await asyncio.gather(
        engine_gauges(engines), _list_fleets(request.app[FLEETS]), _read_router_pages(engines)
    )
    text = services.metrics.format_exposition(
        services.supervisor.list_statuses(), request.app[INSPECTOR].list_running(), gauges, fleets
    )
    return web.Response(body=(text + merge_pages(pages)).encode(), headers={"Content-Type": CONTENT_TYPE})


async def _read_router_pages(engines: EngineAccess) -> list[RouterPage]:
    """Return what the routers that run show themselves."""
    routers = [engine for engine in engines.supervisor.list_ready() if engine.metrics_url]
    pages = await asyncio.gather(
        *(
            _read_gauges(engines, msgspec.structs.replace(router, base_url=router.metrics_url, key=""), "/metrics")
            for router in routers
        )
    )
    return [
        RouterPage(fleet=router.model, router=router.engine, text=page.decode(errors="replace"))
        for router, page in zip(routers, pages, strict=True)
    ]


async def _list_fleets(keeper: FleetKeeper) -> list[Fleet]:
    """Return the fleets as they stand, none if a replica elsewhere is not done answering in time."""
    try:
        async with asyncio.timeout(_WITHIN_S):
            return await keeper.list_fleets()
    except TimeoutError:
        return []


async def engine_gauges(engines: EngineAccess) -> list[EngineGauges]:
    """Return the figures of every ready engine that has some."""
    there = engines.supervisor.list_ready()
    readings = await asyncio.gather(*(_gauges_of(engines, engine) for engine in there))
    return [
        EngineGauges(model=engine.model, engine=engine.engine, gauges=gauges)
        for engine, gauges in zip(there, readings, strict=True)
        if gauges
    ]


async def _gauges_of(engines: EngineAccess, engine: ReadyEndpoint) -> Mapping[Gauge, float]:
    about = engines.adapters[engine.engine].descriptor
    series, slots = await asyncio.gather(
        _read_gauges(engines, engine, about.metrics_path), _read_gauges(engines, engine, about.slots_path)
    )
    gauges = in_series(series.decode(errors="replace"), about)
    held_slots = in_slots(slots)
    return gauges if held_slots is None else {**gauges, Gauge.KV_USAGE: held_slots}


async def _read_gauges(engines: EngineAccess, engine: ReadyEndpoint, path: str) -> bytes:
    """Return what is there, nothing if the engine does not say."""
    if not path:
        return b""
    try:
        async with asyncio.timeout(_WITHIN_S):
            status, document = await engines.ask_engine(engine, path)
    except (OSError, EngineFailed):
        return b""
    return document if status == _OK else b""


def in_series(text: str, about: Descriptor) -> Mapping[Gauge, float]:
    """Return the figures in Prometheus' text, by the engine's own names for them."""
    gauges: dict[Gauge, float] = {}
    for gauge, name in about.metrics.items():
        series = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})?\s+([-+.\deE]+)", text, re.MULTILINE)
        values = [float(value) for value in series if is_number(value)]
        if values:
            gauges[gauge] = max(values) if gauge in _SHARES else sum(values)
    queries = gauges.get(Gauge.PREFIX_QUERIES, 0.0)
    if queries > 0 and Gauge.PREFIX_HITS in gauges:
        gauges.setdefault(Gauge.PREFIX_HIT_RATE, gauges[Gauge.PREFIX_HITS] / queries)
    return gauges


class _Next(msgspec.Struct, frozen=True):
    n_decoded: int = 0


class _Slot(msgspec.Struct, frozen=True):
    n_ctx: int
    is_processing: bool = False
    n_prompt_tokens: int = 0
    next_token: list[_Next] = []

    @property
    def held_tokens(self) -> int:
        """Tokens that the request in it has there; what an earlier one left is free to be written over."""
        return self.n_prompt_tokens + sum(each.n_decoded for each in self.next_token) if self.is_processing else 0


def in_slots(document: bytes) -> float | None:
    """Return the share of the KV cache that requests hold, by llama-server's list of slots; None if it is none."""
    try:
        slots = msgspec.json.decode(document, type=list[_Slot])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    total = sum(slot.n_ctx for slot in slots)
    return min(1.0, sum(slot.held_tokens for slot in slots) / total) if total else None
