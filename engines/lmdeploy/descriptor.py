"""What LMDeploy is and can do. From 0.18.0 as installed."""

from engines.api import Descriptor, EngineFamily, Feature, Gauge, ModelFormat, Route
from engines.api.traits import (
    DESKTOP,
    VOLTA,
    X86,
    EngineAbility,
    EngineTarget,
    GuidePlaces,
    MachineKind,
    ReservedMemory,
    Traits,
)
from engines.parsers import ToolCallFormat
from engines.vllm.descriptor import TRAITS as VLLM_TRAITS

TRAITS = Traits(
    targets=(EngineTarget(backend="cuda", vendors=("nvidia",), systems=DESKTOP, architectures=(X86,), compute=VOLTA),),
    strength="serves many users at once with CUDA, also on Windows",
    needs="an NVIDIA GPU, Volta or newer (compute capability 7.0), and Linux or Windows on x86-64",
    abilities=VLLM_TRAITS.abilities
    - {EngineAbility.WSL, EngineAbility.PIPELINE, EngineAbility.OWN_HEAD},  # its heads are DeepSeek's (`deepseek_mtp`)
    most_slots=128,
    memory=ReservedMemory(fraction=0.8, is_of_rest=True),  # --cache-max-entry-count
    places={
        MachineKind.BLACKWELL_SERVER: GuidePlaces(
            local=40, structured=0, loras=0, long=0, moe=0, serving_shaped=0, fleet=50
        ),
        MachineKind.NVIDIA_SERVER: GuidePlaces(local=40, fleet=50),
        MachineKind.MIXED: GuidePlaces(batch=30, serving=30, serving_shaped=30, fleet=30),
        MachineKind.RTX_MANY: GuidePlaces(local=30, structured=0, long=0, moe=0, fleet=40),
        MachineKind.RTX_FEW: GuidePlaces(loras=30, batch=30, serving=30, serving_shaped=30, fleet=40),
        MachineKind.RTX_ONE: GuidePlaces(batch=30, serving=30, serving_shaped=30, fleet=40),
        MachineKind.RTX_SMALL: GuidePlaces(batch=30, serving=30, serving_shaped=30, fleet=40),
        MachineKind.TURING_FEW: GuidePlaces(local=20),
        MachineKind.NVIDIA_OLDER: GuidePlaces(local=30, batch=20, serving=20, serving_shaped=20, fleet=20),
    },
    order=130,
)
"""What the advisor judges it by."""

DESCRIPTOR = Descriptor(
    id="lmdeploy",
    name="LMDeploy",
    licence="Apache-2.0",
    homepage="https://github.com/InternLM/lmdeploy",
    family=EngineFamily.VENV_CLI,
    formats=(
        ModelFormat.FP8,
        ModelFormat.MXFP4,
        ModelFormat.AWQ,
        ModelFormat.GPTQ,
        ModelFormat.COMPRESSED_TENSORS,
        ModelFormat.SAFETENSORS,
    ),
    modalities=frozenset({"text", "image"}),
    routes={
        Route.CHAT: "/v1/chat/completions",
        Route.COMPLETIONS: "/v1/completions",
        Route.RESPONSES: "/v1/responses",
        Route.MESSAGES: "/v1/messages",
        Route.COUNT_TOKENS: "/v1/messages/count_tokens",
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
            Feature.CONTINUOUS_BATCHING,
            Feature.API_KEY,
        }
    ),
    tool_parsers={
        ToolCallFormat.HERMES: "qwen3",
        ToolCallFormat.QWEN_CODER: "qwen3coder",
        ToolCallFormat.GLM_47: "glm47",
        ToolCallFormat.LLAMA_3: "llama3",
        ToolCallFormat.DEEPSEEK_V32: "deepseek-v32",
        ToolCallFormat.KIMI_K2: "kimi-k2",
    },
    platforms=frozenset({"linux", "win32"}),
    has_helpers=True,
    accelerators=("cuda",),
    chooses_threads=True,
    metrics_path="/metrics",
    metrics={
        Gauge.RUNNING: "lmdeploy:num_requests_running",
        Gauge.WAITING: "lmdeploy:num_requests_waiting",
        Gauge.KV_USAGE: "lmdeploy:gpu_cache_usage_perc",
        Gauge.PROMPT_TOKENS: "lmdeploy:prompt_tokens_total",
        Gauge.GENERATED_TOKENS: "lmdeploy:generation_tokens_total",
        Gauge.PREFIX_HIT_RATE: "lmdeploy:prefix_cache_hit_rate",
    },
    verified=(
        "Installed from its lock (0.18.0, Linux x86-64) and asked without a GPU: its flags, its parsers' names and how "
        "it ends before it reaches one; its server, with nothing behind it, kept every route behind the launch key. "
        "The rest is played by a stand-in."
    ),
    unverified=(
        "Never run with a model: its newest version on PyPI, 0.18.0, takes only cards for its device (cuda, ascend, "
        "maca, camb), and TurboMind is linked against CUDA, so that nothing of it runs on a processor."
    ),
    traits=TRAITS,
)
