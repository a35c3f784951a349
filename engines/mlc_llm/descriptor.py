"""What MLC LLM is and can do. From its sources of July 2026."""

from engines.api import Descriptor, EngineFamily, Feature, Gauge, ModelFormat, Route
from engines.mlc_llm.traits import TRAITS

DESCRIPTOR = Descriptor(
    id="mlc-llm",
    name="MLC LLM",
    licence="Apache-2.0",
    homepage="https://github.com/mlc-ai/mlc-llm",
    family=EngineFamily.VENV_CLI,
    formats=(ModelFormat.MLC,),
    modalities=frozenset({"text"}),
    routes={
        Route.CHAT: "/v1/chat/completions",
        Route.COMPLETIONS: "/v1/completions",
        Route.EMBEDDINGS: "/v1/embeddings",
    },
    features=frozenset(
        {
            Feature.TOOLS,
            Feature.JSON_SCHEMA,
            Feature.LOGPROBS,
            Feature.STREAM_USAGE,
            Feature.DRAFT,
            Feature.TENSOR_PARALLEL,
            Feature.CONTINUOUS_BATCHING,
            Feature.API_KEY,
        }
    ),
    platforms=frozenset({"linux", "darwin", "win32"}),
    has_helpers=True,
    accelerators=(
        "cuda",
        "metal",
        "vulkan",
        "rocm",
        "opencl",
        "cpu",
    ),
    chooses_threads=True,
    metrics_path="/metrics",
    metrics={
        Gauge.PROMPT_TOKENS: "prefill_tokens_sum",
        Gauge.GENERATED_TOKENS: "decode_tokens_sum",
    },
    obtained="Install it from MLC's own package index, so that `mlc_llm` is on the PATH of Roundhouse's service.",
    verified=("Its command line, log lines and ends are played by a stand-in, and the key guard runs on real uvicorn."),
    unverified=(
        "Never run with this adapter: its wheels come from a package index of its own, nightly builds only; PyPI has "
        "no package of its name, and empty ones of its builds' names. A model is compiled when it is first loaded, "
        "which takes minutes and a compiler."
    ),
    traits=TRAITS,
)
