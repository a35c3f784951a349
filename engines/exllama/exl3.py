"""ExLlamaV3's adapter. Its KV cache is kept in two to eight bits, or in sixteen."""

from collections.abc import Mapping

from engines.api import EngineInstallation, LaunchOptions, Readiness
from engines.exllama.descriptor import EXL3
from engines.exllama.failures import EXL3 as READER
from engines.worker_adapter import WorkerAdapter, WorkerRecipe

WORKER = "engines.exllama.worker"
KV_BITS = {"f16": 0, "q8_0": 8, "q6_0": 6, "q5_0": 5, "q4_0": 4}
"""Our names of KV cache types -> bits; 0 is not quantised."""
READINESS = Readiness(interval_s=0.05, stall_s=300.0, hard_s=14_400.0)
"""The first start compiles 194 files, which took 40 minutes on two busy cores."""


def build_worker_config(options: LaunchOptions, _installation: EngineInstallation) -> Mapping[str, object]:
    """Return what the worker is told. Raises ValueError for a cache it has not."""
    if options.kv_type not in {None, *KV_BITS}:
        raise ValueError(f"ExLlamaV3 keeps its KV cache as one of {', '.join(KV_BITS)}.")
    draft = options.draft
    if draft is not None and (draft.kind != "mtp" or draft.path is not None):
        raise ValueError("ExLlamaV3 drafts here with the model's own head only.")
    return {
        "library": "exllamav3",
        "kv_bits": KV_BITS[options.kv_type] if options.kv_type else 0,
        "devices": list(options.device_ids),
        "has_own_draft": draft is not None,
    }


ADAPTER = WorkerAdapter(
    WorkerRecipe(
        about=EXL3,
        reader=READER,
        worker=WORKER,
        distribution="exllamav3",
        configure=build_worker_config,
        readiness=READINESS,
    )
)
