"""What the advisor is asked and answers: plans and estimates. These are the stable names of `--json` and of the API.

Bytes are bytes, contexts tokens per conversation, rates tokens per second. Fields may be added, none renamed.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from app.core.engines import Reason


class Intent(StrEnum):
    """What the model is wanted for."""

    CHAT = "chat"
    CODING = "coding"
    AGENT = "agent"
    RAG = "rag"
    STRUCTURED = "structured"
    BATCH = "batch"
    TEAM = "team"
    API = "api"
    FLEET = "fleet"
    APP = "app"
    """Built into a program of one's own."""
    BROWSER = "browser"
    """In a browser or on a phone."""


class EstimateConfidence(StrEnum):
    """Where a number comes from; the first that is there counts."""

    EXACT = "exact"
    """Computed from the model's header by the engine's own rule."""
    MEASURED = "measured"
    """Seen on this machine with this engine."""
    CALIBRATED = "calibrated"
    """Predicted with what this machine showed on other models."""
    PREDICTED = "predicted"
    """From the physics and the data sheet."""
    TABLE = "table"
    """Looked up."""


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """So many bytes; `arithmetic` shows how they come about ("32 x 8192 x 8 x (128 x 2 + 128 x 2)")."""

    bytes: int
    confidence: EstimateConfidence
    arithmetic: str = ""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per second and the interval that holds at least nine of ten such predictions."""

    tokens_per_second: float
    low: float
    high: float
    confidence: EstimateConfidence
    arithmetic: str = ""


class PoolUse(msgspec.Struct, frozen=True, kw_only=True):
    """What one pool would hold. `free` is what was free when asked; None when unknown."""

    name: str
    bytes: int
    free: int | None
    id: str = ""
    margin: int = 0
    """Kept free besides."""
    reclaimable: int = 0
    """Of the bytes, what the system drops without harm when it needs the memory: pages of a file held in a copy too."""
    parts: dict[str, int] = {}
    """The needed bytes by component ("weights", ...): each pool can be drawn. Empty where only the sum is known."""

    @property
    def needed_bytes(self) -> int:
        """Bytes that must stay in memory."""
        return self.bytes - self.reclaimable


class FitVerdict(StrEnum):
    """Whether a model can be run here."""

    FITS = "fits"
    SLOW = "slow"
    """It fits, but writes more slowly than people talk."""
    TOO_LARGE = "too large"


TALK_TOKENS_PER_SECOND = 5.0
"""Slower answers are no conversation: 300 words take more than a minute. People read about 7 tokens a second."""


def fit_verdict(*, fits: bool, decode: Rate | None) -> FitVerdict:
    """Return the verdict on what fits or not and writes so fast; where the speed is unknown it is taken to suffice."""
    if not fits:
        return FitVerdict.TOO_LARGE
    is_slow = decode is not None and decode.tokens_per_second < TALK_TOKENS_PER_SECOND
    return FitVerdict.SLOW if is_slow else FitVerdict.FITS


class Parallelism(msgspec.Struct, frozen=True, kw_only=True):
    """How the model spreads: `mode` is "single", "pipeline", "tensor", "expert" or "data"."""

    mode: str = "single"
    tensor: int = 1
    pipeline: int = 1
    replicas: int = 1
    slots: int = 1
    """Conversations at once."""


class Offload(msgspec.Struct, frozen=True, kw_only=True):
    """What stays off the GPU: `gpu_layers` of `layers` are on it; experts of `cpu_moe_layers` layers are not."""

    layers: int = 0
    gpu_layers: int = 0
    cpu_moe_layers: int = 0


class Counterfactual(msgspec.Struct, frozen=True, kw_only=True):
    """What one change would bring: "With q8_0 KV the context grows to 96k". `change` names it: {"kv_type": "q8_0"}."""

    text: str
    change: dict[str, str | int]
    context: int | None = None
    tokens_per_second: float | None = None


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """Memory by component and pool, whether it fits, the largest context that does, and the speed."""

    model: str
    engine: str
    backend: str
    context: int
    slots: int
    kv_type: str
    weights: Amount
    kv: Amount
    state: Amount
    """Recurrent state of all sequences."""
    compute: Amount
    output: Amount
    runtime: Amount
    """What the process takes besides: driver context, libraries, interpreter."""
    total: Amount
    pools: list[PoolUse]
    fits: bool
    largest_context: int
    """Per conversation, at these slots and KV type, within what is free and what the model was trained for."""
    decode: Rate | None
    """None where nothing is known of the device; `notes` says so."""
    prefill: Rate | None
    projector: Amount | None = None
    draft: Amount | None = None
    offload: Offload = Offload()
    sentence: str = ""
    """The whole sum in one line: "16.0 weights + 4.2 KV + ... = 21.6 of 29.6 GiB free"."""
    notes: list[str] = []
    depth: int = 0
    """Tokens already in the context for which `decode` holds."""

    @property
    def is_parted(self) -> bool:
        """Whether layers or experts that the GPU might hold lie in system memory."""
        return self.offload.cpu_moe_layers > 0 or 0 < self.offload.gpu_layers < self.offload.layers

    @property
    def needed_bytes(self) -> int:
        """Bytes that must stay in memory."""
        return self.total.bytes - sum(pool.reclaimable for pool in self.pools)

    @property
    def verdict(self) -> FitVerdict:
        """Whether it can be run, and fast enough to talk to."""
        return fit_verdict(fits=self.fits, decode=self.decode)


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way to run it. `refused` says why an engine that one might think of is not used at all."""

    obtainable: bool
    """Whether engine and weights can be had here and fit; `missing` says in sentences what stands against it."""

    engine: str
    name: str
    backend: str
    format: str
    quantization: str
    context: int
    kv_type: str
    parallelism: Parallelism
    reasons: list[Reason]
    sentence: str = ""
    model: str = ""
    offload: Offload | None = None
    estimate: Estimate | None = None
    counterfactuals: list[Counterfactual] = []
    warnings: list[str] = []
    missing: list[str] = []
    steps: list[str] = []
    """How to get what is missing, in order; empty where no step helps."""
    is_preferred: bool = False
    """Whether it would stand before the first plan if nothing were missing."""
    draft: str = ""
    """What drafts with a load of it here, as `EngineStatus.draft` names it; empty for nothing."""
    is_installed: bool = False
    can_install: bool = True
    """Whether this engine exists for this operating system and hardware."""
    refused: str = ""


class ServiceWay(StrEnum):
    """How several people are served at once."""

    ONE_ENGINE = "one engine"
    DATA_PARALLEL = "data parallel"
    """Copies inside one engine, which shares requests out over them."""
    ROUTER = "router"
    """Replicas, each an engine, behind a router."""


class ServicePlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the first plan serves everybody: so many copies of the model with so many slots each, and why."""

    way: ServiceWay
    copies: int
    slots: int
    """Of each copy."""
    machines: int
    """Such as the one that is planned for."""
    sentence: str
    reasons: list[Reason]
    steps: list[str] = []
    """What to do for it, beside starting the engine."""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """Plans, best first, refused ones last."""

    plans: list[Plan]
    intent: Intent
    users: int
    machine: str
    """The machine in a few words."""
    model: str = ""
    service: ServicePlan | None = None
    """For a team, an API and a fleet, where the first plan can be had."""


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for plans. `model` is a name, a repository, or a local file or folder; `machine` a description or report."""

    model: str = ""
    intent: Intent = Intent.CHAT
    users: int = 1
    context: int | None = None
    loras: int = 0
    kv_type: str | None = None
    machine: dict[str, msgspec.Raw] | None = None


class EstimateRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask what a model would take. None means: as the advisor would choose."""

    model: str
    context: int | None = None
    kv_type: str | None = None
    slots: int | None = None
    engine: str | None = None
    gpu_layers: int | None = None
    depth: int = 0
    machine: dict[str, msgspec.Raw] | None = None


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """What this machine showed with one engine build: t = bytes / (efficiency x bandwidth) + layers x layer_seconds."""

    device: str
    """`Gpu.id`, or "cpu"."""
    engine: str
    version: str
    backend: str
    efficiency: float
    """Share of `bandwidth_gb_s` that decoding reaches."""
    layer_seconds: float
    """Fixed cost per layer and token."""
    bandwidth_gb_s: float
    prefill_flops: float | None = None
    """Floating-point operations per second that prefill reaches (2 per active parameter and token)."""
    samples: int = 0
    measured_at: float = 0.0
    source: str = ""
    """"calibration run" or "generations"."""
    expected_gb_s: float | None = None
    """What the device table has this device read; None where it does not have it."""
    disturbances: list[str] = []
    """Why the run is not the device's own speed. Predictions rest on no such calibration."""


def best_calibration(
    calibrations: Sequence[Calibration], *, engine: str, backend: str, version: str = "", device: str = ""
) -> Calibration | None:
    """Return the calibration to predict with: of the same engine and backend, the build at hand before others.

    One that was disturbed says less than the device table does.
    """
    same = [
        calibration
        for calibration in calibrations
        if (calibration.engine, calibration.backend) == (engine, backend)
        and device in {"", calibration.device}
        and not calibration.disturbances
    ]
    return max(same, key=lambda calibration: (calibration.version == version, calibration.measured_at), default=None)


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """One real answer's timing, as the engine told it: what calibrations are refined with."""

    model: str
    engine: str
    version: str
    backend: str
    device: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    prefill_s: float
    decode_s: float
    concurrent: int = 1
    at: float = 0.0


class TryDrafts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for drafts to be tried with a model."""

    model: str


class DraftTrial(msgspec.Struct, frozen=True, kw_only=True):
    """What drafts made of a model on this machine: tokens per second without and with them, on the same questions."""

    model: str
    engine: str
    version: str
    backend: str
    kind: str
    """One of `core.models.OWN_DRAFTS`."""
    plain_tokens_s: float
    drafted_tokens_s: float
    has_experts_in_memory: bool = False
    """Whether experts lay in system memory beside a GPU, where drafts seldom help."""
    at: float = 0.0

    @property
    def is_faster(self) -> bool:
        """Whether drafts are used: they gain a tenth at least."""
        return self.drafted_tokens_s >= 1.1 * self.plain_tokens_s


class EstimateAccuracy(msgspec.Struct, frozen=True, kw_only=True):
    """After a load: predicted against what the engine logged and what the system says, in bytes by component."""

    model: str
    engine: str
    version: str
    predicted: dict[str, int]
    """By component: "weights", "kv", "state", "compute", "output", "runtime", "total"."""
    logged: dict[str, int]
    resident: int | None = None
    """What the system says the process holds."""
    runtime_shift: int = 0
    """By how much `predicted["runtime"]` had been moved already, because of earlier loads."""
    at: float = 0.0
