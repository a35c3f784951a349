"""SGLang's adapter: its /health generates a token, so it is asked rarely; on SIGTERM alone it would drain for ever."""

from collections.abc import Mapping, Sequence

from engines.api import FailureKind, LaunchOptions, ListenOptions, ModelSource, NodePlace, Readiness
from engines.clues import compile_clues
from engines.failures import FailureReader
from engines.flags import Flag, FlagTable, lora_flag, no_flag, switch_flag, task_flag, value_flag
from engines.log_lines import SHARDS, buffer_row, context_row, stage_row
from engines.remedies import RemedyOptions
from engines.server_adapter import RENDEZVOUS_PORT, TEMPLATE, BackendTerms, ServerAdapter, ServerRecipe
from engines.sglang.descriptor import DESCRIPTOR

_K = FailureKind
KV_TYPES = {"f16": "auto", "bf16": "bf16", "fp8": "fp8_e4m3", "fp8_e4m3": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2"}
_ALGORITHMS = {"model": "STANDALONE", "eagle3": "EAGLE3", "mtp": "NEXTN", "ngram": "NGRAM"}
_NUM_TOKENS, _NUM_STEPS, _TOPK = (f"--speculative-{what}" for what in ("num-draft-tokens", "num-steps", "eagle-topk"))


def speculation_flags(options: LaunchOptions) -> Sequence[str]:
    """Return the algorithm, the draft's path and how many tokens it drafts.

    A model drafts one token a step, and what is verified counts the token before them; steps, width and that count
    are given together or not at all, else SGLang ends with a bare AssertionError.
    """
    draft = options.draft
    if draft is None:
        return ()
    path = ("--speculative-draft-model-path", str(draft.path)) if draft.path else ()
    chain = (_NUM_STEPS, str(draft.tokens), _TOPK, "1", _NUM_TOKENS, str(draft.tokens + 1))
    tokens = (_NUM_TOKENS, str(draft.tokens)) if draft.kind == "ngram" else chain
    return ("--speculative-algorithm", _ALGORITHMS[draft.kind], *path, *tokens)


_NODE_FLAGS = ("--nnodes", "--node-rank", "--dist-init-addr")


def node_flags(options: LaunchOptions) -> Sequence[str]:
    """Return which of the processes on several computers this is."""
    place = options.node
    if place is None:
        return ()
    values = (str(len(place.addresses)), str(place.rank), f"{place.addresses[0]}:{RENDEZVOUS_PORT}")
    return [word for pair in zip(_NODE_FLAGS, values, strict=True) for word in pair]


def node_environment(place: NodePlace) -> Mapping[str, str]:
    """Return its address and how many layers each process holds."""
    return {"SGLANG_HOST_IP": place.address, "SGLANG_PP_LAYER_PARTITION": ",".join(map(str, place.layers))}


TABLE = FlagTable(
    engine="SGLang",
    flags=(
        value_flag("context", "--context-length"),
        value_flag("slots", "--max-running-requests"),
        no_flag("threads"),
        no_flag("device_ids", "--base-gpu-id"),
        value_flag("tensor_parallel", "--tp-size"),
        value_flag("pipeline_parallel", "--pp-size"),
        Flag(option="node", names=_NODE_FLAGS, say=node_flags),
        value_flag("gpu_memory_fraction", "--mem-fraction-static"),
        value_flag("kv_type", "--kv-cache-dtype", names=KV_TYPES),
        Flag(
            option="draft",
            names=("--speculative-algorithm", "--speculative-draft-model-path", _NUM_STEPS, _TOPK, _NUM_TOKENS),
            say=speculation_flags,
        ),
        lora_flag("--lora-paths", "--enable-lora"),
        no_flag("sampling"),
        task_flag({"chat": (), "embed": ("--is-embedding",), "rerank": ("--is-embedding",)}),
        Flag(option="chat_template", names=("--chat-template",), say=lambda _options: ("--chat-template", TEMPLATE)),
        value_flag("tool_parser", "--tool-call-parser"),
        value_flag("reasoning_parser", "--reasoning-parser"),
        value_flag("max_batch_tokens", "--chunked-prefill-size", can_do_without=True),
        switch_flag("prefix_cache", off="--disable-radix-cache", can_do_without=True),
        switch_flag("trust_remote_code", on="--trust-remote-code"),
    ),
    reserved=frozenset(
        {
            "--model-path",
            "--model",
            "--host",
            "--port",
            "--served-model-name",
            "--api-key",
            "--admin-api-key",
            "--config",
        }
        | {"--tensor-parallel-size", "--pipeline-parallel-size", "--dist-init-addr", "--nnodes", "--node-rank"}
        | {"--ssl-keyfile", "--ssl-certfile", "--tokenizer-worker-num", "--file-storage-path", "--download-dir"}
        | {"--enable-http2", "--grpc-port", "--grpc-mode", "--smg-grpc-mode", "--use-ray", "--encoder-only"}
        | {"-m", "--nccl-init-addr", "--tool-server", "--disaggregation-mode", "--disaggregation-bootstrap-port"}
        # code of the caller's own, in one case of whoever sends a request
        | {"--enable-custom-logit-processor", "--forward-hooks", "--custom-weight-loader"}
    ),
    reserved_env=frozenset(
        {"HF_HUB_OFFLINE", "ROUNDHOUSE_WORKER_KEY", "SGL_FORCE_SHUTDOWN", "SGLANG_FORCE_SHUTDOWN"}
        | {"SGLANG_GRPC_PORT", "SGLANG_RUST_SERVER"}  # servers that are not uvicorn ask nobody for our key
    ),
)

_CLUES = compile_clues(
    (_K.DRIVER, (r"no accelerator \(.{0,200}\) or platform plugin is available",)),
    (
        _K.OUT_OF_GPU_MEMORY,
        (
            r"not enough memory\. please try to (increase|reduce) --mem-fraction-static",
            r"loaded weights leave no gpu memory for the kv cache",
            r"not enough gpu memory for hybrid",
        ),
    ),
    (_K.OUT_OF_GPU_MEMORY, (r"(prefill|decode) out of memory", r"capture cuda graph failed.{0,200}out of memory")),
    (_K.BAD_FLAG, (r"does not match the quantization method specified in the",)),
    (
        _K.CONTEXT_TOO_LARGE,
        (r"context[ _]length \(\d+\) is greater than the derived", r"max_total_num_tokens .{0,200} too small"),
    ),
    (
        _K.MODEL_UNSUPPORTED,
        (
            r"is not supported by sglang",
            r"unsupported architectures?:",
            r"has no sglang implementation",
            r"cannot find model module",
        ),
    ),
    (_K.MODEL_NOT_FOUND, (r"cannot find any model weights with",)),
    (_K.CRASHED, (r"received sigquit from a child process",)),
    (
        _K.BAD_FLAG,
        (
            r"must be divisible by (tp|tensor)",
            r"valueerror: .{0,200}--[a-z-]{1,40}( \S{1,80})? (must|should|is (not|only)|requires|cannot)",
        ),
    ),
)

READER = FailureReader(name="SGLang", means=RemedyOptions(cache_type="fp8"), clues=_CLUES)

LOG = (
    stage_row(SHARDS, "Reading weights"),
    stage_row(r"Load weight begin", "Reading weights"),
    stage_row(r"Load weight end|KV Cache VA upper bound", "Preparing"),
    stage_row(r"Capture (\S.{0,200} )?(CUDA|cuda) graph begin", "Capturing graphs"),
    stage_row(r"Capturing batches.{0,200}?(?P<percent>\d{1,3})%", "Capturing graphs"),
    stage_row(r"The server is fired up and ready to roll", "Ready"),
    buffer_row(r"Load weight end\..{0,200}mem usage=(?P<size>[\d.]+) (?P<unit>GB)", "model"),
    buffer_row(r"KV Cache is allocated\..{0,200}K size: (?P<size>[\d.]+) (?P<unit>GB)", "kv"),
    buffer_row(r"KV Cache is allocated\..{0,200}, V size: (?P<size>[\d.]+) (?P<unit>GB)", "kv"),
    buffer_row(r"KV [Cc]ache (is )?allocated\..{0,200}KV size: (?P<size>[\d.]+) (?P<unit>GB)", "kv"),
    context_row(r"context_len=(?P<tokens>\d+)"),
)


def base_arguments(model: ModelSource, _options: LaunchOptions, net: ListenOptions) -> Sequence[str]:
    """Return what Roundhouse decides. Its warm-up asks itself without our key, and would end it after two minutes."""
    return (
        *("--model-path", model.path.as_posix(), "--host", net.host, "--port", str(net.port)),
        *("--served-model-name", model.name, "--enable-metrics", "--skip-server-warmup"),
    )


ON_CPU = BackendTerms(
    arguments=("--device", "cpu"),
    env={"SGLANG_USE_CPU_ENGINE": "1"},  # without it 0.5.23 looks for cards whatever the device is
    tokens_flag="--max-total-tokens",  # its cache took 16 of 24 GB for the smallest model
)

ADAPTER = ServerAdapter(
    ServerRecipe(
        about=DESCRIPTOR,
        table=TABLE,
        reader=READER,
        module="sglang.launch_server",
        opening=base_arguments,
        distribution="sglang",
        program="sglang",
        log=LOG,
        readiness=Readiness(path="/health", interval_s=2.0, stall_s=600.0),
        env={"SGL_FORCE_SHUTDOWN": "1"},  # 0.5.23 warns that the name is old, and still reads no other
        terms={"cpu": ON_CPU},
        node_environment=node_environment,
    )
)
