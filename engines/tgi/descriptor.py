"""What TGI is and can do. From the sources of 3.3, whose repository is archived since March 2026."""

from engines.api import Descriptor, EngineFamily, Feature, Gauge, ModelFormat, Route
from engines.api.traits import EngineAbility, ReservedMemory, Traits

VERSION = "3.3.7"
"""The last one."""
IMAGE = f"ghcr.io/huggingface/text-generation-inference:{VERSION}"

TRAITS = Traits(
    strength="serves models of the Hugging Face hub",
    needs="a running server, or its container image",
    limits="Its repository was archived in March 2026: attach a running server, or use a container image "
    "already on this computer.",
    abilities=frozenset({EngineAbility.SCALES}),
    memory=ReservedMemory(fraction=0.95, is_of_rest=True),  # --cuda-memory-fraction
    order=90,
)
"""What the advisor judges it by."""

DESCRIPTOR = Descriptor(
    id="tgi",
    name="TGI",
    licence="Apache-2.0",
    homepage="https://github.com/huggingface/text-generation-inference",
    family=EngineFamily.CONTAINER,
    formats=(ModelFormat.SAFETENSORS, ModelFormat.FP8, ModelFormat.AWQ, ModelFormat.GPTQ),
    modalities=frozenset({"text", "image"}),
    routes={
        Route.CHAT: "/v1/chat/completions",
        Route.COMPLETIONS: "/v1/completions",
        Route.TOKENIZE: "/tokenize",
    },
    features=frozenset(
        {
            Feature.TOOLS,
            Feature.JSON_SCHEMA,
            Feature.LOGPROBS,
            Feature.STREAM_USAGE,
            Feature.VISION,
            Feature.DRAFT,
            Feature.KV_QUANT,
            Feature.TENSOR_PARALLEL,
            Feature.CONTINUOUS_BATCHING,
            Feature.API_KEY,
        }
    ),
    platforms=frozenset({"linux"}),
    accelerators=("cuda",),
    chooses_threads=True,
    metrics_path="/metrics",
    metrics={
        Gauge.RUNNING: "tgi_batch_current_size",
        Gauge.WAITING: "tgi_queue_size",
    },
    obtained=f"Start docker or podman, and fetch its image yourself: `docker pull {IMAGE}`.",
    verified=(
        "Its container's command line is held against reviewed ones; its lines, ends and lifeline are played by a "
        "stand-in for docker and the launcher."
    ),
    unverified=(
        "Never run with this adapter: it needs its container image, docker or podman, and an NVIDIA GPU. Its key "
        "guards what writes text; its health, metrics and the model's name are open to every program of the computer."
    ),
    legacy=(
        "Its repository was archived in March 2026. Attach one that runs (`roundhouse attach`); the container is "
        "started only where its image is already here."
    ),
    traits=TRAITS,
)
