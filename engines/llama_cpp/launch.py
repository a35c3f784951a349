"""The adapter for llama.cpp: through xllamacpp in a worker of ours, or as a program (see `binary`).

To the worker options travel as parameters, not flags, so there is no flag list to trust; what these parameters cannot
express is refused with a sentence rather than dropped.
"""

import importlib.metadata
import ipaddress
import json
import subprocess
import sys
from collections.abc import Callable, Sequence

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
from engines.environment import engine_environment
from engines.flags import FlagTable
from engines.llama_cpp import binary, log
from engines.llama_cpp.binary import KV_TYPES
from engines.llama_cpp.descriptor import DESCRIPTOR
from engines.llama_cpp.log import READER
from engines.llama_cpp.states import keeps_states, stateless_reason
from engines.llama_cpp.worker import SPECULATION
from engines.worker_launch import own_python, worker_argv, worker_environment, worker_process

PACKAGE = "xllamacpp"
WORKER = "engines.llama_cpp.worker"
BINDING = "llama-cpp-python"
"""The package that is built from source, for this very processor; our own server serves it."""
WORKERS = {BINDING: "engines.llama_cpp_python.worker"}
_BINDING = "[Ll]ib/**/site-packages/llama_cpp"
"""Where the binding lies in an environment, on every system."""
RPC_WORKER = "engines.llama_cpp.rpc_worker"
RPC_FLAG = "--rpc"
"""Among an installation's flags: this build shares a model out over machines, and holds layers for others."""
_RPC_LIBRARY = f"{_BINDING}/lib/*ggml-rpc.*"
TASKS = ("chat", "embed", "rerank")
LAYERS = "layers"
"""The task of holding layers for a model that another machine loads."""
OUTSIDE = "llama.cpp's RPC asks nobody for a key: a tunnel that ends on this computer leads to other machines."
NO_RPC = "This build of llama.cpp does not share a model out over machines; its rpc build does."
_REPORT_LOAD = {"LLAMA_SERVER_ROUTER_PORT": "1"}
"""Makes llama.cpp write its load progress to standard output. Meant for its own router; without it, no fractions."""
_DEVICES_TIMEOUT_S = 20.0

_REFUSALS_OF_BINDING: tuple[tuple[Callable[[LaunchOptions], bool], str], ...] = (
    (lambda o: o.draft is not None, "This build of llama.cpp does not support draft models; the bundled one does."),
    (lambda o: bool(o.lora), "This build of llama.cpp does not support LoRA adapters; the bundled one does."),
    (lambda o: o.projector is not None, "This build of llama.cpp does not support images; the bundled one does."),
)
"""What our own server does not do for llama-cpp-python."""
_NO_STATES_OF_BINDING = "This build of llama.cpp does not write what it has read; the bundled one does."
_REFUSALS_OF_BUNDLED: tuple[tuple[Callable[[LaunchOptions], bool], str], ...] = (
    (lambda o: bool(o.split_ratio), "The bundled llama.cpp does not share out layers over several devices."),
    (lambda o: bool(o.rpc_servers), NO_RPC),
    (lambda o: o.cpu_moe_layers is not None, "The bundled llama.cpp does not keep experts aside in system memory."),
)
"""What xllamacpp has no parameter for; its wheels are for processors and Apple silicon, which have one memory."""
_REFUSALS: tuple[tuple[Callable[[LaunchOptions], bool], str], ...] = (
    (lambda o: o.task not in TASKS, "llama.cpp knows the tasks chat, embed and rerank."),
    (lambda o: o.kv_type not in {None, *KV_TYPES}, f"llama.cpp keeps its KV cache as one of {', '.join(KV_TYPES)}."),
    (
        lambda o: o.flash_attention is False and o.kv_type in KV_TYPES[3:],
        "A quantised KV cache needs flash attention in llama.cpp.",
    ),
    (lambda o: o.slots < 1, "A model needs at least one slot."),
    (lambda o: o.slots > binary.MAX_SEQUENCES, binary.TOO_MANY_SLOTS),
    (lambda o: o.context is not None and o.context < 1, "A context needs at least one token."),
    (lambda o: o.tensor_parallel > 1, "This build of llama.cpp does not split tensors across devices."),
    (lambda o: o.pipeline_parallel > 1, "This build of llama.cpp does not split a model across processes."),
    (lambda o: o.node is not None, "llama.cpp has one process, which reaches memory on other computers."),
    (lambda o: bool(o.device_ids), "Choosing devices for llama.cpp is not possible yet."),
    (lambda o: o.gpu_memory_fraction is not None, "llama.cpp takes a number of GPU layers, not a share of GPU memory."),
    (
        lambda o: o.draft is not None and o.draft.kind not in SPECULATION,
        f"llama.cpp drafts with one of {', '.join(SPECULATION)}.",
    ),
    (
        lambda o: o.draft is not None and o.draft.kind in {"model", "eagle3"} and o.draft.path is None,
        "A draft model needs a file.",
    ),
    (lambda o: o.trust_remote_code, "llama.cpp runs no custom code: a GGUF file contains none."),
    (
        lambda o: bool(o.tool_parser or o.reasoning_parser),
        "llama.cpp chooses its parsers by the model's chat template; there is none to set.",
    ),
    (lambda o: bool(o.extra_args), "This llama.cpp is run without a command line, so it accepts no extra arguments."),
)


class LlamaCppAdapter:
    """`engines.api.EngineAdapter` for llama.cpp."""

    @property
    def descriptor(self) -> Descriptor:
        """What llama.cpp is."""
        return DESCRIPTOR

    @property
    def flag_table(self) -> FlagTable:
        """How options become the flags of `llama-server`."""
        return binary.TABLE

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:
        """Find xllamacpp in this environment by its metadata, or in `place`; nothing native is loaded here."""
        if place is not None and place.executable is not None:
            return binary.probe_program(place, place.executable)
        if place is not None:
            return _in_environment(place)
        try:
            version = importlib.metadata.version(PACKAGE)
        except importlib.metadata.PackageNotFoundError:
            return Failure(
                kind=FailureKind.NOT_INSTALLED,
                sentence="llama.cpp is missing from this installation.",
                hint="Install Roundhouse again; it includes llama.cpp.",
            )
        return EngineInstallation(engine=DESCRIPTOR.id, version=version, backend=_wheel_backend(), python=own_python())

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        """Return one worker that listens where `net` says. Raises ValueError for options it cannot honour."""
        if model.format not in DESCRIPTOR.formats:
            raise ValueError(f"llama.cpp reads GGUF files, not {model.format.value}.")
        if options.task == LAYERS:
            return _plan_layers(net, options, installation)
        if not all(is_loopback(server.rpartition(":")[0].strip("[]")) for server in options.rpc_servers):
            raise ValueError(OUTSIDE)
        if installation.executable is not None:
            return binary.plan_program(model, options, net, installation)
        is_binding = installation.package == BINDING
        if options.rpc_servers and RPC_FLAG not in installation.flags:
            raise ValueError(NO_RPC)
        for is_refused, sentence in (*_REFUSALS, *(_REFUSALS_OF_BINDING if is_binding else _REFUSALS_OF_BUNDLED)):
            if is_refused(options):
                raise ValueError(sentence)
        worker = worker_process(
            installation,
            WORKERS.get(installation.package, WORKER),
            _worker_config(model, options, net, installation),
            net.key,
            env={**_REPORT_LOAD, **options.extra_env},
        )
        return LaunchPlan(
            processes=(worker,),
            base_url=f"http://{_bracket_ipv6(net.host)}:{net.port}",
            served_name=model.name,
            readiness=Readiness(interval_s=0.03),  # a small model is ready in 0.1 s; asking costs next to nothing
            # Windows has no SIGTERM that a process could tell from a kill; the worker ends with its standard input.
            stop=StopPlan(how=SoftStop.STDIN_EOF if sys.platform == "win32" else SoftStop.SIGTERM, grace_s=5.0),
            context=options.context,
            slots=options.slots,
            keeps_states=not is_binding and keeps_states(options, net),
            stateless_reason=_NO_STATES_OF_BINDING if is_binding else stateless_reason(options),
        )

    def read_log(self, line: str) -> Sequence[LogEvent]:
        """Say what a line of the worker or of llama.cpp means."""
        return log.read_log_line(line)

    def classify_exit(self, end: Exit) -> Failure:
        """Name the cause of an end that was not asked for."""
        return READER.explain(end)


ADAPTER = LlamaCppAdapter()


def ask_devices(installation: EngineInstallation) -> tuple[str, ...]:
    """Ask a short-lived child which devices llama.cpp can use; empty when it cannot say. Takes up to 20 s."""
    if installation.executable is not None:
        return binary.devices_of(installation.executable)
    try:
        process = subprocess.run(
            worker_argv(installation, WORKER, "--devices"),
            capture_output=True,
            text=True,
            timeout=_DEVICES_TIMEOUT_S,
            check=True,
            env={**engine_environment(), **worker_environment()},
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    lines = [line for line in process.stdout.splitlines() if line.startswith('{"event": "devices"')]
    return tuple(json.loads(lines[-1])["names"]) if lines else ()


def _in_environment(place: EngineLocation) -> EngineInstallation:
    """Return which of the packages that bring llama.cpp is in an environment, told by its folders alone."""
    root = None if place.python is None else place.python.parents[1]
    is_bound = root is not None and any(root.glob(_BINDING))
    has_rpc = root is not None and any(root.glob(_RPC_LIBRARY))
    return EngineInstallation(
        engine=DESCRIPTOR.id,
        version=place.version,
        backend=place.backend,
        python=place.python,
        package=BINDING if is_bound else PACKAGE,
        flags=frozenset({RPC_FLAG}) if has_rpc else frozenset(),
    )


def _wheel_backend() -> str:
    """Return what the wheel of this platform was built for: Metal comes with the Apple silicon wheel, else the CPU."""
    import platform  # noqa: PLC0415 -- only asked when probing

    return "metal" if sys.platform == "darwin" and platform.machine() == "arm64" else "cpu"


def _plan_layers(net: ListenOptions, options: LaunchOptions, installation: EngineInstallation) -> LaunchPlan:
    """Return a worker that holds layers. RPC asks for no key, so it listens on loopback; a tunnel leads to it."""
    if installation.package != BINDING or RPC_FLAG not in installation.flags:
        raise ValueError(NO_RPC)
    if not is_loopback(net.host):
        raise ValueError("llama.cpp's RPC asks nobody for a key: it listens on this computer's own address alone.")
    config = {"host": net.host, "port": net.port, "threads": options.threads}
    return LaunchPlan(
        processes=(worker_process(installation, RPC_WORKER, config, net.key, env=options.extra_env),),
        base_url=f"http://{_bracket_ipv6(net.host)}:{net.port}",
        served_name=LAYERS,
        readiness=Readiness(when=ReadyWhen.CONNECTS, interval_s=0.05),
        stop=StopPlan(how=SoftStop.STDIN_EOF if sys.platform == "win32" else SoftStop.SIGTERM, grace_s=5.0),
        context=None,
        slots=options.slots,
    )


def is_loopback(host: str) -> bool:
    """Tell whether an address is this computer's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _worker_config(
    model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
) -> dict[str, object]:
    return {
        "model": str(model.path),
        "alias": model.name,
        "host": net.host,
        "port": net.port,
        "context": options.context,
        "slots": options.slots,
        "threads": options.threads,
        "gpu_layers": options.gpu_layers,
        "split_ratio": list(options.split_ratio),
        "rpc_servers": list(options.rpc_servers),
        "cpu_moe_layers": options.cpu_moe_layers,
        # Fitting layers into GPU memory loads the model's description twice, seconds with a large vocabulary.
        "fit": installation.backend != "cpu",
        "kv_type": options.kv_type,
        "flash_attention": options.flash_attention,
        "batch": options.max_batch_tokens,
        "projector": str(options.projector) if options.projector else None,
        "lora": [str(path) for path in options.lora],
        "draft": _draft_config(options),
        "sampling": {"said": options.sampling.explicit_values, "is_all": options.sampling.is_all},
        "usual_sampling": options.sampling.explicit_values,  # our own server's name for it, which serves the binding
        "chat_template": options.chat_template,
        "prefix_cache": options.prefix_cache,
        "task": options.task,
        "state_folder": str(net.state_folder) if keeps_states(options, net) else None,
    }


def _draft_config(options: LaunchOptions) -> dict[str, object] | None:
    draft = options.draft
    if draft is None:
        return None
    return {"path": str(draft.path) if draft.path else None, "kind": draft.kind, "tokens": draft.tokens}
