"""ExLlamaV2's adapter: frozen since December 2025, kept because models in its format still exist."""

from collections.abc import Mapping

from engines.api import EngineInstallation, LaunchOptions
from engines.exllama.descriptor import EXL2
from engines.exllama.exl3 import READINESS, WORKER
from engines.exllama.failures import EXL2 as READER
from engines.worker_adapter import WorkerAdapter, WorkerRecipe

KV_BITS = {"f16": 0, "q8_0": 8, "q6_0": 6, "q4_0": 4}
"""Our names of KV cache types -> bits; 0 is not quantised."""


def build_worker_config(options: LaunchOptions, _installation: EngineInstallation) -> Mapping[str, object]:
    """Return what the worker is told. Raises ValueError for a cache it has not."""
    if options.kv_type not in {None, *KV_BITS}:
        raise ValueError(f"ExLlamaV2 keeps its KV cache as one of {', '.join(KV_BITS)}.")
    return {
        "library": "exllamav2",
        "kv_bits": KV_BITS[options.kv_type] if options.kv_type else 0,
        "devices": list(options.device_ids),
    }


ADAPTER = WorkerAdapter(
    WorkerRecipe(
        about=EXL2,
        reader=READER,
        worker=WORKER,
        distribution="exllamav2",
        configure=build_worker_config,
        readiness=READINESS,
    )
)
