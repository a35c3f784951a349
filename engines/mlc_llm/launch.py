"""MLC LLM's adapter. It has no /health: its port opens once the engine is there. Sizes go into one `--overrides`."""

from collections.abc import Sequence

from engines.api import FailureKind, LaunchOptions, ModelSource, Net, Readiness, ReadyWhen
from engines.clues import clues
from engines.failures import Reader
from engines.flags import Flag, Table, elsewhere, tasks
from engines.log_lines import stage
from engines.mlc_llm.descriptor import DESCRIPTOR
from engines.remedies import Means
from engines.served import Recipe, Served

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


def speculation(options: LaunchOptions) -> Sequence[str]:
    """Return the draft and how it is used. Raises ValueError for kinds it has not."""
    draft = options.draft
    if draft is None or draft.path is None or draft.kind not in _DRAFTS:
        raise ValueError("MLC LLM drafts with a model or an eagle head of its own format.")
    return ("--additional-models", str(draft.path), "--speculative-mode", _DRAFTS[draft.kind])


TABLE = Table(
    engine="MLC LLM",
    flags=(
        *(elsewhere(option, "--overrides") for option in _OVERRIDES),
        elsewhere("threads"),
        elsewhere("device_ids", "--device"),
        Flag(option="draft", names=("--additional-models", "--speculative-mode"), say=speculation),
        elsewhere("prefix_cache", "--prefix-cache-mode"),
        elsewhere("sampling"),
        tasks({"chat": ()}),
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

_CLUES = clues(
    (_K.OUT_OF_GPU_MEMORY, (r"insufficient gpu memory error", r"the available single gpu memory is")),
    (_K.MODEL_NOT_FOUND, (r"mlc-chat-config\.json.*not found", r"cannot find (model|`mlc-chat-config)")),
    (_K.MISSING_LIBRARY, (r"clang(\+\+)?.*(not found|no such file)", r"cannot find .*tvm", r"libtvm")),
    (_K.MODEL_UNSUPPORTED, (r"unknown model type", r"unrecognized conversation template", r"keyerror: 'model_type'")),
)

READER = Reader(name="MLC LLM", means=Means(), clues=_CLUES)

LOG = (
    stage(r"jit\.py.*Compiling using commands", "Compiling"),
    stage(r"Now compiling model lib on device", "Compiling"),
    stage(r"\[\d+:\d+:\d+\].*engine\.cc.*Loading", "Reading weights"),
    stage(r"Uvicorn running on", "Ready"),
)


def overrides(options: LaunchOptions) -> str:
    """Return the sizes as MLC writes them: "context_window_size=8192;max_num_sequence=4"."""
    unset = LaunchOptions()
    chosen = {name: getattr(options, option) for option, name in _OVERRIDES.items()}
    defaults = {name: getattr(unset, option) for option, name in _OVERRIDES.items() if option != "slots"}
    return ";".join(f"{name}={value}" for name, value in chosen.items() if value != defaults.get(name))


def opening(model: ModelSource, options: LaunchOptions, net: Net) -> Sequence[str]:
    """Return what Roundhouse decides. Which devices it sees says the environment."""
    return (
        *("serve", str(model.path), "--host", net.host, "--port", str(net.port), "--mode", "server"),
        *("--device", "auto", "--overrides", overrides(options)),
        *("--prefix-cache-mode", "radix" if options.prefix_cache else "disable"),
    )


ADAPTER = Served(
    Recipe(
        about=DESCRIPTOR,
        table=TABLE,
        reader=READER,
        module="mlc_llm",
        opening=opening,
        distribution="mlc-llm",
        program="mlc_llm",
        help_arguments=("serve", "--help"),
        log=LOG,
        readiness=Readiness(when=ReadyWhen.MODEL_LISTED, path="/v1/models", interval_s=1.0, stall_s=900.0),
        files=lambda _options: (),
        serves_as_path=True,
    )
)
