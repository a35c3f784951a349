"""One request while it is answered and after, as the inspector keeps it.

Nothing is done per chunk: the `Watch` notes its two clock readings as it always did, and what is asked here is worked
out when somebody asks. When it is over only a `RequestInfo` stays, and the bodies where they were wanted.
"""

import re
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Protocol

import aiohttp
import msgspec

from app.core.engines import EngineState, EngineStatus
from app.core.requests import Peer, RequestInfo, RequestState
from app.gateway.watching import spans
from app.gateway.watching.watch import Outcome, Watch
from app.supervisor.lease import Lease

BODY_BYTES = 32 * 1024
"""Of a request and of its answer this much is kept: with 200 requests at most 12.5 MiB."""
_LONGEST_CLIENT = 60
_LONGEST_ERROR = 500
_BROWSER = frozenset(
    {"Mozilla", "AppleWebKit", "Chrome", "Safari", "Gecko", "Firefox", "Version", "Mobile", "Electron"}
)
_PRODUCT = re.compile(r"([^\s/()]+)(?:/(\S+))?")
_COMMENT = re.compile(r"\([^)]*\)")
_LOADING = frozenset({EngineState.STARTING, EngineState.LOADING})
_STATES = {
    Outcome.OK: RequestState.DONE,
    Outcome.CLIENT_GONE: RequestState.CANCELLED,
    Outcome.STOPPED: RequestState.CANCELLED,
}


class _Task(Protocol):
    def cancel(self) -> bool: ...


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a request from its head. `keeps_bodies`: somebody wants to read it."""

    id: str
    client: str
    peer: Peer
    dialect: str
    path: str
    keeps_bodies: bool


class Exchange:
    """`Listener` for one request. Belongs to the event loop's thread; `moved` tells of any news."""

    __slots__ = (
        *("origin", "at", "model", "route", "engine", "is_stopped", "asked_body", "answered_body"),
        *("_task", "_moved", "_watch", "_upstream", "_loading_since", "_final"),
    )

    def __init__(self, origin: Origin, task: _Task | None, moved: "Callable[[Exchange], None]") -> None:
        self.origin = origin
        self.at = time.time()
        self.model, self.route, self.engine = "", "", ""
        self.is_stopped = False
        self.asked_body = b""
        self.answered_body = b""
        self._task = task
        self._moved = moved
        self._watch: Watch | None = None
        self._upstream: aiohttp.ClientResponse | None = None
        self._loading_since: float | None = None
        self._final: RequestInfo | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._final is not None

    @property
    def is_waiting(self) -> bool:
        """Whether no engine works for it yet."""
        return self._final is None and self._watch is not None and self._watch.leased_at is None

    def asked(self, body: bytes) -> None:
        """Take the request's body."""
        if self.origin.keeps_bodies:
            self.asked_body = body[:BODY_BYTES]

    def opened(self, watch: Watch, *, route: str, model: str) -> None:
        """Take what is known once the request was understood."""
        self._watch, self.route, self.model = watch, route, model
        if self.origin.keeps_bodies:
            watch.keep(BODY_BYTES)
        self._moved(self)

    def leased(self, lease: Lease) -> None:
        """Note that an engine works for it now."""
        self.engine = lease.engine
        if self._watch is not None:
            self._watch.leased(lease.load_s)
        self._moved(self)

    def reached(self, upstream: aiohttp.ClientResponse) -> None:
        """Note the engine's answer, to be closed when this is stopped."""
        self._upstream = upstream

    def moved(self) -> None:
        """Note that the first bytes of the answer have come."""
        self._moved(self)

    def stop(self) -> None:
        """End it: the engine's connection closes, and whoever reads from it says so to the client in its dialect."""
        if self.is_stopped or self.is_over:
            return
        self.is_stopped = True
        if self._upstream is not None:
            self._upstream.content.set_exception(aiohttp.ClientConnectionError("stopped"))
            self._upstream.close()
        elif self._task is not None:
            self._task.cancel()

    def end(self, status: int | None, error: str) -> None:
        """Keep what it came to, and let go of everything else."""
        watch = self._watch
        outcome = watch.outcome if watch is not None else Outcome.REFUSED
        if watch is not None:
            self.answered_body = watch.kept or self.answered_body
        said = error or (watch.error if watch is not None else "")
        made = self._made(_STATES.get(outcome, RequestState.FAILED), is_over=True)
        self._final = msgspec.structs.replace(made, status=status, outcome=str(outcome), error=said[:_LONGEST_ERROR])
        self._watch = self._upstream = self._task = None
        self._moved(self)

    def info(self, engines: Iterable[EngineStatus] = ()) -> RequestInfo:
        """Return it as it is now; `engines` tell whether it waits for a model that loads."""
        if self._final is not None:
            return self._final
        return self._made(self._state(engines), is_over=False)

    def forget_bodies(self) -> None:
        """Let go of the words."""
        self.origin = msgspec.structs.replace(self.origin, keeps_bodies=False)
        self.asked_body = self.answered_body = b""
        if self._watch is not None:
            self._watch.keep(0)

    def _state(self, engines: Iterable[EngineStatus]) -> RequestState:
        watch = self._watch
        if watch is not None and watch.first is not None:
            return RequestState.DECODING
        if watch is not None and watch.leased_at is not None:
            return RequestState.PREFILL
        loading = next((one for one in engines if one.model == self.model and one.state in _LOADING), None)
        if loading is None:
            return RequestState.QUEUED
        self.engine = loading.engine
        self._loading_since = self._loading_since or time.perf_counter()
        return RequestState.LOADING

    def _made(self, state: RequestState, *, is_over: bool) -> RequestInfo:
        origin, watch = self.origin, self._watch
        info = RequestInfo(
            id=origin.id,
            at=self.at,
            client=origin.client,
            peer=origin.peer,
            dialect=origin.dialect,
            path=origin.path,
            route=self.route,
            model=self.model,
            engine=self.engine,
            state=state,
            total_s=time.time() - self.at,
        )
        if watch is None:
            return info
        now = time.perf_counter()
        figures = spans.of(watch) if is_over else spans.so_far(watch, now, loading_since=self._loading_since)
        return msgspec.structs.replace(info, **msgspec.structs.asdict(figures))


@lru_cache(maxsize=256)
def client_name(user_agent: str) -> str:
    """Return the product a User-Agent names: "claude-cli" for "claude-cli/2.1 (external)", "OpenAI/Python" as it is.

    A browser's names come before that of what is built on it, so there the last one counts that is no browser's.
    """
    text = "".join(letter for letter in _COMMENT.sub(" ", user_agent) if letter.isprintable())
    products = [_product(*found) for found in _PRODUCT.findall(text)]
    if not products:
        return "unknown"
    own = [name for name in products if name not in _BROWSER]
    if products[0] in _BROWSER:
        return (own[-1] if own else "browser")[:_LONGEST_CLIENT]
    return products[0][:_LONGEST_CLIENT]


def _product(name: str, version: str) -> str:
    is_version = not version or version.lstrip("vV")[:1].isdigit()
    return name if is_version else f"{name}/{version}"
