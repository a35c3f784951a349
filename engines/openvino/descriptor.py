"""What OpenVINO GenAI is and can do behind our own server. Checked against the pinned version (see `install.toml`)."""

from engines.api import Descriptor, EngineFamily, Feature, ModelFormat, Route
from engines.api.traits import (
    DESKTOP,
    MIB,
    X86,
    EngineAbility,
    EngineTarget,
    GrowingMemory,
    GuidePlaces,
    MachineKind,
    Traits,
)
from engines.worker_adapter import METRICS, METRICS_PATH, PREFILL_FIELDS

TRAITS = Traits(
    default_formats=frozenset({ModelFormat.OPENVINO}),
    targets=(
        EngineTarget(backend="gpu", vendors=("intel",), systems=DESKTOP, architectures=(X86,)),
        EngineTarget(backend="cpu", systems=DESKTOP, architectures=(X86,), isa="avx2"),
    ),
    strength="has Intel's own kernels for vector and matrix units",
    needs="an x86-64 processor with AVX2 or an Intel GPU, and Linux or Windows",
    abilities=frozenset(
        {
            EngineAbility.SERVES,
            EngineAbility.JSON_SCHEMA,
            EngineAbility.LORAS,
            EngineAbility.KV_QUANT,
            EngineAbility.VISION,
        }
    ),
    most_slots=64,
    memory=GrowingMemory(kv_types={"q8_0": "openvino-u8"}, cache_step=32, cache_spare=32, chunk=256, process=400 * MIB),
    kernels_of="intel",
    places={
        MachineKind.MIXED: GuidePlaces(local=50, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.ARC: GuidePlaces(local=10),
        MachineKind.INTEL_CPU: GuidePlaces(local=10),
        MachineKind.CPU_SERVER: GuidePlaces(local=20),
        MachineKind.CPU: GuidePlaces(local=40),
    },
    order=120,
)
"""What the advisor judges it by."""

DESCRIPTOR = Descriptor(
    id="openvino",
    name="OpenVINO GenAI",
    licence="Apache-2.0",
    homepage="https://github.com/openvinotoolkit/openvino.genai",
    family=EngineFamily.VENV_WORKER,
    formats=(ModelFormat.OPENVINO,),
    modalities=frozenset({"text"}),
    routes={
        Route.CHAT: "/v1/chat/completions",
        Route.COMPLETIONS: "/v1/completions",
        Route.COUNT_TOKENS: "/v1/messages/count_tokens",
        Route.TOKENIZE: "/tokenize",
        Route.DETOKENIZE: "/detokenize",
        Route.APPLY_TEMPLATE: "/apply-template",
    },
    features=frozenset(
        {
            Feature.JSON_SCHEMA,
            Feature.STREAM_USAGE,
            Feature.KV_QUANT,
            Feature.CONTINUOUS_BATCHING,
            Feature.PROGRESS,
            Feature.API_KEY,
            Feature.SAMPLING_DEFAULTS,
            Feature.PREFILL,
            Feature.PORT_ZERO,
        }
    ),
    platforms=frozenset({"linux", "win32"}),
    accelerators=("gpu", "cpu"),
    prefill_fields=PREFILL_FIELDS,
    metrics_path=METRICS_PATH,
    metrics=METRICS,
    verified=(
        "Run for real on Linux x86-64 on the CPU in November 2026, with the Guide and a model of made-up weights: "
        "chat, "
        "completions, "
        "streams, several at once, cancelling, JSON schemas, log probabilities of chosen tokens, a quantised KV cache, "
        "stopping, damaged and missing files, and a GPU that is not there."
    ),
    unverified=(
        "Not run yet on an Intel GPU or on Windows: their options are checked by what they turn into. NPUs are not "
        "offered. Log probabilities of other tokens, images, draft models and LoRA adapters are not offered. OpenVINO "
        "Model Server has only been run as a stand-in that plays its routes."
    ),
    traits=TRAITS,
)
