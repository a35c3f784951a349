"""What MLX-VLM is and can do. Checked against 0.7.10 on the CPU under Linux."""

import msgspec

from engines.api import Descriptor, EngineFamily, Feature, ModelFormat, Route
from engines.api.support import NameKind, NameSource
from engines.api.traits import ARM, MAC, MIB, EngineAbility, EngineTarget, GuideNeed, GuidePlaces, MachineKind, Traits
from engines.mlx_lm.descriptor import MLX_MEMORY

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
"""What the advisor judges it by."""

DESCRIPTOR = Descriptor(
    id="mlx-vlm",
    name="MLX-VLM",
    licence="MIT",
    homepage="https://github.com/Blaizzy/mlx-vlm",
    family=EngineFamily.VENV_CLI,
    support=(
        NameSource(kind=NameKind.MODEL_TYPE, package="mlx_vlm", files="models/*/"),
        NameSource(
            kind=NameKind.MODEL_TYPE,
            package="mlx_vlm",
            files="utils.py",
            region=r"^MODEL_REMAPPING = \{.*?^\}",
            pattern=r'^    "([\w.-]+)":',
        ),
    ),
    formats=(ModelFormat.MLX, ModelFormat.SAFETENSORS),
    modalities=frozenset({"text", "image", "audio"}),
    routes={
        Route.CHAT: "/v1/chat/completions",
        Route.RESPONSES: "/v1/responses",
        Route.MESSAGES: "/v1/messages",
        Route.COUNT_TOKENS: "/v1/messages/count_tokens",
        Route.EMBEDDINGS: "/v1/embeddings",
        Route.RERANK: "/v1/rerank",
    },
    features=frozenset(
        {
            Feature.TOOLS,
            Feature.JSON_SCHEMA,
            Feature.STREAM_USAGE,
            Feature.VISION,
            Feature.DRAFT,
            Feature.KV_QUANT,
            Feature.CONTINUOUS_BATCHING,
            Feature.API_KEY,
        }
    ),
    platforms=frozenset({"darwin", "linux"}),
    accelerators=(
        "metal",
        "cuda",
        "cpu",
    ),
    chooses_threads=True,
    verified=(
        "Run for real on Linux x86-64 on the CPU in November 2026 with mlx-vlm 0.7.10 and 16-bit text weights: "
        "loading, "
        "chat, and the "
        "key before every route."
    ),
    unverified=(
        "Not run yet on a Mac (Metal) or with CUDA, nor with images, sound, quantised weights or a draft model."
    ),
    traits=TRAITS,
)
