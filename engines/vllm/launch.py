"""vLLM's adapter: flags of `vllm serve`, the lines it writes while it loads, and how it ends.

It binds its socket early but listens only when it is ready; a load may compile for minutes. Its last line on a failed
start says "see root cause above": the first error counts.
"""

import json
from collections.abc import Mapping, Sequence

from engines.api import FailureKind, LaunchOptions, ListenOptions, ModelSource, NodePlace, Readiness
from engines.clues import compile_clues
from engines.failures import FailureReader
from engines.flags import Flag, FlagTable, lora_flag, no_flag, switch_flag, task_flag, value_flag
from engines.log_lines import SHARDS, buffer_row, context_row, stage_row
from engines.remedies import RemedyOptions
from engines.server_adapter import RENDEZVOUS_PORT, BackendTerms, ServerAdapter, ServerRecipe
from engines.vllm.descriptor import DESCRIPTOR, PROCESSOR_SHARE

_K = FailureKind
_HF_NAMES = {"repeat_penalty": "repetition_penalty"}
KV_TYPES = {"f16": "auto", "fp8": "fp8", "fp8_e4m3": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2"}


def speculation_flags(options: LaunchOptions) -> Sequence[str]:
    """Return --speculative-config: a draft model, a head the model itself has, or words seen before."""
    draft = options.draft
    if draft is None:
        return ()
    config: dict[str, object] = {"num_speculative_tokens": draft.tokens}
    if draft.path is not None:
        config["model"] = str(draft.path)
    if draft.kind != "model":
        config["method"] = draft.kind
    if draft.kind == "ngram":
        config["prompt_lookup_max"] = draft.tokens
    return ("--speculative-config", json.dumps(config, sort_keys=True))


def sampling_flags(options: LaunchOptions) -> Sequence[str]:
    """Return what counts over the model's generation_config.json, which vLLM reads itself, or instead of it."""
    values = {_HF_NAMES.get(name, name): value for name, value in options.sampling.explicit_values.items()}
    override = ("--override-generation-config", json.dumps(values, sort_keys=True)) if values else ()
    return (*(("--generation-config", "vllm") if options.sampling.is_all else ()), *override)


def tool_parser_flags(options: LaunchOptions) -> Sequence[str]:
    """Return the parser, and leave for the model to choose for itself whether it calls."""
    return ("--enable-auto-tool-choice", "--tool-call-parser", str(options.tool_parser))


_HEADLESS = "--headless"
_NODE_FLAGS = ("--distributed-executor-backend", "--nnodes", "--node-rank", "--master-addr", "--master-port", _HEADLESS)


def node_flags(options: LaunchOptions) -> Sequence[str]:
    """Return which of the processes on several computers this is; only the first serves requests."""
    place = options.node
    if place is None:
        return ()
    where = (place.addresses[0], str(RENDEZVOUS_PORT))
    values = ("mp", str(len(place.addresses)), str(place.rank), *where)
    words = [word for pair in zip(_NODE_FLAGS, values, strict=False) for word in pair]
    return (*words, *((_HEADLESS,) if place.rank else ()))


def node_environment(place: NodePlace) -> Mapping[str, str]:
    """Return its address and how many layers each process holds."""
    return {"VLLM_HOST_IP": place.address, "VLLM_PP_LAYER_PARTITION": ",".join(map(str, place.layers))}


_DATA_PARALLEL = frozenset(
    f"--data-parallel-{what}"
    for what in (
        *("size", "size-local", "rank", "start-rank", "address", "rpc-port", "backend", "supervisor-port"),
        *("hybrid-lb", "external-lb", "multi-port-external-lb"),
    )
)
"""More than one copy means more than one server, each in a process of its own, where nobody asks for our key."""

_NO_PREFIX_CACHE = "--no-enable-prefix-caching"
_OF_033 = {_NO_PREFIX_CACHE: "--disable-prefix-caching"}
"""What the help of 0.33 calls it, which takes the name of before as well."""
TABLE = FlagTable(
    engine="vLLM",
    flags=(
        value_flag("context", "--max-model-len"),
        value_flag("slots", "--max-num-seqs"),
        no_flag("threads"),
        no_flag("traces_url"),
        no_flag("device_ids", "--device-ids"),
        value_flag("tensor_parallel", "--tensor-parallel-size"),
        value_flag("pipeline_parallel", "--pipeline-parallel-size"),
        Flag(option="node", names=_NODE_FLAGS, say=node_flags),
        value_flag("gpu_memory_fraction", "--gpu-memory-utilization"),
        value_flag("kv_type", "--kv-cache-dtype", names=KV_TYPES),
        Flag(option="draft", names=("--speculative-config",), say=speculation_flags),
        lora_flag("--lora-modules", "--enable-lora"),
        Flag(
            option="sampling",
            names=("--generation-config", "--override-generation-config"),
            say=sampling_flags,
            can_do_without=True,
        ),
        task_flag(
            {
                "chat": (),
                "embed": ("--runner", "pooling", "--convert", "embed"),
                "rerank": ("--runner", "pooling", "--convert", "classify"),
            }
        ),
        value_flag("chat_template", "--chat-template"),
        Flag(option="tool_parser", names=("--enable-auto-tool-choice", "--tool-call-parser"), say=tool_parser_flags),
        value_flag("reasoning_parser", "--reasoning-parser"),
        value_flag("max_batch_tokens", "--max-num-batched-tokens", can_do_without=True),
        switch_flag("prefix_cache", off=_NO_PREFIX_CACHE, renamed=_OF_033, can_do_without=True),
        switch_flag("trust_remote_code", on="--trust-remote-code"),
    ),
    reserved=frozenset(
        {"--model", "--host", "--port", "--uds", "--served-model-name", "--api-key", "--config", "--root-path"}
        | {"--allowed-origins", "--allow-credentials", "--middleware", "--headless", "--api-server-count"}
        | {"--allowed-local-media-path", "--worker-extension-cls", "--tool-parser-plugin", "--reasoning-parser-plugin"}
        | {"--distributed-executor-backend", "--enable-ssl-refresh", "--download-dir", "--tool-server"}
        | {"-tp", "-pp", "-dp", "--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs", "--master-addr", "--grpc"}
        | {"--grpc-port", "--nnodes", "-n", "--node-rank", "-r", "--worker-cls", "--scheduler-cls"}
        | {"--logits-processors", "--io-processor-plugin", "--model-class-overrides"}
        # other words for what options say
        | {"--device-memory-utilization", "--spec-method", "--spec-model", "--spec-tokens", "-sc"}
        | _DATA_PARALLEL
    ),
    reserved_env=frozenset(
        {"VLLM_API_KEY", "VLLM_SERVER_DEV_MODE", "HF_HUB_OFFLINE", "ROUNDHOUSE_WORKER_KEY"}
        | {"VLLM_USE_RUST_FRONTEND"}  # a server that is not uvicorn asks nobody for our key
    ),
)

_CLUES = compile_clues(
    (_K.CONTEXT_TOO_LARGE, (r"to serve at least one request with the models?'?s max seq len",)),
    (_K.CONTEXT_TOO_LARGE, (r"user-specified max_model_len \(\d+\) is greater than the derived",)),
    (
        _K.OUT_OF_GPU_MEMORY,
        (
            r"free memory on device .{0,200} is less than desired gpu memory utilization",
            r"no available memory for the cache blocks",
            r"error in memory profiling",
            r"free memory on device .{0,200} is less than the engine's budget",
            r"externally held weights .{0,200} exceed the desired gpu memory",
        ),
    ),
    (_K.MODEL_UNSUPPORTED, (r"model architectures .{0,200} (are|is) not supported", r"has no vLLM implementation")),
    (_K.MODEL_UNSUPPORTED, (r"was supported in vllm until", r"is not supported in-tree anymore")),
    (_K.MODEL_UNSUPPORTED, (r"is not supported for quantization method",)),
    (
        _K.MODEL_UNSUPPORTED,
        (
            r"unknown quantization method",
            r"gguf .{0,99}(plugin|not supported)",
            r"bitsandbytes.{0,60}plugin",
        ),
    ),
    (_K.BAD_FLAG, (r"(is not|must be) divisible by (the )?tensor parallel", r"larger than the maximum supported by")),
    (_K.BAD_FLAG, (r"total number of available \w+ in the placement group", r"cannot provide a placement group")),
    (
        _K.BAD_FLAG,
        (
            r"(does|do) not support `?--(runner|convert)",
            r"pipeline parallelism is not supported for this model",
            r"error\S{0,60} max_num_batched_tokens \(\d+\) (is smaller|must be)",
            r"does not match the quantization method specified in the",
            r"--device-ids provides \d+ devices",
            r"draft model should have the same vocabulary size",
            r"lora rank \d+ is greater than max_lora_rank",
            r"unsupported speculative method",
            r"invalid tool call parser",
            r"reasoning parser '.{0,200}' not found",
        ),
    ),
    (_K.MODEL_NOT_FOUND, (r"cannot find any model weights with", r"cannot find the config file for")),
    (_K.BAD_FLAG, (r"world size \(\d+\) is larger than the number of available gpus",)),
    (_K.OUT_OF_MEMORY, (r"available memory on node .{0,200} is less than desired cpu memory utilization",)),
    (_K.KILLED, (r"worker proc \S{1,80} died unexpectedly \(exit code: -9\)",)),
    (
        _K.CRASHED,
        (r"worker proc \S{1,80} died unexpectedly", r"runtimeerror: executor failed\.", r"enginedeaderror: enginecore"),
    ),
)

READER = FailureReader(name="vLLM", means=RemedyOptions(cache_type="fp8", gpu_share=True), clues=_CLUES)

LOG = (
    stage_row(SHARDS, "Reading weights"),
    stage_row(r"Loading (model weights|weights) took|Model loading took", "Preparing"),
    stage_row(
        r"Starting torch\.compile|torch\.compile (takes|took)|Compiling a graph|Dynamo bytecode transform", "Compiling"
    ),
    stage_row(r"Warming up model for the compilation|(CPU|GPU) KV cache size: [\d,]+ tokens", "Warming up"),
    stage_row(r"Capturing CUDA graphs.{0,200}?(?P<percent>\d{1,3})%", "Capturing graphs"),
    stage_row(r"Starting vLLM (API )?server|Application startup complete", "Ready"),
    buffer_row(r"Model loading took (?P<size>[\d.]+) (?P<unit>GiB|GB)", "model"),
    buffer_row(r"Available KV cache memory: (?P<size>[\d.]+) (?P<unit>GiB)", "kv"),
    buffer_row(r"Auto set \((?P<size>[\d.]+)/[\d.]+\) (?P<unit>GiB) for KV cache", "kv", device="CPU"),
    buffer_row(r"Graph capturing finished in .{0,200} took (?P<size>[\d.]+) (?P<unit>GiB)", "compute"),
    context_row(r"Using max model len (?P<tokens>[\d,]+)"),
)


def base_arguments(model: ModelSource, _options: LaunchOptions, net: ListenOptions) -> Sequence[str]:
    """Return what Roundhouse decides."""
    return (
        *("serve", model.path.as_posix(), "--host", net.host, "--port", str(net.port)),
        *("--served-model-name", model.name, "--disable-uvicorn-access-log"),
    )


ON_CPU = BackendTerms(
    single_arguments=("--enforce-eager",),  # compiling took 34 s for the smallest model, and asks for a C++ compiler
    env={
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # bound, it leaves out a core for each process beside the workers
        "TORCHDYNAMO_DISABLE": "1",  # without a compiler a request for log probabilities would end it
        "VLLM_USE_AOT_COMPILE": "0",  # over several computers it would compile ahead all the same, and fail
    },
    threads_variable="OMP_NUM_THREADS",
    memory_fraction=PROCESSOR_SHARE,
)

ADAPTER = ServerAdapter(
    ServerRecipe(
        about=DESCRIPTOR,
        table=TABLE,
        reader=READER,
        module="vllm.entrypoints.cli.main",
        opening=base_arguments,
        distribution="vllm",
        program="vllm",
        help_arguments=("serve", "--help=all"),
        log=LOG,
        readiness=Readiness(path="/health", interval_s=0.5, stall_s=600.0),
        env={"VLLM_NO_USAGE_STATS": "1"},
        terms={"cpu": ON_CPU},
        files=lambda _options: (),
        node_environment=node_environment,
    )
)
