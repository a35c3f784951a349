"""What ExLlamaV3 and ExLlamaV2 are and can do, behind our server. From the wheels of 1.6.5 and 0.3.2."""

import msgspec

from engines.api import Descriptor, EngineFamily, Feature, ModelFormat, Route
from engines.api.support import NameKind, NameSource
from engines.api.traits import (
    AMPERE,
    DESKTOP,
    GIB,
    MIB,
    TURING,
    X86,
    EngineAbility,
    EngineTarget,
    GrowingMemory,
    GuidePlaces,
    MachineKind,
    Traits,
)
from engines.worker_adapter import METRICS, METRICS_PATH, PREFILL_FIELDS

COMPILED_AT_FIRST = (
    "Not run on another card than this one. The kernels are compiled when it first starts, which takes a C++ compiler "
    "and minutes (many on few cores), and PyTorch asks for driver 580."
)
NOT_POSSIBLE = (
    "Several cards, drafts, adapters and the kinds of cache were tried against the stand-in only, which has the "
    "classes and arguments of this version; adapters are applied to every request, and not where matrices are cut over "
    "cards. Windows has a recipe of its own, with PyTorch from PyTorch's index and compiled kernels from the library's "
    "authors; it was never run, so that it is advised only where it is installed already."
)

EXL2_ARCHITECTURES = frozenset(
    {"llama", "mistral", "mistral3", "mixtral", "yi", "orion", "qwen2", "qwen2vl", "qwen3", "qwen3moe", "gemma"}
    | {"gemma2", "gemma3", "starcoder", "starcoder2", "command-r", "cohere2", "dbrx", "phi3", "gpt2", "minicpm"}
    | {"internlm2", "granite", "glm4"}
)
"""What `exllamav2.architecture` of 0.3.2, its last release, tells apart."""
EXL2_UNCUT = EXL2_ARCHITECTURES - {"llama", "mistral", "qwen2", "qwen3", "qwen3moe", "glm4"}
"""Those that `exllamav2.architecture` does not mark `supports_tp`; what it does not know it takes for Llama."""
EXL3_UNCUT = frozenset({"afmoe", "lfm2", "lfm2moe", "mistral4", "olmo2", "qwen3next", "muse_glimmer", "olmo_hybrid"})
"""Architectures that exllamav3 1.6.5 marks `supports_tp: False`.

It does so for GLM 4.7 Flash too, which has the name of DeepSeek's architecture here; the library refuses that itself.
"""
MEMORY = GrowingMemory(
    kv_types={
        "q8_0": "exl-q8",
        "q6_0": "exl-q6",
        "q5_1": "exl-q6",
        "q5_0": "exl-q6",
        "q4_0": "exl-q4",
        "q8_0/q4_0": "exl-q6",
        "q4_0/q8_0": "exl-q6",  # as many bits together
    },
    embedding_on_host=True,
    process=2 * GIB,
    device=256 * MIB,
    device_large=1160 * MIB,
)
"""Caches of 8, 6 and 4 bits, the embedding in system memory.

An H100 with a model of 8B at 4 bits and 65,536 tokens of 16-bit cache had 13,395 MiB in use: 1,160 more than weights,
cache, working set and CUDA's context. On cards of 12 and 24 GB, people run what leaves no room for as much.
"""
FOR_A_DESK = "This is an engine for one desk: it neither separates many users nor tells them apart."

EXL3_MEMORY = msgspec.structs.replace(MEMORY, expert_process=GIB, expert_mark="mul1")
"""A process of its own computes experts on the processor: those of the codebook mul1, the converter's usual one."""

EXL3_TRAITS = Traits(
    default_formats=frozenset({ModelFormat.EXL3}),
    targets=(EngineTarget(backend="cuda", vendors=("nvidia",), systems=DESKTOP, architectures=(X86,), compute=TURING),),
    strength="splits tensors and experts across consumer cards",
    needs="NVIDIA cards, Turing or newer (compute capability 7.5), and Linux or Windows on x86-64",
    limits="It does not spread every architecture over several cards yet.",
    abilities=frozenset(
        {
            EngineAbility.JSON_SCHEMA,
            EngineAbility.KV_QUANT,
            EngineAbility.HOST_OFFLOAD,
            EngineAbility.BUDGETS,
            EngineAbility.TENSOR,
            EngineAbility.PIPELINE,
            EngineAbility.EXPERT,
            EngineAbility.VISION,
            EngineAbility.OWN_HEAD,
        }
    ),
    uncut=EXL3_UNCUT,
    most_slots=16,
    memory=EXL3_MEMORY,
    speed_class="exl3",
    places={
        MachineKind.MIXED: GuidePlaces(local=25, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.RTX_MANY: GuidePlaces(local=40, structured=30, long=30, moe=30, fleet=60),
        MachineKind.RTX_FEW: GuidePlaces(
            local=10, structured=30, loras=40, long=20, batch=40, serving=40, serving_shaped=40, fleet=60
        ),
        MachineKind.RTX_ONE: GuidePlaces(
            local=15, agent=30, structured=40, loras=0, long=15, moe=10, batch=0, serving=0, serving_shaped=0, fleet=0
        ),
        MachineKind.RTX_SMALL: GuidePlaces(
            local=30, agent=40, loras=0, moe=20, batch=0, serving=0, serving_shaped=0, fleet=0
        ),
    },
    order=50,
    serving_warning=FOR_A_DESK,
)
"""What the advisor judges it by."""

EXL2_TRAITS = Traits(
    default_formats=frozenset({ModelFormat.EXL2}),
    targets=(EngineTarget(backend="cuda", vendors=("nvidia",), systems=DESKTOP, architectures=(X86,), compute=AMPERE),),
    strength="gets the most speed and the largest model out of one such card",
    needs="an NVIDIA card, Ampere or newer (compute capability 8.0), and Linux or Windows on x86-64",
    limits="It has been frozen since December 2025: later architectures are missing.",
    abilities=frozenset(
        {EngineAbility.JSON_SCHEMA, EngineAbility.LORAS, EngineAbility.KV_QUANT, EngineAbility.PIPELINE}
        | {EngineAbility.TENSOR, EngineAbility.BUDGETS}
    ),
    uncut=EXL2_UNCUT,
    architectures=EXL2_ARCHITECTURES,
    most_slots=8,
    memory=MEMORY,
    places={
        MachineKind.MIXED: GuidePlaces(local=20, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.RTX_FEW: GuidePlaces(
            local=40, structured=0, loras=0, long=0, moe=0, batch=0, serving=0, serving_shaped=0, fleet=0
        ),
        MachineKind.RTX_ONE: GuidePlaces(
            local=10, agent=20, structured=50, loras=40, moe=30, batch=40, serving=40, serving_shaped=40, fleet=60
        ),
        MachineKind.RTX_SMALL: GuidePlaces(
            local=20, structured=40, loras=40, moe=30, batch=40, serving=40, serving_shaped=40, fleet=60
        ),
    },
    order=40,
    serving_warning=FOR_A_DESK,
    successor="exllamav3",  # whether it is the faster with the same model, no card has shown: docs/reference/advisor.md
)
"""What the advisor judges it by."""

EXL3 = Descriptor(
    id="exllamav3",
    name="ExLlamaV3",
    support=(
        NameSource(
            kind=NameKind.CLASS, package="exllamav3", files="architecture/*.py", pattern=r'^\s+arch_string = "(\w+)"'
        ),
    ),
    licence="MIT",
    homepage="https://github.com/turboderp-org/exllamav3",
    family=EngineFamily.VENV_WORKER,
    formats=(ModelFormat.EXL3,),
    modalities=frozenset({"text", "image"}),
    routes={
        Route.CHAT: "/v1/chat/completions",
        Route.COMPLETIONS: "/v1/completions",
        Route.COUNT_TOKENS: "/v1/messages/count_tokens",
        Route.TOKENIZE: "/tokenize",
        Route.DETOKENIZE: "/detokenize",
        Route.APPLY_TEMPLATE: "/apply-template",
    },
    features=frozenset(
        {
            Feature.JSON_SCHEMA,
            Feature.LOGPROBS,
            Feature.STREAM_USAGE,
            Feature.KV_QUANT,
            Feature.CONTINUOUS_BATCHING,
            Feature.PROGRESS,
            Feature.API_KEY,
            Feature.SAMPLING_DEFAULTS,
            Feature.PREFILL,
            Feature.DRAFT,
            Feature.LORA,
            Feature.TENSOR_PARALLEL,
            Feature.VISION,
        }
    ),
    platforms=frozenset({"linux", "win32"}),
    accelerators=("cuda",),
    chooses_threads=True,
    prefill_fields=PREFILL_FIELDS,
    helped_with=frozenset({"cpu_moe_layers"}),
    metrics_path=METRICS_PATH,
    metrics=METRICS,
    verified=(
        "Run for real on an NVIDIA H100 in November 2026, with PyTorch 2.11 and 64 of its 194 kernel files, compiled "
        "there: the Guide answered as on a processor, one and eight requests at once, in 16 bits and as EXL3 of 4 bits "
        "made of it there by the converter; weights in the shape of a Llama 8B at 4 bits, with random trellises, were "
        "read, also confined by the application, and a prompt of 3,919 tokens, one and eight requests at once were "
        "answered from a 16-bit cache. "
        "Its install from the lock, on Linux x86-64, and its kernels there: all 194 files compiled by the compiler "
        "that comes along, linked and loaded. Its worker with the Python of exllamav3 1.6.5 and the Guide's weights on "
        "a processor, what is compiled for cards being stood in for by PyTorch: chats that answer as the Guide does on "
        "llama.cpp, batches, cancelling, limits, ends, seeds, penalties, prompts kept, JSON schemas by llguidance, log "
        "probabilities, a draft model, a cache of 8 bits. The rest against a stand-in for the library with the same "
        "classes."
    ),
    unverified=(
        f"{COMPILED_AT_FIRST} Of trained weights only the Guide's few million have been run on a card. "
        f"{NOT_POSSIBLE} Pictures are read with models of the architectures that it "
        "has a vision component for; no such component was ever loaded, here or on a card. Experts of the first layers "
        "can stay in system memory where the model was quantised with the codebook mul1, the converter's usual one; "
        "the library loads others whole. On Turing cards it reads prompts by kernels of its own: they and "
        "eight other files of its 194 were compiled for compute capability 7.5. It has code for AMD's RDNA cards too "
        "(32-wide wavefronts; none for Instinct), but the index has neither PyTorch for ROCm nor a build of it, so "
        "that it is not installed for them."
    ),
    traits=EXL3_TRAITS,
)

EXL2 = msgspec.structs.replace(
    EXL3,
    id="exllamav2",
    name="ExLlamaV2",
    homepage="https://github.com/turboderp-org/exllamav2",
    formats=(ModelFormat.EXL2,),
    modalities=frozenset({"text"}),
    features=EXL3.features - {Feature.VISION},
    helped_with=frozenset(),
    verified=(
        "Run for real on an NVIDIA H100 in November 2026, with PyTorch 2.11 and kernels compiled there: the Guide in "
        "16 bits answered as on a processor, one and eight requests at once. "
        "Its install from the lock, on Linux x86-64, and its kernels there: all 47 files compiled by the compiler that "
        "comes along, linked and loaded. Its worker with the Python of exllamav2 0.3.2 and the Guide's weights on a "
        "processor, what is compiled for cards being stood in for by PyTorch: chats that answer as the Guide does on "
        "llama.cpp, batches, cancelling, limits, ends, seeds, penalties, prompts kept, JSON schemas by llguidance, log "
        "probabilities, a draft model. The rest against a stand-in for the library with the same classes."
    ),
    unverified=(
        f"{COMPILED_AT_FIRST} Quantised weights have not been run on a card. {NOT_POSSIBLE} It is frozen since "
        "December 2025. flash-attn, which its install does not bring, is stood in for by PyTorch's own attention: "
        "compared with the plain computation on the processor, where it differed by rounding only."
    ),
    traits=EXL2_TRAITS,
)
