"""The downloads as a part of the application: made with it, gone on with once it answers, ended with it."""

import asyncio

from aiohttp import web

from app.config.environment import hub_endpoint, is_xet_off
from app.gateway.hub.downloads import DOWNLOADS, Downloads, Where
from app.gateway.services import SERVICES, Services

_MB = 1_000_000


def add_downloads(app: web.Application) -> None:
    """Give the application its queue of downloads."""
    services = app[SERVICES]
    app[DOWNLOADS] = Downloads(services.paths.downloads_file, lambda: where(services), services.events.publish)
    app.on_startup.append(_start)
    app.on_shutdown.append(_close)


def where(services: Services) -> Where:
    """Return from where to where models are fetched, as settings and environment have it now."""
    settings = services.settings
    at_once = settings.integer("downloads.at_once")
    return Where(
        endpoint=hub_endpoint(),
        cache=services.paths.hub_cache,
        token=services.hub.token.read(),
        bytes_per_s=settings.integer("downloads.limit_mb_s") * _MB,
        at_once=0 if settings.flag("network.offline") else at_once,
        xet=at_once == 1 and settings.text("downloads.xet") == "auto" and not is_xet_off(),
    )


async def _start(app: web.Application) -> None:
    await asyncio.to_thread(app[SERVICES].hub.token.read)  # a keyring may take its time; from now on it is remembered
    await app[DOWNLOADS].start()


async def _close(app: web.Application) -> None:
    await app[DOWNLOADS].close()
