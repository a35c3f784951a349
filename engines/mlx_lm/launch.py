"""The adapter for MLX-LM: its own server in one worker process of ours, which keeps it honest (see `worker`)."""

import sys
from collections.abc import Sequence
from pathlib import Path

from engines.api import (
    Descriptor,
    EngineInstallation,
    EngineLocation,
    Exit,
    Failure,
    FailureKind,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    LogEvent,
    ModelSource,
    Readiness,
    ReadyWhen,
    SoftStop,
    StopPlan,
)
from engines.clues import compile_clues
from engines.failures import FailureReader
from engines.flags import Flag, FlagTable, build_arguments, no_flag, switch_flag, task_flag, value_flag
from engines.mlx_lm.descriptor import DESCRIPTOR
from engines.program_probe import flags_of
from engines.remedies import RemedyOptions
from engines.worker_launch import read_worker_line, worker_process

_K = FailureKind
WORKER = "engines.mlx_lm.worker"


def _draft_flags(options: LaunchOptions) -> Sequence[str]:
    draft = options.draft
    if draft is None or draft.path is None or draft.kind != "model":
        raise ValueError("MLX-LM drafts with a smaller model only.")
    return ("--draft-model", str(draft.path), "--num-draft-tokens", str(draft.tokens))


def _adapter_flags(options: LaunchOptions) -> Sequence[str]:
    if len(options.lora) > 1:
        raise ValueError("MLX-LM takes one LoRA adapter.")
    return ("--adapter-path", str(options.lora[0]))


TABLE = FlagTable(
    engine="MLX-LM",
    flags=(
        no_flag("context", "--max-tokens"),
        value_flag("slots", "--decode-concurrency"),
        no_flag("threads"),
        no_flag("gpu_layers"),
        value_flag("kv_type", "--kv-bits", names={"f16": "", "q8_0": "8", "q4_0": "4"}),
        Flag(option="draft", names=("--draft-model", "--num-draft-tokens"), say=_draft_flags),
        Flag(option="lora", names=("--adapter-path",), say=_adapter_flags),
        no_flag("sampling"),
        task_flag({"chat": ()}),
        value_flag("chat_template", "--chat-template"),
        value_flag("max_batch_tokens", "--prefill-step-size", can_do_without=True),
        Flag(option="prefix_cache", names=("--prompt-cache-size",), say=lambda _options: ("--prompt-cache-size", "1")),
        switch_flag("trust_remote_code", on="--trust-remote-code"),
    ),
    reserved=frozenset({"--model", "--host", "--port", "--allowed-origins", "--pipeline", "--log-level"}),
    reserved_env=frozenset({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "ROUNDHOUSE_WORKER_KEY"}),
)

READER = FailureReader(
    name="MLX-LM",
    means=RemedyOptions(cache_type="q8_0"),
    clues=compile_clues(
        (_K.REMOTE_CODE, (r"requires importing and running a custom module",)),
        (_K.MODEL_UNSUPPORTED, (r"model type \S+ not supported", r"missing (vision|audio) config")),
        (
            _K.MODEL_CORRUPT,
            (r"\[load_safetensors\]", r"\[load\] .{0,200}(invalid|corrupt)", r"expected shape .{0,200} but received"),
        ),
        (_K.MODEL_CORRUPT, (r"missing \d+ parameters", r"received \d+ parameters not in model")),
        (
            _K.MODEL_NOT_FOUND,
            (r"no safetensors found", r"hfvalidationerror", r"couldn't instantiate the backend tokenizer"),
        ),
        (_K.OUT_OF_MEMORY, (r"\[malloc(_or_wait)?\] unable to allocate",)),
    ),
)


class MlxLmAdapter:
    """`engines.api.EngineAdapter` for MLX-LM."""

    @property
    def descriptor(self) -> Descriptor:
        """What MLX-LM is."""
        return DESCRIPTOR

    @property
    def flag_table(self) -> FlagTable:
        """How options become its flags."""
        return TABLE

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:
        """Look at the environment in `place`; MLX-LM does not come with Roundhouse."""
        if place is None or place.python is None:
            return Failure(
                kind=FailureKind.NOT_INSTALLED,
                sentence="MLX-LM is not installed.",
                hint="`roundhouse engines install mlx-lm` installs it.",
            )
        return EngineInstallation(
            engine=DESCRIPTOR.id,
            version=place.version,
            backend=place.backend,
            python=place.python,
            flags=flags_of((str(place.python), "-P", "-m", "mlx_lm", "server", "--help"), place.folder),
        )

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        """Return one worker. Raises ValueError for options it cannot honour."""
        if model.format not in DESCRIPTOR.formats:
            raise ValueError(f"MLX-LM reads MLX weights and 16-bit safetensors, not {model.format.value}.")
        command_line = build_arguments(TABLE, options, installation)
        config = {
            "model": str(Path(model.path)),
            "name": model.name,
            "host": net.host,
            "port": net.port,
            "context": options.context,
            "arguments": list(command_line.args),
        }
        return LaunchPlan(
            processes=(worker_process(installation, WORKER, config, net.key, env=dict(options.extra_env)),),
            base_url=f"http://{net.host}:{net.port}",
            served_name=model.name,
            # The worker's health tells the truth; a token more, and the kernels of the first answer are compiled too.
            readiness=Readiness(when=ReadyWhen.COMPLETION, path="/v1/completions", interval_s=0.05),
            stop=StopPlan(how=SoftStop.STDIN_EOF if sys.platform == "win32" else SoftStop.SIGTERM, grace_s=5.0),
            context=options.context,
            slots=options.slots,
            left_out=command_line.left_out,
        )

    def read_log(self, line: str) -> Sequence[LogEvent]:
        """Say what a line of the worker or of MLX-LM means."""
        events = read_worker_line(line)
        if events is not None:
            return events
        suspicion = READER.suspect(line)
        return (suspicion,) if suspicion else ()

    def classify_exit(self, end: Exit) -> Failure:
        """Name the cause of an end that was not asked for."""
        return READER.explain(end)


ADAPTER = MlxLmAdapter()
