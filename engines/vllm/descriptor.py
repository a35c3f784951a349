"""What vLLM is and can do. From the wheel of 0.33.0 and its documentation."""

from engines.api import Descriptor, Family, Feature, Gauge, ModelFormat, Route

DESCRIPTOR = Descriptor(
    id="vllm",
    name="vLLM",
    licence="Apache-2.0",
    homepage="https://github.com/vllm-project/vllm",
    family=Family.VENV_CLI,
    formats=frozenset(
        {
            ModelFormat.SAFETENSORS,
            ModelFormat.AWQ,
            ModelFormat.GPTQ,
            ModelFormat.FP8,
            ModelFormat.COMPRESSED_TENSORS,
            ModelFormat.NVFP4,
            ModelFormat.MXFP4,
        }
    ),
    modalities=frozenset({"text", "image"}),
    routes={
        Route.CHAT: "/v1/chat/completions",
        Route.COMPLETIONS: "/v1/completions",
        Route.EMBEDDINGS: "/v1/embeddings",
        Route.RESPONSES: "/v1/responses",
        Route.MESSAGES: "/v1/messages",
        Route.COUNT_TOKENS: "/v1/messages/count_tokens",
        Route.RERANK: "/v1/rerank",
        Route.TOKENIZE: "/tokenize",
        Route.DETOKENIZE: "/detokenize",
        Route.TRANSCRIPTIONS: "/v1/audio/transcriptions",
    },
    features=frozenset(
        {
            Feature.TOOLS,
            Feature.JSON_SCHEMA,
            Feature.GRAMMAR,
            Feature.LOGPROBS,
            Feature.LOGIT_BIAS,
            Feature.CHOICES,
            Feature.STREAM_USAGE,
            Feature.VISION,
            Feature.LORA,
            Feature.DRAFT,
            Feature.SAMPLING_DEFAULTS,
            Feature.KV_QUANT,
            Feature.TENSOR_PARALLEL,
            Feature.PIPELINE_PARALLEL,
            Feature.CONTINUOUS_BATCHING,
            Feature.SLEEP,
            Feature.API_KEY,
        }
    ),
    platforms=frozenset({"linux"}),
    accelerators=("cuda", "rocm"),
    metrics_path="/metrics",
    metrics={
        Gauge.RUNNING: "vllm:num_requests_running",
        Gauge.WAITING: "vllm:num_requests_waiting",
        Gauge.KV_USAGE: "vllm:kv_cache_usage_perc",
        Gauge.PROMPT_TOKENS: "vllm:prompt_tokens_total",
        Gauge.GENERATED_TOKENS: "vllm:generation_tokens_total",
        Gauge.PREFIX_HITS: "vllm:prefix_cache_hits_total",
        Gauge.PREFIX_QUERIES: "vllm:prefix_cache_queries_total",
    },
    verified="Its command line, log lines and ends are played by a stand-in, and the key guard runs on real uvicorn.",
    unverified=(
        "Never run with this adapter: it needs an NVIDIA or AMD GPU under Linux. Tool calls need a parser that is "
        "named in the extra arguments (--enable-auto-tool-choice --tool-call-parser)."
    ),
)
