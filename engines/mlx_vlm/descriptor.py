"""What MLX-VLM is and can do. Checked against 0.7.10 on the CPU under Linux."""

from engines.api import Descriptor, EngineFamily, Feature, ModelFormat, Route
from engines.api.support import NameKind, NameSource
from engines.mlx_vlm.traits import TRAITS

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
