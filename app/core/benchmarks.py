"""What a benchmark is asked for and what comes of it: the receipt, one JSON value that all programs share.

Times are seconds, sizes bytes, rates tokens per second. TTFT is the time from sending a request to the first piece of
its answer, ITL the time between two pieces, TPOT the time per token after the first, and end to end all of it. Fields
may be added, none renamed: receipts are kept and passed on.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

from app.core.models import LoadOptions, ModelSettings
from app.core.translation import LazyText

RECEIPT_VERSION = 1
MOST_CONCURRENCY = 256
"""Requests at once: more than any one computer answers, fewer than the files a process may have open."""
MOST_LEVELS = 8
MOST_PROMPTS = 1000
"""Of a file: what takes hours on the fastest card."""
LEAST_ROUNDS = 3
"""Fewer show nothing of how much they differ."""

_Concurrency = Annotated[int, msgspec.Meta(ge=1, le=MOST_CONCURRENCY)]
_Text = Annotated[str, msgspec.Meta(max_length=1 << 20)]


class Workload(StrEnum):
    """What is measured with."""

    CHAT = "chat"
    """Short questions, answers of some length."""
    CODE = "code"
    """The beginning of a file, to be continued."""
    AGENT = "agent"
    """Long instructions, and a conversation that grows with what tools return."""
    RAG = "rag"
    """Long documents, and a short answer."""
    BATCH = "batch"
    """Many short texts, a few words about each."""
    STRUCTURED = "structured"
    """Answers held to a JSON schema."""
    FILE = "file"
    """Prompts of one's own."""
    TOOL = "tool"
    """Prompts as large as those that a coding agent begins with."""


BUILT_IN_WORKLOADS = tuple(kind for kind in Workload if kind not in {Workload.FILE, Workload.TOOL})
"""What needs nothing else to be named."""
WORKLOAD_TITLES = {
    Workload.CHAT: LazyText("Chat"),
    Workload.CODE: LazyText("Code completion"),
    Workload.AGENT: LazyText("Agent"),
    Workload.RAG: LazyText("Long documents"),
    Workload.BATCH: LazyText("Many short texts"),
    Workload.STRUCTURED: LazyText("Structured output"),
    Workload.FILE: LazyText("Own prompts"),
    Workload.TOOL: LazyText("A coding agent's first prompt"),
}
"""What people read instead of the values: in the window, in reports and in tables to be posted."""


class FieldFormat(StrEnum):
    """How other programs write results, in which ours can be written too."""

    VLLM = "vllm"
    """As `vllm bench serve --save-result`; several levels as `--append-result`."""
    GUIDELLM = "guidellm"
    """A report of GuideLLM."""
    LLAMA_BENCH = "llama-bench"
    """As `llama-bench -o json`."""
    LLAMA_BENCH_MD = "llama-bench-md"
    """As `llama-bench -o md`."""


class BenchmarkFile(msgspec.Struct, frozen=True, kw_only=True):
    """A result as another program writes its own."""

    format: FieldFormat
    text: str


class BenchmarkMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message of a prompt."""

    role: str
    content: _Text


class BenchmarkPrompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request: what is said to the model, and how long its answer is at most."""

    messages: Annotated[list[BenchmarkMessage], msgspec.Meta(min_length=1, max_length=200)]
    answer_tokens: Annotated[int, msgspec.Meta(ge=1, le=65_536)] = 128
    json_schema: dict[str, msgspec.Raw] | None = None
    """What its answer is held to."""


class BenchmarkSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run. Two receipts with equal settings can be compared."""

    workload: Workload = Workload.CHAT
    concurrency: Annotated[list[_Concurrency], msgspec.Meta(min_length=1, max_length=MOST_LEVELS)] = msgspec.field(
        default_factory=lambda: [1]
    )
    """So many requests at once, each level by itself."""
    stops_saturated: bool = False
    """From the fewest up, until more at once write no more; without it all levels run, in a drawn order."""
    requests: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 6
    """Of one round of one level, at least; never fewer than run at once."""
    rounds: Annotated[int, msgspec.Meta(ge=LEAST_ROUNDS, le=20)] = LEAST_ROUNDS
    """Equal rounds of each level."""
    answer_tokens: Annotated[int, msgspec.Meta(ge=2, le=65_536)] | None = None
    """Instead of what the workload has."""
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0
    """Decides prompts and the order of rounds."""
    engine: str = ""
    """Instead of the one that is set for the model."""
    tool: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """Of the workload `tool`: its id."""
    load: LoadOptions = LoadOptions()
    price_kwh: Annotated[float, msgspec.Meta(ge=0, le=1000)] | None = None
    """In a currency of your own."""

    @property
    def workload_title(self) -> str:
        """What is measured with, in words; of an agent's prompt, whose."""
        title = WORKLOAD_TITLES[self.workload].tr()
        return f"{title} ({self.tool})" if self.tool else title


def tool_benchmark(tool: str) -> BenchmarkSettings:
    """Return what measures a model for a coding agent, by its id: its first prompt cold and warm, and tool calls."""
    return BenchmarkSettings(workload=Workload.TOOL, tool=tool, requests=1, answer_tokens=16)


class StartBenchmark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a benchmark of a model here, or of an endpoint at `url`, where `model` is what it calls the model."""

    model: Annotated[str, msgspec.Meta(max_length=500)] = ""
    url: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    key: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    settings: BenchmarkSettings = BenchmarkSettings()
    prompts: Annotated[list[BenchmarkPrompt], msgspec.Meta(max_length=MOST_PROMPTS)] = []
    """Of the workload `file`."""
    kept: Annotated[int, msgspec.Meta(ge=0, le=200)] = 0
    """So many of the newest requests that the inspector keeps with their words are the prompts instead."""
    keeps_disturbed: bool = False
    """Keep a result that was disturbed or is noisy, with what is the matter; otherwise it is refused."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A value and the interval that holds the true one with 95 % probability, by bootstrap."""

    value: float
    low: float
    high: float


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """How single measurements spread; `median` has the interval of p50."""

    count: int
    mean: float
    median: Figure
    p95: float
    p99: float
    deviation: float | None = None
    """Standard deviation; receipts of before have none."""


class BenchmarkLevel(msgspec.Struct, frozen=True, kw_only=True):
    """What so many requests at once came to. Rates of requests and tokens are of all of them together."""

    concurrency: int
    requests: int
    failures: int = 0
    rounds: int
    spread: float
    """How far equal rounds differ: slowest to fastest, of the median."""
    ttft_s: Distribution
    itl_s: Distribution
    tpot_s: Distribution
    e2e_s: Distribution
    answer_tokens_s: Figure
    """Of all requests together."""
    requests_s: Figure
    decode_tokens_s: Figure
    """Of one request, after its first token."""
    prefill_tokens_s: Figure
    """Of one request: tokens of its prompt that were not kept from before, over the time to read them."""
    tokens_j: float | None = None
    """Tokens written per joule, where the system tells energy."""
    duration_s: float | None = None
    """Of all its rounds; receipts of before have none."""

    @property
    def measured_s(self) -> float:
        """How long requests were sent, of an older receipt by its rate."""
        return self.duration_s or self.requests / max(self.requests_s.value, 1e-9)


class BenchmarkSample(msgspec.Struct, frozen=True, kw_only=True):
    """One request."""

    concurrency: int
    prompt_tokens: int
    cached_tokens: int
    answer_tokens: int
    ttft_s: float
    e2e_s: float
    prefill_s: float
    """As the engine says; else until the first token."""
    prompt: int = 0
    """Its place among the prompts of a round, which are the same in every round."""

    @property
    def tpot_s(self) -> float:
        """Seconds per token after the first."""
        return (self.e2e_s - self.ttft_s) / max(1, self.answer_tokens - 1)


class PrefixReuse(msgspec.Struct, frozen=True, kw_only=True):
    """The time to the first token of a prompt never seen, and of the same prompt again."""

    prompt_tokens: int
    cold_ttft_s: Figure
    warm_ttft_s: Figure


class BenchmarkMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What the model took against what was predicted; None where nobody knows."""

    peak_bytes: int | None = None
    """Of the engine's processes together, files they read included."""
    engine_bytes: int | None = None
    """What the engine says it allocated."""
    estimate_bytes: int | None = None
    free_bytes: int | None = None
    """Of the computer, with the model loaded."""


class BenchmarkPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """What was predicted for one request at a time before anything was measured; None where nothing was known."""

    decode_tokens_s: float | None = None
    prefill_tokens_s: float | None = None


class PredictionAccuracy(msgspec.Struct, frozen=True, kw_only=True):
    """How far predicted speeds were off, as a share: 1 is twice too fast or twice too slow. None for no benchmarks."""

    first_count: int
    first_error: float | None
    """Median, of the first benchmark of each model and engine: nothing was measured of it before."""
    later_count: int
    later_error: float | None
    """Median, of those after it."""
    left_out_count: int = 0
    """Models, on each engine build, that could be left out: another was measured there."""
    left_out_before: float | None = None
    """Median of those, by the tables alone."""
    left_out_after: float | None = None
    """Median of the same, each predicted from what the others showed here."""
    sentence: str = ""


class BenchmarkCost(msgspec.Struct, frozen=True, kw_only=True):
    """Energy of what `source` counts, over all rounds; the price in the currency that was given.

    RAPL counts the whole processor package, NVML whole cards, whatever else runs on them.
    """

    joules: float
    watts: float
    source: str
    price_per_million_tokens: float | None = None


class Correctness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether what came fast was right: a share is None where nothing of the kind was asked for."""

    equal_answers: float | None = None
    """Of greedy answers to a prompt asked again, those that are equal to the first."""
    valid_json: float | None = None
    """Of answers held to a schema, those that satisfy it."""
    tool_tasks: int = 0
    """Tasks that only a call of a tool begins; of the workload `tool`."""
    valid_calls: int = 0
    """Those that were answered by calls as their tools take them."""


class SpeedRatio(msgspec.Struct, frozen=True, kw_only=True):
    """How many times as long the same prompts take with something as without it."""

    ttft: Figure
    token: Figure
    """Of whole answers, per token: they may come in few pieces, of which TPOT would say nothing."""


class BenchmarkTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured: the weights by their hash, the engine by its version, and how it was started."""

    model: str
    url: str = ""
    engine: str = ""
    engine_version: str = ""
    backend: str = ""
    format: str = ""
    quantization: str = ""
    architecture: str = ""
    parameters: int | None = None
    size_bytes: int | None = None
    weights_sha256: str = ""
    """Of a file; of several, the hash of their hashes in order of their names."""
    template_sha256: str = ""
    options: dict[str, str | int | float | bool] = {}
    """Context, slots, threads and the like, as the engine was started."""


class BenchmarkMachine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured, without names or serial numbers."""

    system: str
    processor: str
    cores: int | None = None
    memory_bytes: int | None = None
    gpus: list[str] = []
    summary: str = ""


class BenchmarkReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """All of one benchmark. `disturbances` is empty unless it was to be kept all the same."""

    id: str
    at: float
    version: int = RECEIPT_VERSION
    roundhouse: str = ""
    target: BenchmarkTarget
    machine: BenchmarkMachine
    settings: BenchmarkSettings
    prompts_sha256: str
    """Of all prompts: equal in a replay."""
    levels: list[BenchmarkLevel]
    prefix: PrefixReuse | None = None
    load_s: float | None = None
    memory: BenchmarkMemory = BenchmarkMemory()
    prediction: BenchmarkPrediction = BenchmarkPrediction()
    cost: BenchmarkCost | None = None
    correctness: Correctness = Correctness()
    schema_cost: SpeedRatio | None = None
    """Of being held to a schema; None where no prompt is."""
    lora_cost: SpeedRatio | None = None
    """Of the model's LoRA adapters; None where it has none."""
    disturbances: list[str] = []
    notes: list[str] = []
    samples: list[BenchmarkSample] = []
    """Left out of lists."""

    @property
    def title(self) -> str:
        """What was measured, in a few words."""
        engine = " ".join(filter(None, [self.target.engine, self.target.engine_version]))
        return ", ".join(filter(None, [self.target.model or self.target.url, engine or self.target.url]))

    @property
    def first_level(self) -> BenchmarkLevel:
        """The level with the fewest requests at once."""
        return min(self.levels, key=lambda level: level.concurrency)


class AnswerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Medians of one request at a time."""

    ttft_s: float
    tpot_s: float
    e2e_s: float


class AnswerRatios(msgspec.Struct, frozen=True, kw_only=True):
    """How many times as long the parts of an answer take with other settings: below 1 is faster."""

    ttft: Figure
    tpot: Figure
    e2e: Figure


class MeasureLoss(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask what a quantisation loses against a larger one of the same model, both of this computer."""

    model: Annotated[str, msgspec.Meta(max_length=500)]
    reference: Annotated[str, msgspec.Meta(max_length=500)] = ""
    """Empty: the largest that is here and fits."""


class LossResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the next tokens of a text, by a smaller quantisation or KV cache, differ by from those of the larger."""

    positions: int
    kl_divergence: float
    """Mean, in nats."""
    same_likeliest: float
    """Share of places where both hold the same token for the likeliest."""
    perplexity_before: float
    perplexity: float
    reference: str = ""
    """The larger model's name; empty where settings of one model are compared."""


class StartTune(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for the settings with which a model answers fastest here, within a time."""

    model: Annotated[str, msgspec.Meta(max_length=500)]
    workload: Workload = Workload.CHAT
    duration_s: Annotated[float, msgspec.Meta(ge=30, le=7200)] = 120.0
    """How long measuring may take, about; loading a large model once more may exceed it."""
    concurrency: _Concurrency = 1
    """So many requests at once; with more than one, numbers of slots are tried too."""
    most_loss: Annotated[float, msgspec.Meta(gt=0, le=10)] | None = None
    """The most that answers may change for a smaller KV cache, as mean KL divergence; None: it is left as it is."""
    keeps_disturbed: bool = False
    """Go on while other programs are busy: what comes of it is shown, and nothing is changed."""
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0


class CandidateResult(msgspec.Struct, frozen=True, kw_only=True):
    """One setting that was tried; without requests, with why it could not be."""

    name: str
    """As in "threads 2"."""
    requests: int = 0
    e2e_s: float | None = None
    """Median of a whole answer; None where it was not measured."""
    ratio: Figure | None = None
    """To the settings of before: below 1 is faster."""
    loss: float | None = None
    """Mean KL divergence to the settings of before, where it can change answers."""
    is_kept: bool = False
    problem: str = ""


class TuneResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: `settings` count from the next load on, if it `is_change`; `settings_before` undo it."""

    model: str
    engine: str
    is_change: bool
    sentence: str
    entries: list[CandidateResult]
    before: AnswerFigures
    after: AnswerFigures
    ratios: AnswerRatios
    """Of answers, after to before."""
    settings_before: ModelSettings
    settings: ModelSettings
    """With what is faster; not in use if it was disturbed."""
    duration_s: float
    disturbances: list[str] = []


class RaceCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """An engine that reads a model's files here; what installing it takes, where it is not installed."""

    engine: str
    name: str
    version: str = ""
    is_installed: bool = False
    is_current: bool = False
    """Whether it runs the model now."""
    measured_version: str = ""
    """The version that was measured last with this model and workload; empty for none."""
    download_bytes: int = 0
    disk_bytes: int = 0
    download_s: float = 0.0
    """How long its download takes at 50 Mbit/s."""
    measure_s: float | None = None
    """How long measuring it takes: as it took before, else as predicted; None where nobody knows."""


class RacePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Who could run in a race. Only installed engines do, unless others are named to be installed."""

    model: str
    candidates: list[RaceCandidate]


class StartRace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for the fastest engine of a model, by `settings`. `installs` are engines to be installed first."""

    model: Annotated[str, msgspec.Meta(max_length=500)]
    settings: BenchmarkSettings = BenchmarkSettings()
    installs: Annotated[list[str], msgspec.Meta(max_length=20)] = []


class RaceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How one engine did; without a receipt, why it came to nothing."""

    engine: str
    receipt: str = ""
    e2e_s: float | None = None
    """Median of a whole answer, with the fewest requests at once."""
    ratio: Figure | None = None
    """To the engine of before: below 1 is faster."""
    problem: str = ""
    note: str = ""
    """What changed since it was last measured in another version."""


class RaceResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a race: `winner` is used for the model from its next load on, if it `is_change`."""

    model: str
    engine_before: str
    settings_before: ModelSettings
    """Set again, they undo the race."""
    settings: ModelSettings
    """With the winner; without what it has no option for."""
    winner: str
    is_change: bool
    sentence: str
    entries: list[RaceEntry]
