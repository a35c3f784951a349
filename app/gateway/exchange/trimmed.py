"""A conversation that is too long, answered all the same for a client that asked for that: as much of it as fits.

What is left out is counted and told to the client. Nobody who did not ask has anything cut off.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import msgspec
from aiohttp import web

from app.gateway.canonical.overflow import ContextOverflow
from app.gateway.canonical.request import Generate
from app.gateway.canonical.trimming import shortened
from app.gateway.exchange.proxy import Ask
from app.gateway.exchange.translated import Batches, asked
from app.gateway.watching.watch import Watch

log = logging.getLogger(__name__)


class Trimming(msgspec.Struct, frozen=True, kw_only=True):
    """What may be shortened, how the engine is asked for less, and who is told how many messages were left out."""

    work: Generate
    ask_for: Callable[[Generate], Awaitable[Ask]]
    dropped: Callable[[int], None]


def asked_trimmed(request: web.Request, ask: Ask, watch: Watch, trimming: Trimming | None) -> Batches:
    """Return what the engine says; with `trimming`, to as much of the conversation as fits.

    Raises as `asked` does, and ContextOverflow when there is nothing more to leave out.
    """
    return asked(request, ask, watch) if trimming is None else _trimmed(request, ask, watch, trimming)


async def _trimmed(request: web.Request, ask: Ask, watch: Watch, trimming: Trimming) -> Batches:
    work, dropped = trimming.work, 0
    while True:
        try:
            async with aclosing(asked(request, ask, watch)) as batches:
                async for batch in batches:
                    yield batch
                return
        except ContextOverflow as error:
            trim = shortened(work, prompt_tokens=error.prompt_tokens or 0, context=error.context or 0)
            if trim is None:
                raise
            work, dropped = trim.request, dropped + trim.dropped
        log.info("%d messages did not fit and are left out", dropped, extra={"model": ask.model})
        trimming.dropped(dropped)
        ask = await trimming.ask_for(work)
