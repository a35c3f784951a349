"""What llama.cpp, as xllamacpp brings it, is and can do. Checked against the pinned build (see `install.toml`)."""

from engines.api import ComputerSpan, Descriptor, EngineFamily, Feature, Gauge, ModelFormat, Route, SlotStates, SpanKind
from engines.api.support import NameKind, NameSource
from engines.api.traits import (
    ANY_CUDA,
    ARM,
    DESKTOP,
    INSTINCT,
    LINUX,
    MAC,
    X86,
    EngineAbility,
    EngineTarget,
    GgmlMemory,
    GuidePlaces,
    MachineKind,
    Traits,
)

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

TRAITS = Traits(
    default_formats=frozenset({ModelFormat.GGUF}),
    targets=(
        EngineTarget(backend="metal", vendors=("apple",), systems=(MAC,), architectures=(ARM,)),
        EngineTarget(backend="cuda", vendors=("nvidia",), systems=DESKTOP, compute=ANY_CUDA),
        # AMD's accelerators have no driver for Vulkan.
        EngineTarget(backend="rocm", vendors=("amd",), systems=(LINUX,), architectures=(X86,), gfx=INSTINCT),
        EngineTarget(backend="vulkan", vendors=("amd", "intel", "nvidia", "apple"), systems=DESKTOP),
        EngineTarget(backend="rocm", vendors=("amd",), systems=DESKTOP, architectures=(X86,)),
        EngineTarget(backend="cpu", systems=(), architectures=()),
    ),
    strength="runs on any processor and nearly any GPU, and can keep a part of a model in system memory",
    needs="a computer",
    limits="It is not made for speed on several GPUs, and its RPC between computers is fragile and open to anyone.",
    abilities=frozenset(
        {
            EngineAbility.JSON_SCHEMA,
            EngineAbility.LORAS,
            EngineAbility.KV_QUANT,
            EngineAbility.HOST_OFFLOAD,
            EngineAbility.PIPELINE,
            EngineAbility.VISION,
            EngineAbility.EVERYWHERE,
            EngineAbility.OWN_HEAD,
        }
    ),
    most_slots=16,
    memory=GgmlMemory(),
    places={
        MachineKind.APPLE: GuidePlaces(local=20, structured=10, loras=10, serving=10, serving_shaped=10, fleet=10),
        MachineKind.BLACKWELL_SERVER: GuidePlaces(
            local=50, structured=40, loras=40, long=40, moe=40, serving_shaped=40, fleet=0
        ),
        MachineKind.NVIDIA_SERVER: GuidePlaces(local=50, fleet=0),
        MachineKind.INSTINCT: GuidePlaces(local=30, fleet=0),
        MachineKind.MIXED: GuidePlaces(local=10, batch=40, serving=40, serving_shaped=40, fleet=40),
        MachineKind.RTX_MANY: GuidePlaces(
            local=60, agent=50, structured=40, loras=50, long=40, moe=40, batch=50, fleet=0
        ),
        MachineKind.RTX_FEW: GuidePlaces(
            local=60, agent=50, structured=40, loras=50, long=40, moe=40, batch=50, fleet=0
        ),
        MachineKind.RTX_ONE: GuidePlaces(
            local=20, agent=10, loras=30, batch=50, serving=50, serving_shaped=50, fleet=0
        ),
        MachineKind.RTX_SMALL: GuidePlaces(local=10, loras=30, batch=50, serving=50, serving_shaped=50, fleet=0),
        MachineKind.NVIDIA_UNIFIED: GuidePlaces(local=10, batch=40, serving=40, serving_shaped=40, fleet=30),
        MachineKind.JETSON: GuidePlaces(local=10),
        MachineKind.TURING_FEW: GuidePlaces(local=30, fleet=0),
        MachineKind.NVIDIA_OLDER: GuidePlaces(local=10, batch=30, serving=30, serving_shaped=30, fleet=30),
        MachineKind.ARC: GuidePlaces(local=30),
        MachineKind.RADEON: GuidePlaces(local=10, batch=20, serving=20, serving_shaped=20, fleet=20),
        MachineKind.AMD_APU: GuidePlaces(local=10),
        MachineKind.SNAPDRAGON: GuidePlaces(local=10),
        MachineKind.INTEL_CPU: GuidePlaces(local=20),
        MachineKind.INTEL_MAC: GuidePlaces(local=10),
        MachineKind.BOARD: GuidePlaces(local=10),
        MachineKind.CPU_SERVER: GuidePlaces(local=10),
        MachineKind.CPU: GuidePlaces(local=10),
    },
    app=30,
    app_on={MachineKind.APPLE: 40},
    browser=30,
    order=10,
    unlisted="llama.cpp reaches other computers only by its RPC, which is fragile and open to "
    "anyone: not for production.",
    fleet_warning=(
        "For several computers start one server on each, behind a load balancer; llama.cpp's RPC is open to anyone."
    ),
)
"""What the advisor judges it by."""

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
