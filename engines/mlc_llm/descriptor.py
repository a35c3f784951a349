"""What MLC LLM is and can do. From its sources of July 2026."""

from engines.api import Descriptor, EngineFamily, Feature, Gauge, ModelFormat, Route
from engines.api.traits import (
    ARM,
    DESKTOP,
    MAC,
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

TRAITS = Traits(
    default_formats=frozenset({ModelFormat.MLC}),
    targets=(
        EngineTarget(backend="metal", vendors=("apple",), systems=(MAC,), architectures=(ARM,)),
        EngineTarget(backend="cuda", vendors=("nvidia",), systems=DESKTOP, architectures=(X86,), compute=TURING),
        EngineTarget(backend="vulkan", vendors=("amd", "intel", "nvidia"), systems=DESKTOP, architectures=(X86,)),
        EngineTarget(backend="cpu", systems=DESKTOP, architectures=(X86,)),
    ),
    strength="compiles one model for browsers, phones and native apps",
    needs="a Mac with Apple silicon, or Linux or Windows on x86-64",
    limits="It has nightly builds only, and compiles each model first.",
    abilities=frozenset({EngineAbility.JSON_SCHEMA, EngineAbility.TENSOR}),
    most_slots=4,
    memory=GrowingMemory(process=400 * MIB),
    places={
        MachineKind.APPLE: GuidePlaces(local=40, structured=0, loras=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.MIXED: GuidePlaces(local=60, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.JETSON: GuidePlaces(local=20),
        MachineKind.NVIDIA_OLDER: GuidePlaces(local=40, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.ARC: GuidePlaces(local=40),
        MachineKind.RADEON: GuidePlaces(local=20, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.AMD_APU: GuidePlaces(local=20),
        MachineKind.CPU: GuidePlaces(local=20),
    },
    app=20,
    app_on={MachineKind.APPLE: 10},
    browser=10,
    order=100,
)
"""What the advisor judges it by."""

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
