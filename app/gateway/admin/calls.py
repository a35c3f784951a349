"""One row of the API and how it is carried out: check who asks, decode what came, call, encode what is returned.

A handler gets a `AdminCall` with everything already typed and returns a value; it never sees HTTP. What one yields goes
out as server-sent events as it comes.
"""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin

import msgspec
from aiohttp import web

from app.core.engine_store import EngineJob
from app.core.errors import BadRequest, Unauthorized
from app.gateway.advising.calibration import Calibrator
from app.gateway.advising.draft_trials import DraftTrials
from app.gateway.agents.sessions import AgentSessions
from app.gateway.attachments.reading_child import FileReader
from app.gateway.background import BACKGROUND, Background
from app.gateway.benchmarking.job import Benchmarks
from app.gateway.benchmarking.race import Races
from app.gateway.benchmarking.self_tuning import SelfTuning
from app.gateway.benchmarking.trial import Trials
from app.gateway.chats.answers import ChatAnswers
from app.gateway.documents.collections import COLLECTIONS, Collections
from app.gateway.documents.searching import PASSAGES, PassageSearch
from app.gateway.entry.access import KEY_NAME, MAY_MANAGE
from app.gateway.entry.bodies import read_body, read_json
from app.gateway.entry.event_stream import send_events
from app.gateway.fleets.keeper import FLEETS, FleetKeeper
from app.gateway.guide.answering import Guide
from app.gateway.hub.downloads import DOWNLOADS, DownloadQueue
from app.gateway.kept_prompts.service import KEPT_PROMPTS, WarmPromptService
from app.gateway.library.file_jobs import LIBRARY, FileJobs
from app.gateway.library.quantizing import Quantizer
from app.gateway.machines.service import Machines
from app.gateway.mcp.servers import MCP_SERVERS, McpServers
from app.gateway.own_updates import UPDATES, Updates
from app.gateway.profiles.switching import ProfileSwitcher
from app.gateway.services import SERVICES, Services
from app.gateway.watching.connection_log import CONNECTIONS, ConnectionLog
from app.gateway.watching.inspector import INSPECTOR, USAGE, RequestInspector, UsageRecorder
from app.gateway.watching.trace_exporter import TRACES, TraceExporter

if TYPE_CHECKING:
    from app.gateway.engines.store import EngineStore

B_co = TypeVar("B_co", covariant=True)
Q_co = TypeVar("Q_co", covariant=True)
T = TypeVar("T")

BINARY = "application/octet-stream"
"""Of bodies and replies that are a file."""


class LazyEngineStore:
    """Holds the engine store, made when somebody first asks for it: start-up must not wait for what is seldom needed.

    Belongs to the event loop.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._store: EngineStore | None = None

    @property
    def store(self) -> "EngineStore":
        """The engine store."""
        if self._store is None:
            from app.gateway.engines.store import EngineStore  # noqa: PLC0415 -- the gateway starts without it

            self._store = EngineStore(self._services)
        return self._store

    @property
    def last_job(self) -> EngineJob | None:
        """What it does, or did last."""
        return self._store.jobs.last if self._store is not None else None

    async def close(self) -> None:
        """Call off what goes on."""
        if self._store is not None:
            await self._store.close()


ANSWERS = web.AppKey("answers", ChatAnswers)
BENCHMARKS = web.AppKey("benchmarks", Benchmarks)
CALIBRATOR = web.AppKey("calibrator", Calibrator)
DRAFT_TRIALS = web.AppKey("draft_trials", DraftTrials)
ENGINES = web.AppKey("engines", LazyEngineStore)
FILES = web.AppKey("files", FileReader)
GUIDE_ANSWERS = web.AppKey("guide_answers", Guide)
MACHINES = web.AppKey("machines", Machines)
PROFILES = web.AppKey("profiles", ProfileSwitcher)
RACES = web.AppKey("races", Races)
TRIALS = web.AppKey("trials", Trials)
TUNINGS = web.AppKey("tunings", SelfTuning)
QUANTIZER = web.AppKey("quantizer", Quantizer)
AGENTS = web.AppKey("agents", AgentSessions)


def encode_event(event: msgspec.Struct) -> bytes:
    """Return one event as it goes over the wire."""
    return f"event: {event.__struct_config__.tag}\ndata: ".encode() + msgspec.json.encode(event) + b"\n\n"


class NoQuery(msgspec.Struct, frozen=True):
    """The query of a route that takes none; whatever is there is ignored."""


@dataclass(frozen=True, slots=True)
class AdminCall(Generic[B_co, Q_co]):
    """A request, decoded: `body` is None where the route takes none, `names` are the variable parts of its path."""

    services: Services
    answers: ChatAnswers
    background: Background
    benchmarks: Benchmarks
    races: Races
    trials: Trials
    tunings: SelfTuning
    quantizer: Quantizer
    calibrator: Calibrator
    drafts: DraftTrials
    engines: LazyEngineStore
    inspector: RequestInspector
    kept_prompts: WarmPromptService
    traces: TraceExporter
    usage: UsageRecorder
    downloads: DownloadQueue
    library: FileJobs
    connections: ConnectionLog
    updates: Updates
    files: FileReader
    mcp: McpServers
    agents: AgentSessions
    collections: Collections
    passages: PassageSearch
    guide: Guide
    profiles: ProfileSwitcher
    fleets: FleetKeeper
    machines: Machines
    key_name: str
    """Of the access key that let it in; empty for the window and the command line of this account."""
    body: B_co
    query: Q_co
    names: dict[str, str]


Handler = Callable[[AdminCall[Any, Any]], Awaitable[Any]]
H = TypeVar("H", bound=Handler)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminEndpoint:
    """One row of the table. `reply` is the type of the JSON answer (None: no body); with `streams`, of each event."""

    method: str
    path: str
    """Below the prefix; variable parts in braces."""
    handler: Handler
    summary: str
    reply: Any
    body: Any
    query: type[msgspec.Struct]
    status: int
    streams: bool


class RouteTable:
    """A part of the table, in the order in which its handlers stand in their module.

    All that a row says beside its address is read from the handler: the first line of its docstring is the summary, its
    annotations are the types of body, query and reply. One that returns a generator of events streams them; bytes are
    a file as it is.
    """

    def __init__(self) -> None:
        self.endpoints: list[AdminEndpoint] = []

    def add(self, method: str, path: str, *, status: int | None = None) -> Callable[[H], H]:
        """Return a decorator that serves a handler at an address. `status` is 200, or 204 for one without a reply."""

        def register(handler: H) -> H:
            self.endpoints.append(_make_endpoint(method, path, handler, status))
            return handler

        return register


def _make_endpoint(method: str, path: str, handler: Handler, status: int | None) -> AdminEndpoint:
    annotations = inspect.get_annotations(handler)
    body, query = get_args(annotations["call"])
    reply = annotations["return"]
    origin: Any = get_origin(reply)
    streams = origin is AsyncGenerator
    return AdminEndpoint(
        method=method,
        path=path,
        handler=handler,
        summary=(handler.__doc__ or "").partition("\n")[0].rstrip("."),
        reply=get_args(reply)[0] if streams else reply,
        body=None if body is NoneType else body,
        query=query,
        status=status or (HTTPStatus.NO_CONTENT if reply is None else HTTPStatus.OK),
        streams=streams,
    )


def make_handler(endpoint: AdminEndpoint) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return the aiohttp handler that carries out `endpoint`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        check_manager(request)
        result = await endpoint.handler(await _make_call(endpoint, request))
        if endpoint.streams:
            events: AsyncGenerator[msgspec.Struct, None] = result
            return await send_events(request, events, encode_event)
        if endpoint.reply is None:
            return web.Response(status=endpoint.status)
        if endpoint.reply is bytes:
            return web.Response(body=result, status=endpoint.status, content_type=BINARY)
        return web.Response(body=msgspec.json.encode(result), status=endpoint.status, content_type="application/json")

    return answer


def check_manager(request: web.Request) -> None:
    """Return if `access` let the request manage. It has refused all others, unless a route is outside its prefix."""
    if not request.get(MAY_MANAGE):
        raise Unauthorized("This address needs a key with the scope manage.")


async def _make_call(endpoint: AdminEndpoint, request: web.Request) -> AdminCall[Any, Any]:
    return AdminCall(
        services=request.app[SERVICES],
        answers=request.app[ANSWERS],
        background=request.app[BACKGROUND],
        benchmarks=request.app[BENCHMARKS],
        races=request.app[RACES],
        trials=request.app[TRIALS],
        tunings=request.app[TUNINGS],
        quantizer=request.app[QUANTIZER],
        calibrator=request.app[CALIBRATOR],
        drafts=request.app[DRAFT_TRIALS],
        engines=request.app[ENGINES],
        inspector=request.app[INSPECTOR],
        kept_prompts=request.app[KEPT_PROMPTS],
        traces=request.app[TRACES],
        usage=request.app[USAGE],
        downloads=request.app[DOWNLOADS],
        library=request.app[LIBRARY],
        connections=request.app[CONNECTIONS],
        updates=request.app[UPDATES],
        files=request.app[FILES],
        mcp=request.app[MCP_SERVERS],
        agents=request.app[AGENTS],
        collections=request.app[COLLECTIONS],
        passages=request.app[PASSAGES],
        guide=request.app[GUIDE_ANSWERS],
        profiles=request.app[PROFILES],
        fleets=request.app[FLEETS],
        machines=request.app[MACHINES],
        key_name=request.get(KEY_NAME, ""),
        body=await _read_call_body(request, endpoint.body),
        query=_parse_query(endpoint.query, request),
        names=dict(request.match_info),
    )


async def _read_call_body(request: web.Request, kind: Any) -> Any:  # noqa: ANN401 -- a type of the table, and its value
    if kind is None:
        return None
    return await read_body(request) if kind is bytes else await read_json(request, kind)


def _parse_query(kind: type[T], request: web.Request) -> T:
    try:
        return msgspec.convert(dict(request.query), kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(f"The address is not as expected: {error}.", code="invalid_value") from None
