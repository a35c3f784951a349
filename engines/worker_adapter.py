"""The adapter of a library that our own server serves (`engines.serving`); what differs is in its `WorkerRecipe`."""

import importlib.metadata
import sys
from collections.abc import Callable, Mapping, Sequence

import msgspec

from engines.api import (
    Descriptor,
    EngineInstallation,
    EngineLocation,
    Exit,
    Failure,
    FailureKind,
    Feature,
    Gauge,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    LogEvent,
    ModelSource,
    Readiness,
    SoftStop,
    StopPlan,
)
from engines.failures import FailureReader
from engines.worker_launch import own_python, read_worker_line, worker_process

METRICS_PATH = "/metrics"
PREFILL_FIELDS: Mapping[str, bool] = {"continue_final_message": True}
"""How our own server is asked to go on with the assistant's last turn; its answer holds what is new."""
METRICS: Mapping[Gauge, str] = {
    Gauge.RUNNING: "roundhouse_worker_requests_running",
    Gauge.WAITING: "roundhouse_worker_requests_waiting",
    Gauge.KV_USAGE: "roundhouse_worker_kv_cache_usage_ratio",
    Gauge.PROMPT_TOKENS: "roundhouse_worker_prompt_tokens_total",
    Gauge.GENERATED_TOKENS: "roundhouse_worker_generated_tokens_total",
}
"""What our server's metrics are called."""

PLAIN_SAMPLING: Mapping[str, float | int] = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "repeat_penalty": 1.0}
"""Words as likely as the model finds them: counts where what a model's files recommend is switched off."""

Refusal = tuple[Callable[[LaunchOptions], object], str]

_REFUSALS: tuple[tuple[str, Refusal], ...] = (
    (
        "task",
        (
            lambda o: o.task != "chat",
            "{engine} generates text; it does not create embeddings or rank documents here.",
        ),
    ),
    ("slots", (lambda o: o.slots < 1, "A model needs at least one slot.")),
    ("context", (lambda o: o.context is not None and o.context < 1, "A context needs at least one token.")),
    ("threads", (lambda o: o.threads is not None and o.threads < 1, "It needs at least one thread.")),
    (
        "gpu_layers",
        (lambda o: o.gpu_layers is not None, "{engine} runs a whole model on one device, so layers cannot be divided."),
    ),
    ("device_ids", (lambda o: len(o.device_ids) > 1, "{engine} runs a model on one device; name one.")),
    ("device_bytes", (lambda o: o.device_bytes, "{engine} cannot be told how much of each device it may fill.")),
    ("tensor_parallel", (lambda o: o.tensor_parallel > 1, "{engine} does not split tensors across devices.")),
    ("pipeline_parallel", (lambda o: o.pipeline_parallel > 1, "{engine} does not split a model across processes.")),
    ("rpc_servers", (lambda o: bool(o.rpc_servers), "{engine} holds no layers on other machines.")),
    ("node", (lambda o: o.node is not None, "{engine} has no process on each of several computers here.")),
    ("split_ratio", (lambda o: o.split_ratio, "{engine} does not divide a model over devices.")),
    (
        "gpu_memory_fraction",
        (lambda o: o.gpu_memory_fraction is not None, "{engine} takes the memory it needs, not a share."),
    ),
    (
        "cpu_moe_layers",
        (lambda o: o.cpu_moe_layers is not None, "{engine} does not keep experts apart in system memory."),
    ),
    ("flash_attention", (lambda o: o.flash_attention is not None, "{engine} chooses its attention kernels itself.")),
    ("lora", (lambda o: o.lora, "LoRA adapters are not possible with {engine} yet.")),
    ("projector", (lambda o: o.projector is not None, "Images are not possible with {engine} yet.")),
    ("trust_remote_code", (lambda o: o.trust_remote_code, "{engine} runs no custom code of models.")),
    (
        "parsers",
        (
            lambda o: o.tool_parser or o.reasoning_parser,
            "{engine} has no parsers: Roundhouse reads what its models write.",
        ),
    ),
    (
        "extra_args",
        (lambda o: o.extra_args, "{engine} is run without a command line, so it accepts no extra arguments."),
    ),
)
"""What no library has here but those that say so (`WorkerRecipe.honours`), by the option; each adds its own."""


class WorkerRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """One library. `configure` says what its worker is told beyond what all are; it raises ValueError with a sentence.

    `refused` are options it cannot honour; `honours` those it can, and most libraries cannot; `distribution` is what
    tells its version.
    """

    about: Descriptor
    reader: FailureReader
    worker: str
    distribution: str
    configure: Callable[[LaunchOptions, EngineInstallation], Mapping[str, object]]
    refused: tuple[Refusal, ...] = ()
    honours: frozenset[str] = frozenset()
    readiness: Readiness = Readiness(interval_s=0.05, stall_s=300.0)
    """A GPU's kernels may be compiled for minutes, without a word."""


class WorkerAdapter:
    """`engines.api.EngineAdapter` from a library."""

    def __init__(self, library: WorkerRecipe) -> None:
        self._library = library

    @property
    def descriptor(self) -> Descriptor:
        """What it is."""
        return self._library.about

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:
        """Find the library in `place`, else in this very environment, by its metadata alone."""
        about = self.descriptor
        if place is not None:
            return EngineInstallation(
                engine=about.id, version=place.version, backend=place.backend, python=place.python
            )
        try:
            version = importlib.metadata.version(self._library.distribution)
        except importlib.metadata.PackageNotFoundError:
            return Failure(
                kind=FailureKind.NOT_INSTALLED,
                sentence=f"{about.name} is not installed.",
                hint=f"`roundhouse engines install {about.id}` installs it where it can run.",
            )
        backend = "cpu" if "cpu" in about.accelerators else about.accelerators[0]
        return EngineInstallation(engine=about.id, version=version, backend=backend, python=own_python())

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        """Return one worker that listens where `net` says. Raises ValueError for options it cannot honour."""
        self.check(model, options)
        config = {**_common_config(model, options, net), **self._library.configure(options, installation)}
        worker = worker_process(installation, self._library.worker, config, net.key, env=options.extra_env)
        return LaunchPlan(
            processes=(worker,),
            base_url=f"http://{_bracket_ipv6(net.host)}:{net.port}",
            served_name=model.name,
            readiness=self._library.readiness,
            # Windows has no SIGTERM that a process could tell from a kill; our server has a route for it.
            stop=StopPlan(how=SoftStop.HTTP, path="/shutdown") if sys.platform == "win32" else StopPlan(),
            context=options.context,
            slots=options.slots,
        )

    def check(self, model: ModelSource, options: LaunchOptions) -> None:
        """Raise ValueError, with a sentence, for a model or options it cannot honour."""
        name = self.descriptor.name
        if model.format not in self.descriptor.formats:
            raise ValueError(f"{name} does not read {model.format.value} weights.")
        if options.draft is not None and Feature.DRAFT not in self.descriptor.features:
            raise ValueError(f"Draft models are not possible with {name} yet.")
        general = [refusal for option, refusal in _REFUSALS if option not in self._library.honours]
        for is_refused, sentence in (*general, *self._library.refused):
            if is_refused(options):
                raise ValueError(sentence.format(engine=name))

    def read_log(self, line: str) -> Sequence[LogEvent]:
        """Say what a line of the worker or of the library means."""
        events = read_worker_line(line)
        if events is not None:
            return events
        suspicion = self._library.reader.suspect(line)
        return () if suspicion is None else (suspicion,)

    def classify_exit(self, end: Exit) -> Failure:
        """Name the cause of an end that was not asked for."""
        return self._library.reader.explain(end)


def _common_config(model: ModelSource, options: LaunchOptions, net: ListenOptions) -> dict[str, object]:
    return {
        "model": str(model.path),
        "alias": model.name,
        "host": net.host,
        "port": net.port,
        "context": options.context,
        "slots": options.slots,
        "threads": options.threads,
        "prefix_cache": options.prefix_cache,
        "batch": options.max_batch_tokens,
        "chat_template": options.chat_template,
        "usual_sampling": {**(PLAIN_SAMPLING if options.sampling.is_all else {}), **options.sampling.explicit_values},
    }


def _bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host else host
