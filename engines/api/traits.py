"""What the advisor knows of an engine, as data: where it computes, what it is good at, how it uses memory.

An engine's folder has such `Traits` in its `descriptor.py`. They tell of the engine itself; what of it our adapter
offers is in the rest of the descriptor. Systems and wheels are as published in November 2026; a target is a place where
it can be installed, not a promise that this version of Roundhouse installs it there.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from engines.api.formats import ModelFormat

Version = tuple[int, int]
MIB = 1024 * 1024
GIB = 1024 * MIB

X86, ARM = "x86_64", "arm64"
LINUX, MAC, WINDOWS = "Linux", "macOS", "Windows"
ANY_SYSTEM = (LINUX, MAC, WINDOWS)
DESKTOP = (LINUX, WINDOWS)

ANY_CUDA: Version = (5, 0)
"""Maxwell: the least llama.cpp's CUDA 12 archives are built for."""
VOLTA: Version = (7, 0)
"""LMDeploy's TurboMind starts here."""
TURING: Version = (7, 5)
"""vLLM's wheels start here; AWQ and GPTQ kernels too."""
AMPERE: Version = (8, 0)
"""ExLlama's kernels and paged attention, Marlin, BF16 and SGLang's kernels start here."""
ADA: Version = (8, 9)
"""The first with FP8 matrix units."""
BLACKWELL: Version = (10, 0)
"""The first with FP4 matrix units."""

INSTINCT = frozenset({"gfx90a", "gfx942", "gfx950"})
"""AMD's server accelerators that engines made for servers run on."""


class MachineKind(StrEnum):
    """The kinds of machine the decision guide tells apart."""

    APPLE = "apple"
    BLACKWELL_SERVER = "blackwell-server"
    NVIDIA_SERVER = "nvidia-server"
    INSTINCT = "instinct"
    MIXED = "mixed"
    RTX_MANY = "rtx-many"
    RTX_FEW = "rtx-few"
    RTX_ONE = "rtx-one"
    RTX_SMALL = "rtx-small"
    NVIDIA_UNIFIED = "nvidia-unified"
    JETSON = "jetson"
    TURING_FEW = "turing-few"
    NVIDIA_OLDER = "nvidia-older"
    ARC = "arc"
    RADEON = "radeon"
    AMD_APU = "amd-apu"
    SNAPDRAGON = "snapdragon"
    INTEL_CPU = "intel-cpu"
    INTEL_MAC = "intel-mac"
    BOARD = "board"
    CPU_SERVER = "cpu-server"
    CPU = "cpu"


class GuideNeed(StrEnum):
    """What the guide tells apart on one kind of machine: who is served first, then the shape of the work."""

    LOCAL = "local"
    """One person, chat, coding, documents."""
    AGENT = "agent"
    STRUCTURED = "structured"
    LORAS = "loras"
    LONG = "long"
    MOE = "moe"
    BATCH = "batch"
    TEAM = "team"
    SERVING = "serving"
    SERVING_SHAPED = "serving_shaped"
    """Several people, and structured output, long contexts, many adapters or experts."""
    FLEET = "fleet"
    APP = "app"
    BROWSER = "browser"


SERVING_NEEDS = frozenset({GuideNeed.TEAM, GuideNeed.SERVING, GuideNeed.SERVING_SHAPED, GuideNeed.FLEET})
"""Several people or programs are served at once."""


class GuidePlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Where an engine stands in the guide for one kind of machine, by need: the least comes first, 0 is not named.

    None stands as `local` does; a team as `serving`. Leave gaps between numbers, so that others find a place.
    """

    local: int = 0
    agent: int | None = None
    structured: int | None = None
    loras: int | None = None
    long: int | None = None
    moe: int | None = None
    batch: int | None = None
    team: int | None = None
    serving: int | None = None
    serving_shaped: int | None = None
    fleet: int | None = None

    def of(self, need: GuideNeed) -> int:
        """Return the place for a need that depends on the machine: all but an app's and a browser's."""
        own: int | None = getattr(self, need.value)
        if own is None and need is GuideNeed.TEAM:
            own = self.serving
        return self.local if own is None else own


class EngineAbility(StrEnum):
    """What a need can ask of an engine beyond generating text, and what sets one apart from the others."""

    SERVES = "serves"
    """Made to serve many: continuous batching, paged cache, fair scheduling."""
    JSON_SCHEMA = "json_schema"
    LORAS = "loras"
    """Several adapters at once."""
    KV_QUANT = "kv_quant"
    HOST_OFFLOAD = "host_offload"
    """Layers or experts may stay in system memory."""
    TENSOR = "tensor"
    PIPELINE = "pipeline"
    EXPERT = "expert"
    SCALES = "scales"
    """Decodes faster with each GPU its matrices are cut over; others are taken to gain nothing."""
    VISION = "vision"
    RESERVES = "reserves"
    """Takes a share of GPU memory at start and pages the cache of all conversations within it."""
    BUDGETS = "budgets"
    """Deals a model out over cards by how much of each it may fill, which it can be told."""
    EVERYWHERE = "everywhere"
    """Computes on any processor and on cards of all makers together: what is left where no other engine can run."""
    ORCHESTRATES = "orchestrates"
    """Directs other engines over many computers."""
    BALANCES = "balances"
    """Shares requests out over copies of a model on one computer by itself."""
    OWN_HEAD = "own_head"
    """Drafts with the head for multi-token prediction that some models carry."""
    WSL = "wsl"
    """Runs under Windows in WSL 2 alone."""


class EngineTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of device an engine computes on, and the systems it is published for.

    `vendors` is empty for the processor. `compute` is the least CUDA capability; `gfx` the AMD targets, all when empty.
    Without `systems` and `architectures` it can be had for every one, if need be from source.
    """

    backend: str
    vendors: tuple[str, ...] = ()
    systems: tuple[str, ...] = ANY_SYSTEM
    architectures: tuple[str, ...] = (X86, ARM)
    compute: Version = (0, 0)
    gfx: frozenset[str] = frozenset()
    isa: str = ""


class GgmlMemory(msgspec.Struct, frozen=True, tag="ggml"):
    """Memory as llama.cpp uses it: buffers by its own rules, and layers or experts in system memory on demand."""


class ReservedMemory(msgspec.Struct, frozen=True, kw_only=True, tag="reserved"):
    """Memory of an engine that reserves a share of each GPU at the start. `fraction` is its documented default."""

    fraction: float
    is_of_rest: bool = False
    """The share is of what is free once the weights are loaded, not of the whole GPU."""
    holds_activations: bool = True
    """Whether activations and graphs come out of the share, or lie beside it."""
    tokens: int = 8192
    """Tokens the largest step computes: activations are reserved for so many."""
    sequences: int = 256
    """Conversations whose logits are held in one step."""
    graphs: int = 600 * MIB
    """CUDA graphs and workspaces; from start-up logs of 7B to 8B models."""
    process: int = 3 * GIB
    """System memory of the Python processes; assumed."""
    processor_fraction: float = 0.0
    """The share of the computer's memory that it is told to take where the processor computes. 0: it is told how many
    tokens to hold, and takes no share."""


class GrowingMemory(msgspec.Struct, frozen=True, kw_only=True, tag="growing"):
    """Memory of an engine that loads the whole model and grows its cache as needed."""

    kv_types: Mapping[str, str] = {}
    """What it makes of a KV type asked for; else it keeps what it keeps without."""
    plain_kv: Mapping[str, str] = {}
    """What it keeps where no KV type is asked for, by backend; else F16."""
    cache_step: int = 256
    """Tokens its cache grows by."""
    cache_spare: int = 0
    """Tokens of the cache that each conversation has beside its context."""
    chunk: int = 2048
    """Tokens of a prompt computed at once."""
    computes_all_logits: bool = False
    """Whether a chunk's logits are all computed."""
    embedding_on_host: bool = False
    process: int = 0
    """System memory of interpreter and libraries. From the size of what the wheels load; not measured with a model."""
    device: int = 0
    """Taken on the GPU besides the driver's context (allocator, kernels)."""
    device_large: int = 0
    """The same on a card of 80 GB, if it is known to be more; between 24 GB and that in proportion."""
    expert_process: int = 0
    """System memory of a further process, which computes experts that stay there; assumed."""
    expert_mark: str = ""
    """With what the type of weights ends, in the file, that it can compute there; empty: all are."""


MemoryUse = GgmlMemory | ReservedMemory | GrowingMemory


class Traits(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One engine. `strength` completes "it ..."; `needs` completes "<name> needs ..."; `limits` are whole sentences.

    Traits are told apart by identity, so that they cost nothing as a part of a key.
    """

    default_formats: frozenset[ModelFormat] = frozenset()
    """Those it is asked about where no engine is named."""
    targets: tuple[EngineTarget, ...] = ()
    strength: str
    needs: str
    limits: str = ""
    abilities: frozenset[EngineAbility] = frozenset()
    architectures: frozenset[str] = frozenset()
    """Those it knows, by llama.cpp's names, where it will learn no more; empty: most, and growing."""
    uncut: frozenset[str] = frozenset()
    """Architectures whose matrices it cannot cut over GPUs yet."""
    most_slots: int = 1
    """Conversations at once that it is sensibly started with: the defaults of vLLM, SGLang, TensorRT-LLM, LMDeploy and
    MLX-LM; the others assumed."""
    memory: MemoryUse = GrowingMemory()
    speed_class: str = ""
    """The row of `SOFTWARE` (`app.advisor.speed.families`) it is as fast as; empty: its backend says that."""
    kernels_of: str = ""
    """The maker of hardware whose own kernels it has, as in `Gpu.vendor`."""

    places: Mapping[MachineKind, GuidePlaces] = {}
    """Where it stands in the guide; on other kinds of machine nobody would want it."""
    app: int = 0
    """Where it stands for use inside an app, on any kind of machine that `app_on` does not name."""
    app_on: Mapping[MachineKind, int] = {}
    browser: int = 0
    """Where it stands for a browser or phone, on any kind of machine."""
    order: int = 1000
    """Its place among those that the guide does not order, such as all that cannot run on a machine."""
    blind_needs: frozenset[GuideNeed] | None = None
    """The needs it is named for although no images are read; None: all of them."""
    advised_on: frozenset[MachineKind] | None = None
    """The kinds of machine it is advised on; on others it stands last, and `limits` says why. None: on all."""
    unlisted: str = ""
    """Why it is not named for some work that it could do, in sentences; empty: nothing needs to be said."""
    successor: str = ""
    """The engine that takes its place: it stands before that one only where it is faster."""
    serving_warning: str = ""
    """What who serves several people with it should know."""
    fleet_warning: str = ""
    """What who serves from several computers with it should know."""

    @property
    def is_ggml(self) -> bool:
        """Whether llama.cpp's library computes: its builds, buffers and ways of leaving GPUs are then known."""
        return isinstance(self.memory, GgmlMemory)

    @property
    def keeps_experts_aside(self) -> bool:
        """Whether experts can stay in system memory while a GPU holds the rest; llama.cpp can do so with any layer."""
        return self.is_ggml or EngineAbility.HOST_OFFLOAD in self.abilities

    @property
    def has_speed_points(self) -> bool:
        """Whether its speed is predicted from published figures of its own."""
        return self.is_ggml or bool(self.speed_class)

    def place(self, kind: MachineKind, need: GuideNeed) -> int:
        """Return where it stands in the guide for one need on one kind of machine; 0: it is not named."""
        if need is GuideNeed.APP:
            return self.app_on.get(kind, self.app)
        if need is GuideNeed.BROWSER:
            return self.browser
        return self.places[kind].of(need) if kind in self.places else 0
