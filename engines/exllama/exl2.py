"""ExLlamaV2's adapter: frozen since December 2025, kept because models in its format still exist."""

from collections.abc import Mapping

from engines.api import EngineInstallation, LaunchOptions
from engines.exllama.descriptor import EXL2
from engines.exllama.exl3 import READINESS, WORKER
from engines.exllama.failures import EXL2 as READER
from engines.exllama.options import HONOURED, shared_config
from engines.worker_adapter import WorkerAdapter, WorkerRecipe

KV_BITS = {"f16": (0, 0), "q8_0": (8, 8), "q6_0": (6, 6), "q4_0": (4, 4)}
"""Our names of KV cache types -> bits of keys and values, which it keeps alike; 0 is not quantised."""


_MOST_DRAFTED = 8
"""Tokens of a step that its generator makes room for (`max_q_size`)."""


def build_worker_config(options: LaunchOptions, _installation: EngineInstallation) -> Mapping[str, object]:
    """Return what the worker is told. Raises ValueError with a sentence for what the library cannot do."""
    draft = options.draft
    if draft is not None and draft.kind not in {"model", "ngram"}:
        raise ValueError("ExLlamaV2 drafts with a smaller model, or with words of the text; it knows no heads.")
    if draft is not None and draft.tokens > _MOST_DRAFTED:
        raise ValueError(f"ExLlamaV2 drafts {_MOST_DRAFTED} tokens at most.")
    return shared_config("ExLlamaV2", options, KV_BITS)


ADAPTER = WorkerAdapter(
    WorkerRecipe(
        about=EXL2,
        reader=READER,
        worker=WORKER,
        distribution="exllamav2",
        configure=build_worker_config,
        honours=HONOURED,
        readiness=READINESS,
    )
)
