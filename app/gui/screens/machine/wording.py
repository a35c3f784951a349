"""Plans and estimates in the window's words: tags, what the runner-up would cost, rates with their interval."""

import msgspec

from app.core import words
from app.core.advice import Amount, Estimate, EstimateConfidence, Offload, Parallelism, Plan, PoolUse, Rate
from app.core.engines import Reason

BACKENDS = {
    "cpu": "processor",
    "cuda": "CUDA",
    "metal": "Metal",
    "rocm": "ROCm",
    "vulkan": "Vulkan",
    "sycl": "SYCL",
    "npu": "NPU",
    "webgpu": "WebGPU",
    "directml": "DirectML",
}
CONFIDENCE = {
    EstimateConfidence.EXACT: "exact",
    EstimateConfidence.MEASURED: "measured",
    EstimateConfidence.CALIBRATED: "calibrated",
    EstimateConfidence.PREDICTED: "predicted",
    EstimateConfidence.TABLE: "looked up",
}
CONFIDENCE_TIPS = {
    EstimateConfidence.EXACT: "Computed from the model's header with the engine's own formula.",
    EstimateConfidence.MEASURED: "Measured on this machine with this engine.",
    EstimateConfidence.CALIBRATED: "Predicted from measurements of other models on this machine.",
    EstimateConfidence.PREDICTED: "From physics and the data sheet; calibration makes it more accurate.",
    EstimateConfidence.TABLE: "Looked up by name.",
}
COMPONENTS = {
    "weights": "Weights",
    "kv": "KV cache",
    "state": "Recurrent state",
    "compute": "Compute",
    "output": "Output",
    "runtime": "Runtime",
    "projector": "Projector",
    "draft": "Draft model",
    "total": "Total",
}
COLORS = {
    "weights": "part-1",
    "kv": "part-2",
    "state": "part-3",
    "compute": "part-4",
    "output": "part-5",
    "projector": "part-6",
    "draft": "part-3",
    "runtime": "edge",
    "total": "part-1",
}
_SAME = 0.03
"""Rates closer than this are called the same: no interval is narrower."""


class Share(msgspec.Struct, frozen=True):
    """One component of an estimate, in bytes."""

    key: str
    bytes: int
    arithmetic: str = ""
    confidence: EstimateConfidence = EstimateConfidence.PREDICTED

    @property
    def name(self) -> str:
        """What it is called."""
        return COMPONENTS.get(self.key, self.key)

    @property
    def color(self) -> str:
        """Its colour in the table."""
        return COLORS.get(self.key, "edge")


def backend_words(backend: str) -> str:
    """Return a back end's usual spelling."""
    return BACKENDS.get(backend, backend)


def plan_title(plan: Plan) -> str:
    """Return engine and back end: "llama.cpp · CUDA"."""
    return " · ".join(filter(None, (plan.name or plan.engine, backend_words(plan.backend))))


def plan_tags(plan: Plan) -> list[str]:
    """Return what the plan decides, each in a few words."""
    weights = " ".join(filter(None, (_format_name(plan.format), plan.quantization)))
    context = f"{words.format_tokens(plan.context)} context" if plan.context else ""
    kv = f"KV {plan.kv_type}" if plan.kv_type else ""
    tags = (weights, context, kv, parallel_words(plan.parallelism), offload_words(plan.offload))
    return [tag for tag in tags if tag]


def parallel_words(how: Parallelism) -> str:
    """Return how a model spreads, nothing for the plain case."""
    spread = {
        "tensor": f"tensor-parallel over {how.tensor}",
        "pipeline": f"in {how.pipeline} stages",
        "expert": "experts spread",
        "data": f"{how.replicas} copies",
    }.get(how.mode, "")
    slots = f"{how.slots} at once" if how.slots > 1 else ""
    return ", ".join(filter(None, (spread, slots)))


def offload_words(offload: Offload | None) -> str:
    """Return what stays off the graphics."""
    if offload is None or not offload.layers:
        return ""
    if offload.cpu_moe_layers:
        return f"experts of {offload.cpu_moe_layers} layers in memory"
    return f"{offload.gpu_layers} of {offload.layers} layers on graphics"


def plan_availability(plan: Plan) -> str:
    """Return why a plan cannot be followed at once; nothing when it can."""
    if plan.is_installed:
        return ""
    return "not installed" if plan.can_install else "not available for this system"


def plan_costs(best: Plan, other: Plan) -> list[str]:
    """Return what taking `other` instead of `best` would cost or bring, each in a few words."""
    differences = []
    if best.estimate is not None and other.estimate is not None:
        differences += [
            _rate_cost("answers", best.estimate.decode, other.estimate.decode),
            _rate_cost("reading", best.estimate.prefill, other.estimate.prefill),
            _memory_cost(best.estimate.total, other.estimate.total),
        ]
    if other.context != best.context and other.context and best.context:
        differences.append(
            f"{words.format_tokens(other.context)} instead of {words.format_tokens(best.context)} context"
        )
    if best.is_installed and not other.is_installed:
        differences.append("not installed yet" if other.can_install else "not available for this system")
    return [cost for cost in differences if cost]


def reason_figure(reason: Reason) -> str:
    """Return the value of a reason, unless its sentence says it already."""
    is_said = reason.value.casefold() in reason.text.casefold()
    return "" if is_said or reason.value == "0" else reason.value


def rate_interval(rate: Rate) -> str:
    """Return the interval and the confidence: "9.6 to 13, predicted"."""
    return f"{_format_rate(rate.low)} to {_format_rate(rate.high)}, {CONFIDENCE[rate.confidence]}"


def component_shares(estimate: Estimate) -> list[Share]:
    """Return the components that take anything, in the order they are stacked."""
    amounts = [(key, getattr(estimate, key, None)) for key in COMPONENTS if key != "total"]
    return [
        Share(key, amount.bytes, amount.arithmetic, amount.confidence)
        for key, amount in amounts
        if isinstance(amount, Amount) and amount.bytes
    ]


def pool_shares(estimate: Estimate, pool: PoolUse) -> list[Share]:
    """Return the components one pool would hold; only the sum where the estimate does not say more."""
    if pool.parts:
        return [Share(key, pool.parts[key]) for key in COMPONENTS if pool.parts.get(key)]
    if len(estimate.pools) == 1:
        return component_shares(estimate)
    return [Share("total", pool.needed_bytes)]


def fit_words(pool: PoolUse) -> str:
    """Return how much of what is free a pool would hold."""
    if pool.free is None:
        return f"{words.format_bytes(pool.needed_bytes)}; free memory unknown"
    if pool.needed_bytes + pool.margin > pool.free:
        usable = words.format_bytes(max(0, pool.free - pool.margin))
        return f"{words.format_bytes(pool.needed_bytes)}, but only {usable} may be used"
    return f"{words.format_bytes(pool.needed_bytes)} of {words.format_bytes(pool.free)} free"


def warnings_of(plan: Plan | None, estimate: Estimate, *, is_best: bool) -> list[str]:
    """Return what one should know of an estimate, each once; the best plan's own warnings stand with its reasons."""
    own = plan.warnings if plan is not None else []
    sentences = [*([] if is_best else own), *estimate.notes]
    return [sentence for sentence in dict.fromkeys(sentences) if not (is_best and sentence in own)]


def _rate_cost(name: str, best: Rate | None, other: Rate | None) -> str:
    if best is None or other is None or not best.tokens_per_second:
        return ""
    if abs(other.tokens_per_second / best.tokens_per_second - 1) < _SAME:
        return ""
    return (
        f"{name} at {words.format_rate(other.tokens_per_second)} instead of {words.format_rate(best.tokens_per_second)}"
    )


def _memory_cost(best: Amount, other: Amount) -> str:
    more = other.bytes - best.bytes
    if not best.bytes or abs(more) / best.bytes < _SAME:
        return ""
    return f"{words.format_bytes(abs(more))} {'more' if more > 0 else 'less'} memory"


def _format_rate(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"  # noqa: PLR2004 -- one decimal below ten


def _format_name(name: str) -> str:
    return {"gguf": "GGUF", "mlx": "MLX", "exl2": "EXL2", "exl3": "EXL3", "awq": "AWQ", "gptq": "GPTQ"}.get(name, name)
