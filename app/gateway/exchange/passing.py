"""Pass an engine's answer on to a client that speaks its dialect: the bytes as they are, mended where they are wrong.

A stream never ends silently: if the engine dies in the middle, an error event follows what was sent.
"""

from aiohttp import hdrs, web
from multidict import CIMultiDict

from app.core.errors import EngineFailed, RoundhouseError, UserError
from app.gateway.dialects.form import Form
from app.gateway.exchange.client_stream import SSE_HEADERS, ClientStream, KeepAlive
from app.gateway.exchange.connections import Flow
from app.gateway.exchange.observer import Observation, Outcome
from app.gateway.exchange.upstream import EngineAccess, EngineAnswer, UpstreamRequest, too_long

EVENT_STREAM = "text/event-stream"
LONGEST_LINE = 8 * 1024 * 1024
"""Bytes of a stream without an end of line: a token takes some hundred, a picture as text a few million."""


class LineBound:
    """Looks at a stream's pieces as they come; keeps none of them."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open = 0

    def check(self, piece: bytes) -> None:
        """Count what has come since the last end of line. Raises EngineFailed above `LONGEST_LINE`."""
        last = piece.rfind(b"\n")
        self._open = self._open + len(piece) if last < 0 else len(piece) - last - 1
        if self._open > LONGEST_LINE:
            raise too_long("a line", LONGEST_LINE)


async def pass_on(
    request: web.Request, engines: EngineAccess, upstream: UpstreamRequest, observed: Observation
) -> web.StreamResponse:
    """Return the engine's answer. Raises EngineFailed or Unavailable while nothing has been sent to the client."""
    waits = upstream.streams and upstream.gather is None
    client = ClientStream(request, SSE_HEADERS, KeepAlive(alive=upstream.form.ping)) if waits else None
    try:
        async with EngineAnswer(engines, upstream, observed) as answer:
            if answer.content_type == EVENT_STREAM and upstream.gather is None and not answer.is_refusal:
                client = client or ClientStream(request, SSE_HEADERS, KeepAlive(alive=upstream.form.ping))
                return await _stream(client, answer, upstream.form, observed)
            response = await (_refusal if answer.is_refusal else _whole)(answer, upstream, observed)
        return response if client is None else await _closed(client, response, upstream.form)
    except RoundhouseError as error:
        if client is None or not await client.settle():
            raise
        observed.failed_in_stream(str(error), error.code, is_engines=not isinstance(error, UserError))
        return await client.close(upstream.form.in_band(error))
    finally:
        if client is not None:
            client.cancel()


async def _stream(client: ClientStream, answer: EngineAnswer, form: Form, observed: Observation) -> web.StreamResponse:
    if not client.is_open:
        client.response.headers[hdrs.CONTENT_TYPE] = answer.head.headers["content-type"]
    await client.open()
    bound, edit = LineBound(), form.editor()

    def take(piece: bytes) -> Flow:
        bound.check(piece)
        mended = edit(piece)
        if not mended:
            return Flow.MORE
        flow = client.write(mended)
        observed.saw(mended)  # after it was sent on: who is told of the first piece keeps no client waiting
        return flow

    error: RoundhouseError | None = None
    try:
        is_whole = await answer.hand_on(take, client.drain)
        if not is_whole or not form.is_complete(observed.tail):
            error = await answer.why_broken()
    except EngineFailed as nonsense:
        error = nonsense
    if error is None:
        observed.answered(answer.lease)
        return await client.close()
    observed.failed_in_stream(str(error), error.code)
    # What was sent may end in the middle of an event; the empty line ends that one first.
    return await client.close((b"" if observed.tail.endswith(b"\n\n") else b"\n\n") + form.in_band(error))


async def _whole(answer: EngineAnswer, upstream: UpstreamRequest, observed: Observation) -> web.Response:
    body, content_type = await answer.read(), answer.head.headers.get("content-type", "application/json")
    if upstream.gather is not None and answer.content_type == EVENT_STREAM:
        if not upstream.form.is_complete(body):
            raise await answer.why_broken()
        body, content_type = upstream.gather(body), "application/json"
    body = upstream.form.whole(body)
    observed.saw_whole(body)
    observed.answered(answer.lease)
    headers = CIMultiDict({hdrs.CACHE_CONTROL: "no-store", hdrs.CONTENT_TYPE: content_type})
    return web.Response(status=answer.head.status, body=body, headers=headers)


async def _refusal(answer: EngineAnswer, upstream: UpstreamRequest, observed: Observation) -> web.Response:
    refusal = upstream.form.refusal(await answer.read(), answer.head.status)
    observed.outcome = Outcome.REFUSED
    # Engines of ours say nothing of when to come back; an endpoint that counts its callers does.
    retry = answer.head.headers.get("retry-after")
    headers = {} if retry is None else {hdrs.RETRY_AFTER: retry}
    return web.Response(status=refusal.status, body=refusal.body, content_type="application/json", headers=headers)


async def _closed(client: ClientStream, response: web.Response, form: Form) -> web.StreamResponse:
    """Return a whole answer, or a refusal: in the stream, if the client was kept waiting in one."""
    if not await client.settle():
        return response
    return await client.close(form.event(bytes(response.body)) if isinstance(response.body, bytes) else b"")
