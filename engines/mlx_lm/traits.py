"""What the advisor knows of MLX-LM."""

from engines.api import ModelFormat
from engines.api.traits import (
    ARM,
    MAC,
    MIB,
    EngineAbility,
    EngineTarget,
    GrowingMemory,
    GuidePlaces,
    MachineKind,
    Traits,
)

MLX_MEMORY = GrowingMemory(
    kv_types={"q8_0": "mlx-8bit", "q4_0": "mlx-4bit"}, computes_all_logits=True, process=300 * MIB
)
"""`mlx_lm.generate` of 0.28 computes the logits of a prompt's last 2,048 tokens at once; published peaks hold them."""

LIMITS = "Its server is not made for the public: it has no keys and only basic checks, as its makers say."

TRAITS = Traits(
    default_formats=frozenset({ModelFormat.MLX}),
    targets=(EngineTarget(backend="metal", vendors=("apple",), systems=(MAC,), architectures=(ARM,)),),
    strength="is made for memory that processor and GPU share",
    needs="a Mac with Apple silicon (Windows has no build, and those for Linux are young)",
    limits=LIMITS,
    abilities=frozenset({EngineAbility.KV_QUANT}),
    most_slots=32,
    memory=MLX_MEMORY,
    speed_class="mlx",
    places={
        MachineKind.APPLE: GuidePlaces(local=10, structured=30, loras=20, serving=20, serving_shaped=30, fleet=20),
    },
    app_on={MachineKind.APPLE: 30},
    order=20,
    serving_warning=LIMITS,
)
