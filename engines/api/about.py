"""What an engine is, as data: formats, routes, features, and what of it has been run for real."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from engines.api.formats import ModelFormat
from engines.api.support import NameSource
from engines.api.traits import Traits


class EngineFamily(StrEnum):
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
    ROUTER = "router"
    """A program in front of endpoints that serve one model alike: it has no weights, and connects to each of them."""


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
    """From a recording to its words."""
    TRANSLATIONS = "translations"
    """From a recording in any language to English words."""
    SPEECH = "speech"
    """From a text to sound."""
    IMAGES = "images"
    """From a text to pictures."""
    IMAGE_EDITS = "image_edits"
    """From pictures and a text to pictures."""
    IMAGE_VARIATIONS = "image_variations"
    """From a picture to pictures like it."""


class Feature(StrEnum):
    """What an engine can do beyond plain generation."""

    TOOLS = "tools"
    """Offers tools to the model, and tells its calls from its text."""
    REASONING = "reasoning"
    """Splits reasoning from the answer."""
    THINKING_BUDGET = "thinking_budget"
    """Ends reasoning after so many tokens (`thinking_budget_tokens`)."""
    JSON_SCHEMA = "json_schema"
    GRAMMAR = "grammar"
    LOGPROBS = "logprobs"
    LOGIT_BIAS = "logit_bias"
    CHOICES = "choices"
    """Several answers to one request (`n`)."""
    STREAM_USAGE = "stream_usage"
    PREFILL = "prefill"
    """Goes on with the assistant's last turn, where a conversation ends with one."""
    VISION = "vision"
    LORA = "lora"
    DRAFT = "draft"
    KV_QUANT = "kv_quant"
    TENSOR_PARALLEL = "tensor_parallel"
    PIPELINE_PARALLEL = "pipeline_parallel"
    CONTINUOUS_BATCHING = "continuous_batching"
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


class SlotStates(msgspec.Struct, frozen=True, kw_only=True):
    """Where an engine is asked to write what a slot has read into `ListenOptions.state_folder`, and to read it again.

    `{slot}` stands for the slot's number. Both are POSTs of `{"filename": NAME}`; the answers count tokens in `n_saved`
    and `n_restored`. `Descriptor.slots_path` lists the slots, each with `id`, `is_processing` and `n_prompt_tokens`.
    """

    save: str
    restore: str


class WorkerRoutes(msgspec.Struct, frozen=True, kw_only=True):
    """How a router that runs is told of other replicas: paths below its root, in which `{url}` and `{id}` are filled.

    `listing` answers with `workers`, each with its `url`, and with the `id` that `removal` may want.
    """

    listing: str
    addition: str
    """A POST of `{"url": URL}`."""
    removal: str
    removes_by: str = "DELETE"
    """The method of `removal`."""


class SpanKind(StrEnum):
    """How one model lies over several computers."""

    LAYERS = "layers"
    """The engine here computes all of it, and reaches memory on the others through one port for each."""
    NODES = "nodes"
    """Each computer runs the engine on layers of its own; the processes connect to each other as they like."""


class ComputerSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an engine can lay one model over several computers here, how, and what of that was tried."""

    kind: SpanKind
    tried: str
    """A sentence."""
    is_started: bool = True
    """False: Roundhouse plans it, and does not start it on other computers."""


class Descriptor(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is. `routes` maps what it speaks natively to its path; everything else is translated.

    `verified` and `unverified` say what has and has not been run for real with this adapter, in plain sentences.
    """

    id: str
    name: str
    licence: str
    homepage: str
    family: EngineFamily
    formats: tuple[ModelFormat, ...]
    """What it reads, in the order preferred where quality is equal."""
    modalities: frozenset[str]
    routes: Mapping[Route, str]
    features: frozenset[Feature]
    platforms: frozenset[str]
    """`sys.platform` values."""
    accelerators: tuple[str, ...]
    """Backends it can use, best first: "cuda", "metal", "rocm", "vulkan", "cpu", ..."""
    verified: str
    unverified: str
    least_version: str = ""
    """The oldest version without a published hole that a request or a model reaches; empty where none is known."""
    metrics_path: str = ""
    """Where it tells its gauges in Prometheus' text; empty where it does not."""
    metrics: Mapping[Gauge, str] = {}
    """Our name -> its name."""
    tokenizes: str = "content"
    """What its tokenizer calls a text: "content" as llama-server does, or "prompt"."""
    transcripts: frozenset[str] = frozenset()
    """The only forms of a transcript it writes (`response_format`); empty for an engine that says so itself."""
    slots_path: str = ""
    """Where it tells what each slot holds, as llama-server does; empty where it does not."""
    slot_states: SlotStates | None = None
    """How prompts that it has read are kept for another run of it; None where it cannot."""
    stuck_s: float = 900.0
    """An engine that answers no probe and sends nothing for so many seconds, while a request waits or was cancelled, is
    restarted. Many answer between parts of a prompt only, and a part may take minutes on a slow processor."""
    frozen_s: float = 60.0
    """The same for one that does not use the processor either."""
    loosens_calls: bool = False
    """Whether a call that must be made may lack what its tool's schema requires. Such a call is held to the schema as
    for an engine without tools."""
    probe_path: str = ""
    """Where it is asked for a token when it may be stuck: of one whose server answers other questions although the
    process that computes is gone. Empty: the other questions tell."""
    overhead_bytes: int = 4 << 30
    """What it may take on the processor beside twice the advisor's estimate and its weights; more is not given to it.
    PyTorch and its threads come to 2 GiB."""
    chooses_threads: bool = False
    """Whether it computes with as many threads as it likes, whatever it is told."""
    closes_after_stream: bool = False
    """Whether it closes a connection over which it streamed, though it said otherwise: such a one is not used again."""
    counts_each: bool = False
    """Whether it counts the tokens of several answers to one request as if each were the only one."""
    grammar_field: str = "grammar"
    """Where a request has a grammar, for engines with `Feature.GRAMMAR`; a dot stands between a field and one in it."""
    prefill_fields: Mapping[str, bool] = {}
    """What a request says so that the assistant's last turn is gone on with, for engines with `Feature.PREFILL` that do
    not do so by themselves."""
    cache_field: str = ""
    """The field of a request that says whether it uses the prompt cache, as llama-server's `cache_prompt`; empty where
    there is none. Anthropic's dialect has no such field."""
    repeats_prefill: bool = False
    """Whether a whole answer that goes on with the assistant's last turn begins with that turn."""
    has_helpers: bool = False
    """Whether it starts processes that connect to each other: it is confined less then (`app.confinement.policy`)."""
    helped_with: frozenset[str] = frozenset()
    """Options with which it starts processes of its own that share memory with it, and is confined less (as above)."""
    traces_flag: str = ""
    """The flag that says where it sends traces of its own (OTLP); empty where none is used."""
    program: str = ""
    """What its server is called, where a person's own can be run instead of an installed one; empty where none can."""
    tool_parsers: Mapping[str, str] = {}
    """Its parser for each way in which models write calls (`engines.parsers.ToolCallFormat`)."""
    obtained: str = ""
    """How a person gets it where Roundhouse does not install it, in a sentence; empty where it does."""
    legacy: str = ""
    """Why nobody should begin with it, in sentences; lists show such an engine only where it is here, or on demand."""
    support: tuple[NameSource, ...] = ()
    """Where a version's files say which models it loads; empty where nobody knows."""
    span: ComputerSpan | None = None
    """How a model lies over several computers; None where it does not."""
    worker_routes: WorkerRoutes | None = None
    """Of a router: how its replicas are changed while it runs; None where it has to be started anew for that."""
    traits: Traits | None = None
    """What the advisor knows of it; None for one that is not advised, such as an endpoint that somebody else runs."""
