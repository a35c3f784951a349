"""ONNX Runtime GenAI's adapter: which execution provider computes."""

from collections.abc import Mapping
from types import MappingProxyType

from engines.api import EngineInstallation, LaunchOptions
from engines.onnx_genai.descriptor import DESCRIPTOR
from engines.onnx_genai.failures import READER
from engines.worker_adapter import WorkerAdapter, WorkerRecipe

PROVIDERS = MappingProxyType({"cpu": "", "cuda": "cuda", "directml": "dml", "npu": "qnn"})
"""Our backends -> the library's providers. The processor's is what remains when there is no other."""
_WITH_NUMBERS = frozenset({"cuda", "dml"})
"""Providers whose devices have numbers."""


def build_worker_config(options: LaunchOptions, installation: EngineInstallation) -> Mapping[str, object]:
    """Return what the worker is told. Raises ValueError for a provider or device it has not."""
    if installation.backend not in PROVIDERS:
        raise ValueError(f"ONNX Runtime GenAI has no provider for {installation.backend}.")
    provider = PROVIDERS[installation.backend]
    return {"provider": provider, "provider_options": _options(options, provider)}


def _options(options: LaunchOptions, provider: str) -> dict[str, str]:
    if not options.device_ids:
        return {"backend_path": "QnnHtp.dll"} if provider == "qnn" else {}
    (device,) = options.device_ids
    if provider not in _WITH_NUMBERS or not device.isdigit():
        raise ValueError("ONNX Runtime GenAI knows devices by number, with CUDA and DirectML only.")
    return {"device_id": device}


ADAPTER = WorkerAdapter(
    WorkerRecipe(
        about=DESCRIPTOR,
        reader=READER,
        worker="engines.onnx_genai.worker",
        distribution="onnxruntime-genai",
        configure=build_worker_config,
        refused=(
            (lambda o: o.kv_type is not None, "{engine} keeps its KV cache as the model was made for."),
            (lambda o: o.max_batch_tokens is not None, "{engine} reads each prompt by itself, in pieces of its own."),
        ),
    )
)
