"""What MLX-LM is and can do, behind our worker. Checked against mlx-lm 0.32.2 on the CPU under Linux."""

from engines.api import ComputerSpan, Descriptor, EngineFamily, Feature, ModelFormat, Route, SpanKind
from engines.api.support import NameKind, NameSource
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
"""What the advisor judges it by."""

DESCRIPTOR = Descriptor(
    id="mlx-lm",
    name="MLX-LM",
    licence="MIT",
    homepage="https://github.com/ml-explore/mlx-lm",
    family=EngineFamily.VENV_WORKER,
    support=(
        NameSource(kind=NameKind.MODEL_TYPE, package="mlx_lm", files="models/*.py"),
        NameSource(
            kind=NameKind.MODEL_TYPE,
            package="mlx_lm",
            files="utils.py",
            region=r"^MODEL_REMAPPING = \{.*?^\}",
            pattern=r'^    "([\w.-]+)":',
        ),
    ),
    formats=(ModelFormat.MLX, ModelFormat.SAFETENSORS),
    modalities=frozenset({"text"}),
    routes={Route.CHAT: "/v1/chat/completions", Route.COMPLETIONS: "/v1/completions"},
    features=frozenset(
        {
            Feature.TOOLS,
            Feature.LOGPROBS,
            Feature.LOGIT_BIAS,
            Feature.STREAM_USAGE,
            Feature.DRAFT,
            Feature.KV_QUANT,
            Feature.CONTINUOUS_BATCHING,
            Feature.API_KEY,
        }
    ),
    platforms=frozenset({"darwin", "linux"}),
    accelerators=("metal", "cuda", "cpu"),
    chooses_threads=True,
    verified=(
        "Run for real on Linux x86-64 on the CPU in November 2026 with mlx-lm 0.32.2 and 16-bit weights: loading, "
        "chat, "
        "completions, "
        "streaming, cancelling, limits of the context, damaged and missing files, a taken port, and the key."
    ),
    unverified=(
        "Not run yet on a Mac (Metal) or with CUDA, nor with quantised weights, adapters or a draft model. It has no "
        "JSON schema, and a quantised KV cache answers one request at a time."
    ),
    span=ComputerSpan(
        kind=SpanKind.NODES,
        tried="MLX's ring was never run by Roundhouse, which plans it and does not start it.",
        is_started=False,
    ),
    traits=TRAITS,
)
