"""What mistral.rs is and can do behind our own server. Checked against the pinned version (see `install.toml`)."""

from engines.api import Descriptor, EngineFamily, Feature, ModelFormat, Route
from engines.api.traits import ARM, DESKTOP, LINUX, MAC, MIB, X86, EngineAbility, EngineTarget, GrowingMemory, Traits
from engines.worker_adapter import METRICS, METRICS_PATH, PREFILL_FIELDS

TRAITS = Traits(
    targets=(
        EngineTarget(backend="metal", vendors=("apple",), systems=(MAC,), architectures=(ARM,)),
        EngineTarget(backend="cpu", systems=DESKTOP, architectures=(X86,)),
        EngineTarget(backend="cpu", systems=(LINUX,), architectures=(ARM,)),
    ),
    strength="reads Hugging Face folders without PyTorch, in a package of 26 MB",
    needs="Linux, Windows on x86-64, or a Mac with Apple silicon",
    limits="Its build from PyPI computes on processors and on Apple's GPUs alone.",
    abilities=frozenset({EngineAbility.JSON_SCHEMA}),
    most_slots=16,
    memory=GrowingMemory(process=200 * MIB),
    order=125,
)
"""What the advisor judges it by."""

DESCRIPTOR = Descriptor(
    id="mistral.rs",
    name="mistral.rs",
    licence="MIT",
    homepage="https://github.com/EricLBuehler/mistral.rs",
    family=EngineFamily.VENV_WORKER,
    formats=(ModelFormat.SAFETENSORS, ModelFormat.GGUF),
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
            Feature.LOGIT_BIAS,
            Feature.STREAM_USAGE,
            Feature.CONTINUOUS_BATCHING,
            Feature.PROGRESS,
            Feature.API_KEY,
            Feature.SAMPLING_DEFAULTS,
            Feature.PREFILL,
            Feature.PORT_ZERO,
        }
    ),
    platforms=frozenset({"linux", "darwin", "win32"}),
    accelerators=("metal", "cpu"),
    prefill_fields=PREFILL_FIELDS,
    metrics_path=METRICS_PATH,
    metrics={gauge: name for gauge, name in METRICS.items() if "kv_cache" not in name},
    verified=(
        "Run for real on Linux x86-64 on the CPU in November 2026 with mistralrs 0.9.5, with the Guide as a Hugging "
        "Face folder and as GGUF: chat, completions, streams, several at once, cancelling, JSON schemas, log "
        "probabilities, biased tokens, prompts kept, stopping, damaged and missing files."
    ),
    unverified=(
        "Not run yet on a Mac or on Windows; on a Mac the same package computes with Metal. PyPI has no current build "
        "with CUDA. Of models only the Guide was run; folders with weights of AWQ, GPTQ or FP8, UQFF files, images, "
        "draft models and LoRA adapters are not offered. A seed is taken, but the library has none for a request. On a "
        "processor it computes together only answers that began together; others take turns."
    ),
    traits=TRAITS,
)
