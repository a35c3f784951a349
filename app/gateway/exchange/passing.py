"""Pass an engine's answer on to a client that speaks its dialect: the bytes as they are, mended where they are wrong.

A stream never ends silently: if the engine dies in the middle, an error event follows what was sent.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from aiohttp import hdrs, web

from app.core.errors import EngineFailed, RoundhouseError, UserError
from app.gateway.dialects.form import AnswerForm
from app.gateway.entry.responses import send_whole
from app.gateway.exchange.client_stream import SSE_HEADERS, ClientStream, KeepAlivePlan
from app.gateway.exchange.connections import ReadFlow, Relay, Take
from app.gateway.exchange.engine.error_document import UNPARSED_WORDS
from app.gateway.exchange.framing import size_line
from app.gateway.exchange.observer import ExchangeOutcome, Observation
from app.gateway.exchange.stream_beginning import has_content, is_sign_of_life
from app.gateway.exchange.upstream import (
    EngineAccess,
    EngineAnswer,
    UnreadableAnswerError,
    UpstreamRequest,
    too_long_error,
)

EVENT_STREAM = "text/event-stream"
_END_OF_CHUNK = b"\n\r\n"
"""What a chunk ends with that ends a line."""
_JSON = "application/json"
_UNPARSED = re.compile(rb'"error":.{0,99}' + UNPARSED_WORDS.encode(), re.DOTALL)
"""Inside a text the quotes would have backslashes before them."""
LONGEST_LINE = 8 * 1024 * 1024
"""Bytes of a stream without an end of line: a token takes some hundred, a picture as text a few million."""

_MOST_HELD = 64 * 1024
"""Bytes of a stream without content that wait for it."""


class LineLimit:
    """Looks at a stream's pieces as they come; keeps none. One that ends a line, where none is open, needs no look."""

    __slots__ = ("_open_bytes", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._open_bytes = 0

    def check_piece(self, piece: bytes) -> None:
        """Count what has come since the last end of line. Raises EngineFailed above `LONGEST_LINE`."""
        last = piece.rfind(b"\n")
        self._open_bytes = self._open_bytes + len(piece) if last < 0 else len(piece) - last - 1
        self.is_open = self._open_bytes > 0
        if self._open_bytes > LONGEST_LINE:
            raise too_long_error("a line", LONGEST_LINE)


async def pass_on(
    request: web.Request, engines: EngineAccess, upstream: UpstreamRequest, observation: Observation
) -> web.StreamResponse:
    """Return the engine's answer. Raises EngineFailed or Unavailable while nothing has been sent to the client."""
    waits, others = upstream.streams and upstream.gather is None, engines.others
    client = ClientStream(request, SSE_HEADERS, KeepAlivePlan(alive=upstream.form.ping)) if waits else None
    try:
        async with EngineAnswer(engines, upstream, observation) as answer:
            if upstream.is_media:
                observation.keep_no_answer()
                if not answer.is_refusal and answer.content_type not in {EVENT_STREAM, _JSON}:
                    return await _pass_media(request, answer, observation)
            if answer.content_type == EVENT_STREAM and upstream.gather is None and not answer.is_refusal:
                client = client or ClientStream(request, SSE_HEADERS, KeepAlivePlan(alive=upstream.form.ping))
                return await _pass_stream(client, answer, upstream.form, observation, opens_late=others is not None)
            whole = await (_read_refusal if answer.is_refusal else _read_whole)(answer, upstream, observation)
        if client is not None and await client.stop_keep_alive():  # it was kept waiting in a stream, and gets it there
            return await client.close(upstream.form.event(whole.body))
        if answer.is_refusal:
            refusal = web.Response(status=whole.status, body=whole.body, headers=whole.headers)
            if _UNPARSED.search(whole.body):
                answer.note_unreadable()
                raise UnreadableAnswerError(refusal)
            return refusal
        return await send_whole(request, whole.status, whole.headers, whole.body)
    except RoundhouseError as error:
        may_go_on = others is not None and await others.has_other(upstream, error)
        if may_go_on or client is None or not await client.stop_keep_alive():
            raise
        observation.note_stream_failure(str(error), error.code, is_engines=not isinstance(error, UserError))
        return await client.close(upstream.form.in_band(error))
    finally:
        if client is not None:
            client.cancel()


async def _pass_stream(
    client: ClientStream, answer: EngineAnswer, form: AnswerForm, observation: Observation, *, opens_late: bool
) -> web.StreamResponse:
    """Pass a stream on. With `opens_late` it begins with the first content; raises EngineFailed if none came."""
    client.headers = {**client.headers, hdrs.CONTENT_TYPE: answer.head.headers["content-type"]}
    line_limit, edit = LineLimit(), form.editor()

    def take_piece(piece: bytes) -> ReadFlow:
        if line_limit.is_open or not piece.endswith(b"\n"):
            line_limit.check_piece(piece)
        edited_piece = edit(piece)
        if not edited_piece:
            return ReadFlow.MORE
        flow = client.write(edited_piece)
        observation.note_piece(
            edited_piece
        )  # after it was sent on: who is told of the first piece keeps no client waiting
        return flow

    late = _LateBeginning(client, take_piece) if opens_late else None
    if late is None:
        await client.send_head()
    take, drain = (take_piece, client.drain) if late is None else (late.take_piece, late.drain)
    error: RoundhouseError | None = None
    try:
        relay = _make_relay(client, line_limit, form.edit_marks, observation) if client.is_chunked else None
        is_whole = await answer.hand_on(take, drain, relay)
        if late is not None and (is_whole or late.has_content):
            await late.release()
        tail = observation.tail
        if not is_whole or not form.is_complete(tail):
            error = await answer.why_broken()
        elif _UNPARSED.search(tail):
            answer.note_unreadable()
    except EngineFailed as nonsense:
        error = nonsense
    if error is not None:
        return await _end_broken(client, form, observation, error, has_begun=late is None or not late.is_held)
    observation.note_answer(answer.lease)
    return await client.close()


async def _end_broken(
    client: ClientStream, form: AnswerForm, observation: Observation, error: RoundhouseError, *, has_begun: bool
) -> web.StreamResponse:
    """End a stream that cannot go on. Raises the engine's error where nothing of it was sent."""
    if not has_begun and isinstance(error, EngineFailed):
        raise error
    observation.note_stream_failure(str(error), error.code)
    # What was sent may end in the middle of an event; the empty line ends that one first.
    return await client.close((b"" if observation.tail.endswith(b"\n\n") else b"\n\n") + form.in_band(error))


class _LateBeginning:
    """Holds what comes of a stream before its first content: until then somebody else may answer."""

    def __init__(self, client: ClientStream, take: Take) -> None:
        self._client, self._take = client, take
        self._held_pieces: list[bytes] = []
        self.is_held = True
        """Whether the client was sent nothing of it."""
        self.has_content = False
        """Whether anything came that a client can read."""

    def take_piece(self, piece: bytes) -> ReadFlow:
        """Take a piece. Signs of life are left out at first: the client gets some from here."""
        if not self.is_held:
            return self._take(piece)
        if is_sign_of_life(piece):
            return ReadFlow.MORE
        self._held_pieces.append(piece)
        self.has_content = self.has_content or has_content(piece) or sum(map(len, self._held_pieces)) > _MOST_HELD
        return ReadFlow.PAUSE if self.has_content else ReadFlow.MORE

    async def release(self) -> None:
        """Send the head and what is held, once. Raises what whoever takes it does."""
        if self.is_held:
            self.is_held = False
            await self._client.send_head()
            self._take(b"".join(self._held_pieces))

    async def drain(self) -> None:
        """Wait until there is room for more."""
        await self.release()
        await self._client.drain()


def _make_relay(
    client: ClientStream, line_limit: LineLimit, marks: Sequence[bytes], observation: Observation
) -> Relay | None:
    """Return what passes whole lines on in the frame they came in, from the second piece on; None if all are edited."""
    if not marks:
        return None

    def relay_chunk(chunk: bytes) -> bool:
        line = size_line(len(chunk))
        if not chunk.startswith(line) or not chunk.endswith(_END_OF_CHUNK):
            return False
        if line_limit.is_open or observation.first_at is None:
            return False
        for mark in marks:
            if chunk.find(mark) >= 0:  # `in` takes twice as long: it tries for a number first
                return False
        if not client.relay(chunk):
            return False
        observation.note_piece(chunk[len(line) : -2])
        return True

    return relay_chunk


async def _pass_media(request: web.Request, answer: EngineAnswer, observation: Observation) -> web.StreamResponse:
    """Pass sound on as it comes. One that breaks off ends with the connection: there is no event to say it in."""
    kind = answer.head.headers.get("content-type", "application/octet-stream")
    client = ClientStream(request, {hdrs.CONTENT_TYPE: kind, hdrs.CACHE_CONTROL: "no-store"}, KeepAlivePlan())
    try:
        await client.send_head()

        def take_piece(piece: bytes) -> ReadFlow:
            flow = client.write(piece)
            observation.note_piece(b"")  # its time, and none of it
            return flow

        is_whole = await answer.hand_on(take_piece, client.drain)
        if is_whole:
            observation.note_answer(answer.lease)
            return await client.close()
        error = await answer.why_broken()
        observation.note_stream_failure(str(error), error.code)
        raise ConnectionResetError from error
    finally:
        client.cancel()


class WholeAnswer(NamedTuple):
    """An answer in one piece."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


async def _read_whole(answer: EngineAnswer, upstream: UpstreamRequest, observation: Observation) -> WholeAnswer:
    body, content_type = await answer.read(), answer.head.headers.get("content-type", _JSON)
    if upstream.gather is not None and answer.content_type == EVENT_STREAM:
        if not upstream.form.is_complete(body):
            raise await answer.why_broken()
        body, content_type = upstream.gather(body), _JSON
    body = upstream.form.whole(body)
    observation.note_body(body)
    observation.note_answer(answer.lease)
    headers = [(hdrs.CACHE_CONTROL, "no-store"), (hdrs.CONTENT_TYPE, upstream.answers_as or content_type)]
    return WholeAnswer(answer.head.status, headers, body)


async def _read_refusal(answer: EngineAnswer, upstream: UpstreamRequest, observation: Observation) -> WholeAnswer:
    refusal = upstream.form.refusal(await answer.read(), answer.head.status)
    observation.outcome = ExchangeOutcome.REFUSED
    # Engines of ours say nothing of when to come back; an endpoint that counts its callers does.
    retry = answer.head.headers.get("retry-after")
    headers = [(hdrs.CONTENT_TYPE, _JSON), *([] if retry is None else [(hdrs.RETRY_AFTER, retry)])]
    return WholeAnswer(refusal.status, headers, refusal.body)
