"""Engine processes as the rest of the product sees them, the memory they share, and the commands that start them."""

from enum import StrEnum

import msgspec

from app.core.models import LoadOptions


class EngineState(StrEnum):
    """Where one engine process is in its life.

    Allowed transitions (anything else is a bug; `TRANSITIONS` is this table as data):

        stopped     -> starting
        starting    -> loading  failed  stopping
        loading     -> ready    failed  stopping
        ready       -> draining stopping failed
        draining    -> stopping ready    failed
        stopping    -> stopped
        failed      -> starting backing_off stopped
        backing_off -> starting stopped

    `ready`, `stopped` and `failed` are settled: every waiter has been answered by the time one is entered.
    """

    STOPPED = "stopped"
    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    STOPPING = "stopping"
    FAILED = "failed"
    BACKING_OFF = "backing_off"


_S = EngineState

TRANSITIONS: dict[EngineState, frozenset[EngineState]] = {
    _S.STOPPED: frozenset({_S.STARTING}),
    _S.STARTING: frozenset({_S.LOADING, _S.FAILED, _S.STOPPING}),
    _S.LOADING: frozenset({_S.READY, _S.FAILED, _S.STOPPING}),
    _S.READY: frozenset({_S.DRAINING, _S.STOPPING, _S.FAILED}),
    _S.DRAINING: frozenset({_S.STOPPING, _S.READY, _S.FAILED}),
    _S.STOPPING: frozenset({_S.STOPPED}),
    _S.FAILED: frozenset({_S.STARTING, _S.BACKING_OFF, _S.STOPPED}),
    _S.BACKING_OFF: frozenset({_S.STARTING, _S.STOPPED}),
}

SETTLED = frozenset({_S.STOPPED, _S.READY, _S.FAILED})


class RemedyOffer(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that may help: what a button says, and how the command line does it (empty where it cannot)."""

    kind: str
    """Stable: "less_context", "fewer_layers", "download_again", ..."""
    label: str
    command: str = ""
    options: dict[str, int | float | str] = {}
    """What to load with instead, where loading otherwise is the remedy: fields of `LoadOptions`."""


class AppliedRemedy(msgspec.Struct, frozen=True, kw_only=True):
    """What was changed about a load without asking, as a person had wished, and why: told afterwards."""

    kind: str
    """As a `RemedyOffer`'s; the setting `engine.mend_<kind>` had it done."""
    sentence: str


class FailureReport(msgspec.Struct, frozen=True, kw_only=True):
    """Why an engine is not running: a stable code, a plain sentence, a next step, and the last lines it wrote."""

    code: str
    sentence: str
    hint: str = ""
    evidence: str = ""
    """The log line that gave the cause away."""
    remedies: list[RemedyOffer] = []
    """What may help, most promising first."""
    log_tail: list[str] = []
    exit_code: int | None = None


class EngineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One engine process, running or not. `progress` is 0..1 while loading, None when unknown."""

    model: str
    engine: str
    """Engine id, e.g. "llama.cpp"."""
    version: str = ""
    backend: str = ""
    """"cpu", "cuda", "metal", ...: the device that is really used."""
    state: EngineState
    progress: float | None = None
    stage: str = ""
    """What loading is doing now, in words: "Reading weights"."""
    failure: FailureReport | None = None
    pid: int | None = None
    context: int | None = None
    slots: int | None = None
    kv_type: str = ""
    """Of the KV cache, where one was asked for."""
    draft: str = ""
    """What drafts for it: "ngram", "mtp" (its own head), or a file's name; empty for nothing."""
    in_flight: int = 0
    queued: int = 0
    """Requests that wait for it to be ready, or for a slot."""
    is_pinned: bool = False
    """It stays: neither time nor another model unloads it."""
    memory_bytes: int | None = None
    """The sum of its buffers; of an engine that names none, what its processes had in memory when it became ready."""
    buffers: dict[str, int] = {}
    """What the engine says it allocated, in bytes by purpose: "model", "kv", "recurrent", "compute", "output"."""
    restarts: int = 0
    retry_at: float | None = None
    """Unix seconds of the next attempt while backing off."""
    loaded_at: float | None = None
    load_seconds: float | None = None
    last_used_at: float | None = None
    unload_at: float | None = None
    """Unix seconds when it will be unloaded if nobody uses it from now on; None if it is kept, or not ready."""
    placement: str = ""
    """Where its layers lie, in a sentence, if not on this machine alone."""
    notes: list[str] = []
    """What differs from what was asked for: options left out, and changes made so that it fits."""
    mended: list[AppliedRemedy] = []
    """Those changes, each with what had it made."""


class EngineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An engine this build knows. `verified` says what has been run for real, `unverified` what has not."""

    id: str
    name: str
    licence: str
    homepage: str
    formats: list[str]
    installed: bool
    version: str = ""
    backend: str = ""
    verified: str = ""
    unverified: str = ""
    problem: str = ""
    is_broken: bool = False
    """Whether a version was installed and can no longer run."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One fact that moved a choice: a plain sentence, the value, and where it was read."""

    text: str
    value: str = ""
    source: str = ""


class EngineChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The engine to use on this machine, the one sentence that says why, and the facts behind it.

    `wanted` names a better engine for this hardware that this build cannot run yet; empty when `engine` is the best.
    """

    engine: str
    name: str
    backend: str
    sentence: str
    reasons: list[Reason]
    wanted: str = ""
    wanted_why: str = ""


class EnginePlanRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask what `engine` would be started with. With `nodes`, over several computers, the first of which answers."""

    model: str
    nodes: list[str] = []
    tensor_parallel: int | None = None
    """GPUs that share each layer; None: as is planned for this computer."""
    options: LoadOptions = LoadOptions()


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One process. `command` is as a shell takes it; keys and private files are named, not shown."""

    machine: str
    role: str
    command: str
    env: dict[str, str] = {}


class EnginePlan(msgspec.Struct, frozen=True, kw_only=True):
    """All processes in the order they start, where the answer comes from, and what to know."""

    engine: str
    steps: list[PlannedStep]
    base_url: str
    files: list[str] = []
    """Private files written beside them."""
    notes: list[str] = []


class MemoryHolder(msgspec.Struct, frozen=True, kw_only=True):
    """One engine in one pool. `bytes` is None while nobody knows; estimated until the engine says what it took."""

    model: str
    bytes: int | None
    is_pinned: bool = False
    is_busy: bool = False
    is_idle: bool = False
    """Neither of the two: it is on its way in or out."""


class MemoryPool(msgspec.Struct, frozen=True, kw_only=True):
    """One memory, in bytes. Engines may take `limit` of it together, what they have included."""

    id: str
    name: str
    limit: int
    head_room: int
    """Left free besides."""
    holders: list[MemoryHolder] = []

    @property
    def bytes_in_use(self) -> int:
        """What engines hold, as far as it is known."""
        return sum(holder.bytes or 0 for holder in self.holders)


class WaitingLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A model that waits for room. `needs` in bytes by pool, None if nobody knows."""

    model: str
    seconds: float
    needs: dict[str, int] | None
    waits_for: list[str] = []
    """Models that hold what it needs and are in use, or on their way in or out."""


class MemoryState(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, and the ceiling on the number of models; 0 is none."""

    pools: list[MemoryPool]
    waiting: list[WaitingLoad] = []
    max_loaded: int = 0


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a person wants the memory for something else: no model is loaded until they say so."""

    is_paused: bool = False
    since: float | None = None
    """Unix seconds."""
    finishing: list[str] = []
    """Models that still write answers which had begun; they go when those are done."""
    comes_back: list[str] = []
    """Models that are loaded again on resuming, what was used last first."""
