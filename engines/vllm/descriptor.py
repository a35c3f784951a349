"""What vLLM is and can do. From the packages of 0.32.0 and 0.33.0, and 0.32.0 on a processor."""

from engines.api import ComputerSpan, Descriptor, EngineFamily, Feature, Gauge, ModelFormat, Route, SpanKind
from engines.api.support import NameKind, NameSource
from engines.api.traits import (
    INSTINCT,
    LINUX,
    TURING,
    X86,
    EngineAbility,
    EngineTarget,
    GuidePlaces,
    MachineKind,
    ReservedMemory,
    Traits,
)
from engines.parsers import ToolCallFormat

FORMATS = (
    ModelFormat.NVFP4,
    ModelFormat.FP8,
    ModelFormat.MXFP4,
    ModelFormat.COMPRESSED_TENSORS,
    ModelFormat.AWQ,
    ModelFormat.GPTQ,
    ModelFormat.SAFETENSORS,
)
ROCM = INSTINCT | {"gfx1100", "gfx1101", "gfx1200", "gfx1201"}
"""What its ROCm build knows."""

PROCESSOR_SHARE = 0.4
"""Of the computer's memory: by default it takes 0.92 of that, and ends where less is free."""
TRAITS = Traits(
    default_formats=frozenset(FORMATS),
    targets=(
        EngineTarget(backend="cuda", vendors=("nvidia",), systems=(LINUX,), compute=TURING),
        EngineTarget(backend="rocm", vendors=("amd",), systems=(LINUX,), architectures=(X86,), gfx=ROCM),
    ),
    strength="keeps GPUs busy with many requests at once",
    needs="Linux and an NVIDIA GPU, Turing or newer (compute capability 7.5), or an AMD GPU its ROCm build supports",
    limits="It takes most of the GPU's memory at start.",
    abilities=frozenset(
        {
            EngineAbility.SERVES,
            EngineAbility.BALANCES,
            EngineAbility.JSON_SCHEMA,
            EngineAbility.LORAS,
            EngineAbility.KV_QUANT,
            EngineAbility.TENSOR,
            EngineAbility.PIPELINE,
            EngineAbility.EXPERT,
            EngineAbility.VISION,
            EngineAbility.RESERVES,
            EngineAbility.WSL,
            EngineAbility.SCALES,
            EngineAbility.OWN_HEAD,
        }
    ),
    most_slots=256,
    memory=ReservedMemory(fraction=0.92, processor_fraction=PROCESSOR_SHARE),  # --gpu-memory-utilization
    places={
        MachineKind.BLACKWELL_SERVER: GuidePlaces(local=30, loras=20, team=10, fleet=40),
        MachineKind.NVIDIA_SERVER: GuidePlaces(
            local=10, structured=20, loras=20, long=20, moe=20, serving_shaped=20, fleet=30
        ),
        MachineKind.INSTINCT: GuidePlaces(local=10, structured=20, loras=20, long=20, serving_shaped=20),
        MachineKind.MIXED: GuidePlaces(local=40, batch=10, serving=10, serving_shaped=20, fleet=10),
        MachineKind.RTX_MANY: GuidePlaces(
            local=10, structured=20, loras=20, long=20, moe=20, serving_shaped=20, fleet=20
        ),
        MachineKind.RTX_FEW: GuidePlaces(local=20, long=30, batch=10, serving=10),
        MachineKind.RTX_ONE: GuidePlaces(
            local=40, agent=30, structured=30, loras=20, long=50, batch=10, serving=10, serving_shaped=20, fleet=20
        ),
        MachineKind.RTX_SMALL: GuidePlaces(
            local=40, agent=30, structured=0, loras=20, long=0, moe=0, batch=10, serving=10, serving_shaped=20, fleet=20
        ),
        MachineKind.NVIDIA_UNIFIED: GuidePlaces(local=20, batch=10, serving=10, fleet=10),
        MachineKind.TURING_FEW: GuidePlaces(local=10),
        MachineKind.NVIDIA_OLDER: GuidePlaces(local=20, batch=10, serving=10, serving_shaped=10, fleet=10),
        MachineKind.RADEON: GuidePlaces(local=40, batch=10, serving=10, serving_shaped=10, fleet=10),
    },
    order=60,
)
"""What the advisor judges it by."""

DESCRIPTOR = Descriptor(
    id="vllm",
    name="vLLM",
    licence="Apache-2.0",
    homepage="https://github.com/vllm-project/vllm",
    family=EngineFamily.VENV_CLI,
    support=(
        NameSource(
            kind=NameKind.CLASS,
            package="vllm",
            files="model_executor/models/registry.py",
            region=r"\A.*?(?=^_PREVIOUSLY_SUPPORTED_MODELS|\Z)",
            pattern=r'^    "(\w+)":',
        ),
        NameSource(kind=NameKind.MODEL_TYPE, package="transformers", files="models/*/"),  # what it falls back to
        NameSource(
            kind=NameKind.QUANTIZATION,
            package="vllm",
            files="model_executor/layers/quantization/__init__.py",
            region=r"^QuantizationMethods = Literal\[.*?^\]",
            pattern=r'^    "([\w-]+)",',
        ),
    ),
    formats=FORMATS,
    modalities=frozenset({"text", "image"}),
    routes={
        Route.CHAT: "/v1/chat/completions",
        Route.COMPLETIONS: "/v1/completions",
        Route.EMBEDDINGS: "/v1/embeddings",
        Route.RESPONSES: "/v1/responses",
        Route.MESSAGES: "/v1/messages",
        Route.COUNT_TOKENS: "/v1/messages/count_tokens",
        Route.RERANK: "/v1/rerank",
        Route.TOKENIZE: "/tokenize",
        Route.DETOKENIZE: "/detokenize",
        Route.TRANSCRIPTIONS: "/v1/audio/transcriptions",
        Route.TRANSLATIONS: "/v1/audio/translations",
    },
    features=frozenset(
        {
            Feature.TOOLS,
            Feature.TOOL_PARSER,
            Feature.JSON_SCHEMA,
            Feature.GRAMMAR,
            Feature.LOGPROBS,
            Feature.LOGIT_BIAS,
            Feature.CHOICES,
            Feature.STREAM_USAGE,
            Feature.PREFILL,
            Feature.VISION,
            Feature.LORA,
            Feature.DRAFT,
            Feature.SAMPLING_DEFAULTS,
            Feature.KV_QUANT,
            Feature.TENSOR_PARALLEL,
            Feature.PIPELINE_PARALLEL,
            Feature.CONTINUOUS_BATCHING,
            Feature.API_KEY,
        }
    ),
    tokenizes="prompt",
    prefill_fields={"continue_final_message": True, "add_generation_prompt": False},
    grammar_field="structured_outputs.grammar",
    tool_parsers={
        ToolCallFormat.HERMES: "hermes",
        ToolCallFormat.QWEN_CODER: "qwen3_coder",
        ToolCallFormat.GLM_45: "glm45",
        ToolCallFormat.GLM_47: "glm47",
        ToolCallFormat.MISTRAL: "mistral",
        ToolCallFormat.LLAMA_3: "llama3_json",
        ToolCallFormat.LLAMA_4: "llama4_pythonic",
        ToolCallFormat.DEEPSEEK_V3: "deepseek_v3",
        ToolCallFormat.DEEPSEEK_V31: "deepseek_v31",
        ToolCallFormat.DEEPSEEK_V32: "deepseek_v32",
        ToolCallFormat.KIMI_K2: "kimi_k2",
        ToolCallFormat.MINIMAX_M2: "minimax_m2",
        ToolCallFormat.SEED_OSS: "seed_oss",
        ToolCallFormat.LFM_2: "lfm2",
        ToolCallFormat.GEMMA_4: "gemma4",
        ToolCallFormat.FUNCTION_GEMMA: "functiongemma",
        ToolCallFormat.GPT_OSS: "openai",
    },
    platforms=frozenset({"linux"}),
    has_helpers=True,
    traces_flag="--otlp-traces-endpoint",
    accelerators=("cuda", "rocm", "cpu"),
    loosens_calls=True,  # 0.32.0 wrote {} for a tool with a required property, unless the tool was marked strict
    probe_path="/v1/completions",
    metrics_path="/metrics",
    metrics={
        Gauge.RUNNING: "vllm:num_requests_running",
        Gauge.WAITING: "vllm:num_requests_waiting",
        Gauge.KV_USAGE: "vllm:kv_cache_usage_perc",
        Gauge.PROMPT_TOKENS: "vllm:prompt_tokens_total",
        Gauge.GENERATED_TOKENS: "vllm:generation_tokens_total",
        Gauge.PREFIX_HITS: "vllm:prefix_cache_hits_total",
        Gauge.PREFIX_QUERIES: "vllm:prefix_cache_queries_total",
    },
    least_version="0.18",  # CVE-2026-22807, 22778, 24779 and 27893: a model's own code, and addresses of media
    verified=(
        "Run for real on Linux x86-64 on the CPU in November 2026 with vLLM 0.32.0, with the Guide: found on PATH and "
        "loaded by its plan; chat, completions, streams, responses, messages and Ollama's chat, log probabilities, "
        "biased tokens, calls that must be made, prompts too long, cancelling, a killed worker, too little memory, "
        "no compiler. Its options and parsers of tool calls are those of 0.33.0, which its lock installs; what they "
        "come to and its ends without a GPU are those of 0.32.0, whose server also answered embeddings, ranking, "
        "tokens and metrics. What takes a GPU is played: log lines, ends for lack of its memory."
    ),
    unverified=(
        "Not run with this adapter on a GPU. The build for processors was somebody's from PyPI, with PyTorch's for "
        "cards and stand-ins for NVIDIA's libraries: Roundhouse installs none, since the PyTorch it asks for is not "
        "on PyPI; one that you installed is used. Images, transcription, "
        "adapters, drafts and sleep were not tried at all. Without a GPU its help does not come, and was read as "
        "for a processor. Which of its parsers of tool calls belongs to which chat template is read from its "
        "wheel."
    ),
    span=ComputerSpan(
        kind=SpanKind.NODES,
        tried="vLLM was loaded over two computers with a tiny model on processors, and answered; never with GPUs.",
    ),
    traits=TRAITS,
)
