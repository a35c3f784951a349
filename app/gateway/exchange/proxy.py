"""The hot path: hold a lease on the engine, send it the client's bytes, and pass its bytes back untouched.

A stream never ends silently: if the engine dies in the middle, an error event follows what was sent. A client that goes
away cancels this handler at whatever point it is, and leaving the `async with` blocks closes the engine's connection.
"""

import io
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp import hdrs, web
from multidict import CIMultiDict

from app.core.connections import Purpose, Why
from app.core.errors import EngineFailed, RoundhouseError
from app.gateway.dialects.form import Form
from app.gateway.dialects.openai.form import OPENAI
from app.gateway.exchange import bounds
from app.gateway.exchange.constraints import refuse_constraints
from app.gateway.exchange.engine.planning import Plan
from app.gateway.exchange.heartbeat import begun
from app.gateway.exchange.prompt import PromptRequest
from app.gateway.exchange.remote_media import refuse_remote_media
from app.gateway.exchange.resolving import Resolver
from app.gateway.services import SERVICES, Services
from app.gateway.watching.watch import LISTENER, Outcome, Stopped, Watch
from app.network.connector import Connector
from app.supervisor.lease import Lease
from app.supervisor.policy import LoadRequest, Terms
from engines.api import Descriptor, FailureKind

log = logging.getLogger(__name__)

_PASSED_ON = (hdrs.ACCEPT, hdrs.USER_AGENT, "traceparent", "OpenAI-Beta")
"""Of the client's headers. Its Authorization, cookies and Origin are not the engine's business."""
_EVENT_STREAM = "text/event-stream"
_STREAM = b'"stream"'
_ERROR_STATUS = 400
_REDIRECTS = range(300, 400)
_WRITES_AT_ONCE = sys.version_info >= (3, 12)
_NO_TERMS = Terms()
_KEPT_S = 2.0
_DEATH_SEEN_S = 0.5
"""A connection that broke before an answer: by then the supervisor knows whether the process is gone."""
_AT_ONCE_BYTES = 1024 * 1024
"""aiohttp writes bytes in one go, which would hold up everybody's streams, and warns above this size."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What to send to which engine: the route's path there, the client's body, and the name it has for the model.

    `form` is the dialect both of them speak. Where they speak different ones, `answer` translates, and `plan` says
    how an answer is read that the engine hands on as raw text.

    Raises BadRequest for a body that would have the engine fetch something, write for ever, or take all memory.
    """

    load: LoadRequest
    path: str
    body: bytes
    model: str
    terms: Terms = _NO_TERMS
    form: Form = OPENAI
    plan: Plan | None = None
    gather: "Gather | None" = None
    """Set where the engine is asked for a stream by a client that is not: what puts it together."""
    prepare: "Preparer | None" = None
    """What is left to be done with the request once its engine can be asked."""
    answer: "Answerer | None" = None

    def __post_init__(self) -> None:
        """Look at the body here, which no request to an engine gets around."""
        refuse_remote_media(self.body)
        refuse_constraints(self.body, has_our_engine=self.load.source.remote is None)


Answerer = Callable[[web.Request, Ask, Watch], Awaitable[web.StreamResponse]]
"""Answers a request whose bytes cannot pass untouched."""
Gather = Callable[[bytes], bytes]
Preparer = Callable[[Services, Lease, Ask], Awaitable[Ask]]


class EngineLost(Exception):
    """The connection to the engine broke before it answered. `cause` says why, None if the engine seems to be alive."""

    def __init__(self, cause: EngineFailed | None, *, was_connected: bool, is_ours: bool = True) -> None:
        super().__init__()
        self.cause = cause
        self.was_connected = was_connected
        self.is_ours = is_ours

    @property
    def may_repeat(self) -> bool:
        """True if the request cannot be what killed the engine: it never had it, or it is alive.

        An endpoint that somebody else runs may be at work on it all the same, and is not given it twice.
        """
        return not self.was_connected or (self.cause is None and self.is_ours)


def engine_session(connect_s: float) -> aiohttp.ClientSession:
    """Return the HTTP session for engines.

    An engine may close an idle connection whenever it likes (llama-server: after 5 s), which a request on its way
    cannot tell from a crash. So connections are let go well before, and what still meets one being closed is sent
    again. Making a new one for every request would double the time it spends here.
    """
    return aiohttp.ClientSession(
        connector=Connector(Purpose(why=Why.ATTACHED), limit=0, keepalive_timeout=_KEPT_S, resolver=Resolver()),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        headers={hdrs.ACCEPT_ENCODING: "identity"},
        request_class=aiohttp.ClientRequest if _WRITES_AT_ONCE else PromptRequest,
    )


async def answer(request: web.Request, ask: Ask, watch: Watch) -> web.StreamResponse:
    """Return the engine's answer. Raises EngineFailed or Unavailable while nothing has been sent to the client."""
    try:
        return await _attempt(request, ask, watch)
    except EngineLost as lost:
        if not lost.may_repeat:
            raise broke_off(lost.cause) from lost
        log.info("Repeating a request whose engine had gone", extra={"model": ask.model})
    try:
        return await _attempt(request, ask, watch)
    except EngineLost as lost:
        raise broke_off(lost.cause) from lost


async def _attempt(request: web.Request, ask: Ask, watch: Watch) -> web.StreamResponse:
    services = request.app[SERVICES]
    async with (
        services.supervisor.lease(ask.load, ask.terms) as lease,
        await sent(services, request, ask, lease) as upstream,
    ):
        if upstream.status >= _ERROR_STATUS:
            return await _refused(upstream, lease, ask.form, watch)
        if upstream.content_type == _EVENT_STREAM and ask.gather is None:
            return await _streamed(request, upstream, _Course(lease, ask.form, watch))
        whole = await _whole(upstream, lease, ask, watch)
        services.measuring.heard(lease.status, watch.timings())
        return whole


async def sent(services: Services, request: web.Request, ask: Ask, lease: Lease) -> aiohttp.ClientResponse:
    """Send the request and return the engine's answer once its head is there. Raises EngineLost."""
    listener = LISTENER.get()
    if listener is not None:
        listener.leased(lease)
    upstream = await _posted(services, request, ask, lease)
    if listener is not None:
        listener.reached(upstream)
    return upstream


async def _posted(services: Services, request: web.Request, ask: Ask, lease: Lease) -> aiohttp.ClientResponse:
    about = services.adapters[lease.engine].descriptor
    try:
        if ask.prepare is not None:
            ask = await ask.prepare(services, lease, ask)
        body = ask.body if lease.served_name == ask.model else with_model(ask.body, lease.served_name)
        data = body if len(body) <= _AT_ONCE_BYTES else io.BytesIO(body)
        upstream = await services.http.post(
            lease.base_url + ask.path, data=data, headers=_headers(request, lease, about, body), allow_redirects=False
        )
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise await lost(ask.load, lease, was_connected=False) from None
    except aiohttp.ClientError:
        raise await lost(ask.load, lease, was_connected=True) from None
    if upstream.status in _REDIRECTS:
        upstream.close()
        raise EngineFailed("The endpoint sends elsewhere, which is not followed.", hint="Attach where it really is.")
    return upstream


async def lost(load: LoadRequest, lease: Lease, *, was_connected: bool) -> EngineLost:
    """Return what became of a request whose connection broke before it was answered."""
    cause, remote = await lease.verdict(timeout_s=_DEATH_SEEN_S), load.source.remote
    if remote is not None and cause is None and not was_connected:
        where = urlsplit(remote.url).netloc
        cause = EngineFailed(f"The endpoint at {where} does not answer.", code=FailureKind.UNREACHABLE)
    return EngineLost(cause, was_connected=was_connected, is_ours=remote is None)


class _Course(NamedTuple):
    """What goes with one stream from its first byte to its last."""

    lease: Lease
    form: Form
    watch: Watch


async def _streamed(request: web.Request, upstream: aiohttp.ClientResponse, course: _Course) -> web.StreamResponse:
    lease, form, watch = course
    headers = _answer_headers(upstream.headers)
    headers["X-Accel-Buffering"] = "no"
    response = await begun(request, upstream.status, headers)
    failed = await _pump(upstream, response, course)
    if failed is None:
        watch.outcome = Outcome.OK
        request.app[SERVICES].measuring.heard(lease.status, watch.timings())
    else:
        watch.outcome = Outcome.ENGINE_FAILED
        watch.error = str(failed)
        if not isinstance(failed, Stopped):
            log.error(str(failed), extra={"code": failed.code, "model": lease.status.model})
        # What was sent may end in the middle of an event; the empty line ends that one first.
        await response.write((b"" if watch.tail.endswith(b"\n\n") else b"\n\n") + form.in_band(failed))
    await response.write_eof()
    return response


async def _pump(
    upstream: aiohttp.ClientResponse, response: web.StreamResponse, course: _Course
) -> RoundhouseError | None:
    """Pass everything on; return why the engine did not end its answer in good order, None if it did."""
    content, watch, edit, bound = upstream.content, course.watch, course.form.editor(), bounds.LineBound()
    while True:
        try:
            chunk = await content.readany()
            bound.saw(chunk)
        except (aiohttp.ClientError, ConnectionError):
            return await why_broken(course.lease)
        except EngineFailed as error:
            return error
        if not chunk:
            return None if course.form.is_complete(watch.tail) else await why_broken(course.lease)
        if mended := edit(chunk):
            watch.saw(mended)
            await response.write(mended)


async def _whole(upstream: aiohttp.ClientResponse, lease: Lease, ask: Ask, watch: Watch) -> web.Response:
    body, headers = await read_whole(upstream, lease), _answer_headers(upstream.headers)
    if ask.gather is not None and upstream.content_type == _EVENT_STREAM:
        if not ask.form.is_complete(body):
            raise await why_broken(lease)
        body, headers[hdrs.CONTENT_TYPE] = ask.gather(body), "application/json"
    body = ask.form.whole(body)
    watch.whole(body)
    watch.outcome = Outcome.OK
    return web.Response(status=upstream.status, body=body, headers=headers)


async def _refused(upstream: aiohttp.ClientResponse, lease: Lease, form: Form, watch: Watch) -> web.Response:
    refusal = form.refusal(await read_whole(upstream, lease), upstream.status)
    watch.outcome = Outcome.REFUSED
    # Engines of ours say nothing of when to come back; an endpoint that counts its callers does.
    wait = {name: upstream.headers[name] for name in (hdrs.RETRY_AFTER,) if name in upstream.headers}
    return web.Response(status=refusal.status, body=refusal.body, content_type="application/json", headers=wait)


async def read_whole(upstream: aiohttp.ClientResponse, lease: Lease) -> bytes:
    """Return the rest of an answer. Raises EngineFailed if it breaks off, or does not end."""
    try:
        return await bounds.whole(upstream)
    except (aiohttp.ClientError, ConnectionError):
        raise await why_broken(lease) from None


async def why_broken(lease: Lease) -> RoundhouseError:
    """Return why an answer broke off: somebody stopped it, the engine ended, or nobody knows."""
    listener = LISTENER.get()
    if listener is not None and listener.is_stopped:
        return Stopped()
    return broke_off(await lease.verdict())


def with_model(body: bytes, name: str) -> bytes:
    """Return the JSON body with another value for `model`; every other value keeps its bytes."""
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    fields["model"] = msgspec.Raw(msgspec.json.encode(name))
    return msgspec.json.encode(fields)


def broke_off(cause: EngineFailed | None) -> EngineFailed:
    """Return why the engine ended, or that it broke off and nobody knows why."""
    return cause or EngineFailed(
        "The engine broke off its answer.", hint="Try again; the model's log may say why.", code="engine_broke_off"
    )


def _headers(request: web.Request, lease: Lease, engine: Descriptor, body: bytes) -> CIMultiDict[str]:
    headers = CIMultiDict({name: request.headers[name] for name in _PASSED_ON if name in request.headers})
    headers.update(engine_headers(lease, engine, body))
    return headers


def engine_headers(lease: Lease, engine: Descriptor, body: bytes) -> dict[str, str]:
    """Return the headers that every request to an engine has, whoever asked for it.

    `Connection: close` has engine and session agree on what the engine would do anyway; a body that merely speaks of
    streams, or is too large to be looked through in passing, costs a new connection.
    """
    headers: dict[str, str] = {hdrs.CONTENT_TYPE: "application/json"}
    if lease.key:  # an attached endpoint may want none
        headers[hdrs.AUTHORIZATION] = f"Bearer {lease.key}"
    if engine.closes_after_stream and (len(body) > _AT_ONCE_BYTES or _STREAM in body):
        headers[hdrs.CONNECTION] = "close"
    return headers


def _answer_headers(upstream: Mapping[str, str]) -> CIMultiDict[str]:
    headers = CIMultiDict({hdrs.CACHE_CONTROL: "no-store"})
    headers[hdrs.CONTENT_TYPE] = upstream.get(hdrs.CONTENT_TYPE, "application/json")
    return headers
