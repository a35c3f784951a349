"""The beginning of a translated stream: the engine's first events, and signs of life to the client if they are late."""

from collections.abc import Sequence

from aiohttp import web

from app.gateway.canonical.events import Event
from app.gateway.exchange.heartbeat import QUIET_S, Heartbeat, Signs
from app.gateway.exchange.translated import Batches

HEAD_WITHIN_S = QUIET_S
"""By then a stream's head is sent although the model still loads: some clients give up on a silent server at 30 s."""


async def first_of(
    batches: Batches, request: web.Request, response: web.StreamResponse, signs: Signs
) -> Sequence[Event]:
    """Return the first events. If they are late, the head has gone out (`response.prepared`).

    Raises what the engine's refusal is, or why there is none.
    """
    heartbeat = Heartbeat(request, response, signs)
    try:
        return await anext(batches, ())
    finally:
        await heartbeat.stop()
