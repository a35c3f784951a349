"""What every handler of the gateway can reach, in one value kept on the aiohttp application under `SERVICES`.

`main.py` builds it once per process; tests build it with an engine of their own. Nothing here is a global.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from app.config.model_settings import ModelSettingsFile
from app.config.paths import Home, this_home
from app.config.profiles import ProfileStore
from app.gateway.across.spreads import Spreads
from app.gateway.background import SharedWork
from app.gateway.engines.support import SupportReader
from app.gateway.loading.draft_verdicts import DraftTrialFile
from app.gateway.loading.requested_model import ResolvedModelCache
from app.gateway.loading.template_trials import TemplateTrials
from app.gateway.machines.routing import MachineRoutes
from app.gateway.machines.trust import TrustedMachines
from app.gateway.runtime import Afterwards
from app.hub.repositories.answers import HubMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import aiohttp

    from app.config.paths import Paths
    from app.config.store import SettingsStore
    from app.confinement.confiner import Confiner
    from app.engine_store.catalogue import EngineCatalogue
    from app.gateway.advising.machine import MachineReader, MemoryGauge
    from app.gateway.advising.model_facts import FactsReader
    from app.gateway.advising.speed_measurements import SpeedMeasurements
    from app.gateway.entry.keys import KeyStore
    from app.gateway.events import EventHub
    from app.gateway.exchange.connections import EngineConnections
    from app.gateway.watching.metrics import GatewayMetrics
    from app.hub.library.library import Library
    from app.store.database import ChatStore
    from app.supervisor.pool import Supervisor
    from engines.api import EngineAdapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a peer may take, in seconds. They bound clients that send a byte now and then and hold a place."""

    head_s: float = 75.0
    """A connection without a complete request head is closed after this; idle kept-alive ones too (nginx's default)."""
    body_s: float = 30.0
    """All of a request's body must have arrived: on loopback even the largest takes under a second."""
    connect_s: float = 5.0
    """An engine that was ready must accept a connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The gateway about itself: what `Status` and the port file say. `notice` as in `core.api.Status`."""

    url: str
    token: str
    started_at: float
    notice: str = ""
    host: str = "127.0.0.1"
    """The address listened on, as the settings had it at the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of a running gateway. `stop` asks it to end in good order and returns at once."""

    settings: SettingsStore
    paths: Paths
    adapters: Mapping[str, EngineAdapter]
    supervisor: Supervisor
    library: Library
    catalogue: EngineCatalogue
    chats: ChatStore
    keys: KeyStore
    events: EventHub
    metrics: GatewayMetrics
    machine: MachineReader
    facts: FactsReader
    speed_measurements: SpeedMeasurements
    http: aiohttp.ClientSession
    """For what is fetched or looked at beside clients' requests: no total time limit."""
    connections: EngineConnections
    """To engines, for clients' requests."""
    identity: Identity
    stop: Callable[[], None]
    limits: Limits = field(default_factory=Limits)
    recent: ResolvedModelCache = field(default_factory=ResolvedModelCache)
    confiner: Confiner | None = None
    """What holds engines to what they need; without it they may do what we may."""
    gauge: MemoryGauge | None = None
    """What the supervisor reads memory with."""
    model_settings: ModelSettingsFile = field(default_factory=ModelSettingsFile)
    """What was set for single models."""
    profiles: ProfileStore = field(default_factory=ProfileStore)
    """Sets of models, and which of them is active."""
    home: Home = field(default_factory=this_home)
    """Where other programs of this person keep their settings."""
    afterwards: Afterwards = field(default_factory=Afterwards)
    """What is done once all this has ended."""
    shared_work: SharedWork = field(default_factory=SharedWork)
    """Questions to attached endpoints, asked once for all requests that wait for the answer."""
    unreadable: set[str] = field(default_factory=set)
    """Models of which an engine could not read an answer: from then on their answers are translated, and repaired."""
    machine_routes: MachineRoutes = field(default_factory=MachineRoutes)
    """Which paired machine answers for a model."""
    hub: HubMemory = field(init=False)
    """What is remembered of the hub."""
    drafts: DraftTrialFile = field(init=False)
    """What came of trying drafts."""
    support: SupportReader = field(init=False)
    """Which models the engines that are here load."""
    templates: TemplateTrials = field(init=False)
    """What came of trying chat templates."""
    trusted_machines: TrustedMachines = field(init=False)
    """The paired machines, by whose certificates alone others are let in and called."""
    spreads: Spreads = field(init=False)
    """The models that lie over several machines."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hub", HubMemory(self.paths.hub_answers, self.paths.hub_token_file))  # frozen
        object.__setattr__(self, "drafts", DraftTrialFile(self.paths.state / "draft-trials.json"))
        object.__setattr__(self, "templates", TemplateTrials(self.paths.state / "template-verdicts.json"))
        object.__setattr__(
            self, "trusted_machines", TrustedMachines(self.paths, partial(self.settings.get_flag, "machines.enabled"))
        )
        object.__setattr__(self, "spreads", Spreads(self.trusted_machines, self.supervisor.fail_model))
        object.__setattr__(self, "support", SupportReader(self.catalogue))
        self.model_settings.profile = self.profiles.effective_profile
        self.library.expand_short_name = lambda name: self.hub.catalogue.list_pull_names(
            name, key=self.settings.get_text("catalogue.key")
        )


SERVICES = web.AppKey("services", Services)
