"""The table of Roundhouse's own API (see `core.api`): what is listed here is served, and is in the OpenAPI document."""

from aiohttp import web

from app.core.api import PREFIX
from app.gateway.admin import advice, chats, engines, gateway, hub, library, loading, models, tools, traffic, updates
from app.gateway.admin.calls import ANSWERS, BACKGROUND, CALIBRATOR, ENGINES, Endpoint, answering, check_manager
from app.gateway.admin.openapi import document
from app.gateway.advising.calibration import Calibrator
from app.gateway.background import Background
from app.gateway.chats.answers import Answers
from app.gateway.engines.slot import EnginesSlot
from app.gateway.exchange.handling import ENGINE_ACCESS
from app.gateway.services import SERVICES

PARTS = (gateway, engines, models, loading, hub, library, updates, chats, advice, tools, traffic)
ENDPOINTS: tuple[Endpoint, ...] = tuple(row for part in PARTS for row in part.routes.endpoints)


def add_routes(app: web.Application) -> None:
    """Serve the table and its OpenAPI document, and own the answers being written."""
    app[ANSWERS] = Answers(app[SERVICES], app[ENGINE_ACCESS])
    app[BACKGROUND] = Background()
    app[CALIBRATOR] = Calibrator(app[SERVICES])
    app[ENGINES] = EnginesSlot(app[SERVICES])
    app.on_shutdown.append(_end)
    for endpoint in ENDPOINTS:
        # Names of models may hold slashes; clients quote them, and the ones people type by hand do not.
        app.router.add_route(
            endpoint.method, PREFIX + endpoint.path.replace("{name}", "{name:.+}"), answering(endpoint)
        )
    app.router.add_route("GET", f"{PREFIX}/openapi.json", _openapi)


async def _openapi(request: web.Request) -> web.Response:
    check_manager(request)
    return web.Response(body=document(ENDPOINTS), content_type="application/json")


async def _end(app: web.Application) -> None:
    await app[CALIBRATOR].stop()
    await app[ENGINES].close()
    await app[ANSWERS].close()
    await app[BACKGROUND].join(cancel=True)
