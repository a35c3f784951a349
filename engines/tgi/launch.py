"""TGI's adapter: its container, run by docker or podman, for those who have the image already. Nothing is pulled.

A container outlives the client that started it, whoever killed that. So a shell inside holds on to standard input,
which the client passes on, and ends the server when that ends. The port opens at last: the router warms up before it.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

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
    SoftStop,
    StopPlan,
)
from engines.clues import compile_clues
from engines.failure_texts import FailureText
from engines.failures import FailureReader
from engines.flags import Flag, FlagTable, build_arguments, no_flag, switch_flag, task_flag, value_flag
from engines.log_lines import read_line, stage_row
from engines.program_probe import on_path, output_of
from engines.remedies import RemedyOptions
from engines.tgi.descriptor import DESCRIPTOR, IMAGE, VERSION

_K = FailureKind
DOCKER, PODMAN = "docker", "podman"
PORT_INSIDE = 80
KV_TYPES = {"f16": "", "fp8": "fp8_e4m3fn", "fp8_e5m2": "fp8_e5m2"}
QUIET = MappingProxyType(
    {
        "HF_HUB_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
        "NO_COLOR": "1",
    }
)
"""Its launcher colours its lines, wherever they go."""

SCRIPT = """\
exec 3<&0
if [ -x ./tgi-entrypoint.sh ]; then set -- ./tgi-entrypoint.sh "$@"; else set -- text-generation-launcher "$@"; fi
"$@" </dev/null 3<&- &
server=$!
trap 'kill -TERM "$server" 2>/dev/null' TERM INT
{ while read -r _ <&3; do :; done; kill -TERM "$server"; } >/dev/null 2>&1 &
lifeline=$!
wait "$server"; code=$?
while kill -0 "$server" 2>/dev/null; do wait "$server"; code=$?; done
kill "$lifeline" 2>/dev/null
exit "$code"
"""
"""Runs in the container as its first process: when it ends, all in there ends. A signal interrupts `wait`."""


def speculation_flags(options: LaunchOptions) -> Sequence[str]:
    """Return how many tokens are guessed from those before. Raises ValueError for kinds it has not."""
    draft = options.draft
    if draft is None or draft.kind != "ngram":
        raise ValueError("TGI drafts with ngram only; Medusa heads come with a model.")
    return ("--speculate", str(draft.tokens))


def context_flags(options: LaunchOptions) -> Sequence[str]:
    """Return both its limits: a prompt may take all but one token of the whole."""
    whole = options.context or 0
    return ("--max-total-tokens", str(whole), "--max-input-tokens", str(max(1, whole - 1)))


TABLE = FlagTable(
    engine="TGI",
    flags=(
        no_flag("sampling"),
        Flag(option="context", names=("--max-total-tokens", "--max-input-tokens"), say=context_flags),
        value_flag("slots", "--max-concurrent-requests"),
        no_flag("device_ids"),
        value_flag("tensor_parallel", "--num-shard"),
        value_flag("gpu_memory_fraction", "--cuda-memory-fraction"),
        value_flag("kv_type", "--kv-cache-dtype", names=KV_TYPES),
        Flag(option="draft", names=("--speculate",), say=speculation_flags),
        task_flag({"chat": ()}),
        value_flag("max_batch_tokens", "--max-batch-prefill-tokens"),
        switch_flag("trust_remote_code", on="--trust-remote-code"),
    ),
    reserved=frozenset(
        {"--model-id", "--hostname", "--port", "-p", "--prometheus-port", "--api-key", "--usage-stats"}
        | {"--json-output", "--cors-allow-origin", "--revision", "--huggingface-hub-cache", "--otlp-endpoint"}
        | {"--weights-cache-override", "--ngrok", "--ngrok-authtoken", "--ngrok-edge", "--lora-adapters"}
    ),
    reserved_env=frozenset({*QUIET, "API_KEY", "PORT", "HOSTNAME"}),
)

_CLUES = compile_clues(
    (
        _K.NOT_INSTALLED,
        (
            r"unable to find image",
            r"no such image",
            r"image not known",
            r"cannot connect to the docker daemon",
            r"(docker daemon socket|docker api at|podman socket)",
        ),
    ),
    (_K.PORT_IN_USE, (r"port is already allocated",)),
    (
        _K.DRIVER,
        (
            r"could not select device driver",
            r"unresolvable CDI devices",
            r"nvidia-container-cli: initialization error",
            r"nvidia-container-cli: .{0,200}(driver|cuda)",
        ),
    ),
    (_K.CONTEXT_TOO_LARGE, (r"not enough memory to handle \d+ (prefill|total) tokens",)),
    (_K.BAD_FLAG, (r"ArgumentValidation\(", r"NotEnoughCUDADevices\(", r"error: unexpected argument")),
)

READER = FailureReader(
    name="TGI",
    means=RemedyOptions(cache_type="fp8", gpu_share=True),
    clues=_CLUES,
    texts=MappingProxyType(
        {
            _K.NOT_INSTALLED: FailureText(
                "{engine} cannot be started: its container image is not here, or the container program does not run.",
                f"{DESCRIPTOR.obtained} To use one that runs elsewhere: `roundhouse attach`.",
            )
        }
    ),
)

LOG = (
    stage_row(r"Starting check and download process", "Looking at the model"),
    stage_row(r"Starting shard\b|Waiting for shard to be ready", "Reading weights"),
    stage_row(r"Starting Webserver", "Starting"),
    stage_row(r"Warming up model", "Warming up"),
    stage_row(r"\bConnected$", "Ready"),
)


class TgiAdapter:
    """`engines.api.EngineAdapter` for TGI's container."""

    @property
    def descriptor(self) -> Descriptor:
        """What TGI is."""
        return DESCRIPTOR

    @property
    def flag_table(self) -> FlagTable:
        """How options become its flags."""
        return TABLE

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:  # noqa: ARG002 -- containers lie in no place of ours
        """Find a container program that has the image. Nothing is fetched."""
        for name in (DOCKER, PODMAN):
            program = on_path(name)
            if program is not None and has_image(program):
                return EngineInstallation(
                    engine=DESCRIPTOR.id, version=VERSION, backend="cuda", executable=program, package=name
                )
        text = READER.texts[_K.NOT_INSTALLED]
        return Failure(kind=_K.NOT_INSTALLED, sentence=text.sentence.format(engine=DESCRIPTOR.name), hint=text.hint)

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        """Return one container. Raises ValueError for options it cannot honour."""
        if model.format not in DESCRIPTOR.formats:
            raise ValueError(f"TGI does not read {model.format.value} weights.")
        command_line = build_arguments(TABLE, options, installation)
        env = {**QUIET, **options.extra_env}
        return LaunchPlan(
            processes=(
                ProcessSpec(
                    role="server",
                    argv=(
                        *container_command(model, options, net, installation, env),
                        *server_arguments(command_line.args),
                    ),
                    env=env,
                    secrets={"API_KEY": net.key},
                    stdin_lifeline=True,
                ),
            ),
            base_url=f"http://{net.host}:{net.port}",
            served_name="tgi",  # any other is taken for the name of a LoRA adapter
            readiness=Readiness(path="/health", interval_s=1.0, stall_s=900.0),
            stop=StopPlan(how=SoftStop.SIGTERM, grace_s=30.0),
            context=options.context,
            slots=options.slots,
            left_out=command_line.left_out,
        )

    def read_log(self, line: str) -> Sequence[LogEvent]:
        """Say what a line of the launcher, its shards or the container program means."""
        return read_line(line, LOG, READER)

    def classify_exit(self, end: Exit) -> Failure:
        """Name the cause of an end that was not asked for."""
        return READER.explain(end)


def has_image(program: Path) -> bool:
    """Say whether a container program has TGI's image; False where it does not run."""
    output = output_of((str(program), "image", "inspect", "--format", "{{.Id}}", IMAGE), timeout_s=5.0)
    return re.fullmatch(r"(sha256:)?[0-9a-f]{64}", output.strip()) is not None


def container_command(
    model: ModelSource,
    options: LaunchOptions,
    net: ListenOptions,
    installation: EngineInstallation,
    env: Mapping[str, str],
) -> Sequence[str]:
    """Return the command that runs the container: only this computer reaches it, and it only reads the model.

    Variables are named, and their values taken from the client's environment: the key is in no command line of ours.
    """
    name = installation.package or DOCKER
    return (
        *(str(installation.executable or name), "run", "--rm", "--interactive", "--pull", "never", "--shm-size", "1g"),
        *gpu_arguments(name, options.device_ids),
        *("--publish", f"{net.host}:{net.port}:{PORT_INSIDE}", "--volume", f"{model.path}:/model:ro"),
        *(part for variable in sorted({*env, "API_KEY"}) for part in ("--env", variable)),
        *("--entrypoint", "/bin/sh", IMAGE, "-c", SCRIPT, "tgi"),
    )


def gpu_arguments(program: str, device_ids: Sequence[str]) -> Sequence[str]:
    """Return how each program hands over GPUs. SELinux would keep a rootless container from the model's folder."""
    if program == PODMAN:
        devices = [f"nvidia.com/gpu={each}" for each in device_ids or ("all",)]
        return ("--security-opt", "label=disable", *(part for each in devices for part in ("--device", each)))
    return ("--gpus", f'"device={",".join(device_ids)}"' if device_ids else "all")


def server_arguments(args: Sequence[str]) -> Sequence[str]:
    """Return the launcher's arguments: what Roundhouse decides, then the options."""
    return (
        *("--model-id", "/model", "--hostname", "0.0.0.0", "--port", str(PORT_INSIDE)),  # noqa: S104 -- inside the container
        *("--usage-stats", "off", *args),
    )


ADAPTER = TgiAdapter()
