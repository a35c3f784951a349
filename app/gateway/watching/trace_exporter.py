"""Sends the spans of requests to a collector, over OTLP/HTTP, while a setting names one.

Whoever is slow, down or refuses costs the person nothing: spans wait in a queue with limits, the oldest are given up
first, and one sentence says so until the collector takes some again. One request is under way at a time.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from enum import Enum, auto
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

import aiohttp
import msgspec
from aiohttp import hdrs, web

from app import __version__
from app.config.kept_secret import KeptSecret
from app.core.connections import ConnectionReason, Purpose
from app.core.errors import BadRequest, EnvironmentFault, RoundhouseError
from app.core.events import Notice
from app.core.traces import TRACES_CONTENTS, TRACES_ENDPOINT, TracesState, check_headers, traces_url
from app.gateway.background import Background
from app.gateway.exchange.observer import ExchangeSink, Observation, Observers
from app.gateway.exchange.trace_context import RequestTrace
from app.gateway.services import Services
from app.gateway.watching.inspector import KEEPS_BODIES
from app.gateway.watching.trace_encoding import CONTENT_TYPE, encode_request, encode_resource, encode_span
from app.gateway.watching.trace_spans import make_test_span, spans_of
from app.machines.names import machine_name
from app.network.connector import OutboundRequest
from app.network.egress import is_this_computer
from app.network.reach import unreachable_sentence

log = logging.getLogger(__name__)

FLUSH_S = 5.0
"""Spans are sent together: a busy endpoint ends hundreds of requests a second."""
_BATCH = 512
"""Spans of one request, at which it is also sent early: what OpenTelemetry's own exporters send at most."""
_MOST_SPANS, _MOST_BYTES = 8192, 8 * 1024 * 1024
"""That wait while nobody takes them."""
_TIMEOUT = aiohttp.ClientTimeout(total=10.0)
_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 5.0, 60.0
_CLOSING_S = 2.0
"""For the last ones, when the gateway ends."""
_LATER = frozenset({429, 502, 503, 504})
"""Statuses after which OTLP has the same sent again; after any other it is given up."""
_KEY_STATUSES = frozenset({401, 403})
_MOST_ANSWER = 64 * 1024
_PURPOSE = Purpose(why=ConnectionReason.TRACES)


class Delivery(Enum):
    """What became of a request to the collector."""

    TAKEN = auto()
    LATER = auto()
    """It may be taken later."""
    REFUSED = auto()
    """It never will be."""


class SpanQueue:
    """Encoded spans that wait, the oldest first; beyond its limits the oldest are given up."""

    def __init__(self) -> None:
        self._spans: deque[bytes] = deque()
        self._bytes = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, span: bytes) -> None:
        """Add one."""
        self._spans.append(span)
        self._bytes += len(span)
        self._trim()

    def take_batch(self) -> list[bytes]:
        """Take out the oldest, as many as one request has."""
        batch = [self._spans.popleft() for _ in range(min(_BATCH, len(self._spans)))]
        self._bytes -= sum(map(len, batch))
        return batch

    def put_back(self, batch: Sequence[bytes]) -> None:
        """Put back what was taken out and not sent."""
        self._spans.extendleft(reversed(batch))
        self._bytes += sum(map(len, batch))
        self._trim()

    def clear(self) -> None:
        """Let go of all."""
        self._spans.clear()
        self._bytes = 0

    def _trim(self) -> None:
        while len(self._spans) > _MOST_SPANS or self._bytes > _MOST_BYTES:
            self._bytes -= len(self._spans.popleft())
            self.dropped += 1


class CollectorProblem(NamedTuple):
    """Why a collector took nothing: a sentence, and what to do."""

    sentence: str
    hint: str = ""


_NO_PROBLEM = CollectorProblem("")


class Collector:
    """Where spans go: an address, the headers that go with them, and the last problem there was."""

    def __init__(self, http: aiohttp.ClientSession, url: str, headers: KeptSecret, resource: bytes) -> None:
        self._http, self.url, self._headers, self._resource = http, url, headers, resource
        self.problem = _NO_PROBLEM

    @property
    def address(self) -> str:
        """Its host and port."""
        return urlsplit(self.url).netloc

    async def deliver(self, spans: Sequence[bytes]) -> Delivery:
        """Send spans, and note why they were not taken."""
        try:
            headers = await read_headers(self._headers)
            if headers and not _is_private(self.url):
                self.problem = CollectorProblem(
                    "The headers for traces are secret, so they go over https or to this computer only.",
                    "Give the collector an https address, or remove the headers: `roundhouse traces headers forget`.",
                )
                return Delivery.REFUSED
            status = await self._post(encode_request(self._resource, spans), headers)
        except RoundhouseError as error:
            self.problem = CollectorProblem(error.body.sentence, error.body.hint)
            return Delivery.LATER
        except TimeoutError:
            self.problem = CollectorProblem(f"The collector at {self.address} does not answer in time.")
            return Delivery.LATER
        except (aiohttp.ClientError, OSError):
            self.problem = CollectorProblem(await asyncio.to_thread(unreachable_sentence, self.address))
            return Delivery.LATER
        if status < HTTPStatus.MULTIPLE_CHOICES:
            self.problem = _NO_PROBLEM
            return Delivery.TAKEN
        sentence = f"The collector at {self.address} refused traces (status {status})."
        self.problem = CollectorProblem(sentence, _hint(status))
        return Delivery.LATER if status in _LATER else Delivery.REFUSED

    async def _post(self, body: bytes, headers: dict[str, str]) -> int:
        outbound = OutboundRequest(_PURPOSE)
        all_headers = {**headers, hdrs.CONTENT_TYPE: CONTENT_TYPE, hdrs.USER_AGENT: f"roundhouse/{__version__}"}
        with outbound.as_current():
            async with self._http.post(
                self.url, data=body, headers=all_headers, timeout=_TIMEOUT, allow_redirects=False
            ) as reply:
                outbound.note_reply(reply)
                outbound.count_received(len(await reply.content.read(_MOST_ANSWER)))
                return reply.status


async def read_headers(secret: KeptSecret) -> dict[str, str]:
    """Return the headers that are kept; none where they cannot be read."""
    text = await asyncio.to_thread(secret.read_secret)
    try:
        return msgspec.json.decode(text, type=dict[str, str]) if text else {}
    except msgspec.DecodeError:
        return {}


def _is_private(url: str) -> bool:
    where = urlsplit(url)
    return where.scheme == "https" or is_this_computer(where.hostname or "")


def _hint(status: int) -> str:
    if status in _KEY_STATUSES:
        return "Check its headers: `roundhouse traces headers set` stores them."
    if status == HTTPStatus.NOT_FOUND:
        return "Check the setting traces.endpoint: it is the address before /v1/traces."
    return ""


class TraceExporter(ExchangeSink):
    """Listens to exchanges while the setting names a collector. Belongs to the event loop's thread."""

    def __init__(self, services: Services, observers: Observers) -> None:
        self._settings = services.settings
        self._http, self._events, self._observers = services.http, services.events, observers
        self._headers = trace_headers(services.paths.trace_headers_file)
        self._queue, self._background = SpanQueue(), Background()
        self._collector: Collector | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_sending = False
        self._backoff_s = 0.0
        self._sent_count = self._refused_count = 0
        self._instance = uuid4().hex
        self.apply_settings()

    def apply_settings(self) -> None:
        """Begin, go on elsewhere, or end, as the settings say now."""
        url = traces_url(self._settings.get_text(TRACES_ENDPOINT))
        self._observers.traces_contents = bool(url) and self._settings.get_flag(TRACES_CONTENTS)
        if url == (self._collector.url if self._collector else ""):
            return
        self._queue.clear()
        self._backoff_s = 0.0
        if self._collector is not None:
            self._observers.end_sinks.remove(self.on_end)
        if not url:
            self._collector, self._observers.begin_trace = None, None
            return
        self._collector = Collector(self._http, url, self._headers, encode_resource(self._describe_resource()))
        self._observers.begin_trace = RequestTrace.from_headers
        self._observers.end_sinks.append(self.on_end)

    def on_end(self, exchange: Observation) -> None:
        """Keep the spans of an exchange until they are sent."""
        if exchange.trace is None or not exchange.concerns_model:
            return
        has_contents = self._observers.traces_contents
        for span in spans_of(exchange, has_contents=has_contents):
            self._queue.add(encode_span(span))
        exchange.trace.request_body = b""
        if has_contents and not self._settings.get_flag(KEEPS_BODIES):
            exchange.forget_bodies()
        if len(self._queue) >= _BATCH and not self._backoff_s:
            self._begin_flush()
        elif self._timer is None and len(self._queue):
            self._schedule_flush(FLUSH_S)

    async def describe_state(self) -> TracesState:
        """Return whether traces are sent, and what came of it."""
        collector, names = self._collector, sorted(await read_headers(self._headers))
        state = TracesState(
            is_on=collector is not None,
            endpoint=collector.url if collector else "",
            has_contents=self._observers.traces_contents,
            header_names=names,
            sent=self._sent_count,
            waiting=len(self._queue),
            dropped=self._queue.dropped + self._refused_count,
            problem=collector.problem.sentence if collector else "",
        )
        return msgspec.structs.replace(state, sentence=_describe(state))

    async def store_headers(self, headers: dict[str, str]) -> None:
        """Keep headers in place of those there were. Raises BadRequest or StorageFault."""
        text = msgspec.json.encode(check_headers(headers)).decode()
        await asyncio.to_thread(self._headers.store_secret, text)

    async def forget_headers(self) -> None:
        """Forget the headers that were kept."""
        await asyncio.to_thread(self._headers.forget_secret)

    async def send_test(self) -> None:
        """Send one span now. Raises BadRequest without a collector, EnvironmentFault where it is not taken."""
        collector = self._collector
        if collector is None:
            raise BadRequest(
                "Traces are not sent anywhere.",
                hint="`roundhouse settings traces.endpoint http://127.0.0.1:4318` names a collector.",
                code="traces_off",
            )
        if await collector.deliver([encode_span(make_test_span())]) is not Delivery.TAKEN:
            raise EnvironmentFault(collector.problem.sentence, hint=collector.problem.hint, code="traces_not_sent")
        self._sent_count += 1

    async def close(self) -> None:
        """Send what is left, within a moment."""
        if self._timer is not None:
            self._timer.cancel()
        if len(self._queue) and not self._is_sending:
            self._begin_flush()
        try:
            async with asyncio.timeout(_CLOSING_S):
                await self._background.join()
        except TimeoutError:
            await self._background.join(cancel=True)

    def _schedule_flush(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._begin_flush)

    def _begin_flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._is_sending:
            self._is_sending = True
            self._background.spawn(self._flush())

    async def _flush(self) -> None:
        """Send all that waits, until the collector takes no more."""
        try:
            while (collector := self._collector) is not None and (batch := self._queue.take_batch()):
                delivery = await collector.deliver(batch)
                if collector is not self._collector:
                    return  # it was changed meanwhile
                self._note_delivery(collector, delivery, batch)
                if delivery is Delivery.LATER:
                    self._schedule_flush(self._backoff_s)
                    return
        finally:
            self._is_sending = False
            if len(self._queue) and self._timer is None:
                self._schedule_flush(FLUSH_S)

    def _note_delivery(self, collector: Collector, delivery: Delivery, batch: Sequence[bytes]) -> None:
        had_problem = bool(self._backoff_s)
        if delivery is Delivery.TAKEN:
            self._sent_count += len(batch)
            self._backoff_s = 0.0
            if had_problem:
                log.info("The collector at %s takes traces again.", collector.address)
            return
        self._backoff_s = min(max(self._backoff_s * 2, _FIRST_BACKOFF_S), _LONGEST_BACKOFF_S)
        if delivery is Delivery.LATER:
            self._queue.put_back(batch)
        else:
            self._refused_count += len(batch)
        if not had_problem:
            problem = collector.problem
            log.warning("Traces are not sent: %s", problem.sentence)
            self._events.publish(
                Notice(level="warn", code="traces_not_sent", sentence=problem.sentence, hint=problem.hint)
            )

    def _describe_resource(self) -> dict[str, str]:
        return {
            "service.name": "roundhouse",
            "service.version": __version__,
            "service.instance.id": self._instance,
            "host.name": machine_name(self._settings.get_text("machines.name")),
        }


def trace_headers(file: Path) -> KeptSecret:
    """Return where the headers for traces are kept."""
    return KeptSecret(file, "the headers for traces")


def _describe(state: TracesState) -> str:
    if not state.is_on:
        return "Traces are not sent anywhere."
    counts = f"{state.sent:,} spans sent, {state.waiting:,} waiting, {state.dropped:,} given up"
    if state.problem:
        return f"{state.problem} ({counts})"
    return f"Traces are sent to {urlsplit(state.endpoint).netloc} ({counts})."


TRACES = web.AppKey("traces", TraceExporter)
