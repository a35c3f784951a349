"""One request to an engine: a lease, a connection, and the answer, for as long as an `async with` block runs.

    resolve -> plan -> lease -> send -> pass on or translate -> observe

A request whose engine had gone before it answered is sent once more where that is safe. A caller that is cancelled, or
leaves the block early, drops the engine's connection, which ends its work.

Look whether an engine is stuck, when a request was cancelled that it had not answered to the end, and every so often
while one lasts.

Many engines go on computing until they notice that nobody waits; some never answer again. The supervisor asks such an
engine something easy. Where nothing comes back for as long as the engine's descriptor allows, neither to that nor to
another request, the supervisor is told, which restarts it. One timer serves all requests.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol, Self
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from app.core.errors import EngineFailed, RoundhouseError
from app.gateway.background import Background
from app.gateway.canonical.request import ConversationRequest
from app.gateway.dialects.form import AnswerForm
from app.gateway.dialects.openai.form import OPENAI
from app.gateway.entry.bodies import call_off_loop
from app.gateway.exchange.answer_limits import MOST_CUTS, fitting_limit, limit_changes
from app.gateway.exchange.connection_progress import ConnectionProgress
from app.gateway.exchange.connections import (
    SENT_AT_ONCE,
    EngineConnection,
    EngineConnections,
    EngineDisconnected,
    ReadFlow,
    Relay,
    Take,
    address_of,
)
from app.gateway.exchange.constraint_limits import SIGNS, refuse_large_constraints
from app.gateway.exchange.constraints import refuse_constraints, refuse_remote_media
from app.gateway.exchange.engine.planning import UpstreamPlan
from app.gateway.exchange.observer import Observation, RequestStopped
from app.gateway.exchange.prompt_caches import PromptCaches
from app.gateway.exchange.warm_resume import PromptTurn, WarmResume
from app.supervisor.lease import Lease, ReadyEndpoint
from app.supervisor.policy import LeaseOptions, LoadRequest
from app.supervisor.pool import Supervisor
from app.supervisor.readiness import JSON
from app.supervisor.remote import distrust_failure
from engines.api import EngineAdapter, FailureKind, RemoteEndpoint

if TYPE_CHECKING:
    from app.gateway.exchange.framing import AnswerHead


class StuckChecks:
    """The checks that are under way, at most one for each engine process. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self.progress_by_url: dict[str, ConnectionProgress] = {}
        """By base URL."""
        self._background = Background()
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._new_answers: set[EngineAnswer] = set()
        self._lasting_answers: set[EngineAnswer] = set()

    def begin_check(self, supervisor: Supervisor, connections: EngineConnections, lease: Lease) -> None:
        """Look at the engine of a request, unless that is being done. Returns at once."""
        url = lease.base_url
        if self._is_closed or url in self.progress_by_url or not address_of(url).is_ours:
            return
        progress = self.progress_by_url[url] = ConnectionProgress(connections.open_to(address_of(url)))
        self._background.spawn(self._check_engine(supervisor, lease, progress))

    def watch_answer(self, answer: "EngineAnswer") -> None:
        """Look at the engine of an answer now and then, as long as it lasts (until `leave_answer`)."""
        self._new_answers.add(answer)
        if self._timer is None and not self._is_closed:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def leave_answer(self, answer: "EngineAnswer") -> None:
        """Look no longer."""
        self._new_answers.discard(answer)
        self._lasting_answers.discard(answer)

    def _look(self) -> None:
        """Look at the engines of answers that last since before the last look, and have the others be next."""
        self._timer = None
        for answer in self._lasting_answers:
            answer.check_engine()
        self._lasting_answers |= self._new_answers
        self._new_answers.clear()
        if self._lasting_answers:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def list_silent(self, model: str, since: float) -> list[Observation]:
        """Return the answers of a model of which nothing has come since then (`time.perf_counter()`)."""
        answers = (*self._new_answers, *self._lasting_answers)
        return [answer.observation for answer in answers if answer.lease.model == model and answer.last_at < since]

    def note_progress(self, lease: Lease) -> None:
        """Note that an engine has begun an answer."""
        if (progress := self.progress_by_url.get(lease.base_url)) is not None:
            progress.made.set()

    async def close(self) -> None:
        """End every check, and begin none again."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._background.join(cancel=True)

    async def _check_engine(self, supervisor: Supervisor, lease: Lease, progress: "ConnectionProgress") -> None:
        probe = asyncio.ensure_future(supervisor.is_answering(lease))
        made_task = asyncio.ensure_future(progress.made.wait())
        try:
            await asyncio.wait([probe, made_task], return_when=asyncio.FIRST_COMPLETED)
            is_stuck = probe.done() and probe.result() is False and not progress.made.is_set()
        finally:
            probe.cancel()
            made_task.cancel()
            progress.stop_watching()
            del self.progress_by_url[lease.base_url]
        if is_stuck:
            supervisor.report_stuck(lease)


log = logging.getLogger(__name__)

LARGEST_DOCUMENT = 256 * 1024 * 1024
"""Bytes of an answer in one piece: 2048 vectors of 4096 figures are half of that."""
_STREAM = b'"stream"'
_SEARCHED_BYTES = 1024 * 1024
"""A larger body is not looked through for a word in passing."""
_REDIRECTS = range(300, 400)
_ERROR_STATUS = 400
_NO_TERMS = LeaseOptions()
_DEATH_SEEN_S = 0.5
"""A connection that broke before an answer: by then the supervisor knows whether the process is gone."""
LOOK_S = 10.0
"""So often the engine of a request that lasts is looked at."""
_CLOSE = b"Connection: close\r\n"
_CONTROLS = dict.fromkeys(range(32))


class OtherMachines(Protocol):
    """Where a request may go whose machine went away before anything of an answer was sent to the client."""

    async def has_other(self, failed_request: "UpstreamRequest", error: RoundhouseError) -> bool:
        """Tell whether somebody else may be asked instead."""

    async def find_other(self, failed_request: "UpstreamRequest", error: EngineFailed) -> "ReplacementRequest | None":
        """Return what is to be asked instead, for an answer that is translated."""

    def find_current(self, request: "UpstreamRequest") -> "UpstreamRequest":
        """Return what is asked in its place since another answer of the same request lost their machine, or itself."""


@dataclass(frozen=True, slots=True)
class EngineAccess:
    """What it takes to ask engines."""

    supervisor: Supervisor
    adapters: Mapping[str, EngineAdapter]
    connections: EngineConnections
    stuck_checks: StuckChecks = field(default_factory=StuckChecks)
    prompt_caches: PromptCaches = field(default_factory=PromptCaches)
    unreadable: set[str] = field(default_factory=set)
    """`Services.unreadable`."""
    look_up: Callable[[str], Awaitable[str]] | None = None
    """What the Guide answers to a question."""
    warm: WarmResume | None = None
    """What keeps prompts that engines have read, for their next run."""
    others: OtherMachines | None = None
    """Set for a request that may go elsewhere."""

    async def ask_engine(
        self, engine: Lease | ReadyEndpoint, path: str, body: bytes | None = None
    ) -> tuple[int, bytes]:
        """Return the status and the body of a small question beside an engine's work, a GET without a body of its own.

        Raises OSError (TimeoutError, EngineDisconnected) or EngineFailed.
        """
        connection = await self.connections.get_connection(address_of(engine.base_url))
        try:
            head = await connection.send_request(_request_head(engine, path, body), body or b"")
            return head.status, await _collect_body(connection)
        finally:
            connection.close()


Gather = Callable[[bytes], bytes]
Preparer = Callable[[EngineAccess, Lease, "UpstreamRequest"], Awaitable["UpstreamRequest"]]


class UpstreamRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to send to which engine: the route's path there, the client's body, and the name it has for the model.

    `form` is the dialect both of them speak. Where they speak different ones, `plan` says how an answer is read that
    the engine hands on as raw text. `streams`: the client wants the answer as a stream.

    Raises BadRequest for a body that would have the engine fetch something, write for ever, or take all memory.
    """

    load: LoadRequest
    path: str
    body: bytes
    model: str
    terms: LeaseOptions = _NO_TERMS
    form: AnswerForm = OPENAI
    plan: UpstreamPlan | None = None
    streams: bool = False
    headers: bytes = b""
    """Header lines of the client's that concern the engine."""
    gather: Gather | None = None
    """Set where the engine is asked for a stream by a client that is not: what puts it together."""
    prepare: Preparer | None = None
    """What is left to be done with the request once its engine can be asked."""
    content_type: str = JSON
    """Of the body. One that is no JSON is made by `prepare`, of what was looked at field by field."""
    is_media: bool = False
    """The answer is sound or pictures: passed on as it comes, and kept nowhere."""
    answers_as: str = ""
    """The kind of a whole answer, where the form makes another of it."""
    drops_cache_field: bool = False
    """The engine's route passes over the field that would have it leave its prompt cache alone."""
    keeps_limit: bool = False
    """The dialect says that an answer's limit has to fit, so one that does not is refused and never cut."""

    def __post_init__(self) -> None:
        """Look at the body here, which no request to an engine gets around."""
        if self.content_type != JSON:
            return
        refuse_remote_media(self.body)
        refuse_constraints(self.body, has_our_engine=self.load.source.remote is None)
        if SIGNS.search(self.body) and self.load.source.remote is None:  # otherwise whoever runs the endpoint judges
            refuse_large_constraints(self.body)


class TrimOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation too long is answered all the same: `prepare` makes a request of a shorter one.

    Only for clients that asked for that; `dropped` is told how many messages were left out.
    """

    work: ConversationRequest
    prepare: Callable[[ConversationRequest], Awaitable[UpstreamRequest]]
    dropped: Callable[[int], None]


class ReplacementRequest(NamedTuple):
    """What is asked in a lost request's place, and how it is made shorter where that is asked for."""

    upstream: UpstreamRequest
    trim_options: TrimOptions | None = None


class CacheFieldDroppedError(Exception):
    """A request has to go without the prompt cache, and its route cannot say so. Nothing was sent."""


class UnreadableAnswerError(Exception):
    """The engine could not read an answer of its model, of which nothing was sent. `refusal` is what it says."""

    def __init__(self, refusal: web.Response) -> None:
        super().__init__()
        self.refusal = refusal


class EngineLostError(Exception):
    """The connection to the engine broke before it answered. `cause` says why, None if the engine seems to be alive."""

    def __init__(self, cause: EngineFailed | None, *, was_connected: bool, is_ours: bool) -> None:
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


class EngineAnswer:
    """An engine's answer, from its head on.

    Entering raises EngineFailed, Unavailable or CacheFieldDroppedError, or as `prepare` does.
    """

    __slots__ = (
        *("content_type", "head", "is_refusal", "lease", "observation", "request", "_connection", "_engines"),
        *("_limit", "_refusal", "_turn"),
    )

    def __init__(self, engines: EngineAccess, request: UpstreamRequest, observation: Observation) -> None:
        self._engines, self.request, self.observation = engines, request, observation
        self._limit: int | None = None
        """Tokens that the answer may have at most, once the engine refused what was asked for."""
        self._turn: PromptTurn | None = None
        self._refusal: bytes | None = None
        self._connection: EngineConnection
        self.lease: Lease
        self.head: AnswerHead
        self.is_refusal: bool
        self.content_type: str
        """The kind of its body, without parameters."""

    async def __aenter__(self) -> Self:
        try:
            await self._open_connection()
        except EngineLostError as loss:
            await self._open_again(loss)
        if self.is_refusal and not self.request.keeps_limit:
            await self._shorten_answer()
        return self

    async def _open_again(self, loss: EngineLostError) -> None:
        if not loss.may_repeat:
            raise broke_off_error(loss.cause) from loss
        log.info("Repeating a request whose engine had gone", extra={"model": self.request.model})
        self.observation.note_event("repeat", why="the engine had gone")
        try:
            await self._open_connection()
        except EngineLostError as again:
            raise broke_off_error(again.cause) from again

    async def _shorten_answer(self) -> None:
        """Ask again for an answer that fits, as long as the engine refuses because it would not."""
        for _ in range(MOST_CUTS):
            limit = await self._read_fitting_limit() if self.is_refusal else None
            if limit is None:
                return
            log.info("Asking for an answer of at most %d tokens", limit, extra={"model": self.request.model})
            self.observation.note_event("repeat", why="the limit did not fit", limit=limit)
            self._close_connection()
            self._limit, self._refusal = limit, None
            try:
                await self._open_connection()
            except EngineLostError as loss:
                await self._open_again(loss)

    async def _read_fitting_limit(self) -> int | None:
        """Return the limit with which the engine would not have refused; None where it refused for something else."""
        try:
            self._refusal = await self.read()
            body = self.request.body
            limit = await call_off_loop(body, fitting_limit, body, self._refusal, self.head.status)
        except BaseException as error:
            await self.__aexit__(type(error))
            raise
        is_less = limit is not None and (self._limit is None or limit < self._limit)
        return limit if is_less else None

    def _close_connection(self) -> None:
        self._engines.stuck_checks.leave_answer(self)
        self._connection.close()
        if self._turn is not None and self._engines.warm is not None:
            self._engines.warm.end_turn(self._turn, self.observation)
            self._turn = None
        self._engines.supervisor.release_lease(self.lease)

    async def __aexit__(self, kind: object, *_error: object) -> None:
        is_cut_short = kind is asyncio.CancelledError and not self._connection.is_over
        self._close_connection()
        if is_cut_short or self.observation.is_stopped:
            self.check_engine()

    async def read(self) -> bytes:
        """Return the body. Raises EngineFailed if it breaks off, or does not end."""
        if self._refusal is not None:
            return self._refusal
        try:
            return await _collect_body(self._connection)
        except EngineDisconnected:
            raise await self.why_broken() from None

    async def hand_on(self, take: Take, drain: Callable[[], Awaitable[None]], relay: Relay | None = None) -> bool:
        """Have `take` called with each piece of the body as it comes; return whether it ended as HTTP wants.

        After `ReadFlow.PAUSE` nothing more is read until `drain` returns. Raises what `take` does.
        """
        connection = self._connection
        connection.deliver_to(take, relay)
        while not connection.is_over:
            if connection.is_paused:
                await drain()
                connection.resume_reading()
            await connection.wait_for_change()
        try:
            connection.raise_error()
        except EngineDisconnected:
            return False
        return True

    @property
    def last_at(self) -> float:
        """When something of it came last, or when its engine was to be had."""
        return max(self.observation.last_at, self.observation.leased_at or 0.0)

    def note_unreadable(self) -> None:
        """Note that the engine could not read what its model wrote."""
        self._engines.unreadable.add(self.request.load.source.name)

    async def why_broken(self) -> RoundhouseError:
        """Return why an answer broke off: somebody stopped it, the engine ended, or nobody knows."""
        return RequestStopped() if self.observation.is_stopped else broke_off_error(await self.lease.wait_for_verdict())

    async def _open_connection(self) -> None:
        engines = self._engines
        supervisor, load, terms = engines.supervisor, self.request.load, self.request.terms
        remote = load.source.remote
        self.lease = lease = supervisor.lease_at_once(load, terms) or await supervisor.acquire_lease(load, terms)
        connection = None
        try:
            self.observation.note_lease(lease)
            head, body = await self._write_request()
            address = address_of(lease.base_url)
            connection = engines.connections.take_idle(address)
            if connection is None:
                at_once = head + body if len(body) <= SENT_AT_ONCE else b""
                connection = await engines.connections.connect(address, at_once)
            self.observation.note_connection(connection)
            engines.stuck_checks.watch_answer(self)
            self.head = answer = await connection.send_request(head, body)
            if engines.stuck_checks.progress_by_url:
                engines.stuck_checks.note_progress(lease)
            if answer.status in _REDIRECTS:
                _refuse_redirect()
            if answer.status == HTTPStatus.UNAUTHORIZED and remote is not None:
                _check_trust(remote)
        except BaseException as error:
            engines.stuck_checks.leave_answer(self)
            loss = await self._classify_loss(error) if isinstance(error, OSError) else None
            if connection is not None:
                connection.abort()
            supervisor.release_lease(lease)
            if connection is not None and (
                isinstance(error, asyncio.CancelledError) or isinstance(loss, RequestStopped)
            ):
                self.check_engine()
            if loss is not None:
                raise loss from None
            raise
        self._connection = connection
        self.is_refusal = answer.status >= _ERROR_STATUS
        self.content_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()

    def check_engine(self) -> None:
        """Look whether the engine is stuck. Returns at once."""
        self._engines.stuck_checks.begin_check(self._engines.supervisor, self._engines.connections, self.lease)

    async def _write_request(self) -> tuple[bytes, bytes]:
        """Return the request as it goes to the engine: head and body."""
        lease, request = self.lease, self.request
        if request.prepare is not None:
            request = await request.prepare(self._engines, lease, request)
        body = request.body
        descriptor, changes = self._engines.adapters[lease.engine].descriptor, dict[str, object]()
        if lease.served_name != request.model:
            changes["model"] = lease.served_name
        skips_cache = False
        if descriptor.cache_field and lease.slot:
            model, key_id = request.load.source.name, self.observation.key_id
            skips_cache = self._engines.prompt_caches.must_skip(model, lease.run, key_id)
            if skips_cache:
                if request.drops_cache_field:
                    raise CacheFieldDroppedError
                changes[descriptor.cache_field] = False
        if lease.states is not None and lease.slot and self._engines.warm is not None:
            self._turn = await self._engines.warm.begin_turn(lease, body, self.observation, skips_cache=skips_cache)
        if self._limit is not None:
            changes |= limit_changes(body, self._limit)
        if changes:
            body = await call_off_loop(body, with_fields, body, changes)
        # Engine and gateway agree on what the engine would do anyway.
        closes = descriptor.closes_after_stream and (len(body) > _SEARCHED_BYTES or _STREAM in body)
        trace = self.observation.trace
        headers = request.headers if trace is None else request.headers + trace.begin_call(lease.base_url)
        return _request_head(
            lease,
            request.path,
            body,
            headers + (_CLOSE if closes else b""),
            content_type=request.content_type,
        ), body

    async def _classify_loss(self, error: OSError) -> EngineLostError | RequestStopped:
        """Return what became of a request whose connection broke before it was answered, or was not to be had."""
        if self.observation.is_stopped:
            return RequestStopped()
        was_connected = isinstance(error, EngineDisconnected)
        cause, remote = await self.lease.wait_for_verdict(timeout_s=_DEATH_SEEN_S), self.request.load.source.remote
        if remote is not None and cause is None and not was_connected:
            where = urlsplit(remote.url).netloc
            cause = EngineFailed(f"The endpoint at {where} does not answer.", code=FailureKind.UNREACHABLE)
        return EngineLostError(cause, was_connected=was_connected, is_ours=remote is None)


async def _collect_body(connection: EngineConnection) -> bytes:
    """Return the rest of a body. Raises EngineDisconnected, or EngineFailed above `LARGEST_DOCUMENT`."""
    if (whole := connection.take_whole()) is not None:
        return whole
    parts: list[bytes] = []
    size = 0

    def take_piece(piece: bytes) -> ReadFlow:
        nonlocal size
        size += len(piece)
        if size > LARGEST_DOCUMENT:
            raise too_long_error("an answer", LARGEST_DOCUMENT)
        parts.append(piece)
        return ReadFlow.MORE

    connection.deliver_to(take_piece)
    await connection.wait_for_change()
    connection.raise_error()
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _check_trust(remote: RemoteEndpoint) -> None:
    """Raise EngineFailed where a paired machine lets nobody in; any other endpoint's answer is passed on."""
    failure = distrust_failure(remote.url)
    if failure is not None:
        raise EngineFailed(failure.sentence, hint=failure.hint, code=failure.kind)


def _refuse_redirect() -> NoReturn:
    raise EngineFailed(
        "The endpoint redirects to another address, which is not followed.", hint="Attach its actual address."
    )


def too_long_error(what: str, limit_bytes: int) -> EngineFailed:
    """Return the error for what an engine sends without end."""
    return EngineFailed(
        f"The engine sends {what} of more than {limit_bytes // 1024**2} MiB, which exceeds the limit.",
        hint="Check what is running there.",
        code="engine_nonsense",
    )


def broke_off_error(cause: EngineFailed | None) -> EngineFailed:
    """Return why the engine ended, or that it broke off and nobody knows why."""
    return cause or EngineFailed(
        "The engine cut off its answer.", hint="Try again; the model's log may say why.", code="engine_broke_off"
    )


def with_fields(body: bytes, changes: Mapping[str, object]) -> bytes:
    """Return the JSON body with other values for some fields; every other value keeps its bytes."""
    return msgspec.json.encode({**msgspec.json.decode(body, type=dict[str, msgspec.Raw]), **changes})


def _request_head(
    engine: Lease | ReadyEndpoint, path: str, body: bytes | None, more: bytes = b"", *, content_type: str = JSON
) -> bytes:
    """Return the head of a request; `more` are further lines."""
    begin = _head_begin(engine.base_url, engine.key, path)
    if body is None:
        return b"GET %b%b\r\n" % (begin, more)
    lines = b"%bContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (more, content_type.encode(), len(body))
    return b"POST %b%b" % (begin, lines)


@lru_cache(maxsize=64)
def _head_begin(base_url: str, key: str, path: str) -> bytes:
    """Return what the heads of all requests to an engine's path have after the method."""
    address = address_of(base_url)
    prefix = address.prefix
    if path.startswith("/.."):  # beside its last part
        path, prefix = path[3:], prefix.rpartition(b"/")[0]
    lines = b"%b%b HTTP/1.1\r\nHost: %b\r\n" % (prefix, path.encode(), address.netloc)
    return lines + b"Authorization: Bearer %b\r\n" % key.translate(_CONTROLS).encode() if key else lines
