"""The adapter for MLX-LM: its own server in one worker process of ours, which keeps it honest (see `worker`)."""

import sys
from collections.abc import Sequence
from pathlib import Path

from engines.api import (
    Descriptor,
    Exit,
    Failure,
    FailureKind,
    Installation,
    LaunchOptions,
    LaunchPlan,
    LogEvent,
    ModelSource,
    Net,
    Place,
    Readiness,
    ReadyWhen,
    SoftStop,
    Stop,
)
from engines.clues import clues
from engines.failures import Reader
from engines.flags import Flag, Table, arguments, elsewhere, switch, tasks, value
from engines.mlx_lm.descriptor import DESCRIPTOR
from engines.probing import flags_of
from engines.remedies import Means
from engines.worker_launch import worker_process
from engines.worker_log import read_worker_line

_K = FailureKind
WORKER = "engines.mlx_lm.worker"


def _draft(options: LaunchOptions) -> Sequence[str]:
    draft = options.draft
    if draft is None or draft.path is None or draft.kind != "model":
        raise ValueError("MLX-LM drafts with a smaller model only.")
    return ("--draft-model", str(draft.path), "--num-draft-tokens", str(draft.tokens))


def _adapter(options: LaunchOptions) -> Sequence[str]:
    if len(options.lora) > 1:
        raise ValueError("MLX-LM takes one LoRA adapter.")
    return ("--adapter-path", str(options.lora[0]))


TABLE = Table(
    engine="MLX-LM",
    flags=(
        elsewhere("context", "--max-tokens"),
        value("slots", "--decode-concurrency"),
        elsewhere("threads"),
        elsewhere("gpu_layers"),
        value("kv_type", "--kv-bits", names={"f16": "", "q8_0": "8", "q4_0": "4"}),
        Flag(option="draft", names=("--draft-model", "--num-draft-tokens"), say=_draft),
        Flag(option="lora", names=("--adapter-path",), say=_adapter),
        elsewhere("sampling"),
        tasks({"chat": ()}),
        value("chat_template", "--chat-template"),
        value("max_batch_tokens", "--prefill-step-size", can_do_without=True),
        Flag(option="prefix_cache", names=("--prompt-cache-size",), say=lambda _options: ("--prompt-cache-size", "1")),
        switch("trust_remote_code", on="--trust-remote-code"),
    ),
    reserved=frozenset({"--model", "--host", "--port", "--allowed-origins", "--pipeline", "--log-level"}),
    reserved_env=frozenset({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "ROUNDHOUSE_WORKER_KEY"}),
)

READER = Reader(
    name="MLX-LM",
    means=Means(cache_type="q8_0"),
    clues=clues(
        (_K.REMOTE_CODE, (r"requires importing and running a custom module",)),
        (_K.MODEL_UNSUPPORTED, (r"model type \S+ not supported", r"missing (vision|audio) config")),
        (
            _K.MODEL_CORRUPT,
            (r"\[load_safetensors\]", r"\[load\] .*(invalid|corrupt)", r"expected shape .* but received"),
        ),
        (_K.MODEL_CORRUPT, (r"missing \d+ parameters", r"received \d+ parameters not in model")),
        (
            _K.MODEL_NOT_FOUND,
            (r"no safetensors found", r"hfvalidationerror", r"couldn't instantiate the backend tokenizer"),
        ),
        (_K.OUT_OF_MEMORY, (r"\[malloc(_or_wait)?\] unable to allocate",)),
    ),
)


class MlxLm:
    """`engines.api.Adapter` for MLX-LM."""

    @property
    def descriptor(self) -> Descriptor:
        """What MLX-LM is."""
        return DESCRIPTOR

    @property
    def table(self) -> Table:
        """How options become its flags."""
        return TABLE

    def probe(self, place: Place | None = None) -> Installation | Failure:
        """Look at the environment in `place`; MLX-LM does not come with Roundhouse."""
        if place is None or place.python is None:
            return Failure(
                kind=FailureKind.NOT_INSTALLED,
                sentence="MLX-LM is not installed.",
                hint="`roundhouse engines install mlx-lm` installs it.",
            )
        return Installation(
            engine=DESCRIPTOR.id,
            version=place.version,
            backend=place.backend,
            python=place.python,
            flags=flags_of((str(place.python), "-P", "-m", "mlx_lm", "server", "--help"), place.folder),
        )

    def plan(self, model: ModelSource, options: LaunchOptions, net: Net, found: Installation) -> LaunchPlan:
        """Return one worker. Raises ValueError for options it cannot honour."""
        if model.format not in DESCRIPTOR.formats:
            raise ValueError(f"MLX-LM reads MLX weights and 16-bit safetensors, not {model.format.value}.")
        spoken = arguments(TABLE, options, found)
        config = {
            "model": str(Path(model.path)),
            "name": model.name,
            "host": net.host,
            "port": net.port,
            "context": options.context,
            "arguments": list(spoken.args),
        }
        return LaunchPlan(
            processes=(worker_process(found, WORKER, config, net.key, env=dict(options.extra_env)),),
            base_url=f"http://{net.host}:{net.port}",
            served_name=model.name,
            # The worker's health tells the truth; a token more, and the kernels of the first answer are compiled too.
            readiness=Readiness(when=ReadyWhen.COMPLETION, path="/v1/completions", interval_s=0.05),
            stop=Stop(how=SoftStop.STDIN_EOF if sys.platform == "win32" else SoftStop.SIGTERM, grace_s=5.0),
            context=options.context,
            slots=options.slots,
            left_out=spoken.left_out,
        )

    def read_log(self, line: str) -> Sequence[LogEvent]:
        """Say what a line of the worker or of MLX-LM means."""
        said = read_worker_line(line)
        if said is not None:
            return said
        suspicion = READER.suspect(line)
        return (suspicion,) if suspicion else ()

    def classify_exit(self, end: Exit) -> Failure:
        """Name the cause of an end that was not asked for."""
        return READER.explain(end)


ADAPTER = MlxLm()
