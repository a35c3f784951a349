"""What ONNX Runtime GenAI is and can do behind our own server. Checked against the pinned version (`install.toml`)."""

from engines.api import Descriptor, EngineFamily, Feature, ModelFormat, Route
from engines.api.traits import (
    ARM,
    DESKTOP,
    LINUX,
    MAC,
    MIB,
    TURING,
    WINDOWS,
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
    default_formats=frozenset({ModelFormat.ONNX_GENAI}),
    targets=(
        EngineTarget(backend="cuda", vendors=("nvidia",), systems=DESKTOP, architectures=(X86,), compute=TURING),
        EngineTarget(backend="directml", vendors=("amd", "intel"), systems=(WINDOWS,), architectures=(X86,)),
        EngineTarget(backend="npu", vendors=("qualcomm",), systems=(WINDOWS,), architectures=(ARM,)),
        EngineTarget(backend="cpu", systems=(LINUX,), architectures=(X86,)),
        EngineTarget(backend="cpu", systems=(MAC,), architectures=(ARM,)),
        EngineTarget(backend="cpu", systems=(WINDOWS,)),
    ),
    strength="is built to be embedded in programs, on processors, GPUs and NPUs",
    needs="Windows, Linux on x86-64, or a Mac with Apple silicon",
    abilities=frozenset({EngineAbility.JSON_SCHEMA}),
    most_slots=4,
    memory=GrowingMemory(plain_kv={"cpu": "f32"}, cache_step=1, chunk=512, process=200 * MIB),
    places={
        MachineKind.JETSON: GuidePlaces(local=30),
        MachineKind.NVIDIA_OLDER: GuidePlaces(local=50, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.ARC: GuidePlaces(local=20),
        MachineKind.RADEON: GuidePlaces(local=30, batch=0, serving=0, serving_shaped=0, fleet=0),
        MachineKind.AMD_APU: GuidePlaces(local=30),
        MachineKind.SNAPDRAGON: GuidePlaces(local=20),
        MachineKind.INTEL_CPU: GuidePlaces(local=30),
        MachineKind.CPU_SERVER: GuidePlaces(local=30),
        MachineKind.CPU: GuidePlaces(local=30),
    },
    app=10,
    app_on={MachineKind.APPLE: 20},
    browser=20,
    order=110,
)
"""What the advisor judges it by."""

DESCRIPTOR = Descriptor(
    id="onnxruntime-genai",
    name="ONNX Runtime GenAI",
    licence="MIT",
    homepage="https://github.com/microsoft/onnxruntime-genai",
    family=EngineFamily.VENV_WORKER,
    formats=(ModelFormat.ONNX_GENAI,),
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
            Feature.LOGPROBS,
            Feature.STREAM_USAGE,
            Feature.PROGRESS,
            Feature.API_KEY,
            Feature.SAMPLING_DEFAULTS,
            Feature.PREFILL,
            Feature.PORT_ZERO,
        }
    ),
    platforms=frozenset({"linux", "darwin", "win32"}),
    accelerators=("cuda", "directml", "npu", "cpu"),
    prefill_fields=PREFILL_FIELDS,
    metrics_path=METRICS_PATH,
    metrics={gauge: name for gauge, name in METRICS.items() if "kv_cache" not in name},
    verified=(
        "Run for real on Linux x86-64 on the CPU in November 2026, with the Guide and a model of made-up weights: "
        "chat, "
        "completions, "
        "streams, several at once, cancelling, JSON schemas, log probabilities, stopping, damaged and missing files, "
        "and providers that are not there."
    ),
    unverified=(
        "Not run yet with CUDA, DirectML or an NPU, nor on macOS or Windows: their options are checked by what they "
        "turn into. Several requests take turns on one device; the library's own batching is not used."
    ),
    traits=TRAITS,
)
