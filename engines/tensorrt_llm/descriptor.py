"""What TensorRT-LLM is and can do. From its documentation of 1.2 and 1.3 release candidates."""

from engines.api import Descriptor, EngineFamily, Feature, Gauge, ModelFormat, Route
from engines.api.traits import (
    AMPERE,
    LINUX,
    EngineAbility,
    EngineTarget,
    GuidePlaces,
    MachineKind,
    ReservedMemory,
    Traits,
)
from engines.vllm.descriptor import TRAITS as VLLM_TRAITS

TRAITS = Traits(
    default_formats=frozenset({ModelFormat.TENSORRT}),
    targets=(EngineTarget(backend="cuda", vendors=("nvidia",), systems=(LINUX,), compute=AMPERE),),
    strength="has the highest throughput on NVIDIA's own server GPUs",
    needs="Linux, NVIDIA's container and an NVIDIA GPU, Ampere or newer (compute capability 8.0)",
    limits="It is made for server GPUs and large set-ups, and comes as a container.",
    abilities=VLLM_TRAITS.abilities - {EngineAbility.WSL, EngineAbility.OWN_HEAD},  # its MTP is for DeepSeek V3 and R1
    most_slots=256,
    memory=ReservedMemory(fraction=0.9, is_of_rest=True),  # --kv_cache_free_gpu_memory_fraction
    places={
        MachineKind.BLACKWELL_SERVER: GuidePlaces(
            local=10, structured=20, loras=30, long=20, moe=20, team=30, serving_shaped=20, fleet=20
        ),
        MachineKind.NVIDIA_SERVER: GuidePlaces(local=30, fleet=20),
        MachineKind.RTX_MANY: GuidePlaces(local=50, agent=0, structured=0, loras=0, long=0, moe=0, batch=0),
        MachineKind.RTX_FEW: GuidePlaces(local=50, agent=0, structured=0, loras=0, long=0, moe=0, batch=0),
        MachineKind.RTX_ONE: GuidePlaces(
            local=50, structured=0, loras=0, long=0, moe=0, batch=0, serving=60, serving_shaped=60
        ),
        MachineKind.RTX_SMALL: GuidePlaces(
            local=50, structured=0, loras=0, long=0, moe=0, batch=0, serving=60, serving_shaped=60
        ),
        MachineKind.NVIDIA_UNIFIED: GuidePlaces(local=40, batch=30, serving=30, serving_shaped=30, fleet=0),
    },
    order=80,
    advised_on=frozenset({MachineKind.BLACKWELL_SERVER, MachineKind.NVIDIA_SERVER, MachineKind.INSTINCT}),
)
"""What the advisor judges it by."""

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
