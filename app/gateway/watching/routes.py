"""Routes for programs that watch over the gateway: is it there, and what has it done."""

import msgspec
from aiohttp import web

from app import __version__
from app.gateway.exchange.handling import ENGINE_ACCESS
from app.gateway.services import SERVICES
from app.gateway.watching.engine_gauges import said_by_engines
from app.gateway.watching.inspector import INSPECTOR
from app.gateway.watching.metrics import CONTENT_TYPE


class Health(msgspec.Struct, frozen=True):
    """The gateway answers. Whether a model does is for `/metrics` and the engines' states to say."""

    status: str
    version: str


def add_routes(app: web.Application) -> None:
    """Add /health, by both names llama-server has for it, and /metrics."""
    app.router.add_get("/health", health)
    app.router.add_get("/v1/health", health)
    app.router.add_get("/metrics", metrics)


async def health(_request: web.Request) -> web.Response:
    """GET /health."""
    return web.Response(body=msgspec.json.encode(Health("ok", __version__)), content_type="application/json")


async def metrics(request: web.Request) -> web.Response:
    """GET /metrics, in Prometheus' text format."""
    services = request.app[SERVICES]
    said = await said_by_engines(request.app[ENGINE_ACCESS])
    text = services.metrics.exposition(services.supervisor.statuses(), request.app[INSPECTOR].live(), said)
    return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})
