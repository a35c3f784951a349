"""State of the inspector on the server page: the last requests, how fast answers came lately, and who used what."""

import time
from collections.abc import Callable
from typing import NamedTuple

from PySide6.QtCore import QTimer, Signal

from app.core import words
from app.core.errors import ErrorBody
from app.core.events import Event, RequestChanged, RequestsForgotten, SettingChanged
from app.core.requests import KeyDay, RequestDetail, RequestInfo, RequestState, Usage, UsageRow
from app.core.translation import LazyText, tr, tr_plural
from app.gui.net.remote import RemoteList, RemoteStore
from app.gui.net.remote_lists import Stores
from app.gui.screens.server.key_usage import SHOWN_DAYS
from app.gui.shell.contract import Shell
from app.gui.widgets.bars import BarPart

SHOWN = 10
"""Rows on the page; the command line shows the others."""
KEPT = 1000
STRIP_S = 600.0
"""What "lately" means for the strip."""
_USAGE_REST_MS = 2000
_MS = 1000.0
_S = RequestState
_STATES = {
    _S.QUEUED: ("warn", LazyText("Queued")),
    _S.LOADING: ("accent", LazyText("Loading the model")),
    _S.PREFILL: ("accent", LazyText("Reading the prompt")),
    _S.DECODING: ("accent", LazyText("Writing")),
    _S.DONE: ("ok", LazyText("Done")),
    _S.FAILED: ("bad", LazyText("Failed")),
    _S.CANCELLED: ("ink-3", LazyText("Cancelled")),
}
_SPANS = (
    (LazyText("Queue"), "queue_s", "part-5"),
    (LazyText("Load"), "load_s", "part-3"),
    (LazyText("Prefill"), "prefill_s", "part-2"),
    (LazyText("Decode"), "decode_s", "part-1"),
)


class LatencyPoint(NamedTuple):
    """One answer in the strip: Unix seconds, and the figures it has."""

    at: float
    ttft_s: float | None
    tokens_per_s: float | None


class RequestStore(RemoteList[RequestInfo]):
    """Requests, newest first. `failed` carries an `ErrorBody`; `detail_loaded` a `RequestDetail` that was asked for."""

    failed = Signal(object)
    detail_loaded = Signal(object)
    used = Signal()
    """The usage is known anew."""

    def __init__(self, stores: Stores, shell: Shell, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._preferences = clock, stores.preferences
        super().__init__(stores.api, shell, f"/requests?limit={KEPT}", list[RequestInfo])
        self._usage = _UsageStore(stores.api, shell, "/usage", Usage)
        self._usage.changed.connect(self.used)
        self._rest = QTimer(self, singleShot=True, interval=_USAGE_REST_MS)
        self._key_days = _KeyUsageStore(stores.api, shell, f"/usage/keys?days={SHOWN_DAYS}", list[KeyDay])
        self._key_days.changed.connect(self.used)
        self._rest.timeout.connect(self.read_usage)
        self._preferences.changed.connect(self.changed)

    @property
    def usage(self) -> Usage | None:
        """Who used what; None before it is known."""
        return self._usage.value

    @property
    def key_days(self) -> list[KeyDay]:
        """What each key was used for, day by day; nothing before it is known."""
        return self._key_days.value or []

    @property
    def keeps_words(self) -> bool:
        """Whether what requests say is kept, to be looked at here."""
        return self._preferences.get("inspector.bodies", default=False) is True

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether requests are kept otherwise than before."""
        return _changes_inspector(event)

    def apply(self, event: Event) -> None:
        """Replace the one request the event is about."""
        if isinstance(event, RequestChanged):
            self._merge(event.request)
        elif isinstance(event, RequestsForgotten):
            self.replace([item for item in self.items if not item.is_over])

    def visible_requests(self) -> list[RequestInfo]:
        """Return what the page lists: what goes on first, then the newest."""
        ordered_requests = sorted(self.items, key=lambda item: (item.is_over, -item.at))
        return ordered_requests[:SHOWN]

    def points(self) -> list[LatencyPoint]:
        """Return the answers of the last minutes, oldest first."""
        since = self._clock() - STRIP_S
        done_requests = [item for item in self.items if item.state is _S.DONE and item.at + item.total_s >= since]
        points = [LatencyPoint(item.at + item.total_s, item.ttft_s, item.tokens_per_s) for item in done_requests]
        return sorted(point for point in points if point[1:] != (None, None))

    def now(self) -> float:
        """Return where the strip ends."""
        return self._clock()

    def cancel(self, request_id: str) -> None:
        """Stop a request; its client is told so."""
        self.api.post(
            f"/requests/{request_id}/cancel", None, kind=RequestInfo, then=self._merge, on_error=self.failed.emit
        )

    def forget(self) -> None:
        """Clear the list of what is over."""
        self.api.delete("/requests", self.read, self.failed.emit)

    def ask_words(self, request_id: str) -> None:
        """Ask for what a request said."""
        self.api.get(f"/requests/{request_id}", RequestDetail, self.detail_loaded.emit, self.failed.emit)

    def read_usage(self) -> None:
        """Fetch who used what anew."""
        self._usage.read()
        self._key_days.read()

    def _merge(self, request: RequestInfo) -> None:
        others = [item for item in self.items if item.id != request.id]
        self.replace(sorted([request, *others], key=lambda item: -item.at)[:KEPT])
        if request.is_over and not self._rest.isActive():
            self._rest.start()

    def _store_error(self, error: ErrorBody) -> None:
        self.value = self.items  # a list that cannot be read is shown as an empty one
        super()._store_error(error)


class _UsageStore(RemoteStore[Usage]):
    def is_outdated_by(self, event: Event) -> bool:
        return _changes_inspector(event)


class _KeyUsageStore(RemoteStore[list[KeyDay]]):
    def is_outdated_by(self, event: Event) -> bool:
        return _changes_inspector(event)


def _changes_inspector(event: Event) -> bool:
    return isinstance(event, SettingChanged) and event.name.startswith("inspector.")


def request_state(request: RequestInfo) -> tuple[str, str]:
    """Return the colour and the words of a request's state."""
    color, message = _STATES[request.state]
    return color, message.tr()


def request_title(request: RequestInfo) -> str:
    """Return the strong line: who asks which model."""
    return f"{request.client} → {request.model or tr('no model')}"


def request_facts(request: RequestInfo) -> str:
    """Return the quiet line: when, what, how fast, how much; or why not."""
    details = [time.strftime("%H:%M:%S", time.localtime(request.at)), request.route or request.path]
    if request.error:
        return " · ".join([*details, request.error])
    if request.ttft_s is not None:
        details.append(tr("{duration} to first token", duration=words.format_duration(request.ttft_s)))
    if request.tokens_per_s is not None:
        details.append(words.format_rate(request.tokens_per_s))
    if request.completion_tokens is not None:
        details.append(tr_plural("{count:,} token", "{count:,} tokens", request.completion_tokens))
    return " · ".join([*details, words.format_duration(request.total_s)])


def request_details(request: RequestInfo) -> str:
    """Return what else is known: id, dialect, where from, version, status, tokens."""
    details = [request.id, f"{request.dialect} {request.path}", tr("from {peer}", peer=request.peer)]
    if request.client_version:
        details.append(tr("{client} version {version}", client=request.client, version=request.client_version))
    if request.status is not None:
        details.append(tr("status {status}", status=request.status))
    if request.prompt_tokens is not None:
        details.append(tr_plural("{count:,} prompt token", "{count:,} prompt tokens", request.prompt_tokens))
    if request.trace_id:
        details.append(tr("trace {trace}", trace=request.trace_id))
    return " · ".join(details)


def warm_text(request: RequestInfo) -> str:
    """Return how much of the prompt the engine had already, and what that saved; empty if it had nothing."""
    cached_tokens, tokens = request.cached_tokens or 0, request.prompt_tokens or 0
    if not cached_tokens or not tokens:
        return ""
    if request.saved_s is None:
        return tr("{cached:,} of {tokens:,} tokens were warm", cached=cached_tokens, tokens=tokens)
    saved_words = words.format_duration(request.saved_s)
    return tr(
        "{cached:,} of {tokens:,} tokens were warm: saved {saved}",
        cached=cached_tokens,
        tokens=tokens,
        saved=saved_words,
    )


def time_parts(request: RequestInfo) -> list[BarPart]:
    """Return the stacked bar: where the time went, in milliseconds."""
    spans = ((name, getattr(request, field), color) for name, field, color in _SPANS)
    return [BarPart(name.tr(), span * _MS, color) for name, span, color in spans if span]


def time_legend(request: RequestInfo) -> list[tuple[str, str]]:
    """Return (colour, words) for the bar's parts."""
    return [(part.color, f"{part.name} {words.format_duration(part.amount / _MS)}") for part in time_parts(request)]


def usage_facts(row: UsageRow) -> str:
    """Return a line of the usage in words."""
    details = [tr_plural("{count:,} request", "{count:,} requests", row.requests)]
    if row.failed:
        details.append(tr("{count:,} failed", count=row.failed))
    details.append(tr_plural("{count:,} token read", "{count:,} tokens read", row.prompt_tokens))
    if row.cached_tokens:
        details[-1] = tr("{tokens} ({cached:,} cached)", tokens=details[-1], cached=row.cached_tokens)
    return " · ".join([*details, tr("{count:,} written", count=row.completion_tokens)])
