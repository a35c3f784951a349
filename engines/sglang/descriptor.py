"""What SGLang is and can do. From the package of 0.5.23, and its server without a GPU."""

from engines.api import ComputerSpan, Descriptor, EngineFamily, Feature, Gauge, Route, SpanKind
from engines.api.support import NameKind, NameSource
from engines.api.traits import (
    AMPERE,
    INSTINCT,
    LINUX,
    X86,
    EngineTarget,
    GuidePlaces,
    MachineKind,
    ReservedMemory,
    Traits,
)
from engines.parsers import ToolCallFormat
from engines.vllm.descriptor import FORMATS
from engines.vllm.descriptor import TRAITS as VLLM_TRAITS

TRAITS = Traits(
    targets=(
        EngineTarget(backend="cuda", vendors=("nvidia",), systems=(LINUX,), compute=AMPERE),
        EngineTarget(backend="rocm", vendors=("amd",), systems=(LINUX,), architectures=(X86,), gfx=INSTINCT),
    ),
    strength="reuses shared prompts and is fast at structured output, long contexts, adapters and experts",
    needs="Linux and an NVIDIA GPU, Ampere or newer (compute capability 8.0), or an AMD Instinct",
    limits="It is heavy for a desktop.",
    abilities=VLLM_TRAITS.abilities,
    most_slots=256,
    memory=ReservedMemory(fraction=0.85, holds_activations=False),  # --mem-fraction-static
    places={
        MachineKind.BLACKWELL_SERVER: GuidePlaces(
            local=20, structured=10, loras=10, long=10, moe=10, serving_shaped=10, fleet=30
        ),
        MachineKind.NVIDIA_SERVER: GuidePlaces(
            local=20, structured=10, loras=10, long=10, moe=10, serving_shaped=10, fleet=40
        ),
        MachineKind.INSTINCT: GuidePlaces(local=20, structured=10, loras=10, long=10, serving_shaped=10),
        MachineKind.MIXED: GuidePlaces(batch=20, serving=20, serving_shaped=10, fleet=20),
        MachineKind.RTX_MANY: GuidePlaces(
            local=20, structured=10, loras=10, long=10, moe=10, serving_shaped=10, fleet=30
        ),
        MachineKind.RTX_FEW: GuidePlaces(
            local=30, structured=10, loras=10, long=10, batch=20, serving=20, serving_shaped=10
        ),
        MachineKind.RTX_ONE: GuidePlaces(
            structured=10, loras=10, long=30, moe=50, batch=20, serving=20, serving_shaped=10, fleet=30
        ),
        MachineKind.RTX_SMALL: GuidePlaces(
            structured=20, loras=10, long=40, batch=20, serving=20, serving_shaped=10, fleet=30
        ),
        MachineKind.NVIDIA_UNIFIED: GuidePlaces(local=30, batch=20, serving=20, serving_shaped=10, fleet=20),
    },
    order=70,
)
"""What the advisor judges it by."""

DESCRIPTOR = Descriptor(
    id="sglang",
    name="SGLang",
    licence="Apache-2.0",
    homepage="https://github.com/sgl-project/sglang",
    family=EngineFamily.VENV_CLI,
    support=(
        NameSource(
            kind=NameKind.CLASS,
            package="sglang",
            files="srt/models/**/*.py",
            region=r"^EntryClass\b[^=]*=\s*(?:\[[^\]]*\]|\w+)",
            pattern=r"\b([A-Z]\w+)",
        ),
        NameSource(kind=NameKind.MODEL_TYPE, package="transformers", files="models/*/"),  # what it falls back to
        NameSource(
            kind=NameKind.QUANTIZATION,
            package="sglang",
            files="srt/layers/quantization/__init__.py",
            pattern=r'^\s+"([\w-]+)": \w+Config',
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
        Route.TOKENIZE: "/v1/tokenize",
        Route.DETOKENIZE: "/v1/detokenize",
        Route.TRANSCRIPTIONS: "/v1/audio/transcriptions",
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
            Feature.KV_QUANT,
            Feature.TENSOR_PARALLEL,
            Feature.PIPELINE_PARALLEL,
            Feature.CONTINUOUS_BATCHING,
            Feature.API_KEY,
        }
    ),
    tokenizes="prompt",
    prefill_fields={"continue_final_message": True, "add_generation_prompt": False},
    grammar_field="ebnf",
    tool_parsers={
        ToolCallFormat.HERMES: "qwen",
        ToolCallFormat.QWEN_CODER: "qwen3_coder",
        ToolCallFormat.GLM_45: "glm",
        ToolCallFormat.GLM_47: "glm47",
        ToolCallFormat.MISTRAL: "mistral",
        ToolCallFormat.LLAMA_3: "llama3",
        ToolCallFormat.LLAMA_4: "pythonic",
        ToolCallFormat.DEEPSEEK_V3: "deepseekv3",
        ToolCallFormat.DEEPSEEK_V31: "deepseekv31",
        ToolCallFormat.DEEPSEEK_V32: "deepseekv32",
        ToolCallFormat.KIMI_K2: "kimi_k2",
        ToolCallFormat.MINIMAX_M2: "minimax-m2",
        ToolCallFormat.LFM_2: "lfm2",
        ToolCallFormat.GEMMA_4: "gemma4",
        ToolCallFormat.GPT_OSS: "gpt-oss",
    },
    platforms=frozenset({"linux"}),
    has_helpers=True,
    accelerators=("cuda", "rocm", "cpu"),
    chooses_threads=True,
    loosens_calls=True,  # 0.5.23 wrote a string in place of the arguments
    probe_path="/v1/completions",
    metrics_path="/metrics",
    metrics={
        Gauge.RUNNING: "sglang:num_running_reqs",
        Gauge.WAITING: "sglang:num_queue_reqs",
        Gauge.KV_USAGE: "sglang:token_usage",
        Gauge.PROMPT_TOKENS: "sglang:prompt_tokens_total",
        Gauge.GENERATED_TOKENS: "sglang:generation_tokens_total",
        Gauge.PREFIX_HIT_RATE: "sglang:cache_hit_rate",
    },
    verified=(
        "Run for real on Linux x86-64 on the CPU in November 2026 with SGLang 0.5.23, with one kernel stood in for, "
        "with the Guide, loaded by its plan: chat, completions, streams, log probabilities, biased tokens, calls that "
        "must be made, prompts too long, cancelling, a killed scheduler. "
        "Its options, parsers of tool calls and ends without a GPU are those of SGLang 0.5.23, installed by its "
        "lock. Its server, behind the key guard, answered chat, completions, responses, messages, embeddings, "
        "ranking (as a bare list), tokens and metrics, on the processor and with one kernel replaced. What takes "
        "a GPU is played by a stand-in: log lines, ends for lack of memory."
    ),
    unverified=(
        "Not run with this adapter on a GPU: it needs an NVIDIA or AMD server GPU under Linux. Its kernels for "
        "processors are not on PyPI: Roundhouse installs no build for them. Images, "
        "transcription, adapters, drafts beyond their options, and sleep were not tried at all."
    ),
    span=ComputerSpan(kind=SpanKind.NODES, tried="SGLang was never run over several computers by Roundhouse."),
    traits=TRAITS,
)
