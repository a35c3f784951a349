"""The neighbours of a gateway under test, played by the test.

`upstream` is the engine: an aiohttp server whose next answers a test scripts, and which notes what reaches it and when
a connection is dropped. The supervisor is a stand-in that hands out leases on it; the real one has tests of its own.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import aiohttp
import msgspec
from aiohttp import web

from app.config.paths import Paths, this_home
from app.config.store import SettingsStore
from app.core.engines import EngineInfo, EngineState, EngineStatus, MemoryState, Pause
from app.core.errors import EngineFailed, NotFound, quote_value
from app.core.machine import Machine
from app.core.models import ModelInfo
from app.engine_store.recipe import InstallRecipe, read_recipes
from app.gateway.advising.machine import MachineReader
from app.gateway.advising.model_facts import FactsReader
from app.gateway.advising.speed_measurements import SpeedMeasurements
from app.gateway.entry.keys import KeyStore
from app.gateway.events import EventHub
from app.gateway.exchange.connections import EngineConnections
from app.gateway.exchange.resolving import make_session
from app.gateway.exchange.upstream import EngineAccess
from app.gateway.instance import bind
from app.gateway.loading.launch import policy_from
from app.gateway.main import open_runner
from app.gateway.services import Identity, Limits, Services
from app.gateway.watching.metrics import GatewayMetrics
from app.store.database import ChatStore
from app.store.opening import open_database
from app.supervisor.lease import Lease, ReadyEndpoint
from app.supervisor.policy import LeaseOptions, LoadRequest
from app.supervisor.run import StateKeeping
from app.supervisor.states import SlotStateLaunch, StateFacts
from engines.api import EngineAdapter, EngineInstallation, Failure
from engines.registry import ADAPTERS
from tests.ports import free_port

Play = Callable[[web.Request], Awaitable[web.StreamResponse]]
KEY = "engine-key"
_NO_TERMS = LeaseOptions()


@dataclass
class Upstream:
    """The engine as the test plays it."""

    url: str = ""
    key: str = KEY
    play: Play | None = None
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    arrival: asyncio.Event = field(default_factory=asyncio.Event)
    disconnect: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a request was cancelled because its connection went away."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        self.bodies.append(await request.read())
        self.arrival.set()
        assert self.play is not None
        try:
            return await self.play(request)
        except asyncio.CancelledError:
            self.disconnect.set()
            raise


class StandInPausing:
    """Nothing is paused."""

    def pause_state(self) -> Pause:
        return Pause()


class StandInSupervisor:
    """Hands out leases as told: at once, after `may_load` is set, or never."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.policy: object = None
        self.pausing, self.is_paused = StandInPausing(), False
        self.may_load = asyncio.Event()
        self.may_load.set()
        self.waiter_count = 0
        self.in_flight = 0
        self.load_requests: list[LoadRequest] = []
        self.terms: list[LeaseOptions] = []
        self.unloads: list[tuple[str, bool]] = []
        self.expired_models: list[str] = []
        self.let_gone: list[str] = []
        self.served_name = "guide"
        self.is_loaded = True
        self.refuse_with: EngineFailed | None = None
        self.death: EngineFailed | None = None
        self.base_urls: list[str] = []
        """If not empty, what the next leases point to."""
        self.is_pinned = False
        self.is_well: bool | None = True
        """What an engine answers that is asked whether it is ready, once `may_tell` is set."""
        self.may_tell = asyncio.Event()
        self.may_tell.set()
        self.probes = self.probe_answers = 0
        """How often that was asked, and answered."""
        self.stuck_urls: list[str] = []
        self.memory = MemoryState(pools=[])
        self.states = StateKeeping()
        self.state_launch: SlotStateLaunch | None = None
        """What the leases say of states of slots."""

    def fail_model(self, model: str, failure: Failure) -> None:
        """Kill nothing: no test of these spreads a model."""

    def state_facts(self, _model: str) -> StateFacts:
        return StateFacts(is_kept=self.state_launch is not None)

    async def read_memory(self) -> MemoryState:
        """Tell of memory what the test says."""
        return self.memory

    @asynccontextmanager
    async def lease(self, request: LoadRequest, terms: LeaseOptions = _NO_TERMS) -> AsyncIterator[Lease]:
        lease = await self.acquire_lease(request, terms)
        try:
            yield lease
        finally:
            self.release_lease(lease)

    def lease_at_once(self, _request: LoadRequest, _terms: LeaseOptions) -> Lease | None:
        return None

    def free_endpoint(self, _model: str) -> ReadyEndpoint | None:
        is_free = self.may_load.is_set() and not self.base_urls
        return self.list_ready()[0] if is_free else None

    async def acquire_lease(self, request: LoadRequest, terms: LeaseOptions) -> Lease:
        self.load_requests.append(request)
        self.terms.append(terms)
        self.waiter_count += 1
        try:
            await self.may_load.wait()
        finally:
            self.waiter_count -= 1
        if self.refuse_with is not None:
            raise self.refuse_with
        end: asyncio.Future[EngineFailed] = asyncio.get_running_loop().create_future()
        if self.death is not None:
            end.set_result(self.death)
        else:
            end.cancel()
        url = self.base_urls.pop(0) if self.base_urls else self.upstream.url
        self.in_flight += 1
        return Lease(
            base_url=url,
            key=self.upstream.key,
            served_name=self.served_name,
            engine="llama.cpp",
            context=self.status().context,
            see=self.status,
            load_s=0.0,
            end=end,
            model="guide",
            states=self.state_launch,
        )

    def release_lease(self, _lease: Lease) -> None:
        self.in_flight -= 1

    async def is_answering(self, _lease: Lease) -> bool | None:
        self.probes += 1
        try:
            await self.may_tell.wait()
        finally:
            self.probe_answers += 1
        return self.is_well

    async def wait_for_holders(self, _model: str) -> None:
        return

    def pick_port(self) -> int:
        return free_port()

    def report_stuck(self, lease: Lease) -> None:
        self.stuck_urls.append(lease.base_url)

    def serves_at_once(self, _model: str) -> bool:
        return self.may_load.is_set() and self.refuse_with is None

    async def model_capacity(self, _model: str) -> dict[str, int]:
        return {}

    def status(self) -> EngineStatus:
        return EngineStatus(
            model="guide",
            engine="llama.cpp",
            state=EngineState.READY,
            context=4096,
            in_flight=self.in_flight,
            is_pinned=self.is_pinned,
        )

    def list_ready(self) -> list[ReadyEndpoint]:
        if not self.is_loaded:
            return []
        return [ReadyEndpoint(model="guide", engine="llama.cpp", base_url=self.upstream.url, key=self.upstream.key)]

    def list_statuses(self) -> list[EngineStatus]:
        return [self.status()] if self.is_loaded else []

    def request_of(self, model: str) -> LoadRequest | None:
        return next((request for request in reversed(self.load_requests) if request.source.name == model), None)

    async def unload_model(self, model: str, *, force: bool = False) -> EngineStatus:
        self.unloads.append((model, force))
        return self.status()

    async def expire_model(self, model: str) -> EngineStatus:
        self.expired_models.append(model)
        return self.status()

    async def let_go(self, model: str) -> EngineStatus:
        self.let_gone.append(model)
        state = EngineState.READY if self.is_pinned else EngineState.STOPPED
        return msgspec.structs.replace(self.status(), state=state)

    async def close(self) -> None:
        return None


class StandInLibrary:
    """Two models: one chats, one makes embeddings."""

    def __init__(self) -> None:
        common: dict[str, Any] = {"format": "gguf", "size_bytes": 1, "path": "model.gguf"}
        self._models = [
            ModelInfo(name="guide", title="Guide", trained_context=2048, modified_at=1.7e9, **common),
            ModelInfo(name="org/embed:q8", title="Embedder", chats=False, embeds=True, **common),
            ModelInfo(name="broken", title="Broken", problem="it is cut off.", **common),
        ]

    def list_models(self) -> list[ModelInfo]:
        return self._models

    def find_model(self, name: str) -> ModelInfo:
        for model in self._models:
            if model.name == name.lower().removesuffix(":latest"):
                return model
        raise NotFound(
            f"There is no model {quote_value(name)}.", hint="There are guide, org/embed:q8.", code="model_not_found"
        )


class SharedMachineReader(MachineReader):
    """Reads this computer once for all tests of a process: each time takes programs half a second of a processor."""

    _computer: ClassVar[Machine | None] = None

    async def measure(self) -> Machine:
        SharedMachineReader._computer = await super().measure()
        return SharedMachineReader._computer

    async def _probe(self) -> Machine:
        if SharedMachineReader._computer is None:
            SharedMachineReader._computer = await super()._probe()
        return SharedMachineReader._computer


class ListedEngines:
    """What a catalogue says of single engines, where a test says what the list is."""

    adapters: ClassVar[Mapping[str, EngineAdapter]] = {}
    own_programs = SimpleNamespace(find_on_path=lambda _engine: None)

    @cached_property
    def recipes(self) -> dict[str, InstallRecipe]:
        return read_recipes()

    def list_engines(self) -> list[EngineInfo]:
        raise NotImplementedError

    def readers_of(self, model_format: str) -> Sequence[EngineInfo]:
        return [engine for engine in self.list_engines() if model_format in engine.formats]

    def backend_of(self, engine_id: str) -> str:
        return next((engine.backend for engine in self.list_engines() if engine.id == engine_id), "")

    def find_installation(self, engine_id: str) -> EngineInstallation:
        raise NotImplementedError

    def expect_installation(self, engine_id: str) -> EngineInstallation:
        try:
            return self.find_installation(engine_id)
        except EngineFailed:
            return EngineInstallation(engine=engine_id, version="", backend="", python=Path("python"))


class StandInCatalogue(ListedEngines):
    """llama.cpp is installed."""

    def list_engines(self) -> list[EngineInfo]:
        return [
            EngineInfo(id="llama.cpp", name="llama.cpp", licence="MIT", homepage="", formats=["gguf"], installed=True)
        ]

    def find_installation(self, engine_id: str) -> EngineInstallation:
        raise EngineFailed(f"{engine_id} cannot be asked here.", code="not_installed")


@dataclass
class Gateway:
    """The gateway under test and its neighbours."""

    url: str
    port: int
    http: aiohttp.ClientSession
    services: Services
    supervisor: StandInSupervisor
    upstream: Upstream

    @property
    def engines(self) -> EngineAccess:
        """What answers in chats are written with."""
        services = self.services
        return EngineAccess(
            services.supervisor, services.adapters, services.connections, unreadable=services.unreadable
        )

    async def chat(self, **fields: object) -> tuple[int, Any]:
        """Ask for a chat completion; return status and decoded body."""
        async with self.http.post(f"{self.url}/v1/chat/completions", json={"model": "guide", **fields}) as reply:
            return reply.status, await reply.json(content_type=None)


@asynccontextmanager
async def serve_gateway(services: Services, upstream: Upstream, port: int) -> AsyncIterator[Gateway]:
    """Have a gateway answer on a real socket while the block runs."""
    endpoint = bind("127.0.0.1", port)
    runner = await open_runner(services, endpoint)
    async with aiohttp.ClientSession() as http:
        yield Gateway(
            url=endpoint.url,
            port=endpoint.sockets[0].getsockname()[1],
            http=http,
            services=services,
            supervisor=cast("Any", services.supervisor),
            upstream=upstream,
        )
    await runner.cleanup()
    services.connections.close()
    await asyncio.sleep(0)


@cache
def _empty_database() -> bytes:
    """Return a database as it is made, which takes four times as long as to open one, and most tests need one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "empty.db")
        open_database(path).connection.close()
        return path.read_bytes()


async def played_services(paths: Paths, environ: dict[str, str], limits: Limits, upstream: Upstream) -> Services:
    """Return the services of a gateway whose engines and models are played."""
    settings = SettingsStore(paths.settings_file, environ)
    supervisor = StandInSupervisor(upstream)
    supervisor.policy = policy_from(settings)
    library, machine = cast("Any", StandInLibrary()), SharedMachineReader()
    if not paths.database.exists():
        paths.database.write_bytes(_empty_database())
    chats, facts = await ChatStore.open(paths.database), FactsReader(library)
    return Services(
        settings=settings,
        paths=paths,
        adapters=ADAPTERS,
        supervisor=cast("Any", supervisor),
        library=library,
        catalogue=cast("Any", StandInCatalogue()),
        chats=chats,
        keys=KeyStore(paths.keys_file),
        events=EventHub(),
        metrics=GatewayMetrics(),
        machine=machine,
        facts=facts,
        speed_measurements=SpeedMeasurements(chats, facts, machine),
        http=make_session(limits.connect_s),
        connections=EngineConnections(limits.connect_s),
        identity=Identity(url="", token="token", started_at=0.0),
        stop=lambda: None,
        limits=limits,
        home=this_home({"HOME": str(paths.data), "USERPROFILE": str(paths.data)}),
    )
