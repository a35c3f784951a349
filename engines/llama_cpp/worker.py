"""llama.cpp's own HTTP server in a process of its own: `python -m engines.llama_cpp.worker`.

xllamacpp starts the native C++ server, routes unchanged; nothing of Python is in a request's way. The constructor keeps
the interpreter lock until the model is loaded, which is why signals keep their default action (see `worker_base`).
"""

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines import worker_base

CACHE_RAM_MIB = 512
"""Prompt cache in system memory. llama.cpp's own default is 8 GiB, which a desktop has not to spare."""
SPARE_HTTP_THREADS = 16
"""A waiting request holds a thread; beyond one per slot these keep /health and queued requests answered."""
LOG_LEVEL = 4
"""The level at which llama.cpp names its buffers and its real context; prompts are not written at it."""
TINY_BYTES = 64 * 1024 * 1024
"""Below this a model computes so little between two waits that its threads had better sleep (`thread_wait_policy`)."""
ONE_THREAD_BYTES = 32 * 1024 * 1024
"""Below this waiting is all that a second thread adds to a token (`decode_threads`)."""
SPECULATION = {"model": "DRAFT_SIMPLE", "eagle3": "DRAFT_EAGLE3", "mtp": "DRAFT_MTP", "ngram": "NGRAM_SIMPLE"}
"""Kinds of drafts, and the endings of llama.cpp's names for them."""
NGRAM_LOOKUP, NGRAM_TOKENS = 6, 8
"""Tokens that must have occurred before, and how many of those that followed are drafted then.

llama.cpp's own 12 and 48 hardly ever match, and a wrong guess of 48 costs as much as several tokens: of a small model
that copies code they cost 16 % of the processor's time, where these save half (docs/internals/accuracy.md).
"""
SAMPLING = {
    "top_k": ("top_k", 1 << 1),
    "top_p": ("top_p", 1 << 2),
    "min_p": ("min_p", 1 << 3),
    "temperature": ("temp", 1 << 6),
    "repeat_penalty": ("penalty_repeat", 1 << 8),
}
"""Our names, llama.cpp's, and the bit by which it knows that somebody chose (`common_params_sampling_config`)."""
ALL_SAMPLING = (1 << 12) - 1
"""Every bit there is: nothing of the model file's `general.sampling` counts."""
NOBODY = "https://nobody.invalid"
"""The one origin allowed: only the gateway talks to an engine, and it sends no Origin."""


def main() -> None:
    """Serve as the environment says; with `--devices`, list the devices as JSON and end."""
    if "--devices" in sys.argv[1:]:
        print_devices()
        return
    worker_base.run(serve_llama_cpp)


def serve_llama_cpp(launch: worker_base.WorkerLaunch) -> None:
    """Load the model and answer requests until the process is ended. Raises RuntimeError when llama.cpp refuses."""
    worker_base.emit("progress", stage="Starting llama.cpp")
    os.environ.update(thread_wait_policy(Path(str(launch.config["model"]))) | dict(os.environ))
    import xllamacpp  # noqa: PLC0415 -- 100 MB of native code: the lifeline must hold before it loads

    server = xllamacpp.Server(build_parameters(xllamacpp, launch))
    worker_base.emit("listening", port=int(server.listening_address.rpartition(":")[2]))
    worker_base.emit("ready")
    threading.Event().wait()


def thread_wait_policy(model: Path) -> dict[str, str]:
    """Return how OpenMP's threads wait for each other: by spinning for some microseconds, then asleep.

    Measured on two cores, 0.5 G parameters in Q4_K, tokens/s alone | beside one busy loop | beside more work than
    cores: always asleep 57 | 45 to 60 | 58; this 92 | 35 to 41 | 37; OpenMP's default 93 | 32 to 34 | 5. A model of a
    few million parameters writes 260 tokens/s asleep: faster than anybody reads, and the processor is left alone.
    """
    return {"OMP_WAIT_POLICY": "passive"} if _is_smaller(model, TINY_BYTES) else {"GOMP_SPINCOUNT": "1000"}


def decode_threads(model: Path, threads: int) -> int:
    """Return how many of `threads` compute a token at a time; prompts, and several answers at once, have all of them.

    Measured on two cores, ms per token with one thread | with two, the best of 25 answers beside other work: 4 MiB
    0.33 | 0.88, 8 MiB 0.93 | 1.70, 27 MiB 2.96 | 3.93, 72 MiB 11.4 | 8.3; on a quiet computer, where threads have to be
    woken, the 4 MiB took 0.6 | 5.1. Prompts of 8 MiB are read up to 2.8 times as fast with two. Where somebody asked
    for spinning, as a calibration does, it is as with large models.
    """
    is_alone = _is_smaller(model, ONE_THREAD_BYTES) and "GOMP_SPINCOUNT" not in os.environ
    return 1 if is_alone else threads


def _is_smaller(model: Path, size_bytes: int) -> bool:
    try:
        return model.stat().st_size < size_bytes
    except OSError:  # llama.cpp says it better
        return False


def build_parameters(xllamacpp: Any, launch: worker_base.WorkerLaunch) -> Any:  # noqa: ANN401 -- the wheel has no type information
    """Return llama.cpp's parameters for a launch. Raises KeyError, TypeError or ValueError for a bad configuration."""
    config = launch.config
    params = xllamacpp.CommonParams()
    params.model.path = config["model"]
    params.model_alias = {config["alias"]}
    _close_doors(params, launch.key)
    params.hostnames = [config["host"]]
    params.port = config["port"]
    params.verbosity = LOG_LEVEL
    if config["state_folder"]:
        params.slot_save_path = os.path.join(str(config["state_folder"]), "")  # noqa: PTH118 -- llama.cpp appends a name to it
    _size(params, config)
    _tune(xllamacpp, params, config)
    _add_companions(xllamacpp, params, config)
    _sample(params.sampling, config["sampling"])
    _set_task(xllamacpp, params, config)
    return params


def _close_doors(params: Any, key: str) -> None:  # noqa: ANN401 -- the wheel has no type information
    """Leave open only what the gateway needs: no pages, no tools, no downloads, no origins, nothing without the key."""
    params.api_keys = [key]
    params.cors_origins = NOBODY
    params.cors_origins_explicit = True
    params.cors_credentials = False
    params.ui = False
    params.ui_mcp_proxy = False
    params.server_tools = []
    params.offline = True
    params.endpoint_props = False
    params.endpoint_slots = True
    params.endpoint_metrics = True


def _size(params: Any, config: Mapping[str, Any]) -> None:  # noqa: ANN401 -- the wheel has no type information
    """Set slots and context. llama.cpp divides `n_ctx` evenly among the slots, so each gets the context asked for."""
    slots = config["slots"]
    params.n_parallel = slots
    params.n_ctx = (config["context"] or 0) * slots
    params.kv_unified = False
    params.n_threads_http = slots + SPARE_HTTP_THREADS
    params.cache_ram_mib = CACHE_RAM_MIB if config["prefix_cache"] else 0
    params.cache_prompt = config["prefix_cache"]
    if config["threads"]:
        params.cpuparams.n_threads = decode_threads(Path(str(config["model"])), config["threads"])
        params.cpuparams_batch.n_threads = config["threads"]
    params.fit_params = config["fit"]
    if config["gpu_layers"] is not None:
        params.n_gpu_layers = config["gpu_layers"]


def _tune(xllamacpp: Any, params: Any, config: Mapping[str, Any]) -> None:  # noqa: ANN401 -- as above
    if config["kv_type"]:
        kind = xllamacpp.ggml_type[f"GGML_TYPE_{config['kv_type'].upper()}"]
        params.cache_type_k = kind
        params.cache_type_v = kind
    if config["flash_attention"] is not None:
        state = "ENABLED" if config["flash_attention"] else "DISABLED"
        params.flash_attn_type = xllamacpp.llama_flash_attn_type[f"LLAMA_FLASH_ATTN_TYPE_{state}"]
    if config["batch"]:
        params.n_batch = config["batch"]
        params.n_ubatch = max(params.n_ubatch, config["batch"])  # what is computed in one piece is at most `n_batch`
    if config["chat_template"]:
        params.chat_template = config["chat_template"]


def _add_companions(xllamacpp: Any, params: Any, config: Mapping[str, Any]) -> None:  # noqa: ANN401 -- as above
    """Name the files that go with the model: what lets it see, what changes it, and what drafts for it."""
    if config["projector"]:
        params.mmproj.path = config["projector"]
    params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(path, 1.0) for path in config["lora"]]
    draft = config["draft"]
    if draft is None:
        return
    speculation = params.speculative
    speculation.types = [xllamacpp.common_speculative_type[f"COMMON_SPECULATIVE_TYPE_{SPECULATION[draft['kind']]}"]]
    if draft["path"]:
        speculation.draft.mparams.path = draft["path"]
    if draft["kind"] == "ngram":
        speculation.ngram_simple.size_n, speculation.ngram_simple.size_m = NGRAM_LOOKUP, NGRAM_TOKENS
    else:
        speculation.draft.n_max = draft["tokens"]
    if config["threads"]:
        speculation.draft.cpuparams.n_threads = config["threads"]
        speculation.draft.cpuparams_batch.n_threads = config["threads"]
    if config["gpu_layers"] is not None:
        speculation.draft.n_gpu_layers = config["gpu_layers"]


def _sample(sampling: Any, defaults: Any) -> None:  # noqa: ANN401 -- as above
    """Set how tokens are chosen where a request does not say; what is set here goes before the model file's own."""
    chosen_token = 0
    for name, value in defaults["said"].items():
        field, bit = SAMPLING[name]
        setattr(sampling, field, value)
        chosen_token |= bit
    sampling.user_sampling_config = ALL_SAMPLING if defaults["is_all"] else chosen_token


def _set_task(xllamacpp: Any, params: Any, config: Mapping[str, Any]) -> None:  # noqa: ANN401 -- as above
    """Switch on embeddings only for the tasks that need them.

    llama.cpp could generate and embed at once, but then computes logits for every prompt token and takes no prompt
    longer than one physical batch: a chat model would pay for what it is hardly asked for.
    """
    if config["task"] == "chat":
        return
    params.embedding = True
    # With a cache of its own for each slot, llama.cpp cuts texts of unequal length that share a batch into pieces and
    # pools only the last piece: the vector of a text would depend on what is embedded beside it. A shared cache still
    # has to hold every slot's text at once: with less, whole requests end with "Context size has been exceeded".
    params.kv_unified = True
    params.kv_unified_per_slot = config["context"] or 0
    batch = config["batch"] or config["context"] or params.n_batch
    params.n_batch = batch
    params.n_ubatch = batch  # an input to embed must fit in one physical batch
    if config["task"] == "rerank":
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_RANK


def print_devices() -> None:
    """Write the devices llama.cpp can use as `llama-server --list-devices` does, PCI addresses added: one event."""
    import xllamacpp  # noqa: PLC0415 -- as in `serve_llama_cpp`

    worker_base.emit("devices", names=[_device_line(device) for device in _devices(xllamacpp)])


def _device_line(device: dict[str, Any]) -> str:
    """Return e.g. "CUDA0: NVIDIA GeForce RTX 4090 (24217 MiB, 23894 MiB free) [0000:01:00.0]"."""
    total, free = (device.get(name, 0) >> 20 for name in ("memory_total", "memory_free"))
    address = f" [{device['device_id']}]" if device.get("device_id") else ""
    return f"{device['name']}: {device['description']} ({total} MiB, {free} MiB free){address}"


def _devices(xllamacpp: Any) -> list[dict[str, Any]]:  # noqa: ANN401 -- the wheel has no type information
    devices: list[dict[str, Any]] = xllamacpp.get_device_info()
    return devices


if __name__ == "__main__":
    main()
