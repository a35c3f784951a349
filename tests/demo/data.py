"""A plausible day at a plausible machine: what the demo gateway answers. Invented, and only shown in screenshots."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from app import __version__
from app.config.store import SettingsStore
from app.core.api import SettingInfo, SettingValue, Status
from app.core.capabilities import Capability
from app.core.engines import (
    AppliedRemedy,
    EngineInfo,
    EngineState,
    EngineStatus,
    FailureReport,
    MemoryHolder,
    MemoryPool,
    MemoryState,
    Pause,
    RemedyOffer,
    WaitingLoad,
)
from app.core.errors import ErrorBody
from app.core.events import LogLine
from app.core.fleets import Fleet, FleetReplica, ReplicaState
from app.core.keys import KeyInfo, KeyLimits, KeyUsage, KeyWithSecret, LimitName, Scope
from app.core.models import (
    Companion,
    CompanionKind,
    EngineOption,
    ModelChoices,
    ModelInfo,
    ModelSampling,
    ModelSettings,
)
from app.core.quantize import QuantizePlan
from tests.demo import (
    advice,
    agents,
    benchmarks,
    connections,
    disk,
    documents,
    engines,
    hub,
    machines,
    mcp,
    paired_machines,
    profiles,
    requests,
    tools,
    updates,
)
from tests.demo.machines import GIB, NOON

OFFLINE = ErrorBody(
    code="gateway_start",
    sentence="Roundhouse's service ended while it was starting.",
    hint="Start it again; if it ends again, the last lines of its log below say why.",
    detail="OSError: [Errno 28] No space left on device: 'gateway.lock'",
)


NO_SUCH_MODEL = ErrorBody(
    code="model_unknown",
    sentence="Nothing is known of a model named qwen-9-mega.",
    hint="Name a file, a repository as owner/name, or a model everybody knows, such as Qwen3 8B.",
    detail="https://huggingface.co/api/models/qwen-9-mega answered 401.",
)

STATUS = Status(
    version=__version__, api_version=1, pid=1, url="http://127.0.0.1:11434", started_at=NOON, resident_bytes=74 << 20
)

FLEET = Fleet(
    model="team",
    router="smg",
    policy="cache_aware",
    replicas=[
        FleetReplica(url="http://127.0.0.1:40101", name="1", is_local=True, engine="vllm", weights="qwen3-8b"),
        FleetReplica(url="http://127.0.0.1:40102", name="2", is_local=True, engine="vllm", weights="qwen3-8b"),
        FleetReplica(
            url="http://127.0.0.1:40103",
            name="3",
            is_local=True,
            engine="vllm",
            weights="qwen3-8b",
            state=ReplicaState.DRAINED,
        ),
        FleetReplica(
            url="http://10.0.0.4:8000",
            name="4",
            state=ReplicaState.FAILED,
            problem="The endpoint at 10.0.0.4:8000 does not answer: nothing listens there.",
        ),
    ],
)

MODELS = [
    ModelInfo(
        name="guide",
        title="Guide",
        path="/opt/roundhouse/resources/guide/guide-q8_0.gguf",
        format="gguf",
        size_bytes=11 << 20,
        architecture="llama",
        quantization="Q8_0",
        parameters=9_800_000,
        trained_context=2048,
        is_builtin=True,
    ),
    ModelInfo(
        name="qwen3-8b-q4_k_m",
        title="Qwen3 8B",
        path="/home/ada/models/Qwen3-8B-Q4_K_M.gguf",
        format="gguf",
        size_bytes=int(4.68 * GIB),
        architecture="qwen3",
        quantization="Q4_K_M",
        parameters=8_190_735_360,
        trained_context=40960,
    ),
    ModelInfo(
        name="gemma-3-12b-it-q4_0",
        title="Gemma 3 12B Instruct",
        path="/home/ada/models/gemma-3-12b-it-q4_0.gguf",
        format="gguf",
        size_bytes=int(7.51 * GIB),
        architecture="gemma3",
        quantization="Q4_0",
        parameters=12_187_000_000,
        trained_context=131072,
    ),
    ModelInfo(
        name="gpt-oss-20b-mxfp4",
        title="gpt-oss 20B",
        path="/home/ada/models/gpt-oss-20b-mxfp4.gguf",
        format="gguf",
        size_bytes=int(11.3 * GIB),
        architecture="gpt-oss",
        quantization="MXFP4",
        parameters=20_914_000_000,
        trained_context=131072,
    ),
    ModelInfo(
        name="nomic-embed-text-v1.5-q8_0",
        title="Nomic Embed Text v1.5",
        path="/home/ada/models/nomic-embed-text-v1.5.Q8_0.gguf",
        format="gguf",
        size_bytes=140 << 20,
        architecture="nomic-bert",
        quantization="Q8_0",
        parameters=136_000_000,
        trained_context=2048,
        embeds=True,
        chats=False,
    ),
    ModelInfo(
        name="mistral-small-3.2",
        title="Mistral Small 3.2",
        path="/home/ada/models/mistral-small-3.2-q4.gguf",
        format="gguf",
        size_bytes=int(2.1 * GIB),
        quantization="Q4_K_S",
        problem="The file ends before its last tensor: the download is not complete.",
    ),
]

LONG_MODEL = ModelInfo(
    name="a-very-long-organisation-name/an-even-longer-model-name-distilled-instruct-2512-imatrix-ud-q4_k_xl",
    title="An Even Longer Model Name Distilled From Something Larger, Instruct 2512, Imatrix UD Edition",
    path="/home/ada/models/long.gguf",
    format="gguf",
    size_bytes=int(18.2 * GIB),
    architecture="qwen3moe",
    quantization="UD-Q4_K_XL",
    parameters=30_500_000_000,
    trained_context=262144,
)
FAR_MODEL = ModelInfo(
    name="box-qwen3-32b",
    title="box-qwen3-32b",
    path="/home/ada/.local/share/roundhouse/attached/box-qwen3-32b.json",
    format="remote",
    size_bytes=0,
    trained_context=32768,
    attached="http://box:8000/v1",
    capabilities=[Capability.CHAT, Capability.TOOLS],
)
RTL_MODEL = ModelInfo(
    name="allam-7b",
    title="علّام للمحادثة",
    path="/home/ada/models/allam-7b.gguf",
    format="gguf",
    size_bytes=int(4.2 * GIB),
    architecture="llama",
    quantization="Q4_K_M",
    parameters=7_000_000_000,
    trained_context=4096,
)

READY = EngineStatus(
    model="qwen3-8b-q4_k_m",
    engine="llama.cpp",
    version="b11549",
    backend="cpu",
    state=EngineState.READY,
    context=8192,
    slots=4,
    in_flight=1,
    memory_bytes=int(9.6 * GIB),
    notes=["The draft model is not used: its vocabulary differs from this model's."],
)
PAUSED = Pause(is_paused=True, since=1_763_700_000.0, finishing=[READY.model], comes_back=[READY.model])
LOADING = EngineStatus(
    model="gpt-oss-20b-mxfp4",
    engine="llama.cpp",
    version="b11549",
    state=EngineState.LOADING,
    progress=0.63,
    stage="Reading weights",
)
FAILED = EngineStatus(
    model="gemma-3-12b-it-q4_0",
    engine="llama.cpp",
    version="b11549",
    state=EngineState.FAILED,
    failure=FailureReport(
        code="out_of_memory",
        sentence="There is not enough memory for this model and its context.",
        hint="A context of 4k would fit, and so would unloading qwen3-8b-q4_k_m.",
        log_tail=[
            "ggml_aligned_malloc: insufficient memory (attempted to allocate 12288.00 MB)",
            "failed to allocate KV cache",
        ],
        exit_code=1,
    ),
)
REMEDIED = msgspec.structs.replace(
    READY,
    model=FAILED.model,
    context=4096,
    in_flight=0,
    mended=[
        AppliedRemedy(
            kind="less_context",
            sentence="There is not enough memory for this model and its context. It requested 12.0 GiB more than there "
            "was. Roundhouse did this: load with a context of 4,096 tokens.",
        )
    ],
)


def status_with_remedies() -> EngineStatus:
    """Return a failure with all that may help."""
    assert FAILED.failure is not None
    offers = [
        RemedyOffer(kind="less_context", label="Load with a context of 4,096 tokens", options={"context": 4096}),
        RemedyOffer(kind="smaller_cache", label="Load with a KV cache in q8_0", options={"kv_type": "q8_0"}),
        RemedyOffer(kind="free_memory", label="Unload other models"),
        RemedyOffer(kind="smaller_model", label="Choose a smaller model"),
    ]
    failure = msgspec.structs.replace(FAILED.failure, remedies=offers)
    return msgspec.structs.replace(FAILED, failure=failure)


LOG = [
    LogLine(model="qwen3-8b-q4_k_m", stream="err", text=text, at=NOON + place)
    for place, text in enumerate(
        (
            "main: build = 11549, loading model",
            "load_tensors: offloaded 0/37 layers to GPU",
            "load_tensors:   CPU_Mapped model buffer size =  4788.31 MiB",
            "llama_context: n_ctx = 32768, n_seq_max = 4",
            "llama_kv_cache: size = 4608.00 MiB (32768 cells, 36 layers)",
            "srv  init: initializing slots, n_slots = 4",
            "main: server is listening on http://127.0.0.1:40211",
            "slot 0: new prompt, n_ctx_slot = 8192, n_prompt_tokens = 412",
            "slot 0: prompt eval time = 6437.50 ms / 412 tokens (64.0 tokens per second)",
            "slot 0: eval time = 36140.35 ms / 412 tokens (11.4 tokens per second)",
            "ggml_aligned_malloc: insufficient memory (attempted to allocate 12288.00 MB)",
        )
    )
]

ENGINES = [
    EngineInfo(
        id="llama.cpp",
        name="llama.cpp",
        licence="MIT",
        homepage="https://github.com/ggml-org/llama.cpp",
        formats=["gguf"],
        installed=True,
        version="b11549",
        backend="cpu",
    )
]


KEYS = [
    KeyInfo(
        name="laptop",
        id="5f0e2a6b91cd",
        scopes=[Scope.INFERENCE],
        created_at=1.79e9,
        last_used_at=1.7951e9,
        usage=KeyUsage(requests_last_minute=2, tokens_last_minute=6281, tokens_last_day=148_310, requests_in_flight=1),
    ),
    KeyInfo(
        name="build server",
        id="c04411d98e7a",
        scopes=[Scope.INFERENCE, Scope.MANAGE],
        created_at=1.791e9,
        expires_at=4_102_444_800.0,
    ),
]
LIMITED_KEYS = [
    *KEYS,
    KeyInfo(
        name="intern",
        id="77b1d0a3f2e5",
        scopes=[Scope.INFERENCE],
        created_at=1.7912e9,
        last_used_at=1.7951e9,
        limits=KeyLimits(requests_per_minute=20, tokens_per_day=200_000, models=["qwen*", "gpt-oss-20b"]),
        usage=KeyUsage(requests_last_minute=17, tokens_last_minute=9120, tokens_last_day=61_204, requests_in_flight=0),
    ),
    KeyInfo(
        name="nightly evaluation of every prompt template we have",
        id="0a9c3be84d12",
        scopes=[Scope.INFERENCE],
        created_at=1.7913e9,
        last_used_at=1.7951e9,
        limits=KeyLimits(
            requests_per_minute=60, tokens_per_minute=40_000, tokens_per_day=2_000_000, concurrent_requests=4
        ),
        usage=KeyUsage(
            requests_last_minute=12,
            tokens_last_minute=18_400,
            tokens_last_day=2_003_118,
            requests_in_flight=3,
            refused_last_hour=38,
            limit_reached=LimitName.TOKENS_PER_DAY,
            wait_s=8130.0,
        ),
    ),
]


MADE_KEY = KeyWithSecret(
    name="tablet",
    id="e6d20c5a4b39",
    scopes=[Scope.INFERENCE],
    created_at=NOON,
    key="rh-an0n-demo-key-that-opens-nothing-at-all-000000",
)


def network_replies() -> Mapping[str, object]:
    """Return the answers of a gateway that other computers can reach."""
    host = "0.0.0.0"  # noqa: S104 -- nothing listens in a demo
    rows = [with_value(info, host) if info.name == "gateway.host" else info for info in default_settings()]
    status = msgspec.structs.replace(STATUS, reachable_at=["http://192.168.1.20:11434"], asks_for_keys=True)
    return {**gateway_replies(), "GET /status": status, "GET /settings": rows, "PATCH /settings": rows}


def default_settings() -> list[SettingInfo]:
    """Return the real table with its defaults: no file, no environment."""
    return SettingsStore(Path(), environ={}).describe_all()


def with_value(info: SettingInfo, value: SettingValue, source: str = "file") -> SettingInfo:
    """Return a setting with another value."""
    return msgspec.structs.replace(info, value=value, source=source)


MEMORY = MemoryState(
    pools=[
        MemoryPool(
            id="system",
            name="Memory",
            limit=int(27.5 * GIB),
            head_room=GIB,
            holders=[
                MemoryHolder(model=READY.model, bytes=int(9.6 * GIB), is_pinned=True, is_busy=True),
                MemoryHolder(model=LOADING.model, bytes=int(13.1 * GIB)),
            ],
        )
    ],
    waiting=[
        WaitingLoad(model="gemma-3-12b-it-q4_0", seconds=4.0, needs={"system": 9 * GIB}, waits_for=[LOADING.model])
    ],
)


TUNED = ModelChoices(
    model=READY.model,
    settings=ModelSettings(
        pinned=True,
        context=16384,
        kv_type="q8_0",
        sampling=ModelSampling(temperature=0.7),
        loras=["/models/house-style-lora-f16.gguf"],
    ),
    sampling=ModelSampling(temperature=0.6, top_p=0.95, top_k=20, min_p=0.0),
    sampling_source="Qwen/Qwen3-8B",
    effective=ModelSampling(temperature=0.7, top_p=0.95, top_k=20, min_p=0.0),
    engine="llama.cpp",
    engines=[
        EngineOption(id="llama.cpp", name="llama.cpp", is_installed=True),
        EngineOption(id="vllm", name="vLLM", is_installed=False),
    ],
    companions=[
        Companion(
            kind=CompanionKind.LORA,
            name="/models/house-style-lora-f16.gguf",
            title="house-style-lora-f16",
            size_bytes=42 << 20,
            is_used=True,
        ),
        Companion(
            kind=CompanionKind.LORA, name="/models/pirate-lora-f16.gguf", title="pirate-lora-f16", size_bytes=38 << 20
        ),
        Companion(kind=CompanionKind.DRAFT, name="qwen3-0.6b-q8_0", title="Qwen3 0.6B", size_bytes=640 << 20),
    ],
    aliases=["gpt-*"],
    chat_template="{% for message in messages %}...{% endfor %}",
    takes=["threads", "batch_tokens", "flash_attention", "gpu_layers"],
    is_loaded=True,
)

ORIGINAL = ModelInfo(
    name="qwen3-8b",
    title="Qwen3 8B",
    path="/home/ada/models/Qwen3-8B",
    format="safetensors",
    size_bytes=int(15.3 * GIB),
    architecture="qwen3",
    quantization="BF16",
    parameters=8_190_735_360,
    trained_context=40960,
)
QUANTIZE_PLAN = QuantizePlan(
    model=ORIGINAL.name,
    name="qwen3-8b-exl3-4bpw",
    folder="/home/ada/models/qwen3-8b-exl3-4bpw",
    bits=4,
    head_bits=6,
    result_bytes=int(5.1 * GIB),
    disk_bytes=int(25.8 * GIB),
    free_bytes=212 * GIB,
    memory_bytes=int(11.8 * GIB),
    card="RTX 4090",
    card_bytes=22 * GIB,
    needed_card_bytes=int(2.1 * GIB),
)


def gateway_replies(
    *, statuses: list[EngineStatus] | None = None, models: list[ModelInfo] | None = None
) -> Mapping[str, object]:
    """Return the demo gateway's table of answers."""
    return {
        "GET /status": STATUS,
        "GET /running": [READY, LOADING] if statuses is None else statuses,
        "GET /models": MODELS if models is None else models,
        "GET /memory": MEMORY if statuses is None else MemoryState(pools=[]),
        "GET /pause": Pause(),
        "POST /pause": PAUSED,
        "DELETE /pause": None,
        "GET /presets": [],
        "GET /model-settings": {READY.model: ModelSettings(pinned=True)},
        "POST /model-settings": ModelSettings(pinned=True),
        f"GET /model-settings/{READY.model}": TUNED,
        "GET /settings": default_settings(),
        "GET /update": updates.UP_TO_DATE,
        "GET /fleets": [],
        "POST /fleets/team/roll": FLEET,
        "POST /fleets/team/stop": FLEET,
        "POST /fleets/team/replicas": FLEET,
        "DELETE /fleets/team/replicas/2": FLEET,
        "POST /fleets/team/replicas/1/drain": FLEET,
        "POST /fleets/team/replicas/3/resume": FLEET,
        "GET /keys": KEYS,
        "POST /keys": MADE_KEY,
        "DELETE /keys/laptop": None,
        "POST /keys/laptop/restore": KEYS[0],
        "POST /keys/laptop/limits": LIMITED_KEYS[0],
        "POST /keys/laptop/rename": LIMITED_KEYS[0],
        "GET /machine": machines.LAPTOP,
        "POST /plan": advice.answer_plan,
        "POST /estimate": advice.answer_estimate,
        "GET /calibration": advice.CALIBRATIONS,
        "POST /calibrate": None,
        "DELETE /calibrate": None,
        "GET /loads": advice.LOADS,
        "GET /doctor": msgspec.Raw(msgspec.json.encode(advice.REPORT)),
        "GET /bundle": advice.BUNDLE,
        "GET /engines": ENGINES,
        **tools.tool_replies(),
        **engines.engine_replies(),
        "GET /logs": LOG,
        "POST /load": LOADING,
        "POST /unload": READY,
        "PATCH /settings": lambda _body: default_settings(),
        **requests.request_replies(),
        **benchmarks.benchmark_replies(),
        **connections.connection_replies(),
        **agents.agent_replies(),
        **mcp.mcp_replies(),
        **profiles.profile_replies(),
        **paired_machines.machine_replies(),
        **documents.document_replies(),
        **hub.hub_replies(),
        **disk.disk_replies(),
    }
