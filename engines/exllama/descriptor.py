"""What ExLlamaV3 and ExLlamaV2 are and can do, behind our server. From the wheels of 1.6.5 and 0.3.2."""

import msgspec

from engines.api import Descriptor, Family, Feature, ModelFormat, Route
from engines.worker_adapter import METRICS, METRICS_PATH

EXL3 = Descriptor(
    id="exllamav3",
    name="ExLlamaV3",
    licence="MIT",
    homepage="https://github.com/turboderp-org/exllamav3",
    family=Family.VENV_WORKER,
    formats=frozenset({ModelFormat.EXL3}),
    modalities=frozenset({"text"}),
    routes={
        Route.CHAT: "/v1/chat/completions",
        Route.COMPLETIONS: "/v1/completions",
        Route.TOKENIZE: "/tokenize",
        Route.DETOKENIZE: "/detokenize",
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
        }
    ),
    platforms=frozenset({"linux", "win32"}),
    accelerators=("cuda",),
    metrics_path=METRICS_PATH,
    metrics=METRICS,
    verified=(
        "Its worker runs against a stand-in for the library with the same classes: serving, limits, cancelling, JSON "
        "schemas, log probabilities."
    ),
    unverified=(
        "Never run on a GPU, and never installed with one: its kernels are compiled when it first starts, which takes "
        "nvcc of CUDA 13, a C++ compiler and a GPU of compute capability 8.0 or newer. Splitting tensors over cards, "
        "draft models, adapters and images are not possible with it here yet; a model too large for one card is spread "
        "over all that are there, by the library itself. The library knows Windows too, but PyPI has no PyTorch with "
        "CUDA for it, so it can be installed on Linux alone."
    ),
)

EXL2 = msgspec.structs.replace(
    EXL3,
    id="exllamav2",
    name="ExLlamaV2",
    homepage="https://github.com/turboderp-org/exllamav2",
    formats=frozenset({ModelFormat.EXL2}),
    unverified=(
        f"{EXL3.unverified} It is frozen since December 2025, and nobody has tried it with the PyTorch of its lock. "
        "Without flash-attn, which its install does not bring, it answers one request at a time. "
        "Its schema filter was tried with the real llguidance and made-up logits, not in its sampler."
    ),
)
