"""Plausible advice for the demo machines: plans, an estimate, loads, calibrations. Invented, for pictures.

The figures of the estimate do add up, and follow the question asked, so that a what-if can be seen to answer.
"""

import time

import msgspec

from app.core import words
from app.core.advice import (
    Amount,
    Calibration,
    Counterfactual,
    Estimate,
    EstimateAccuracy,
    EstimateConfidence,
    EstimateRequest,
    Offload,
    Parallelism,
    Plan,
    PlanRequest,
    PoolUse,
    Rate,
)
from app.core.engines import Reason
from app.core.hub import MachineAdvice
from app.core.machine import BundleFile, DiagnosticBundle
from tests.demo.hub import PICKS
from tests.demo.machines import CARDS, GIB, NOON, RADEON

_C = EstimateConfidence
MIB = 1024**2
_LAYERS, _KV_HEADS, _HEAD = 36, 8, 128
_KV_BYTES = {"f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}
_WEIGHTS, _COMPUTE, _OUTPUT, _RUNTIME = 4_788 * MIB, 304 * MIB, 2 * MIB, 118 * MIB
_FREE, _MARGIN = int(38.4 * GIB), int(1.5 * GIB)
_TRAINED = 40_960


def _make_amount(count: int, confidence: EstimateConfidence, arithmetic: str = "") -> Amount:
    return Amount(bytes=count, confidence=confidence, arithmetic=arithmetic)


def _format_gib(count: int) -> str:
    return f"{count / GIB:.1f}"


def make_estimate(*, context: int = 8192, slots: int = 4, kv_type: str = "f16") -> Estimate:
    """Return what Qwen3 8B takes on the laptop's processor."""
    cells = context * slots
    kv = int(_LAYERS * cells * _KV_HEADS * _HEAD * 2 * _KV_BYTES[kv_type])
    total = _WEIGHTS + kv + _COMPUTE + _OUTPUT + _RUNTIME
    per_token = kv / cells * slots
    room = _FREE - _MARGIN - (total - kv)
    return Estimate(
        model="qwen3-8b-q4_k_m",
        engine="llama.cpp",
        backend="cpu",
        context=context,
        slots=slots,
        kv_type=kv_type,
        weights=_make_amount(_WEIGHTS, _C.EXACT, "399 tensors of the file, each padded to 32 bytes"),
        kv=_make_amount(
            kv, _C.EXACT, f"{_LAYERS} x {cells} x {_KV_HEADS} x ({_HEAD} + {_HEAD}) x {_KV_BYTES[kv_type]:.4g}"
        ),
        state=_make_amount(0, _C.EXACT),
        compute=_make_amount(_COMPUTE, _C.PREDICTED, "512 x 151936 x 4 + 512 x 4096 x 4"),
        output=_make_amount(_OUTPUT, _C.EXACT, f"{slots} x 151936 x 4"),
        runtime=_make_amount(_RUNTIME, _C.MEASURED, "as the last load showed"),
        total=_make_amount(total, _C.PREDICTED),
        pools=[PoolUse(name="Memory", id="system", bytes=total, free=_FREE, margin=_MARGIN)],
        fits=total + _MARGIN <= _FREE,
        largest_context=min(_TRAINED, int(room / per_token) // 256 * 256),
        decode=Rate(tokens_per_second=11.4, low=10.6, high=12.3, confidence=_C.CALIBRATED),
        prefill=Rate(tokens_per_second=64.0, low=48.0, high=81.0, confidence=_C.PREDICTED),
        sentence=f"{_format_gib(_WEIGHTS)} weights + {_format_gib(kv)} KV cache + {_format_gib(_COMPUTE)} compute + "
        f"{_format_gib(_RUNTIME)} runtime = {_format_gib(total)} of {_format_gib(_FREE)} GiB free, "
        f"with {_format_gib(_MARGIN)} kept free.",
        depth=0,
    )


def answer_estimate(request: EstimateRequest) -> Estimate:
    """Return the laptop's estimate for a question."""
    return make_estimate(context=request.context or 8192, slots=request.slots or 4, kv_type=request.kv_type or "f16")


def answer_plan(request: PlanRequest) -> MachineAdvice:
    """Return the laptop's plans for a question."""
    slots = max(4, request.users)
    sums = make_estimate(context=request.context or 8192, slots=slots, kv_type=request.kv_type or "f16")
    best = Plan(
        obtainable=True,
        engine="llama.cpp",
        name="llama.cpp",
        backend="cpu",
        format="gguf",
        quantization="Q4_K_M",
        context=sums.context,
        kv_type=sums.kv_type,
        parallelism=Parallelism(slots=slots),
        model=request.model or sums.model,
        is_installed=True,
        sentence="llama.cpp on the processor, because it is installed and this laptop's 64 GB are one pool: the "
        "graphics would read no faster from it.",
        reasons=[
            Reason(text="The processor and the graphics share one memory", value="64.0 GiB", source="amdgpu"),
            Reason(text="Memory can be read at 66 GB/s", value="66 GB/s", source="reading it for a second"),
            Reason(
                text="The model is a GGUF file with kernels for AVX-512", value="Q4_K_M", source="the file's header"
            ),
            Reason(
                text=f"Up to {slots} conversations at once", value=f"{slots} slots", source="settings: models.slots"
            ),
            Reason(text="Chat wants 8k of context or more", value="8192", source="decision guide"),
            Reason(text="All of the model is in memory", value=words.format_bytes(sums.total.bytes), source="estimate"),
            Reason(text="Each token reads 4.3 GB", value="11 tok/s", source="calibration"),
        ],
        estimate=sums,
        counterfactuals=_list_changes(request, sums),
    )
    return MachineAdvice(
        plans=[best, *_other_plans(best), *REFUSED],
        intent=request.intent,
        users=request.users,
        machine="Ryzen 7 7840U with Radeon 780M, 64 GB",
        model=request.model,
        recommended=[] if request.model else PICKS[:2],
    )


def _list_changes(request: PlanRequest, sums: Estimate) -> list[Counterfactual]:
    counterfactuals = []
    if sums.kv_type == "f16":
        smaller = make_estimate(context=sums.context, slots=sums.slots, kv_type="q8_0")
        saved_bytes = sums.kv.bytes - smaller.kv.bytes
        counterfactuals.append(
            Counterfactual(
                text=f"With an 8-bit KV cache it takes {_format_gib(saved_bytes)} GiB less.", change={"kv_type": "q8_0"}
            )
        )
    if request.context != _TRAINED:
        text = "All the context it was trained for fits too, and answers from deep in it come slower."
        counterfactuals.append(
            Counterfactual(text=text, change={"context": _TRAINED}, context=_TRAINED, tokens_per_second=7.9)
        )
    counterfactuals.append(
        Counterfactual(
            text="One quantisation higher, Q5_K_M, fits as well and is a little more exact.",
            change={"quantization": "Q5_K_M"},
            tokens_per_second=9.8,
        )
    )
    return counterfactuals


def _other_plans(best: Plan) -> list[Plan]:
    vulkan = msgspec.structs.replace(
        best,
        backend="vulkan",
        is_installed=False,
        sentence="Prompts would be read about twice as fast on the Radeon 780M; answers would come no faster.",
        estimate=_speed_up(best.estimate),
        counterfactuals=[],
    )
    onnx = msgspec.structs.replace(
        best,
        engine="onnxruntime-genai",
        name="ONNX Runtime GenAI",
        format="onnx",
        quantization="int4",
        is_installed=False,
        sentence="Worth it inside a program of one's own.",
        estimate=None,
        counterfactuals=[],
    )
    return [vulkan, onnx]


def _speed_up(sums: Estimate | None) -> Estimate | None:
    if sums is None:
        return None
    return msgspec.structs.replace(
        sums,
        backend="vulkan",
        prefill=Rate(tokens_per_second=142.0, low=106.0, high=178.0, confidence=_C.PREDICTED),
        decode=Rate(tokens_per_second=11.9, low=9.4, high=14.6, confidence=_C.PREDICTED),
    )


def _make_refusal(engine: str, name: str, why: str, *, format_: str = "") -> Plan:
    return Plan(
        obtainable=False,
        missing=[why],
        engine=engine,
        name=name,
        backend="",
        format=format_,
        quantization="",
        context=0,
        kv_type="",
        parallelism=Parallelism(),
        reasons=[],
        can_install=False,
        refused=why,
    )


REFUSED = [
    _make_refusal("mlx-lm", "MLX-LM", "It is made for Apple silicon; this is a Ryzen."),
    _make_refusal("exllamav3", "ExLlamaV3", "It needs an NVIDIA card; there is none."),
    _make_refusal("vllm", "vLLM", "One person gains nothing from its scheduler, and it has no back end for RDNA3."),
    _make_refusal("openvino", "OpenVINO GenAI", "It runs on Intel processors and graphics."),
]

CALIBRATIONS = [
    Calibration(
        device="cpu",
        engine="llama.cpp",
        version="b11549",
        backend="cpu",
        efficiency=0.84,
        layer_seconds=41e-6,
        bandwidth_gb_s=66.4,
        prefill_flops=0.98e12,
        samples=14,
        measured_at=time.time() - 3 * 86400,
        source="calibration run",
        expected_gb_s=56.4,
    )
]

LOADS = [
    EstimateAccuracy(
        model="qwen3-8b-q4_k_m",
        engine="llama.cpp",
        version="b11549",
        predicted={
            "weights": _WEIGHTS,
            "kv": 4_608 * MIB,
            "compute": _COMPUTE,
            "output": _OUTPUT,
            "runtime": _RUNTIME,
            "total": 9_820 * MIB,
        },
        logged={
            "weights": _WEIGHTS,
            "kv": 4_608 * MIB,
            "compute": 311 * MIB,
            "output": _OUTPUT,
            "total": 9_709 * MIB,
        },
        resident=9_835 * MIB,
        at=NOON - 600,
    ),
    EstimateAccuracy(
        model="gemma-3-12b-it-q4_0",
        engine="llama.cpp",
        version="b11549",
        predicted={"weights": 7_692 * MIB, "kv": 1_152 * MIB, "compute": 519 * MIB, "total": 9_480 * MIB},
        logged={"weights": 7_692 * MIB, "kv": 1_152 * MIB, "compute": 563 * MIB},
        resident=9_760 * MIB,
        at=NOON - 90_000,
    ),
]


_SPLIT = {"weights": int(19.8 * GIB), "kv": 5 * GIB, "compute": 717 * MIB, "runtime": 563 * MIB}
"""What each of the workstation's two cards would hold."""


def _split_sums() -> Estimate:
    """Return what a model takes that is too large for both cards, as it is asked for."""
    both = {key: 2 * count for key, count in _SPLIT.items()}
    half = sum(_SPLIT.values())
    return Estimate(
        model="Llama-3.3-70B-Instruct-exl3-4.5bpw",
        engine="exllamav3",
        backend="cuda",
        context=32768,
        slots=1,
        kv_type="f16",
        weights=_make_amount(both["weights"], _C.PREDICTED, "70.6e9 x 4.5 / 8, and the output in 6 bits"),
        kv=_make_amount(both["kv"], _C.EXACT, "80 x 32768 x 8 x (128 + 128) x 2"),
        state=_make_amount(0, _C.EXACT),
        compute=_make_amount(both["compute"], _C.PREDICTED),
        output=_make_amount(0, _C.EXACT),
        runtime=_make_amount(both["runtime"], _C.TABLE, "two CUDA contexts and the libraries"),
        total=_make_amount(2 * half, _C.PREDICTED),
        pools=[
            PoolUse(name=f"Graphics memory {n + 1}", id=CARDS[n], bytes=half, free=free, margin=GIB, parts=_SPLIT)
            for n, free in enumerate((int(21.9 * GIB), int(23.3 * GIB)))
        ],
        fits=False,
        largest_context=0,
        decode=None,
        prefill=None,
        sentence="39.6 weights + 10.0 KV cache + 1.4 compute + 1.1 runtime = "
        f"{_format_gib(2 * half)} of 45.2 GiB free.",
        notes=["Without NVLink the cards speak over PCIe: layers are shared out in stages, not split across both."],
    )


_SPLIT_PLAN = Plan(
    obtainable=False,
    missing=["4.5 bpw does not fit."],
    engine="exllamav3",
    name="ExLlamaV3",
    backend="cuda",
    format="exl3",
    quantization="4.5 bpw",
    context=32768,
    kv_type="f16",
    parallelism=Parallelism(mode="pipeline", pipeline=2),
    model="Llama-3.3-70B-Instruct-exl3-4.5bpw",
    sentence="ExLlamaV3, because two RTX 3090 without NVLink do most with EXL3 in stages.",
    reasons=[
        Reason(text="Two NVIDIA cards of one kind", value="2 x 24.0 GiB", source="nvmlDeviceGetMemoryInfo"),
        Reason(text="No NVLink between them", value="PCIe", source="nvmlDeviceGetNvLinkState"),
    ],
    offload=Offload(layers=80, gpu_layers=80),
    estimate=_split_sums(),
    counterfactuals=[
        Counterfactual(text="With 8k of context it fits.", change={"context": 8192}, context=8192),
        Counterfactual(text="With a 4-bit KV cache it fits.", change={"kv_type": "q4_0"}, context=32768),
    ],
    warnings=["ExLlamaV3 has not installed yet."],
)


def workstation_advice(request: PlanRequest) -> MachineAdvice:
    """Return the workstation's plans, whatever the question."""
    second = Plan(
        obtainable=True,
        engine="llama.cpp",
        name="llama.cpp",
        backend="cpu",
        format="gguf",
        quantization="Q4_K_M",
        context=32768,
        kv_type="f16",
        parallelism=Parallelism(slots=4),
        reasons=[],
        is_installed=True,
        sentence="It is installed and has the memory, but would write about two words a second.",
    )
    plans = [_SPLIT_PLAN, second, *REFUSED[:1]]
    return MachineAdvice(
        plans=plans,
        intent=request.intent,
        users=request.users,
        machine="2 x RTX 3090, 128 GB",
        recommended=[] if request.model else PICKS[:2],
    )


REPORT = {
    "report_version": 1,
    "roundhouse": "0.1.0",
    "machine": {"os": "Ubuntu 24.04.3 LTS", "cpu": "AMD Ryzen 7 7840U", "gpus": ["AMD Radeon 780M (gfx1103)"]},
    "raw_outputs": {
        "/proc/meminfo": "MemTotal:       63648120 kB\nMemAvailable:   40265318 kB",
        "/sys/class/kfd/kfd/topology/nodes/1/properties": "gfx_target_version 110003\ndrm_render_minor 128",
    },
    "probes": [{"name": "base", "outcome": "ok", "seconds": 0.12}],
    "left_out": ["host name", "user name", "serial numbers", "MAC addresses"],
    "device": RADEON,
}

BUNDLE = DiagnosticBundle(
    made_at=1.7637e9,
    application="Roundhouse 0.1.0",
    files=[
        BundleFile(
            name="manifest.json", why="The contents of this bundle, and why they are included", text='{"files": [...]}'
        ),
        BundleFile(name="versions.json", why="What is installed", text='{"roundhouse": "0.1.0", "python": "3.11.7"}'),
        BundleFile(name="machine.json", why="What the probes found on this computer", text='{"report_version": 1}'),
        BundleFile(
            name="logs/gateway.jsonl",
            why="The service's log, its end",
            text='{"level":"info","message":"Listening","url":"http://127.0.0.1:11434"}',
        ),
    ],
)
