"""What NVIDIA Dynamo is and can do. From 1.6.0 as installed, the wheels of 1.6.1 and its documentation.

It speaks Anthropic's messages if asked to, as an experiment: a stream begins with a count that lacks the template and
ends with OpenAI's [DONE]. What is translated here does neither. Three of its parsers are not named: `glm45` hands on
the calls of GLM 4.5 as text, and `mistral` and `harmony` lost calls in forms that models of theirs write.
"""

from engines.api import Descriptor, EngineFamily, Feature, Gauge, Route
from engines.api.traits import AMPERE, LINUX, EngineAbility, EngineTarget, GuidePlaces, MachineKind, Traits
from engines.parsers import ToolCallFormat
from engines.vllm.descriptor import DESCRIPTOR as VLLM
from engines.vllm.descriptor import TRAITS as VLLM_TRAITS

STRENGTH = "coordinates vLLM, SGLang or TensorRT-LLM across many computers"
LIMITS = "One computer needs no orchestrator."

TRAITS = Traits(
    targets=(EngineTarget(backend="cuda", vendors=("nvidia",), systems=(LINUX,), compute=AMPERE),),
    strength=STRENGTH,
    needs="Linux and NVIDIA GPUs, Ampere or newer (compute capability 8.0), in several computers",
    limits=LIMITS,
    abilities=VLLM_TRAITS.abilities - {EngineAbility.WSL} | {EngineAbility.ORCHESTRATES},
    most_slots=256,
    memory=VLLM_TRAITS.memory,
    places={
        MachineKind.BLACKWELL_SERVER: GuidePlaces(fleet=10),
        MachineKind.NVIDIA_SERVER: GuidePlaces(fleet=10),
        MachineKind.RTX_MANY: GuidePlaces(fleet=10),
        MachineKind.RTX_FEW: GuidePlaces(fleet=10),
        MachineKind.RTX_ONE: GuidePlaces(fleet=10),
        MachineKind.RTX_SMALL: GuidePlaces(fleet=10),
    },
    order=140,
    unlisted=f"NVIDIA Dynamo {STRENGTH}. {LIMITS}",
)
"""What the advisor judges it by."""

DESCRIPTOR = Descriptor(
    id="dynamo",
    name="NVIDIA Dynamo",
    licence="Apache-2.0",
    homepage="https://github.com/ai-dynamo/dynamo",
    family=EngineFamily.VENV_CLI,
    formats=VLLM.formats,
    modalities=frozenset({"text"}),
    routes={
        Route.CHAT: "/v1/chat/completions",
        Route.COMPLETIONS: "/v1/completions",
        Route.EMBEDDINGS: "/v1/embeddings",
        Route.RESPONSES: "/v1/responses",
    },
    features=VLLM.features - {Feature.API_KEY, Feature.VISION, Feature.LORA, Feature.PREFILL, Feature.LOGIT_BIAS},
    tool_parsers={
        ToolCallFormat.HERMES: "hermes",
        ToolCallFormat.QWEN_CODER: "qwen3_coder",
        ToolCallFormat.GLM_47: "glm47",
        ToolCallFormat.LLAMA_3: "llama3_json",
        ToolCallFormat.DEEPSEEK_V3: "deepseek_v3",
        ToolCallFormat.DEEPSEEK_V31: "deepseek_v3_1",
        ToolCallFormat.DEEPSEEK_V32: "deepseek_v3_2",
        ToolCallFormat.KIMI_K2: "kimi_k2",
        ToolCallFormat.MINIMAX_M2: "minimax_m2",
        ToolCallFormat.GEMMA_4: "gemma4",
    },
    platforms=frozenset({"linux"}),
    has_helpers=True,
    traces_flag=VLLM.traces_flag,
    accelerators=("cuda", "cpu"),
    loosens_calls=VLLM.loosens_calls,
    probe_path="/v1/completions",
    metrics_path="/metrics",
    metrics={
        Gauge.RUNNING: "dynamo_frontend_inflight_requests",
        Gauge.WAITING: "dynamo_frontend_queued_requests",
        Gauge.PROMPT_TOKENS: "dynamo_frontend_input_sequence_tokens_sum",
        Gauge.GENERATED_TOKENS: "dynamo_frontend_output_tokens_total",
    },
    verified=(
        "Run for real on Linux x86-64 on the CPU in November 2026 with Dynamo 1.6.0 and a build of vLLM 0.31.0 for "
        "processors as its worker, with the Guide: both started by the plan; chat, completions, streams, log "
        "probabilities, calls that must be made, prompts too long, cancelling, a killed worker. Installed from its "
        "lock, its frontend ran under the supervisor with Dynamo's own mock worker (readiness, chat, errors, metrics, "
        "a killed worker, the stop); its parsers read calls that a made-up worker wrote."
    ),
    unverified=(
        "Not run on a GPU, nor with a model over several computers, where it shows its worth. It passes over biased "
        "tokens, so they are refused. It has no access key: on the computer it runs on, every program can reach it. "
        "The mock worker published its events on every network address, whatever it was told."
    ),
    traits=TRAITS,
)
