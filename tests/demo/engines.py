"""Engines at the demo machine. Invented, and only shown in screenshots."""

from app.core.confinement import EngineConfinementState
from app.core.engine_store import (
    EngineJob,
    EngineListing,
    EngineOffer,
    EngineUpdate,
    EngineVersion,
    Proof,
)
from app.core.errors import ErrorBody

_MB = 1_000_000
_PROOF = Proof(
    at=1.7952e9,
    model="the Guide",
    text="Roundhouse is a desktop app.",
    tokens_per_s=1281.9,
    backend="cpu",
    device="CPU",
)
CONFINED = EngineConfinementState(
    is_confined=True,
    sentence=(
        "Confined: it reads its model and its own programs, writes to folders of its own, and connects to nothing."
    ),
)
LLAMA_CPP = EngineListing(
    id="llama.cpp",
    name="llama.cpp",
    licence="MIT",
    homepage="https://github.com/ggml-org/llama.cpp",
    formats=["gguf"],
    rank=1,
    advice=(
        "The best choice for this machine: llama.cpp runs on any processor and nearly any GPU, and can keep a part of "
        "a model in system memory."
    ),
    versions=[
        EngineVersion(
            name="2026.10.11549-cpu",
            version="2026.10.11549",
            variant="cpu",
            backend="cpu",
            is_current=True,
            size_bytes=106 * _MB,
            proof=_PROOF,
        ),
        EngineVersion(name="bundled", version="2026.9.11063", backend="cpu", is_previous=True, proof=None),
        EngineVersion(
            name="2026.8.10566-cpu",
            version="2026.8.10566",
            variant="cpu",
            backend="cpu",
            size_bytes=101 * _MB,
            problem="It should have used vulkan but used CPU.",
        ),
        EngineVersion(name="llama-server", version="b11402", path="/usr/local/bin/llama-server", is_on_path=True),
    ],
    offers=[
        EngineOffer(variant="cpu", version="2026.10.11549", backend="cpu", is_installed=True),
        EngineOffer(variant="vulkan", version="0.8.0", backend="vulkan", download_bytes=32 * _MB),
        EngineOffer(variant="metal", version="2026.10.11549", backend="metal", unfit="It is made for macOS."),
    ],
    size_bytes=207 * _MB,
    confinement=CONFINED,
)
OPENVINO = EngineListing(
    id="openvino",
    name="OpenVINO GenAI",
    licence="Apache-2.0",
    homepage="https://github.com/openvinotoolkit/openvino.genai",
    formats=["openvino"],
    rank=2,
    advice="It can run on this machine: OpenVINO GenAI has Intel's own kernels for vector and matrix units.",
    offers=[EngineOffer(variant="cpu", version="2026.4.1.0", backend="cpu", download_bytes=71 * _MB)],
)
VLLM = EngineListing(
    id="vllm",
    name="vLLM",
    licence="Apache-2.0",
    homepage="https://github.com/vllm-project/vllm",
    formats=["safetensors", "fp8", "awq"],
    advice="vLLM needs Linux and an NVIDIA GPU, Turing or newer, or an AMD GPU that its ROCm build supports.",
)
MLX = EngineListing(
    id="mlx-lm",
    name="MLX-LM",
    licence="MIT",
    homepage="https://github.com/ml-explore/mlx-lm",
    formats=["mlx", "safetensors"],
    advice="MLX-LM needs a Mac with Apple silicon (Windows has no build, and those for Linux are young).",
)
STOCK = [LLAMA_CPP, OPENVINO, VLLM, MLX]
INSTALLING = EngineJob(
    id="1", engine="openvino", verb="install", version="2026.4.1.0", stage="Fetching openvino", fraction=0.63
)
REFUSED = EngineJob(
    id="2",
    engine="openvino",
    verb="install",
    stage="Ended",
    is_done=True,
    error=ErrorBody(
        code="illegal_instruction",
        sentence=(
            "OpenVINO GenAI 2026.4.1.0 was not installed, because its test failed: this processor lacks an "
            "instruction it was built to use."
        ),
        hint="The previous version is still in use.",
        detail="Illegal instruction (core dumped)",
    ),
)
UPDATE = EngineUpdate(
    engine="llama.cpp",
    variant="cpu",
    current="2026.10.11549",
    to="2026.11.11702",
    download_bytes=34 * _MB,
)


def engine_replies() -> dict[str, object]:
    """Return the demo gateway's answers about engines."""
    return {
        "GET /engines/stock": STOCK,
        "POST /engines/openvino/install": INSTALLING,
        "POST /engines/llama.cpp/test": EngineJob(
            id="3", engine="llama.cpp", verb="test", stage="Testing with the Guide"
        ),
        "POST /engines/llama.cpp/use": None,
        "GET /engines/llama.cpp/update": UPDATE,
        "POST /engines/llama.cpp/update": EngineJob(id="4", engine="llama.cpp", verb="update", stage="Starting"),
        "DELETE /engines/llama.cpp/versions/2026.8.10566-cpu": None,
        "DELETE /engines/job": None,
    }
