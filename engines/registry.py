"""Every engine this build knows: one line each. An adapter is imported when it is first asked for."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType

from engines.api import EngineAdapter

_MODULES = MappingProxyType(
    {
        "llama.cpp": "engines.llama_cpp.launch",
        "attached": "engines.attached.launch",
        "openvino": "engines.openvino.launch",
        "onnxruntime-genai": "engines.onnx_genai.launch",
        "mistral.rs": "engines.mistral_rs.launch",
        "mlx-lm": "engines.mlx_lm.launch",
        "mlx-vlm": "engines.mlx_vlm.launch",
        "exllamav3": "engines.exllama.exl3",
        "exllamav2": "engines.exllama.exl2",
        "vllm": "engines.vllm.launch",
        "sglang": "engines.sglang.launch",
        "lmdeploy": "engines.lmdeploy.launch",
        "tensorrt-llm": "engines.tensorrt_llm.launch",
        "mlc-llm": "engines.mlc_llm.launch",
        "dynamo": "engines.dynamo.launch",
        "tgi": "engines.tgi.launch",
        "smg": "engines.smg.launch",
        "vllm-router": "engines.vllm_router.launch",
    }
)
"""Engine id -> module with a module-level `ADAPTER`."""


class _LazyAdapters(Mapping[str, EngineAdapter]):
    """Engine ids to adapters; looking one up imports it, listing the ids does not."""

    def __init__(self) -> None:
        self._adapters: dict[str, EngineAdapter] = {}

    def __getitem__(self, engine: str) -> EngineAdapter:
        if engine not in self._adapters:
            self._adapters[engine] = import_module(_MODULES[engine]).ADAPTER
        return self._adapters[engine]

    def __contains__(self, engine: object) -> bool:
        return engine in _MODULES  # the mapping's own way is to look it up

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


ADAPTERS: Mapping[str, EngineAdapter] = _LazyAdapters()
