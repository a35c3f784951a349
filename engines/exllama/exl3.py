"""ExLlamaV3's adapter. Its KV cache is kept in two to eight bits, or in sixteen."""

from collections.abc import Mapping

from engines.api import EngineInstallation, LaunchOptions, Readiness
from engines.exllama.descriptor import EXL3
from engines.exllama.failures import EXL3 as READER
from engines.exllama.options import HONOURED, shared_config
from engines.worker_adapter import WorkerAdapter, WorkerRecipe

WORKER = "engines.exllama.worker"
_BITS = {"q8_0": 8, "q6_0": 6, "q5_0": 5, "q4_0": 4}
KV_BITS = {
    "f16": (0, 0),
    **{name: (bits, bits) for name, bits in _BITS.items()},
    **{f"{key}/{value}": (_BITS[key], _BITS[value]) for key in _BITS for value in _BITS if key != value},
}
"""Our names of KV cache types -> bits of keys and values; 0 is not quantised. "q8_0/q4_0" keeps the two differently."""
READINESS = Readiness(interval_s=0.05, stall_s=300.0, hard_s=14_400.0)
"""The first start compiles 194 files, which took 40 minutes on two busy cores."""


def build_worker_config(options: LaunchOptions, _installation: EngineInstallation) -> Mapping[str, object]:
    """Return what the worker is told. Raises ValueError with a sentence for what the library cannot do."""
    draft = options.draft
    if draft is not None and draft.kind == "mtp" and draft.path is not None:
        raise ValueError("ExLlamaV3 drafts with the model's own head, or with a model of its own.")
    if draft is not None and draft.kind not in {"mtp", "model", "ngram"}:
        raise ValueError(f"ExLlamaV3 has no {draft.kind} drafts.")
    if options.cpu_moe_layers and options.tensor_parallel > 1:
        raise ValueError("ExLlamaV3 keeps no experts in system memory where matrices are cut over several cards.")
    return {
        **shared_config("ExLlamaV3", options, KV_BITS),
        "cpu_moe_layers": options.cpu_moe_layers or 0,
    }


ADAPTER = WorkerAdapter(
    WorkerRecipe(
        about=EXL3,
        reader=READER,
        worker=WORKER,
        distribution="exllamav3",
        configure=build_worker_config,
        honours=HONOURED | {"cpu_moe_layers"},
        readiness=READINESS,
    )
)
