"""MLX-VLM's adapter. Told a model when it starts, it loads it before it listens; /health names what is loaded."""

from collections.abc import Sequence

from engines.api import FailureKind, LaunchOptions, ListenOptions, ModelSource, Readiness, ReadyWhen
from engines.clues import compile_clues
from engines.failures import FailureReader
from engines.flags import Flag, FlagTable, no_flag, switch_flag, value_flag
from engines.log_lines import stage_row
from engines.mlx_vlm.descriptor import DESCRIPTOR
from engines.remedies import RemedyOptions
from engines.server_adapter import ServerAdapter, ServerRecipe

_K = FailureKind
WITHOUT_LIMIT = 1 << 20
"""For --max-tokens where no context is set: its default would cut answers short."""
_DRAFTS = {"eagle3": "eagle3", "mtp": "mtp"}


def _draft_flags(options: LaunchOptions) -> Sequence[str]:
    draft = options.draft
    if draft is None or draft.path is None or draft.kind not in _DRAFTS:
        raise ValueError("MLX-VLM drafts with an eagle3 or mtp model.")
    return ("--draft-model", str(draft.path), "--draft-kind", _DRAFTS[draft.kind])


def _adapter_flags(options: LaunchOptions) -> Sequence[str]:
    if len(options.lora) > 1:
        raise ValueError("MLX-VLM takes one LoRA adapter.")
    return ("--adapter-path", str(options.lora[0]))


TABLE = FlagTable(
    engine="MLX-VLM",
    flags=(
        value_flag("context", "--max-kv-size"),
        value_flag("slots", "--max-num-seqs"),
        no_flag("threads"),
        no_flag("gpu_layers"),
        value_flag("kv_type", "--kv-bits", names={"f16": "", "q8_0": "8", "q4_0": "4"}),
        Flag(option="draft", names=("--draft-model", "--draft-kind"), say=_draft_flags),
        Flag(option="lora", names=("--adapter-path",), say=_adapter_flags),
        no_flag("sampling"),
        no_flag("task", "--embedding-model", "--reranker-model"),
        value_flag("max_batch_tokens", "--prefill-step-size", can_do_without=True),
        switch_flag("trust_remote_code", on="--trust-remote-code"),
    ),
    reserved=frozenset(
        {"--model", "--host", "--port", "--api-key", "--model-dir", "--reload", "--max-tokens"}
        | {"--image-model", "--tts-model", "--stt-model", "--decision-model"}
    ),
    reserved_env=frozenset({"HF_HUB_OFFLINE", "ROUNDHOUSE_WORKER_KEY", "MLX_VLM_SERVER_API_KEY"}),
)

READER = FailureReader(
    name="MLX-VLM",
    means=RemedyOptions(cache_type="q8_0"),
    clues=compile_clues(
        (_K.MODEL_UNSUPPORTED, (r"model type \S+ not supported", r"no module named 'mlx_vlm\.(models|speculative)")),
        (
            _K.MODEL_CORRUPT,
            (
                r"\[load_safetensors\]",
                r"expected shape .{0,99} but received",
                r"missing \d+ parameters",
            ),
        ),
        (_K.MODEL_NOT_FOUND, (r"no safetensors found", r"hfvalidationerror")),
    ),
)

LOG = (
    stage_row(r"Loading model from|Pre-?loading (language )?model", "Reading weights"),
    stage_row(r"Application startup complete|Uvicorn running on", "Ready"),
)
_MODEL_FLAGS = {"chat": "--model", "embed": "--embedding-model", "rerank": "--reranker-model"}


def base_arguments(model: ModelSource, options: LaunchOptions, net: ListenOptions) -> Sequence[str]:
    """Return what Roundhouse decides. Raises ValueError for a task it does not know."""
    if options.task not in _MODEL_FLAGS:
        raise ValueError(f"MLX-VLM knows the tasks {', '.join(_MODEL_FLAGS)}, not {options.task}.")
    return (
        *(_MODEL_FLAGS[options.task], str(model.path), "--host", net.host, "--port", str(net.port)),
        *("--max-tokens", str(options.context or WITHOUT_LIMIT)),
    )


ADAPTER = ServerAdapter(
    ServerRecipe(
        about=DESCRIPTOR,
        table=TABLE,
        reader=READER,
        module="mlx_vlm.server",
        opening=base_arguments,
        distribution="mlx-vlm",
        program="mlx_vlm.server",
        log=LOG,
        readiness=Readiness(when=ReadyWhen.COMPLETION, path="/v1/chat/completions", interval_s=0.1),
        files=lambda _options: (),
        serves_as_path=True,
    )
)
