"""Plans and estimates in the window's words: tags, what the runner-up would cost, rates with their interval."""

import msgspec

from app.core import words
from app.core.advice import Amount, Estimate, EstimateConfidence, Offload, Parallelism, Plan, PoolUse, Rate
from app.core.engines import Reason
from app.core.translation import LazyText, tr, tr_plural

BACKENDS = {
    "cpu": LazyText("processor"),
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
    EstimateConfidence.EXACT: LazyText("exact"),
    EstimateConfidence.MEASURED: LazyText("measured"),
    EstimateConfidence.CALIBRATED: LazyText("calibrated"),
    EstimateConfidence.PREDICTED: LazyText("predicted"),
    EstimateConfidence.TABLE: LazyText("looked up"),
}
CONFIDENCE_TIPS = {
    EstimateConfidence.EXACT: LazyText("Computed from the model's header with the engine's own formula."),
    EstimateConfidence.MEASURED: LazyText("Measured on this machine with this engine."),
    EstimateConfidence.CALIBRATED: LazyText("Predicted from measurements of other models on this machine."),
    EstimateConfidence.PREDICTED: LazyText("From physics and the data sheet; calibration makes it more accurate."),
    EstimateConfidence.TABLE: LazyText("Looked up by name."),
}
COMPONENTS = {
    "weights": LazyText("Weights"),
    "kv": LazyText("KV cache"),
    "state": LazyText("Recurrent state"),
    "compute": LazyText("Compute"),
    "output": LazyText("Output"),
    "runtime": LazyText("Runtime"),
    "projector": LazyText("Projector"),
    "draft": LazyText("Drafting"),
    "total": LazyText("Total"),
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
        return str(COMPONENTS.get(self.key, self.key))

    @property
    def color(self) -> str:
        """Its colour in the table."""
        return COLORS.get(self.key, "edge")


def backend_words(backend: str) -> str:
    """Return a back end's usual spelling."""
    return str(BACKENDS.get(backend, backend))


def plan_title(plan: Plan) -> str:
    """Return engine and back end: "llama.cpp · CUDA"."""
    return " · ".join(filter(None, (plan.name or plan.engine, backend_words(plan.backend))))


def plan_tags(plan: Plan) -> list[str]:
    """Return what the plan decides, each in a few words."""
    weights = " ".join(filter(None, (_format_name(plan.format), plan.quantization)))
    context = tr("{tokens} context", tokens=words.format_tokens(plan.context)) if plan.context else ""
    kv = tr("KV {type}", type=plan.kv_type) if plan.kv_type else ""
    drafts = tr("{kind} drafts", kind=plan.draft) if plan.draft else ""
    tags = (weights, context, kv, drafts, parallel_words(plan.parallelism), offload_words(plan.offload))
    return [tag for tag in tags if tag]


def parallel_words(how: Parallelism) -> str:
    """Return how a model spreads, nothing for the plain case."""
    spread = {
        "tensor": tr("tensor-parallel over {count}", count=how.tensor),
        "pipeline": tr_plural("in {count} stage", "in {count} stages", how.pipeline),
        "expert": tr("experts spread out"),
        "data": tr_plural("{count} copy", "{count} copies", how.replicas),
    }.get(how.mode, "")
    slots = tr("{count} at once", count=how.slots) if how.slots > 1 else ""
    return ", ".join(filter(None, (spread, slots)))


def offload_words(offload: Offload | None) -> str:
    """Return what stays off the graphics."""
    if offload is None or not offload.layers:
        return ""
    if offload.cpu_moe_layers:
        return tr_plural(
            "experts of {count} layer in memory", "experts of {count} layers in memory", offload.cpu_moe_layers
        )
    return tr("{count} of {layers} layers on graphics", count=offload.gpu_layers, layers=offload.layers)


def plan_availability(plan: Plan) -> str:
    """Return why a plan cannot be followed at once; nothing when it can."""
    if plan.is_installed:
        return ""
    return tr("not installed") if plan.can_install else tr("not available for this system")


def plan_costs(best: Plan, other: Plan) -> list[str]:
    """Return what taking `other` instead of `best` would cost or bring, each in a few words."""
    differences = []
    if best.estimate is not None and other.estimate is not None:
        differences += [
            _rate_cost(_ANSWERS, best.estimate.decode, other.estimate.decode),
            _rate_cost(_READING, best.estimate.prefill, other.estimate.prefill),
            _memory_cost(best.estimate.total, other.estimate.total),
        ]
    if other.context != best.context and other.context and best.context:
        differences.append(
            tr(
                "{other} instead of {best} context",
                other=words.format_tokens(other.context),
                best=words.format_tokens(best.context),
            )
        )
    if best.is_installed and not other.is_installed:
        differences.append(tr("not installed yet") if other.can_install else tr("not available for this system"))
    return [cost for cost in differences if cost]


def reason_figure(reason: Reason) -> str:
    """Return the value of a reason, unless its sentence says it already."""
    is_said = reason.value.casefold() in reason.text.casefold()
    return "" if is_said or reason.value == "0" else reason.value


def rate_interval(rate: Rate) -> str:
    """Return the interval and the confidence: "9.6 to 13, predicted"."""
    return tr(
        "{low} to {high}, {confidence}",
        low=_format_rate(rate.low),
        high=_format_rate(rate.high),
        confidence=CONFIDENCE[rate.confidence],
    )


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
        return tr("{size}; free memory unknown", size=words.format_bytes(pool.needed_bytes))
    if pool.needed_bytes + pool.margin > pool.free:
        usable = words.format_bytes(max(0, pool.free - pool.margin))
        return tr("{size}, but only {usable} may be used", size=words.format_bytes(pool.needed_bytes), usable=usable)
    return tr(
        "{needed} of {free} free", needed=words.format_bytes(pool.needed_bytes), free=words.format_bytes(pool.free)
    )


def warnings_of(plan: Plan | None, estimate: Estimate, *, is_best: bool) -> list[str]:
    """Return what one should know of an estimate, each once; the best plan's own warnings stand with its reasons."""
    own = plan.warnings if plan is not None else []
    sentences = [*([] if is_best else own), *estimate.notes]
    return [sentence for sentence in dict.fromkeys(sentences) if not (is_best and sentence in own)]


_ANSWERS = LazyText("answers at {other} instead of {best}")
_READING = LazyText("reading at {other} instead of {best}")


def _rate_cost(message: LazyText, best: Rate | None, other: Rate | None) -> str:
    if best is None or other is None or not best.tokens_per_second:
        return ""
    if abs(other.tokens_per_second / best.tokens_per_second - 1) < _SAME:
        return ""
    return message.tr(other=words.format_rate(other.tokens_per_second), best=words.format_rate(best.tokens_per_second))


def _memory_cost(best: Amount, other: Amount) -> str:
    more = other.bytes - best.bytes
    if not best.bytes or abs(more) / best.bytes < _SAME:
        return ""
    size = words.format_bytes(abs(more))
    return tr("{size} more memory", size=size) if more > 0 else tr("{size} less memory", size=size)


def _format_rate(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"  # noqa: PLR2004 -- one decimal below ten


def _format_name(name: str) -> str:
    return {"gguf": "GGUF", "mlx": "MLX", "exl2": "EXL2", "exl3": "EXL3", "awq": "AWQ", "gptq": "GPTQ"}.get(name, name)
