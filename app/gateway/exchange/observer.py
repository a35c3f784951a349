"""One exchange as it goes by: timed and counted, not read. Whoever wants to know of it is a sink.

Per piece of an answer it takes a clock reading and keeps the last few pieces. What an engine says of its tokens is in
the last events of a stream, or in the one document of a whole answer, so only that is searched, once, at the end.
A sink that fails is logged, and never harms the exchange.

Where the time of one exchange went: queue, load, prefill, decode; and what it read and wrote.

The engine's own clock counts where it tells its times. Where it does not, a stream's first bytes divide prefill from
decode, and an answer in one piece is all decode.
"""

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, Self

import msgspec
from aiohttp import web

from app.core.errors import EngineFailed, RoundhouseError, UserError
from app.core.requests import Peer
from app.gateway.exchange.stream_beginning import is_sign_of_life
from app.gateway.exchange.trace_context import AttributeValue, RequestTrace
from app.supervisor.lease import Lease

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

log = logging.getLogger(__name__)

_TAIL_PIECES = 4
_MOST_TAIL_BYTES = 256 * 1024
"""Of a whole answer: what it says of its tokens stands at its end, or before a list of vectors of any length."""
_COUNTS = re.compile(
    rb'"((?:prompt|completion|output|input|cached|cache_read_input)_tokens|cache_n|prompt_n|prompt_ms|predicted_n|predicted_ms)"'
    rb"\s*:\s*(\d+(?:\.\d+)?)"
)
"""OpenAI's and Anthropic's counts, and llama-server's own clock: tokens and milliseconds, read and written."""
_USAGE, _TIMES = b'"usage"', b'"timings"'
"""What counts and times stand in; where there is neither, all is searched for them."""
_CLOCK = frozenset({b"cache_n", b"prompt_n", b"prompt_ms", b"predicted_n", b"predicted_ms"})
_EVENTS_WITHOUT_TOKEN = 3
"""The opening role event, the closing finish_reason event and [DONE]."""
_ERROR_STATUS = 400
LEAST_READ_TOKENS = 256
"""A prompt of which fewer were read says more about starting than about speed."""
BODY_BYTES = 32 * 1024
"""Of a request and of its answer this much is kept where they are: with 200 requests at most 12.5 MiB."""


class ExchangeOutcome(StrEnum):
    """How an exchange ended."""

    OK = "ok"
    REFUSED = "refused"
    """The caller's mistake: no such model, malformed, or refused by the engine."""
    ENGINE_FAILED = "engine_failed"
    CLIENT_GONE = "client_gone"
    STOPPED = "stopped"
    """Somebody ended it in the inspector."""
    BUG = "bug"


class RequestStopped(UserError):
    """The request was ended by hand. 499 is Ollama's status for it, and no client repeats it."""

    default_code = "request_stopped"
    status = 499

    def __init__(self) -> None:
        super().__init__("This request was stopped in Roundhouse.")


class TokenCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine said of its tokens and of its own times (by its names); None and nothing where it did not."""

    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None
    timings: Mapping[str, float] = {}

    @property
    def all_prompt(self) -> int | None:
        """All tokens of the prompt, also where only the engine's own clock counted them."""
        if self.prompt is None and "prompt_n" in self.timings:
            return int(self.timings["prompt_n"] + self.timings.get("cache_n", 0))
        return self.prompt

    @property
    def all_completion(self) -> int | None:
        """All tokens that were written, likewise."""
        if self.completion is None and "predicted_n" in self.timings:
            return int(self.timings["predicted_n"])
        return self.completion


class ExchangeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Fields as in `core.requests.RequestInfo`."""

    total_s: float
    queue_s: float | None = None
    load_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    ttft_s: float | None = None
    tokens_per_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    saved_s: float | None = None


_NO_TIMES: Mapping[str, float] = {}
_NO_TOKENS = TokenCounts()


class BreakableConnection(Protocol):
    """The connection to an engine."""

    def break_off(self, error: EngineFailed | None = None) -> None:
        """End it, for whoever waits for its answer too."""


class TokenCounter(AbstractContextManager[None], Protocol):
    """Counts for a key that can have limits; entered while a request runs."""

    def note_end(self, exchange: "Observation") -> int:
        """Count the tokens of an exchange that has ended, and return them."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes a request, as far as its head tells. `keeps_bodies`: somebody wants to read what is said."""

    id: str = ""
    client: str = ""
    client_version: str = ""
    peer: Peer = Peer.THIS_COMPUTER
    dialect: str = ""
    path: str = ""
    keeps_bodies: bool = False


class ExchangeSink:
    """Who is told of exchanges. Called in the event loop; must return at once.

    All but `on_answer` are called in the loop's next turn, so that who is told keeps no token waiting. What changes
    while something is still to be told of an exchange is seen with it.
    """

    def on_request(self, exchange: "Observation") -> None:
        """Note which model a request is for."""

    def on_change(self, exchange: "Observation") -> None:
        """Note that a request has an engine, or the first of its answer."""

    def on_answer(self, exchange: "Observation", lease: Lease) -> None:
        """Note that an engine has answered to the end, while it is still held."""

    def on_end(self, exchange: "Observation") -> None:
        """Note how it ended."""


Notify = Callable[["Observation"], None]


class Observers:
    """Who is told of exchanges. Each is called for what it listens to, and for nothing else, in the order of events."""

    def __init__(self, sinks: Sequence[ExchangeSink], keep_bodies: Callable[[], bool] = lambda: False) -> None:
        self.keep_bodies = keep_bodies
        """Whether somebody wants to read what is said."""
        self.request_sinks = [sink.on_request for sink in sinks if _overrides(sink, "on_request")]
        self.change_sinks = [sink.on_change for sink in sinks if _overrides(sink, "on_change")]
        self.answer_sinks = [sink.on_answer for sink in sinks if _overrides(sink, "on_answer")]
        self.end_sinks = [sink.on_end for sink in sinks if _overrides(sink, "on_end")]
        self.begin_trace: Callable[[CIMultiDictProxy[str]], RequestTrace] | None = None
        """Makes the trace of a request by its headers, while traces are sent."""
        self.traces_contents = False
        """Whether what is said goes into traces."""
        self.read_rates: dict[str, float] = {}
        """Tokens of prompts that engines read per second, by model, as they were measured last."""
        self._events: list[tuple[Sequence[Notify], Observation]] = []

    def notify_soon(self, sinks: Sequence[Notify], exchange: "Observation") -> None:
        """Have sinks called once the loop has come around."""
        if not sinks:
            return
        if not self._events:
            asyncio.get_running_loop().call_soon(self.notify)
        self._events.append((sinks, exchange))
        exchange.is_news = True

    def notify(self) -> None:
        """Call whoever is still to be called."""
        events, self._events = self._events, []
        for sinks, exchange in events:
            exchange.is_news = False
            for notify in sinks:
                try:
                    notify(exchange)
                except Exception:
                    log.exception("An exchange could not be noted")


def _overrides(sink: ExchangeSink, event: str) -> bool:
    return getattr(type(sink), event) is not getattr(ExchangeSink, event)


class Observation:
    """One exchange. Belongs to the event loop's thread. Clock readings are of `time.perf_counter()`."""

    __slots__ = (
        *(
            "at",
            "caller",
            "code_in_stream",
            "concerns_model",
            "ended_at",
            "engine",
            "error",
            "error_code",
            "figures",
            "first_at",
            "is_news",
            "is_stopped",
            "kept_answer",
            "key_id",
            "key_name",
            "key_tokens",
            "key_use",
            "kept_request",
            "read_rate",
            "request_body",
            "trace",
        ),
        *("last_at", "leased_at", "load_s", "model", "outcome", "route", "started_at", "status", "_connection"),
        *("_events", "_observers", "_room", "_tail", "_task", "_tokens"),
    )

    def __init__(self, caller: Caller, observers: Observers, task: "asyncio.Task[object] | None" = None) -> None:
        self.caller = caller
        self.at, self.started_at = time.time(), time.perf_counter()
        self.route = self.model = self.engine = ""
        self.outcome = ExchangeOutcome.CLIENT_GONE
        self.error = ""
        """Why it failed, in a sentence."""
        self.error_code = ""
        """Of why it failed or was refused."""
        self.status: int | None = None
        """What was answered with."""
        self.code_in_stream = ""
        self.leased_at: float | None = None
        self.load_s = 0.0
        """Of the waiting for an engine, so much was for its loading."""
        self.first_at: float | None = None
        self.last_at = self.started_at
        self.ended_at: float | None = None
        self.is_stopped = self.is_news = self.concerns_model = False
        """`is_news`: something is about to be told of it. `concerns_model`: a model was asked, or somebody was refused;
        much that comes by is neither. Known once it has ended."""
        self.key_id = self.key_name = ""
        """Of the key that let it in, if one did."""
        self.key_use: TokenCounter | None = None
        """What counts its tokens, if that key can have limits."""
        self.key_tokens = 0
        """So many count for those limits. Known once it has ended."""
        self.request_body = b""
        """What an engine is asked, until it is over."""
        self.kept_request = self.kept_answer = b""
        self._room = BODY_BYTES if caller.keeps_bodies else 0
        self._observers, self._task = observers, task
        self._connection: BreakableConnection | None = None
        self._events = 0
        self._tail: deque[bytes] = deque(maxlen=_TAIL_PIECES)
        self._tokens: TokenCounts | None = None
        self.figures: ExchangeFigures | None = None
        self.trace: RequestTrace | None = None
        """Its place in a trace, where traces are sent."""
        self.read_rate: float | None = None
        """Tokens of a prompt that its engine reads per second, as far as anybody has measured it."""

    def __enter__(self) -> Self:
        """Have what is raised in the block decide the outcome."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Note the outcome. A request that was ended by hand says so: raises RequestStopped for its cancellation."""
        if error is None:
            return
        if isinstance(error, RoundhouseError):
            self.note_failure(error)
        elif isinstance(error, Exception) and not isinstance(error, ConnectionError):  # that is a client that has gone
            self.outcome = ExchangeOutcome.BUG
        elif isinstance(error, asyncio.CancelledError) and self.take_back_cancellation():
            raise RequestStopped from None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.ended_at is not None

    def note_model(self, route: str, model: str) -> None:
        """Note what is wanted, of which model."""
        self.route, self.model = route, model
        self._observers.notify_soon(self._observers.request_sinks, self)

    def note_lease(self, lease: Lease) -> None:
        """Note that an engine works for it from now on."""
        self.engine, self.leased_at, self.load_s = lease.engine, time.perf_counter(), lease.load_s
        self._connection = None
        if not self.is_news:
            self._observers.notify_soon(self._observers.change_sinks, self)

    def note_connection(self, connection: BreakableConnection) -> None:
        """Note what is to be ended when this is stopped."""
        self._connection = connection

    @contextmanager
    def observe_round(self, number: int) -> Iterator["Observation"]:
        """Observe another question to an engine within this request, as an exchange of its own.

        This one's engine has answered: to stop it ends the task from now on, and what that does.
        """
        self._connection = None
        caller = msgspec.structs.replace(self.caller, id=f"{self.caller.id}-{number}" if self.caller.id else "")
        further = Observation(caller, self._observers, self._task)
        further.key_id, further.key_name, further.key_use = self.key_id, self.key_name, self.key_use
        further.request_body = self.request_body
        further.trace = None if self.trace is None else self.trace.begin_further_call()
        further.note_model(self.route, self.model)
        try:
            with further:
                yield further
        finally:
            further.end()

    def leave_engine(self) -> None:
        """Note that its engine has answered, and that it goes on without one: its connection may be another's now."""
        self._connection = None

    def note_piece(self, piece: bytes) -> None:
        """Note a piece of a stream on its way; not a sign of life, which a router sends in place of a frozen engine."""
        if piece.startswith(b":") and is_sign_of_life(piece):
            return
        self.last_at = time.perf_counter()
        self._events += piece.count(b"\n\n")
        self._tail.append(piece)
        if self._room > 0:
            self._keep_body(piece)
        if self.first_at is None:
            self.first_at = self.last_at
            if not self.is_news:
                self._observers.notify_soon(self._observers.change_sinks, self)

    def note_body(self, body: bytes) -> None:
        """Note an answer that came in one piece: it has tokens, and no first one."""
        if len(body) > _MOST_TAIL_BYTES:
            self._tail.append(body[: _MOST_TAIL_BYTES // 2])
        self._tail.append(body[-_MOST_TAIL_BYTES:])
        if self._room > 0:
            self._keep_body(body)

    def note_answer(self, lease: Lease) -> None:
        """Note that the engine has answered to the end."""
        self.outcome = ExchangeOutcome.OK
        for notify in self._observers.answer_sinks:
            try:
                notify(self, lease)
            except Exception:
                log.exception("An exchange could not be noted")

    def note_failure(self, error: RoundhouseError) -> None:
        """Note why it failed, or was refused."""
        self.outcome = ExchangeOutcome.REFUSED if isinstance(error, UserError) else ExchangeOutcome.ENGINE_FAILED
        self.error, self.error_code = str(error), error.code

    def note_event(self, name: str, **attributes: AttributeValue) -> None:
        """Note for its trace what happened on the way: a request repeated, sent elsewhere, asked once more."""
        if self.trace is not None:
            self.trace.note_event(name, attributes)

    def note_stream_failure(self, sentence: str, code: str, *, is_engines: bool = True) -> None:
        """Note what the client was told in its stream, which had begun, instead of an end."""
        self.outcome = ExchangeOutcome.ENGINE_FAILED if is_engines else ExchangeOutcome.REFUSED
        self.error, self.code_in_stream = sentence, code

    def forget_failure(self) -> None:
        """Forget why an answer failed that was put right."""
        self.error = self.error_code = self.code_in_stream = ""

    def stop(self) -> None:
        """End it: the engine's connection ends, and whoever reads from it says so to the client in its dialect."""
        if self.is_stopped or self.is_over:
            return
        self.is_stopped = True
        if self._connection is not None:
            self._connection.break_off()
        elif self._task is not None:
            self._task.cancel()

    def break_off(self, error: EngineFailed) -> None:
        """End its engine's connection: whoever reads from it says why to the client, or has another engine answer."""
        if self._connection is not None:
            self._connection.break_off(error)

    def take_back_cancellation(self) -> bool:
        """Tell, of a cancellation just caught, whether `stop` made it; then the task may go on and say so."""
        if self.is_stopped and self._task is not None:
            self._task.uncancel()
        return self.is_stopped

    def end(self) -> None:
        """Note that it is over, and let go of everything but what it came to."""
        if self.ended_at is not None:
            return
        self.ended_at = time.perf_counter()
        if self.is_stopped and self.outcome is not ExchangeOutcome.OK:
            self.outcome = ExchangeOutcome.STOPPED
        self.concerns_model = bool(self.model) or (self.status or 0) >= _ERROR_STATUS
        self._tokens = self._tokens or self.tokens
        if self.key_use is not None:
            self.key_tokens = self.key_use.note_end(self)
        if self.trace is not None:
            self.trace.note_end(self.request_body, self.tail)
        self.request_body = b""
        self._note_read_rate(self._tokens)
        self._tail.clear()
        self._observers.notify_soon(self._observers.end_sinks, self)
        self._connection = self._task = None

    def _note_read_rate(self, tokens: TokenCounts) -> None:
        """Note how fast a prompt was read, if enough of it was; and what a rate says of this one's cached tokens."""
        rates, timings = self._observers.read_rates, tokens.timings
        count, ms = timings.get("prompt_n"), timings.get("prompt_ms")
        if count is None and tokens.prompt is not None and self.first_at is not None and self.leased_at is not None:
            count, ms = tokens.prompt - (tokens.cached or 0), (self.first_at - self.leased_at) * _MS
        if self.model and count is not None and ms and count >= LEAST_READ_TOKENS:
            rates[self.model] = count * _MS / ms
        self.read_rate = rates.get(self.model)

    @property
    def events_with_tokens(self) -> int:
        """How many events of its stream had some of the answer."""
        return max(0, self._events - _EVENTS_WITHOUT_TOKEN)

    def forget_bodies(self) -> None:
        """Let go of the words."""
        self.caller = msgspec.structs.replace(self.caller, keeps_bodies=False)
        self.kept_request = self.kept_answer = b""
        self._room = 0

    def keep_no_answer(self) -> None:
        """Keep nothing of its answer for the inspector: it is sound or pictures, and no words."""
        self._room = 0

    @property
    def tail(self) -> bytes:
        """The last bytes that went by."""
        return b"".join(self._tail)

    @property
    def tokens(self) -> TokenCounts:
        """What the engine has said of its tokens and times."""
        if self._tokens is not None:
            return self._tokens
        tokens = _parse_tokens(self.tail)
        if self.ended_at is not None or self.outcome is ExchangeOutcome.OK:  # nothing more will come
            self._tokens = tokens
        return tokens

    @property
    def tpot_s(self) -> float | None:
        """Mean time per token after the first; events stand in for tokens where the engine does not say."""
        if self.first_at is None or self.first_at == self.last_at:
            return None
        tokens = self.tokens.completion or self._events - _EVENTS_WITHOUT_TOKEN
        return None if tokens < _TWO else (self.last_at - self.first_at) / (tokens - 1)

    def _keep_body(self, piece: bytes) -> None:
        self.kept_answer += piece[: self._room]
        self._room -= len(piece)


OBSERVATION = web.RequestKey("observed", Observation)


def _parse_tokens(tail: bytes) -> TokenCounts:
    usage_at, times_at = tail.find(_USAGE), tail.find(_TIMES)
    start = min(usage_at, times_at) if usage_at >= 0 and times_at >= 0 else max(usage_at, times_at, 0)
    counts = dict(_COUNTS.findall(tail, start))  # of one that is said again the last counts
    if not counts:
        return _NO_TOKENS
    read = counts.get(b"prompt_tokens")
    if read is None and (b"input_tokens" in counts or b"cache_read_input_tokens" in counts):
        # Anthropic's dialect: what the cache had is no part of the first.
        read = int(counts.get(b"input_tokens", 0)) + int(counts.get(b"cache_read_input_tokens", 0))
    cached_match = counts.get(b"cached_tokens", counts.get(b"cache_read_input_tokens", counts.get(b"cache_n")))
    completion = counts.get(b"completion_tokens", counts.get(b"output_tokens"))
    clock = _CLOCK & counts.keys() or None
    return TokenCounts(
        prompt=None if read is None else int(read),
        cached=None if cached_match is None else int(cached_match),
        completion=None if completion is None else int(completion),
        timings=_NO_TIMES if clock is None else {name.decode(): float(counts[name]) for name in clock},
    )


_MS = 1e3
_TWO = 2
"""Tokens that have one interval between them."""


def figures_so_far(exchange: Observation, now: float, *, loading_since: float | None = None) -> ExchangeFigures:
    """Return the times of an exchange that goes on, without a look at what the engine has sent."""
    first, leased_at = exchange.first_at, exchange.leased_at
    queue_s, load_s = _split_waiting(exchange, now, loading_since)
    return ExchangeFigures(
        total_s=now - exchange.started_at,
        queue_s=queue_s,
        load_s=load_s,
        prefill_s=None if leased_at is None else (now if first is None else first) - leased_at,
        decode_s=None if first is None else now - first,
        ttft_s=None if first is None else first - exchange.started_at,
    )


def _split_waiting(exchange: Observation, now: float, loading_since: float | None = None) -> tuple[float, float]:
    """Return how long it waited for a free place, and for its model to load."""
    leased_at = exchange.leased_at
    if leased_at is None:
        load_s = 0.0 if loading_since is None else now - loading_since
        return max(0.0, now - exchange.started_at - load_s), load_s
    waited_s = leased_at - exchange.started_at
    load_s = min(exchange.load_s, waited_s)
    return max(0.0, waited_s - load_s), load_s


def figures_of(exchange: Observation) -> ExchangeFigures:
    """Return the figures of an exchange that has ended. They are worked out once, whoever asks."""
    if exchange.figures is None:
        exchange.figures = _compute_final(exchange)
    return exchange.figures


def _compute_final(exchange: Observation) -> ExchangeFigures:
    end_at = exchange.last_at if exchange.ended_at is None else exchange.ended_at
    tokens, first = exchange.tokens, exchange.first_at
    timings = tokens.timings
    queue_s, load_s = _split_waiting(exchange, end_at)
    prefill_s, decode_s = _split_times(exchange, end_at, timings)
    rate: float | None
    if timings.get("predicted_ms") and timings.get("predicted_n", 0) >= _TWO:
        rate = timings["predicted_n"] * _MS / timings["predicted_ms"]
    else:
        tpot_s = exchange.tpot_s
        rate = 1 / tpot_s if tpot_s else None
    return ExchangeFigures(
        total_s=end_at - exchange.started_at,
        queue_s=queue_s,
        load_s=load_s,
        prefill_s=prefill_s,
        decode_s=decode_s,
        ttft_s=None if first is None else first - exchange.started_at,
        tokens_per_s=rate,
        prompt_tokens=tokens.all_prompt,
        cached_tokens=tokens.cached,
        completion_tokens=tokens.all_completion,
        saved_s=tokens.cached / exchange.read_rate if tokens.cached and exchange.read_rate else None,
    )


def _split_times(
    exchange: Observation, end_at: float, timings: Mapping[str, float]
) -> tuple[float | None, float | None]:
    if exchange.leased_at is None:
        return None, None
    if exchange.first_at is not None:
        return exchange.first_at - exchange.leased_at, exchange.last_at - exchange.first_at
    work_s = end_at - exchange.leased_at
    predicted_ms = timings.get("predicted_ms")
    if not predicted_ms:
        return None, work_s
    decode_s = min(work_s, predicted_ms / _MS)
    return work_s - decode_s, decode_s
