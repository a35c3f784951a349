"""The contract every engine adapter keeps. An engine is data (`Descriptor`) plus a small `Adapter`.

The adapter only computes: it turns a model and options into a `LaunchPlan`, reads log lines, and classifies ends. The
supervisor does what the plan says. Four launch families cover every engine we know; several processes in one plan
cover orchestrators (a frontend plus workers), started in order and stopped in reverse.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec

from engines.sampling import Sampling


class Family(StrEnum):
    """How an engine comes to run."""

    BINARY = "binary"
    """A native server, e.g. llama-server."""
    VENV_CLI = "venv-cli"
    """A server with its own command line in an environment of its own, e.g. vLLM."""
    VENV_WORKER = "venv-worker"
    """A library: our worker serves it from inside its environment."""
    CONTAINER = "container"
    """A server in a container image that is here already; started and ended like any other."""
    EXTERNAL = "external"
    """An endpoint somebody else runs; attached, never launched."""


class ModelFormat(StrEnum):
    """How weights are stored. Formats are not interchangeable between engines."""

    GGUF = "gguf"
    MLX = "mlx"
    EXL2 = "exl2"
    EXL3 = "exl3"
    AWQ = "awq"
    GPTQ = "gptq"
    FP8 = "fp8"
    COMPRESSED_TENSORS = "compressed-tensors"
    NVFP4 = "nvfp4"
    MXFP4 = "mxfp4"
    OPENVINO = "openvino"
    ONNX_GENAI = "onnx-genai"
    MLC = "mlc"
    TENSORRT = "tensorrt"
    REMOTE = "remote"
    """Weights that are somewhere else: an endpoint serves them."""
    SAFETENSORS = "safetensors"


class Route(StrEnum):
    """What a client can ask for. An engine that lacks one is served by translation, or refuses with a typed error."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    RESPONSES = "responses"
    MESSAGES = "messages"
    COUNT_TOKENS = "count_tokens"
    RERANK = "rerank"
    INFILL = "infill"
    RAW = "raw"
    """Completions of a prompt given as tokens, answered in the form of `INFILL`."""
    TOKENIZE = "tokenize"
    DETOKENIZE = "detokenize"
    APPLY_TEMPLATE = "apply_template"
    TRANSCRIPTIONS = "transcriptions"


class Feature(StrEnum):
    """What an engine can do beyond plain generation."""

    TOOLS = "tools"
    """Offers tools to the model, and tells its calls from its text."""
    REASONING = "reasoning"
    """Splits reasoning from the answer."""
    JSON_SCHEMA = "json_schema"
    GRAMMAR = "grammar"
    LOGPROBS = "logprobs"
    LOGIT_BIAS = "logit_bias"
    CHOICES = "choices"
    """Several answers to one request (`n`)."""
    STREAM_USAGE = "stream_usage"
    VISION = "vision"
    LORA = "lora"
    DRAFT = "draft"
    KV_QUANT = "kv_quant"
    TENSOR_PARALLEL = "tensor_parallel"
    PIPELINE_PARALLEL = "pipeline_parallel"
    CONTINUOUS_BATCHING = "continuous_batching"
    SLEEP = "sleep"
    PROGRESS = "progress"
    API_KEY = "api_key"
    PORT_ZERO = "port_zero"
    SAMPLING_DEFAULTS = "sampling_defaults"
    """Is told at its start how tokens are chosen for requests that do not say; the gateway tells others each time."""
    TOOL_PARSER = "tool_parser"
    """Tells calls from text only if it is started with the model's parser (`LaunchOptions.tool_parser`)."""


class Gauge(StrEnum):
    """What an engine's own metrics tell beyond what the gateway measures itself (TTFT, TPOT, rates)."""

    RUNNING = "running"
    WAITING = "waiting"
    KV_USAGE = "kv_usage"
    """0..1 of the KV cache."""
    PROMPT_TOKENS = "prompt_tokens"
    GENERATED_TOKENS = "generated_tokens"
    PREFIX_HITS = "prefix_hits"
    PREFIX_QUERIES = "prefix_queries"
    PREFIX_HIT_RATE = "prefix_hit_rate"
    """0..1 of what was looked for in the prefix cache; hits and queries apart come to it, too."""


class FailureKind(StrEnum):
    """Why an engine ended or refused. The values are stable: API, CLI and window show the same code."""

    PORT_IN_USE = "port_in_use"
    OUT_OF_GPU_MEMORY = "out_of_gpu_memory"
    OUT_OF_MEMORY = "out_of_memory"
    CONTEXT_TOO_LARGE = "context_too_large"
    MODEL_CORRUPT = "model_corrupt"
    MODEL_UNSUPPORTED = "model_unsupported"
    MODEL_NOT_FOUND = "model_not_found"
    BAD_TEMPLATE = "bad_template"
    AUTH = "auth"
    REMOTE_CODE = "remote_code"
    OFFLINE = "offline"
    DISK_FULL = "disk_full"
    SHARED_MEMORY = "shared_memory"
    """Processes of one engine have too little memory to share: /dev/shm."""
    DRIVER = "driver"
    MISSING_LIBRARY = "missing_library"
    BAD_FLAG = "bad_flag"
    ILLEGAL_INSTRUCTION = "illegal_instruction"
    BACKEND_CRASH = "backend_crash"
    NOT_INSTALLED = "not_installed"
    STALLED = "stalled"
    TOO_SLOW = "too_slow"
    KILLED = "killed"
    CRASHED = "crashed"
    LOST_PARENT = "lost_parent"
    UNREACHABLE = "unreachable"
    """An attached endpoint does not answer, or no longer has the model."""
    UNKNOWN = "unknown"


NEVER_RETRY_UNCHANGED = frozenset(FailureKind) - {
    FailureKind.PORT_IN_USE,
    FailureKind.BACKEND_CRASH,
    FailureKind.STALLED,
    FailureKind.TOO_SLOW,
    FailureKind.KILLED,
    FailureKind.CRASHED,
    FailureKind.LOST_PARENT,
    FailureKind.UNREACHABLE,
    FailureKind.UNKNOWN,
}
"""Ends that the same arguments would only repeat: never restarted without a change."""


class RemedyKind(StrEnum):
    """What may help. The values are stable: settings, API, CLI and window show the same code."""

    LESS_CONTEXT = "less_context"
    FEWER_SLOTS = "fewer_slots"
    SMALLER_CACHE = "smaller_cache"
    """A quantised KV cache."""
    FEWER_LAYERS = "fewer_layers"
    """Fewer layers on the GPU."""
    LESS_GPU_MEMORY = "less_gpu_memory"
    """A smaller share of GPU memory."""
    OTHER_RUNTIME = "other_runtime"
    """Another build of the same engine, or another engine."""
    RESET_OPTIONS = "reset_options"
    LOAD_AGAIN = "load_again"
    SMALLER_MODEL = "smaller_model"
    OTHER_MODEL = "other_model"
    DOWNLOAD_AGAIN = "download_again"
    UPDATE_ENGINE = "update_engine"
    INSTALL_AGAIN = "install_again"
    UPDATE_DRIVER = "update_driver"
    SIGN_IN = "sign_in"
    ALLOW_CODE = "allow_code"
    FREE_MEMORY = "free_memory"
    FREE_DISK = "free_disk"


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """What may help: `label` is what a button says; loading with `options` (of `LaunchOptions`) changed applies it."""

    kind: RemedyKind
    label: str
    options: Mapping[str, int | float | str] = {}


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One end, said for a person: the cause, the log line that shows it, and what may help, most promising first."""

    kind: FailureKind
    sentence: str
    hint: str = ""
    evidence: str = ""
    remedies: tuple[Remedy, ...] = ()


class Descriptor(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is. `routes` maps what it speaks natively to its path; everything else is translated.

    `verified` and `unverified` say what has and has not been run for real with this adapter, in plain sentences.
    """

    id: str
    name: str
    licence: str
    homepage: str
    family: Family
    formats: frozenset[ModelFormat]
    modalities: frozenset[str]
    routes: Mapping[Route, str]
    features: frozenset[Feature]
    platforms: frozenset[str]
    """`sys.platform` values."""
    accelerators: tuple[str, ...]
    """Backends it can use, best first: "cuda", "metal", "rocm", "vulkan", "cpu", ..."""
    verified: str
    unverified: str
    metrics_path: str = ""
    """Where it tells its gauges in Prometheus' text; empty where it does not."""
    metrics: Mapping[Gauge, str] = {}
    """Our name -> its name."""
    slots_path: str = ""
    """Where it tells what each slot holds, as llama-server does; empty where it does not."""
    closes_after_stream: bool = False
    """Whether it closes a connection over which it streamed, though it said otherwise: such a one is not used again."""
    counts_each: bool = False
    """Whether it counts the tokens of several answers to one request as if each were the only one."""
    repeats_prefill: bool = False
    """Whether a whole answer that goes on with the assistant's last turn begins with that turn."""
    program: str = ""
    """What its server is called, where a person's own can be run instead of an installed one; empty where none can."""
    tool_parsers: Mapping[str, str] = {}
    """Its parser for each way in which models write calls (`engines.parsers.Calls`)."""
    legacy: str = ""
    """Why nobody should begin with it, in sentences; lists show such an engine only where it is here, or on demand."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where the engine store put one version: `python` is its environment's, `executable` its program."""

    folder: Path
    version: str
    """Empty for a person's own program, which has to be asked."""
    backend: str
    python: Path | None = None
    executable: Path | None = None


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """One engine version on disk, as `probe` found it. `python` or `executable` starts it; `flags` are those it has."""

    engine: str
    version: str
    backend: str
    python: Path | None = None
    executable: Path | None = None
    package: str = ""
    """The distribution that serves, where an engine can be had in several."""
    flags: frozenset[str] = frozenset()


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A draft model for speculative decoding; `kind` is "model", "mtp", "eagle3" or "ngram"."""

    path: Path | None = None
    kind: str = "model"
    tokens: int = 4


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to run with, in common terms; None: as the engine does. `context` is per slot; parsers have its names."""

    context: int | None = None
    slots: int = 1
    threads: int | None = None
    gpu_layers: int | None = None
    device_ids: tuple[str, ...] = ()
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    split_ratio: tuple[float, ...] = ()
    kv_type: str | None = None
    flash_attention: bool | None = None
    gpu_memory_fraction: float | None = None
    cpu_moe_layers: int | None = None
    draft: Draft | None = None
    lora: tuple[Path, ...] = ()
    projector: Path | None = None
    sampling: Sampling = Sampling()
    task: str = "chat"
    """"chat", "embed" or "rerank"."""
    chat_template: str | None = None
    tool_parser: str | None = None
    reasoning_parser: str | None = None
    max_batch_tokens: int | None = None
    prefix_cache: bool = True
    trust_remote_code: bool = False
    extra_args: tuple[str, ...] = ()
    extra_env: Mapping[str, str] = {}


class Remote(msgspec.Struct, frozen=True, kw_only=True):
    """Where an attached model is: its endpoint's base URL and name for it, and the file that holds the key (0600)."""

    url: str
    served_as: str
    key_file: Path


class ModelSource(msgspec.Struct, frozen=True, kw_only=True):
    """The weights to load: a file or folder, its format, and the name clients use.

    `remote` is set where an endpoint serves them; `path` is then the record of its being attached.
    """

    name: str
    path: Path
    format: ModelFormat
    remote: Remote | None = None


class Net(msgspec.Struct, frozen=True, kw_only=True):
    """Where the engine must listen, and the per-launch key every request to it carries. Never put the key in argv."""

    host: str
    port: int
    key: str


class ProcessSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One process. `env` is added to a clean environment; `secrets` likewise, and is never logged.

    `stdin_lifeline` keeps a pipe open on its standard input: the process must end when it reads end-of-file, so that it
    dies with its parent on every platform.
    """

    role: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    secrets: Mapping[str, str] = {}
    cwd: Path | None = None
    stdin_lifeline: bool = False


class FileToWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A file the launch needs, relative to the launch's private folder; written with mode 0600."""

    name: str
    content: bytes


class ReadyWhen(StrEnum):
    """What proves readiness. Several engines answer /health before they can generate, so it is the engine's choice."""

    HTTP_OK = "http_ok"
    COMPLETION = "completion"
    MODEL_LISTED = "model_listed"


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """How to ask whether it can generate, and how long silence may last. All times in seconds."""

    when: ReadyWhen = ReadyWhen.HTTP_OK
    path: str = "/health"
    interval_s: float = 0.1
    grace_s: float = 0.0
    stall_s: float = 120.0
    """Without a log line, progress or CPU use for this long, it is stalled."""
    hard_s: float = 1800.0


class SoftStop(StrEnum):
    """How to ask an engine to end before killing it."""

    SIGTERM = "sigterm"
    SIGINT = "sigint"
    STDIN_EOF = "stdin_eof"
    HTTP = "http"


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is for HTTP: POSTed with the launch key. `grace_s` is how long to wait before killing the group."""

    how: SoftStop = SoftStop.SIGTERM
    path: str = ""
    grace_s: float = 10.0


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """An option the installed version has no flag for, and can do without: it runs, and says so."""

    option: str
    sentence: str


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the supervisor needs to start, watch and stop one engine. `served_name` goes in `model` fields.

    Without processes it is an endpoint that runs already, watched and neither started nor stopped, with a `key_file`.
    """

    processes: tuple[ProcessSpec, ...]
    base_url: str
    served_name: str
    readiness: Readiness
    stop: Stop = Stop()
    files: tuple[FileToWrite, ...] = ()
    context: int | None = None
    slots: int = 1
    left_out: tuple[LeftOut, ...] = ()
    key_file: Path | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """Loading went on. `fraction` is 0..1, or None when the engine does not say."""

    stage: str
    fraction: float | None = None


class Listening(msgspec.Struct, frozen=True, kw_only=True, tag="listening"):
    """The engine chose its own port."""

    port: int


class BufferAllocated(msgspec.Struct, frozen=True, kw_only=True, tag="buffer"):
    """The engine's own accounting of memory: the truth that estimates are checked against."""

    device: str
    purpose: str
    """"model", "kv", "compute", "output", "recurrent"."""
    size_bytes: int


class ContextSet(msgspec.Struct, frozen=True, kw_only=True, tag="context"):
    """The context per slot the engine really uses."""

    tokens: int
    slots: int | None = None


class Suspicion(msgspec.Struct, frozen=True, kw_only=True, tag="suspicion"):
    """A line that names a cause, should the engine end. The first one counts."""

    kind: FailureKind
    line: str
    survived: str = ""
    """How the engine goes on without what failed, as a sentence. Such a line counts only where no other tells more."""


LogEvent = Progress | Listening | BufferAllocated | ContextSet | Suspicion


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended: its code (negative: signal, as `subprocess` has it), suspicions in order, last log lines."""

    code: int | None
    suspicions: Sequence[Suspicion]
    tail: Sequence[str]
    was_ready: bool
    options: LaunchOptions = LaunchOptions()
    """What it ran with, so that a remedy can name what would fit instead."""


class Adapter(Protocol):
    """The code an engine needs. Every method is pure but `probe`, which may look at the installed engine."""

    @property
    def descriptor(self) -> Descriptor:
        """What the engine is."""

    def probe(self, place: Place | None = None) -> Installation | Failure:
        """Look at the engine in `place`: its version, devices and flags. Import nothing heavy: ask metadata or a child.

        Without a place, find what came with Roundhouse itself or lies on PATH.
        """

    def plan(self, model: ModelSource, options: LaunchOptions, net: Net, found: Installation) -> LaunchPlan:
        """Turn generic options into processes. Raises ValueError with a sentence for options it cannot honour."""

    def read_log(self, line: str) -> Sequence[LogEvent]:
        """Say what a log line means; most mean nothing."""

    def classify_exit(self, end: Exit) -> Failure:
        """Name the cause of an end that was not asked for."""
