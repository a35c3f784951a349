"""MLC LLM's adapter. It has no /health: its port opens once the engine is there. Sizes go into one `--overrides`."""

from collections.abc import Sequence

from engines.api import FailureKind, LaunchOptions, ListenOptions, ModelSource, Readiness, ReadyWhen
from engines.clues import compile_clues
from engines.failures import FailureReader
from engines.flags import Flag, FlagTable, no_flag, task_flag
from engines.log_lines import stage_row
from engines.mlc_llm.descriptor import DESCRIPTOR
from engines.remedies import RemedyOptions
from engines.server_adapter import ServerAdapter, ServerRecipe

_K = FailureKind
_DRAFTS = {"model": "small_draft", "eagle3": "eagle"}
_OVERRIDES = {
    "context": "context_window_size",
    "slots": "max_num_sequence",
    "tensor_parallel": "tensor_parallel_shards",
    "pipeline_parallel": "pipeline_parallel_stages",
    "gpu_memory_fraction": "gpu_memory_utilization",
    "max_batch_tokens": "prefill_chunk_size",
}


def speculation_flags(options: LaunchOptions) -> Sequence[str]:
    """Return the draft and how it is used. Raises ValueError for kinds it has not."""
    draft = options.draft
    if draft is None or draft.path is None or draft.kind not in _DRAFTS:
        raise ValueError("MLC LLM drafts with a model or an eagle head of its own format.")
    return ("--additional-models", str(draft.path), "--speculative-mode", _DRAFTS[draft.kind])


TABLE = FlagTable(
    engine="MLC LLM",
    flags=(
        *(no_flag(option, "--overrides") for option in _OVERRIDES),
        no_flag("threads"),
        no_flag("device_ids", "--device"),
        Flag(option="draft", names=("--additional-models", "--speculative-mode"), say=speculation_flags),
        no_flag("prefix_cache", "--prefix-cache-mode"),
        no_flag("sampling"),
        task_flag({"chat": ()}),
    ),
    reserved=frozenset(
        {
            "--host",
            "--port",
            "--api-key",
            "--allow-origins",
            "--allow-methods",
            "--allow-headers",
            "--allow-credentials",
        }
        | {"--mode", "--model-lib", "--enable-debug"}
    ),
    reserved_env=frozenset({"ROUNDHOUSE_WORKER_KEY"}),
)

_CLUES = compile_clues(
    (_K.OUT_OF_GPU_MEMORY, (r"insufficient gpu memory error", r"the available single gpu memory is")),
    (_K.MODEL_NOT_FOUND, (r"mlc-chat-config\.json.{0,200}not found", r"cannot find (model|`mlc-chat-config)")),
    (_K.MISSING_LIBRARY, (r"clang(\+\+)?.{0,200}(not found|no such file)", r"cannot find .{0,200}tvm", r"libtvm")),
    (_K.MODEL_UNSUPPORTED, (r"unknown model type", r"unrecognized conversation template", r"keyerror: 'model_type'")),
)

READER = FailureReader(name="MLC LLM", means=RemedyOptions(), clues=_CLUES)

LOG = (
    stage_row(r"jit\.py.{0,200}Compiling using commands", "Compiling"),
    stage_row(r"Now compiling model lib on device", "Compiling"),
    stage_row(r"\[\d+:\d+:\d+\].{0,200}engine\.cc.{0,200}Loading", "Reading weights"),
    stage_row(r"Uvicorn running on", "Ready"),
)


def format_overrides(options: LaunchOptions) -> str:
    """Return the sizes as MLC writes them: "context_window_size=8192;max_num_sequence=4"."""
    unset = LaunchOptions()
    chosen_options = {name: getattr(options, option) for option, name in _OVERRIDES.items()}
    defaults = {name: getattr(unset, option) for option, name in _OVERRIDES.items() if option != "slots"}
    return ";".join(f"{name}={value}" for name, value in chosen_options.items() if value != defaults.get(name))


def base_arguments(model: ModelSource, options: LaunchOptions, net: ListenOptions) -> Sequence[str]:
    """Return what Roundhouse decides. Which devices it sees says the environment."""
    return (
        *("serve", str(model.path), "--host", net.host, "--port", str(net.port), "--mode", "server"),
        *("--device", "auto", "--overrides", format_overrides(options)),
        *("--prefix-cache-mode", "radix" if options.prefix_cache else "disable"),
    )


ADAPTER = ServerAdapter(
    ServerRecipe(
        about=DESCRIPTOR,
        table=TABLE,
        reader=READER,
        module="mlc_llm",
        opening=base_arguments,
        distribution="mlc-llm",
        program="mlc_llm",
        help_arguments=("serve", "--help"),
        log=LOG,
        readiness=Readiness(when=ReadyWhen.MODEL_LISTED, path="/v1/models", interval_s=1.0, stall_s=900.0),
        files=lambda _options: (),
        serves_as_path=True,
    )
)
