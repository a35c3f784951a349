"""What llama.cpp, as xllamacpp brings it, is and can do. Checked against the pinned build (see `install.toml`)."""

from engines.api import ComputerSpan, Descriptor, EngineFamily, Feature, Gauge, ModelFormat, Route, SlotStates, SpanKind
from engines.api.support import NameKind, NameSource
from engines.llama_cpp.traits import TRAITS

_LIBRARIES = (
    ("xllamacpp", "xllamacpp*.so"),
    ("xllamacpp", "xllamacpp*.pyd"),
    ("llama_cpp", "lib/*llama.*"),
    ("llama_cpp", "lib/*ggml-base.*"),
    ("", "*llama.*"),
    ("", "*ggml-base.*"),
    ("", "llama-server*"),
)
"""Of the packages, and beside a program."""
_ANCHORS = ("gptneox", "llama-bpe", "iq4_xs")
"""A name of each table that every build of the last years has: architectures, tokenizers, types of tensors."""

DESCRIPTOR = Descriptor(
    id="llama.cpp",
    name="llama.cpp",
    licence="MIT",
    homepage="https://github.com/ggml-org/llama.cpp",
    family=EngineFamily.VENV_WORKER,
    formats=(ModelFormat.GGUF,),
    modalities=frozenset({"text", "image", "audio"}),
    routes={
        Route.CHAT: "/v1/chat/completions",
        Route.COMPLETIONS: "/v1/completions",
        Route.EMBEDDINGS: "/v1/embeddings",
        Route.RESPONSES: "/v1/responses",
        Route.MESSAGES: "/v1/messages",
        Route.COUNT_TOKENS: "/v1/messages/count_tokens",
        Route.RERANK: "/v1/rerank",
        Route.INFILL: "/infill",
        Route.RAW: "/completion",
        Route.TOKENIZE: "/tokenize",
        Route.DETOKENIZE: "/detokenize",
        Route.APPLY_TEMPLATE: "/apply-template",
        Route.TRANSCRIPTIONS: "/v1/audio/transcriptions",
    },
    features=frozenset(
        {
            Feature.TOOLS,
            Feature.REASONING,
            Feature.THINKING_BUDGET,
            Feature.JSON_SCHEMA,
            Feature.GRAMMAR,
            Feature.LOGPROBS,
            Feature.LOGIT_BIAS,
            Feature.CHOICES,
            Feature.STREAM_USAGE,
            Feature.KV_QUANT,
            Feature.PREFILL,
            Feature.VISION,
            Feature.LORA,
            Feature.DRAFT,
            Feature.SAMPLING_DEFAULTS,
            Feature.CONTINUOUS_BATCHING,
            Feature.PROGRESS,
            Feature.API_KEY,
            Feature.PORT_ZERO,
        }
    ),
    platforms=frozenset({"linux", "darwin", "win32"}),
    accelerators=("metal", "cuda", "rocm", "vulkan", "sycl", "cpu"),
    support=tuple(
        NameSource(kind=NameKind.GGUF, package=package, files=files, anchors=_ANCHORS) for package, files in _LIBRARIES
    ),
    least_version="b9061",  # CVE-2026-27940, 34159, 43629 to 43632 and 118375: headers, RPC, and waking from sleep
    closes_after_stream=True,
    counts_each=True,
    repeats_prefill=True,
    cache_field="cache_prompt",
    transcripts=frozenset({"json"}),
    program="llama-server",
    metrics_path="/metrics",
    slots_path="/slots",
    slot_states=SlotStates(save="/slots/{slot}?action=save", restore="/slots/{slot}?action=restore"),
    overhead_bytes=1 << 30,  # half of it for the prompt cache; 0.2 GiB were measured without threads' stacks
    stuck_s=300.0,  # 2048 tokens of a prompt, its largest step, with 70 G parameters at 8 tokens/s
    metrics={
        Gauge.RUNNING: "llamacpp:requests_processing",
        Gauge.WAITING: "llamacpp:requests_deferred",
        Gauge.PROMPT_TOKENS: "llamacpp:prompt_tokens_total",
        Gauge.GENERATED_TOKENS: "llamacpp:tokens_predicted_total",
    },
    verified=(
        "Run for real on Linux x86-64 on the CPU in November 2026, as the bundled xllamacpp and as llama-cpp-python "
        "compiled here: loading with progress, chat, completions, responses, messages, token "
        "counts, templates, embeddings with an embedding task, ranking and infill with models of made-up weights, a "
        "quantised KV cache, a draft model, a LoRA adapter, an image and another template with models of made-up "
        "weights, damaged and missing files, a taken port, stopping while loading and while answering, and dying with "
        "its parent. As a program, a llama-server of build b10434 with its Vulkan part idle: its flags, "
        "loading with progress, chat, the key, a taken port, damaged files, and dying with its standard input. In "
        "November 2026 its RPC over two network namespaces, with made-up weights, one killed and one cut off. On an "
        "NVIDIA H100 in November 2026 the Guide, by a llama-server compiled there."
    ),
    unverified=(
        "Not run yet on macOS (Metal), Windows or ARM; images, drafts and LoRA adapters have not been tried with "
        "a model of real weights. The prebuilt CPU wheel uses AVX2 and not AVX-512. On macOS a gateway that is killed "
        "while a model loads leaves the engine running until the load ends."
    ),
    span=ComputerSpan(
        kind=SpanKind.LAYERS,
        tried="llama.cpp's RPC was tried over two computers with a tiny model on processors, never with GPUs.",
    ),
    traits=TRAITS,
)
