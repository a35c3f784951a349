"""Dynamo's adapter: a frontend that speaks HTTP and routes by what is cached where, and a vLLM worker behind it.

On one computer they find each other through a file; over several (see `engines.teams`) through etcd. The frontend is
well before any worker has registered: it is ready when it lists the model. A worker takes the flags of vLLM's engine,
not those of vLLM's server, and tells the router nothing of its cache unless told to: the router goes by what it sent.
"""

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
    ProcessSpec,
    Readiness,
    ReadyWhen,
    SoftStop,
    StopPlan,
)
from engines.clues import compile_clues
from engines.dynamo.descriptor import DESCRIPTOR
from engines.failures import FailureReader
from engines.flags import (
    Flag,
    FlagTable,
    build_arguments,
    task_flag,
    trace_arguments,
    trace_environment,
    value_flag,
)
from engines.log_lines import read_line, stage_row
from engines.program_probe import flags_of
from engines.remedies import RemedyOptions
from engines.server_adapter import QUIET, TEMPLATE, BackendTerms, device_environment, template_file
from engines.vllm.launch import LOG as VLLM_LOG
from engines.vllm.launch import ON_CPU as VLLM_ON_CPU
from engines.vllm.launch import READER as VLLM_READER
from engines.vllm.launch import TABLE as VLLM_TABLE

_K = FailureKind
FRONTEND, WORKER = "dynamo.frontend", "dynamo.vllm"
FILE, ETCD, KUBERNETES = "file", "etcd", "kubernetes"
"""Ways to find each other."""

_OWN = (
    value_flag("tool_parser", "--dyn-tool-call-parser"),
    value_flag("reasoning_parser", "--dyn-reasoning-parser"),
    Flag(
        option="chat_template",
        names=("--custom-jinja-template",),
        say=lambda _options: ("--custom-jinja-template", TEMPLATE),
    ),
    task_flag({"chat": (), "embed": ("--embedding-worker", "--runner", "pooling", "--convert", "embed")}),
)
"""The worker tells the frontend which template to write a prompt with and what to read an answer with."""
_NOT_VLLMS = frozenset({"lora", "node", *(flag.option for flag in _OWN)})
"""LoRA adapters are loaded by a request to the worker, which nobody here sends; processes on several computers are its
own affair."""

TABLE = FlagTable(
    engine="NVIDIA Dynamo",
    flags=(*(flag for flag in VLLM_TABLE.flags if flag.option not in _NOT_VLLMS), *_OWN),
    reserved=VLLM_TABLE.reserved
    | {name for flag in VLLM_TABLE.flags if flag.option in _NOT_VLLMS for name in flag.names}
    | {"--http-host", "--http-port", "--discovery-backend", "--request-plane", "--endpoint"},
    reserved_env=VLLM_TABLE.reserved_env
    | {"DYN_FILE_KV", "ETCD_ENDPOINTS", "DYN_HTTP_HOST", "DYN_HTTP_PORT"}
    | {"DYN_TCP_*", "DYN_EVENT_PLANE*", "DYN_SYSTEM_*", "DYN_DISCOVERY_BACKEND", "DYN_REQUEST_PLANE"},
)
PLAIN_LOG = {"DYN_SDK_DISABLE_ANSI_LOGGING": "1"}
"""It colours its lines into files and pipes too, and heeds no NO_COLOR."""
HOSTS = ("DYN_TCP_RPC_HOST", "DYN_TCP_RESPONSE_STREAM_HOST", "DYN_EVENT_PLANE_HOST")
"""Where requests, answers and events go between the processes: by default an address that others reach."""
READER = FailureReader(
    name="NVIDIA Dynamo",
    means=RemedyOptions(cache_type="fp8", gpu_share=True),
    clues=(
        *compile_clues(
            (
                _K.OFFLINE,
                (
                    r"etcd.{0,200}(unable to connect|connection refused|deadline)",
                    r"check etcd server status",
                    r"nats.{0,200}(connection refused|timed out)",
                ),
            ),
            (_K.MODEL_NOT_FOUND, (r"model snapshots for \S+ not found in cache",)),
            (_K.PORT_IN_USE, (r"failed to (start|bind) http (server|service)",)),
        ),
        *VLLM_READER.clues,
    ),
)
LOG = (stage_row(r"Committed discovered model group", "Ready"), *VLLM_LOG)


def frontend_arguments(net: ListenOptions, discovery: str) -> Sequence[str]:
    """Return the frontend's arguments."""
    return (
        *("--http-host", net.host, "--http-port", str(net.port), "--discovery-backend", discovery),
        *("--request-plane", "tcp", "--router-mode", "kv", "--no-router-kv-events"),
    )


def worker_arguments(model: ModelSource, discovery: str, args: Sequence[str]) -> Sequence[str]:
    """Return a worker's arguments: where it registers, then vLLM's own."""
    return (
        *("--model", model.path.as_posix(), "--served-model-name", model.name),
        *("--discovery-backend", discovery, "--request-plane", "tcp", *args),
    )


class DynamoAdapter:
    """`engines.api.EngineAdapter` for Dynamo."""

    @property
    def descriptor(self) -> Descriptor:
        """What Dynamo is."""
        return DESCRIPTOR

    @property
    def flag_table(self) -> FlagTable:
        """How options become its flags."""
        return TABLE

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:
        """Look at the environment in `place`."""
        if place is None or place.python is None:
            return Failure(
                kind=_K.NOT_INSTALLED,
                sentence="NVIDIA Dynamo is not installed.",
                hint="It is for several computers with NVIDIA GPUs; one computer is served better by vLLM alone.",
            )
        return EngineInstallation(
            engine=DESCRIPTOR.id,
            version=place.version,
            backend=place.backend,
            python=place.python,
            flags=flags_of((str(place.python), "-P", "-m", WORKER, "--help"), place.folder),
        )

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        """Return a frontend and one worker. Raises ValueError for options it cannot honour."""
        if model.format not in DESCRIPTOR.formats:
            raise ValueError(f"NVIDIA Dynamo does not read {model.format.value} weights.")
        terms = VLLM_ON_CPU if installation.backend == "cpu" else BackendTerms()
        options = terms.complete_options(options)
        command_line = build_arguments(TABLE, options, installation)
        traces = trace_arguments(DESCRIPTOR, options, installation)
        args = (*terms.build_arguments(options), *command_line.args, *traces.args)
        here = dict.fromkeys(HOSTS, net.host)
        env = {
            **QUIET,
            **PLAIN_LOG,
            **here,
            "DYN_FILE_KV": "discovery",
            **terms.build_environment(options),
            **trace_environment(DESCRIPTOR, options),
            **device_environment(options),
            **options.extra_env,
        }
        return LaunchPlan(
            processes=(
                process_spec(installation, "frontend", FRONTEND, frontend_arguments(net, FILE), env),
                process_spec(installation, "worker", WORKER, worker_arguments(model, FILE, args), env),
            ),
            base_url=f"http://{net.host}:{net.port}",
            served_name=model.name,
            readiness=Readiness(when=ReadyWhen.MODEL_LISTED, path="/v1/models", interval_s=1.0, stall_s=600.0),
            stop=StopPlan(how=SoftStop.SIGTERM, grace_s=15.0),
            files=template_file(options),
            context=options.context,
            slots=options.slots,
            left_out=(*command_line.left_out, *traces.left_out),
        )

    def read_log(self, line: str) -> Sequence[LogEvent]:
        """Say what a line of either process means."""
        return read_line(line, LOG, READER)

    def classify_exit(self, end: Exit) -> Failure:
        """Name the cause of an end that was not asked for."""
        return READER.explain(end)


def process_spec(
    installation: EngineInstallation, role: str, module: str, args: Sequence[str], env: dict[str, str]
) -> ProcessSpec:
    """Return one of Dynamo's processes."""
    python = str(installation.python or Path("python"))
    return ProcessSpec(role=role, argv=(python, "-P", "-m", module, *args), env=env)


ADAPTER = DynamoAdapter()
