"""Requests for a model that has to be loaded first, or whose slots are taken: their clients are kept waiting politely.

Once a stream's head has gone out, what goes wrong is said in the stream. By then the request was understood, and a
model for it found. A model that is ready costs none of this.
"""

import logging

import msgspec
from aiohttp import web

from app.core.errors import RoundhouseError, UserError
from app.gateway.exchange import proxy
from app.gateway.exchange.heartbeat import HEARTBEAT, patient
from app.gateway.exchange.proxy import Ask
from app.gateway.services import SERVICES
from app.gateway.watching.watch import Outcome, Watch

log = logging.getLogger(__name__)


class _Streams(msgspec.Struct, frozen=True):
    """The part of a body that says whether its answer is to be a stream."""

    stream: bool | None = None


async def patiently(request: web.Request, ask: Ask, watch: Watch) -> web.StreamResponse:
    """Have the engine answer a request, keeping its client waiting if it streams and the model is not ready for it."""
    is_at_once = request.app[SERVICES].supervisor.serves_at_once(ask.load.source.name)
    if is_at_once or ask.gather is not None or not _streams(ask.body):
        return await proxy.answer(request, ask, watch)
    heartbeat = request[HEARTBEAT] = patient(request, ask.form.ping)
    try:
        return await _answered(request, ask, watch)
    finally:
        await heartbeat.stop()


async def _answered(request: web.Request, ask: Ask, watch: Watch) -> web.StreamResponse:
    try:
        answer = await proxy.answer(request, ask, watch)
    except RoundhouseError as error:
        held = await request[HEARTBEAT].stop()
        if held is None:
            raise
        log.error(str(error), extra={"code": error.code, "model": ask.model})  # noqa: TRY400 -- said in a sentence
        watch.outcome = Outcome.REFUSED if isinstance(error, UserError) else Outcome.ENGINE_FAILED
        watch.error = str(error)
        return await _ended(held, ask.form.in_band(error))
    held = await request[HEARTBEAT].stop()
    if held is None or answer is held:
        return answer
    body = answer.body if isinstance(answer, web.Response) else None
    return await _ended(held, ask.form.event(bytes(body)) if isinstance(body, (bytes, bytearray)) else b"")


async def _ended(held: web.StreamResponse, last: bytes) -> web.StreamResponse:
    await held.write(last)
    await held.write_eof()
    return held


def _streams(body: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(body, type=_Streams).stream)
    except msgspec.MsgspecError:  # it is for the engine to say what is wrong with it
        return False
