"""What the advisor knows of MLX-VLM."""

import msgspec

from engines.api.traits import ARM, MAC, MIB, EngineAbility, EngineTarget, GuideNeed, GuidePlaces, MachineKind, Traits
from engines.mlx_lm.traits import MLX_MEMORY

LIMITS = "Its server is not made for the public."

TRAITS = Traits(
    targets=(EngineTarget(backend="metal", vendors=("apple",), systems=(MAC,), architectures=(ARM,)),),
    strength="reads images and keeps answers to a JSON schema on Apple silicon",
    needs="a Mac with Apple silicon (Windows has no build, and those for Linux are young)",
    limits=LIMITS,
    abilities=frozenset({EngineAbility.JSON_SCHEMA, EngineAbility.KV_QUANT, EngineAbility.VISION}),
    most_slots=8,
    memory=msgspec.structs.replace(MLX_MEMORY, process=700 * MIB),
    speed_class="mlx",
    places={
        MachineKind.APPLE: GuidePlaces(local=30, structured=20, loras=0, serving_shaped=20, fleet=0),
    },
    order=30,
    blind_needs=frozenset({GuideNeed.STRUCTURED, GuideNeed.TEAM, GuideNeed.SERVING, GuideNeed.SERVING_SHAPED}),
    serving_warning=LIMITS,
)
