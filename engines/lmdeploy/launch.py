"""LMDeploy's adapter. It listens everywhere unless told otherwise, and has no prefix cache unless asked for one.

It has two engines. TurboMind, which it prefers, passes over drafts and LoRA adapters with at most a warning.
"""

from collections.abc import Sequence

from engines.api import FailureKind, LaunchOptions, ListenOptions, ModelSource, Readiness
from engines.clues import compile_clues
from engines.failures import FailureReader
from engines.flags import Flag, FlagTable, lora_flag, no_flag, switch_flag, task_flag, value_flag
from engines.lmdeploy.descriptor import DESCRIPTOR
from engines.log_lines import stage_row
from engines.remedies import RemedyOptions
from engines.server_adapter import ServerAdapter, ServerRecipe

_K = FailureKind
KV_TYPES = {"f16": "0", "q8_0": "8", "q4_0": "4", "fp8": "fp8", "fp8_e5m2": "fp8_e5m2"}
_ALGORITHMS = {"eagle3": "eagle3", "mtp": "deepseek_mtp"}


def speculation_flags(options: LaunchOptions) -> Sequence[str]:
    """Return the algorithm and its draft. Raises ValueError for kinds it has not."""
    draft = options.draft
    if draft is None or draft.kind not in _ALGORITHMS:
        raise ValueError("LMDeploy drafts with eagle3 or mtp only.")
    path = ("--speculative-draft-model", str(draft.path)) if draft.path else ()
    tokens = ("--speculative-num-draft-tokens", str(draft.tokens))
    return ("--speculative-algorithm", _ALGORITHMS[draft.kind], *path, *tokens)


TABLE = FlagTable(
    engine="LMDeploy",
    flags=(
        value_flag("context", "--session-len"),
        value_flag("slots", "--max-batch-size"),
        no_flag("threads"),
        no_flag("device_ids"),
        value_flag("tensor_parallel", "--tp"),
        value_flag("gpu_memory_fraction", "--cache-max-entry-count"),
        value_flag("kv_type", "--quant-policy", names=KV_TYPES),
        Flag(
            option="draft",
            names=("--speculative-algorithm", "--speculative-draft-model", "--speculative-num-draft-tokens"),
            say=speculation_flags,
        ),
        lora_flag("--adapters"),
        no_flag("sampling"),
        task_flag({"chat": ()}),
        no_flag("prefix_cache", "--enable-prefix-caching"),
        switch_flag("trust_remote_code", on="--trust-remote-code", since="0.10"),
        value_flag("tool_parser", "--tool-call-parser"),
        value_flag("reasoning_parser", "--reasoning-parser"),
        value_flag("max_batch_tokens", "--max-prefill-token-num", can_do_without=True),
    ),
    reserved=frozenset(
        {"--server-name", "--server-port", "--model-name", "--api-keys", "--proxy-url", "--ssl"}
        | {"--allow-terminate-by-client", "--allow-origins", "--node-rank", "--download-dir"}
    ),
    reserved_env=frozenset({"HF_HUB_OFFLINE", "ROUNDHOUSE_WORKER_KEY"}),
)

_CLUES = compile_clues(
    (_K.OUT_OF_GPU_MEMORY, (r"no enough gpu memory", r"\[TM\]\[ERROR\].{0,200}out of memory", r"no enough blocks")),
    (_K.MODEL_UNSUPPORTED, (r"is not supported by (lmdeploy|turbomind|pytorch engine)", r"unrecognized model name")),
    (_K.MODEL_UNSUPPORTED, (r"unsupported quant method",)),
    (_K.BAD_FLAG, (r"the (tool|reasoning) parser \S+ is not in the parser list",)),
    (_K.MODEL_CORRUPT, (r"could not find model architecture from config",)),
    (
        _K.CONTEXT_TOO_LARGE,
        (
            r"session_len .{0,99} (exceed|too large)",
            r"truncate max_prefill_token_num.{0,99}insufficient",
        ),
    ),
)

READER = FailureReader(name="LMDeploy", means=RemedyOptions(cache_type="q8_0"), clues=_CLUES)

LOG = (
    stage_row(r"Loading weights from safetensors:\s+(?P<percent>\d+)%", "Reading weights"),
    stage_row(r"Convert to turbomind format:\s+(?P<percent>\d+)%", "Converting weights"),
    stage_row(r"Application startup complete|Uvicorn running on", "Ready"),
)


def base_arguments(model: ModelSource, options: LaunchOptions, net: ListenOptions) -> Sequence[str]:
    """Return what Roundhouse decides."""
    is_beyond_turbomind = options.draft is not None or bool(options.lora)
    return (
        *("serve", "api_server", str(model.path), "--server-name", net.host, "--server-port", str(net.port)),
        *("--model-name", model.name, "--log-level", "INFO"),
        *(("--backend", "pytorch") if is_beyond_turbomind else ()),
        *(("--enable-prefix-caching",) if options.prefix_cache else ()),
    )


ADAPTER = ServerAdapter(
    ServerRecipe(
        about=DESCRIPTOR,
        table=TABLE,
        reader=READER,
        module="lmdeploy",
        opening=base_arguments,
        distribution="lmdeploy",
        program="lmdeploy",
        help_arguments=("serve", "api_server", "--help"),
        log=LOG,
        readiness=Readiness(path="/health", interval_s=0.5, stall_s=600.0),
        files=lambda _options: (),
    )
)
