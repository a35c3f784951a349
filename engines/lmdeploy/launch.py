"""LMDeploy's adapter. It listens everywhere unless told otherwise, and has no prefix cache unless asked for one.

It has two engines. TurboMind, which it prefers, passes over drafts and LoRA adapters with at most a warning.
"""

from collections.abc import Sequence

from engines.api import FailureKind, LaunchOptions, ModelSource, Net, Readiness
from engines.clues import clues
from engines.failures import Reader
from engines.flags import Flag, Table, elsewhere, loras, switch, tasks, value
from engines.lmdeploy.descriptor import DESCRIPTOR
from engines.log_lines import stage
from engines.remedies import Means
from engines.served import Recipe, Served

_K = FailureKind
KV_TYPES = {"f16": "0", "q8_0": "8", "q4_0": "4", "fp8": "fp8", "fp8_e5m2": "fp8_e5m2"}
_ALGORITHMS = {"eagle3": "eagle3", "mtp": "deepseek_mtp"}


def speculation(options: LaunchOptions) -> Sequence[str]:
    """Return the algorithm and its draft. Raises ValueError for kinds it has not."""
    draft = options.draft
    if draft is None or draft.kind not in _ALGORITHMS:
        raise ValueError("LMDeploy drafts with eagle3 or mtp only.")
    path = ("--speculative-draft-model", str(draft.path)) if draft.path else ()
    tokens = ("--speculative-num-draft-tokens", str(draft.tokens))
    return ("--speculative-algorithm", _ALGORITHMS[draft.kind], *path, *tokens)


TABLE = Table(
    engine="LMDeploy",
    flags=(
        value("context", "--session-len"),
        value("slots", "--max-batch-size"),
        elsewhere("threads"),
        elsewhere("device_ids"),
        value("tensor_parallel", "--tp"),
        value("gpu_memory_fraction", "--cache-max-entry-count"),
        value("kv_type", "--quant-policy", names=KV_TYPES),
        Flag(
            option="draft",
            names=("--speculative-algorithm", "--speculative-draft-model", "--speculative-num-draft-tokens"),
            say=speculation,
        ),
        loras("--adapters"),
        elsewhere("sampling"),
        tasks({"chat": ()}),
        elsewhere("prefix_cache", "--enable-prefix-caching"),
        switch("trust_remote_code", on="--trust-remote-code", since="0.10"),
        value("tool_parser", "--tool-call-parser"),
        value("reasoning_parser", "--reasoning-parser"),
        value("max_batch_tokens", "--max-prefill-token-num", can_do_without=True),
    ),
    reserved=frozenset(
        {"--server-name", "--server-port", "--model-name", "--api-keys", "--proxy-url", "--ssl"}
        | {"--allow-terminate-by-client", "--allow-origins", "--node-rank", "--download-dir"}
    ),
    reserved_env=frozenset({"HF_HUB_OFFLINE", "ROUNDHOUSE_WORKER_KEY"}),
)

_CLUES = clues(
    (_K.OUT_OF_GPU_MEMORY, (r"no enough gpu memory", r"\[TM\]\[ERROR\].*out of memory", r"no enough blocks")),
    (_K.MODEL_UNSUPPORTED, (r"is not supported by (lmdeploy|turbomind|pytorch engine)", r"unrecognized model name")),
    (_K.MODEL_UNSUPPORTED, (r"unsupported quant method",)),
    (_K.BAD_FLAG, (r"the (tool|reasoning) parser \S+ is not in the parser list",)),
    (_K.MODEL_CORRUPT, (r"could not find model architecture from config",)),
    (_K.CONTEXT_TOO_LARGE, (r"session_len .* (exceed|too large)", r"truncate max_prefill_token_num.*insufficient")),
)

READER = Reader(name="LMDeploy", means=Means(cache_type="q8_0"), clues=_CLUES)

LOG = (
    stage(r"Loading weights from safetensors:\s+(?P<percent>\d+)%", "Reading weights"),
    stage(r"Convert to turbomind format:\s+(?P<percent>\d+)%", "Converting weights"),
    stage(r"Application startup complete|Uvicorn running on", "Ready"),
)


def opening(model: ModelSource, options: LaunchOptions, net: Net) -> Sequence[str]:
    """Return what Roundhouse decides."""
    is_beyond_turbomind = options.draft is not None or bool(options.lora)
    return (
        *("serve", "api_server", str(model.path), "--server-name", net.host, "--server-port", str(net.port)),
        *("--model-name", model.name, "--log-level", "INFO"),
        *(("--backend", "pytorch") if is_beyond_turbomind else ()),
        *(("--enable-prefix-caching",) if options.prefix_cache else ()),
    )


ADAPTER = Served(
    Recipe(
        about=DESCRIPTOR,
        table=TABLE,
        reader=READER,
        module="lmdeploy",
        opening=opening,
        distribution="lmdeploy",
        program="lmdeploy",
        help_arguments=("serve", "api_server", "--help"),
        log=LOG,
        readiness=Readiness(path="/health", interval_s=0.5, stall_s=600.0),
        files=lambda _options: (),
    )
)
