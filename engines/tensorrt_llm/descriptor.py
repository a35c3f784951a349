"""What TensorRT-LLM is and can do. From its documentation of 1.2 and 1.3 release candidates."""

from engines.api import Descriptor, EngineFamily, Feature, Gauge, ModelFormat, Route
from engines.tensorrt_llm.traits import TRAITS

DESCRIPTOR = Descriptor(
    id="tensorrt-llm",
    name="TensorRT-LLM",
    licence="Apache-2.0",
    homepage="https://github.com/NVIDIA/TensorRT-LLM",
    family=EngineFamily.VENV_CLI,
    formats=(ModelFormat.NVFP4, ModelFormat.FP8, ModelFormat.MXFP4, ModelFormat.SAFETENSORS, ModelFormat.TENSORRT),
    modalities=frozenset({"text", "image"}),
    routes={
        Route.CHAT: "/v1/chat/completions",
        Route.COMPLETIONS: "/v1/completions",
        Route.RESPONSES: "/v1/responses",
    },
    features=frozenset(
        {
            Feature.TOOLS,
            Feature.TOOL_PARSER,
            Feature.JSON_SCHEMA,
            Feature.LOGPROBS,
            Feature.STREAM_USAGE,
            Feature.VISION,
            Feature.LORA,
            Feature.DRAFT,
            Feature.KV_QUANT,
            Feature.TENSOR_PARALLEL,
            Feature.PIPELINE_PARALLEL,
            Feature.CONTINUOUS_BATCHING,
            Feature.API_KEY,
        }
    ),
    platforms=frozenset({"linux"}),
    has_helpers=True,
    accelerators=("cuda",),
    chooses_threads=True,
    metrics_path="/prometheus/metrics",
    metrics={
        Gauge.KV_USAGE: "trtllm_kv_cache_utilization",
        Gauge.PREFIX_HIT_RATE: "trtllm_kv_cache_hit_rate",
    },
    obtained="Install it as NVIDIA says, so that `trtllm-serve` is on the PATH of Roundhouse's service.",
    verified=("Its command line, log lines and ends are played by a stand-in, and the key guard runs on real uvicorn."),
    unverified=(
        "Never run with this adapter: it needs NVIDIA's container or wheel index and an NVIDIA GPU. It is found where "
        "`trtllm-serve` is on PATH; Roundhouse does not install it."
    ),
    traits=TRAITS,
)
