"""Write one stream of events to a client in its dialect: the head in time, every end said, errors in their place."""

import logging
from collections.abc import Iterable
from contextlib import aclosing
from typing import Protocol

from aiohttp import hdrs, web

from app.core.errors import RoundhouseError, UserError
from app.gateway.canonical.events import Event, failed
from app.gateway.dialects.form import Editor
from app.gateway.exchange.heartbeat import COMMENT, EVERY_S, QUIET_S, Signs
from app.gateway.exchange.opening import first_of
from app.gateway.exchange.translated import Batches
from app.gateway.watching.watch import Outcome, Watch

log = logging.getLogger(__name__)

SSE_HEADERS = {
    hdrs.CONTENT_TYPE: "text/event-stream",
    hdrs.CACHE_CONTROL: "no-store",
    "X-Accel-Buffering": "no",
}


class Encoder(Protocol):
    """One dialect's way to put a stream."""

    def begin(self) -> bytes:
        """Return what comes before everything else."""

    def feed(self, events: Iterable[Event]) -> bytes:
        """Return what some events are; nothing after the last."""

    def end(self) -> bytes:
        """Return what a stream is owed that just stopped."""


class Edited:
    """An encoder whose bytes are mended on their way, as an engine's own would be."""

    def __init__(self, encoder: Encoder, edit: Editor) -> None:
        self._encoder = encoder
        self._edit = edit

    def begin(self) -> bytes:
        """Return what comes before everything else."""
        return self._edit(self._encoder.begin())

    def feed(self, events: Iterable[Event]) -> bytes:
        """Return what some events are."""
        return self._edit(self._encoder.feed(events))

    def end(self) -> bytes:
        """Return what a stream is owed that just stopped."""
        return self._edit(self._encoder.end())


async def written(
    request: web.Request, response: web.StreamResponse, batches: Batches, encoder: Encoder, watch: Watch
) -> None:
    """Write all of it. Raises what `asked` raises as long as no head has been sent; later it is said in the stream."""
    owes_beginning = response.prepared  # as the next of several answers: signs of waiting open the first only
    signs = Signs(QUIET_S, EVERY_S, head=encoder.begin, alive=lambda: COMMENT)
    async with aclosing(batches):
        try:
            first = await first_of(batches, request, response, signs)
            if not response.prepared:
                await response.prepare(request)
                owes_beginning = True
            if owes_beginning:
                await _send(response, encoder.begin())
            await _send(response, encoder.feed(first))
            async for batch in batches:
                await _send(response, encoder.feed(batch))
            await _send(response, encoder.end())
        except RoundhouseError as error:
            if not response.prepared:
                raise
            log.error(str(error), extra={"code": error.code})  # noqa: TRY400 -- said in a sentence
            watch.outcome = Outcome.REFUSED if isinstance(error, UserError) else Outcome.ENGINE_FAILED
            await _send(response, encoder.feed([failed(error)]))


async def _send(response: web.StreamResponse, data: bytes) -> None:
    if data:
        await response.write(data)
