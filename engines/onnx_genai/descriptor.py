"""What ONNX Runtime GenAI is and can do behind our own server. Checked against the pinned version (`install.toml`)."""

from engines.api import Descriptor, EngineFamily, Feature, ModelFormat, Route
from engines.onnx_genai.traits import TRAITS
from engines.worker_adapter import METRICS, METRICS_PATH, PREFILL_FIELDS

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
