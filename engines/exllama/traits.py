"""What the advisor knows of ExLlamaV3 and ExLlamaV2."""

import msgspec

from engines.api import ModelFormat
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

EXL3 = Traits(
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

EXL2 = Traits(
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
