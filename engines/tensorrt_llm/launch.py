"""TensorRT-LLM's adapter: `trtllm-serve`, whose flags have underscores and whose finer settings go into a file.

JSON is YAML, so the file is written as JSON.
"""

import json
from collections.abc import Sequence

from engines.api import FailureKind, LaunchFile, LaunchOptions, ListenOptions, ModelFormat, ModelSource, Readiness
from engines.clues import compile_clues
from engines.failures import FailureReader
from engines.flags import Flag, FlagTable, no_flag, switch_flag, task_flag, value_flag
from engines.log_lines import buffer_row, stage_row
from engines.remedies import RemedyOptions
from engines.server_adapter import TEMPLATE, ServerAdapter, ServerRecipe, template_file
from engines.tensorrt_llm.descriptor import DESCRIPTOR

_K = FailureKind
SETTINGS = "settings.yml"
KV_TYPES = {"f16": "auto", "fp8": "fp8", "nvfp4": "nvfp4"}
_DRAFTS = {"eagle3": "Eagle", "mtp": "MTP", "model": "DraftTarget", "ngram": "NGram"}

TABLE = FlagTable(
    engine="TensorRT-LLM",
    flags=(
        value_flag("context", "--max_seq_len"),
        value_flag("slots", "--max_batch_size"),
        no_flag("threads"),
        no_flag("device_ids"),
        value_flag("tensor_parallel", "--tp_size"),
        value_flag("pipeline_parallel", "--pp_size"),
        value_flag("gpu_memory_fraction", "--kv_cache_free_gpu_memory_fraction"),
        no_flag("kv_type", "--kv_cache_dtype"),
        no_flag("draft"),
        no_flag("lora"),
        no_flag("prefix_cache"),
        no_flag("sampling"),
        task_flag({"chat": ()}),
        value_flag("max_batch_tokens", "--max_num_tokens", can_do_without=True),
        Flag(option="chat_template", names=("--chat_template",), say=lambda _options: ("--chat_template", TEMPLATE)),
        value_flag("tool_parser", "--tool_parser"),
        value_flag("reasoning_parser", "--reasoning_parser"),
        switch_flag("trust_remote_code", on="--trust_remote_code"),
    ),
    reserved=frozenset(
        {"--host", "--port", "--served_model_name", "--config", "--extra_llm_api_options", "--backend", "--set"}
        | {"--metadata_server_config_file", "--server_role", "--tokenizer", "--revision"}
    ),
    reserved_env=frozenset({"HF_HUB_OFFLINE", "ROUNDHOUSE_WORKER_KEY"}),
)

_CLUES = compile_clues(
    (
        _K.OUT_OF_GPU_MEMORY,
        (r"executor creation failed due to insufficient gpu memory", r"cudamallocasync.{0,200}out of memory"),
    ),
    (
        _K.CONTEXT_TOO_LARGE,
        (
            r"max_seq_len .{0,99} (larger|greater) than .{0,99}(kv cache|max_position)",
            r"kv cache (size|capacity).{0,99}too small",
        ),
    ),
    (
        _K.MODEL_UNSUPPORTED,
        (r"unknown architecture for automodelforcausallm", r"unsupported (architecture|quantization)"),
    ),
    (_K.PORT_IN_USE, (r"failed to bind socket to",)),
    (_K.MISSING_LIBRARY, (r"libmpi\.so", r"libnvinfer", r"mpi4py")),
)

READER = FailureReader(name="TensorRT-LLM", means=RemedyOptions(cache_type="fp8"), clues=_CLUES)

LOG = (
    stage_row(r"Loading safetensors weights in parallel:\s+(?P<percent>\d+)%", "Reading weights"),
    stage_row(r"Loading weights.{0,200}?(?P<percent>\d{1,3})%", "Reading weights"),
    stage_row(r"\[Autotuner\]", "Tuning"),
    stage_row(r"Application startup complete", "Ready"),
    buffer_row(r"Allocated (?P<size>[\d.]+) (?P<unit>GiB|MiB) for max tokens in paged KV cache", "kv"),
)


def base_arguments(model: ModelSource, _options: LaunchOptions, net: ListenOptions) -> Sequence[str]:
    """Return what Roundhouse decides. Prebuilt engines take the other backend."""
    backend = "tensorrt" if model.format is ModelFormat.TENSORRT else "pytorch"
    return (
        *("serve", str(model.path), "--host", net.host, "--port", str(net.port), "--backend", backend),
        *("--served_model_name", model.name, "--config", SETTINGS),
    )


def settings_files(options: LaunchOptions) -> tuple[LaunchFile, ...]:
    """Return the file of what has no flag. Raises ValueError for values it does not know."""
    cache: dict[str, object] = {"enable_block_reuse": options.prefix_cache}
    if options.kv_type is not None:
        if options.kv_type not in KV_TYPES:
            raise ValueError(
                f"The type of the KV cache can be one of {', '.join(KV_TYPES)} here, not {options.kv_type}."
            )
        cache["dtype"] = KV_TYPES[options.kv_type]
    settings: dict[str, object] = {"kv_cache_config": cache, "guided_decoding_backend": "xgrammar"}
    if options.draft is not None:
        settings["speculative_config"] = _speculation_config(options)
    if options.lora:
        settings["lora_config"] = {"lora_dir": [str(path) for path in options.lora]}
    content = json.dumps(settings, indent=1, sort_keys=True).encode()
    return (LaunchFile(name=SETTINGS, content=content), *template_file(options))


def _speculation_config(options: LaunchOptions) -> dict[str, object]:
    draft = options.draft
    if draft is None or draft.kind not in _DRAFTS:
        raise ValueError(f"TensorRT-LLM drafts with one of {', '.join(_DRAFTS)}.")
    config: dict[str, object] = {"decoding_type": _DRAFTS[draft.kind], "max_draft_len": draft.tokens}
    return {**config, "speculative_model_dir": str(draft.path)} if draft.path else config


ADAPTER = ServerAdapter(
    ServerRecipe(
        about=DESCRIPTOR,
        table=TABLE,
        reader=READER,
        module="tensorrt_llm.commands.serve",
        opening=base_arguments,
        distribution="tensorrt_llm",
        program="trtllm-serve",
        help_arguments=("serve", "--help"),
        log=LOG,
        readiness=Readiness(path="/health", interval_s=1.0, stall_s=900.0),
        files=settings_files,
    )
)
