"""What LMDeploy is and can do. From 0.18.0 as installed."""

from engines.api import Descriptor, EngineFamily, Feature, Gauge, ModelFormat, Route
from engines.lmdeploy.traits import TRAITS
from engines.parsers import ToolCallFormat

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
