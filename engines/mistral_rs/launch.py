"""mistral.rs' adapter: which device computes, and what it has no choice of."""

from collections.abc import Mapping

from engines.api import EngineInstallation, LaunchOptions
from engines.mistral_rs.descriptor import DESCRIPTOR
from engines.mistral_rs.failures import READER
from engines.worker_adapter import WorkerAdapter, WorkerRecipe

_DEVICES = frozenset({"cpu", "metal"})


def build_worker_config(options: LaunchOptions, installation: EngineInstallation) -> Mapping[str, object]:
    """Return what the worker is told. Raises ValueError for a device it has not."""
    if installation.backend not in _DEVICES:
        raise ValueError(f"mistral.rs has no build for {installation.backend} that Roundhouse installs.")
    if options.device_ids:
        raise ValueError("mistral.rs takes the one device it was built for, so none can be named.")
    return {"device": installation.backend.upper()}


ADAPTER = WorkerAdapter(
    WorkerRecipe(
        about=DESCRIPTOR,
        reader=READER,
        worker="engines.mistral_rs.worker",
        distribution="mistralrs",
        configure=build_worker_config,
        refused=(
            (lambda o: o.kv_type not in {None, "f16"}, "{engine} keeps its KV cache in 16 bits."),
            (lambda o: o.max_batch_tokens is not None, "{engine} reads each prompt in one piece."),
        ),
    )
)
