"""Which settings of a model to try, on whom to go on, and what to keep: successive halving by whole answers.

Each candidate changes one thing. All are measured a little, the better half is measured again, until few are left; the
settings of before always run along. The best of each kind that saves enough with 95 % confidence are put together, and
are kept only if the whole does so in requests of its own.
"""

from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from app.benchmark.gains import describe_bound, describe_change, format_ratio, is_faster_by
from app.benchmark.statistics import bootstrap_time_ratio
from app.core.benchmarks import AnswerFigures, AnswerRatios, BenchmarkSample, CandidateResult, Figure
from app.core.models import DRAFT_OFF, ModelSettings

BEFORE = "as it is"
"""The settings of before, among the candidates' names."""
LEAST_GAIN = 0.02
"""A fiftieth: less is not worth a setting that somebody has to understand."""
FEW = 3
"""So many candidates, that of before among them, are not halved any more."""
_BATCHES = (128, 256, 1024, 2048)
"""Smaller pieces of a prompt stay in a processor's cache; larger ones read weights less often. 512 is usual."""
_SMALLER_KV = ("q8_0", "q4_0")
_LAYER_STEPS = (-4, -2, 2, 4)
_EXPERT_STEPS = (-2, -1, 1, 2)
"""Fewer layers of experts in system memory are faster and may not fit; more leave room for what the card computes."""


class SettingCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """One thing changed of a model's settings. Those of one `kind` exclude each other."""

    kind: str
    value: str | int
    can_change_answers: bool = False

    @property
    def name(self) -> str:
        """What it is, in a few words."""
        return f"{_NAMES[self.kind]} {self.value}"

    def apply_to(self, settings: ModelSettings) -> ModelSettings:
        """Return the settings with it."""
        return msgspec.structs.replace(settings, **{self.kind: self.value})


_NAMES = {
    "threads": "threads",
    "batch_tokens": "batch",
    "flash_attention": "flash attention",
    "kv_type": "KV cache",
    "gpu_layers": "GPU layers",
    "cpu_moe_layers": "layers with experts in memory",
    "draft": "draft",
    "slots": "slots",
}


_ALWAYS_TRIED = ("threads", "batch_tokens", "flash_attention")
"""On every computer, where the engine has an option for it."""


class CandidateScope(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to choose from on a computer, for a model and its engine."""

    takes: frozenset[str]
    """Settings that the engine has an option for."""
    engine: str
    """What sentences call it."""
    threads: int | None
    """It computes with now."""
    logical_cores: int | None
    usable_cores: float | None
    gpu_layers: int | None = None
    """As planned; None without a GPU, or where all lie on it."""
    cpu_moe_layers: int | None = None
    """Layers whose experts are planned to stay in system memory; None without a GPU, or where all are on it."""
    draft: str = ""
    """What drafts for it now."""
    draft_candidates: tuple[str, ...] = ()
    """What could: the model's own head, n-grams, smaller models that are here."""
    tries_kv: bool = False
    kv_problem: str = ""
    """Why smaller KV caches are not tried, though somebody asked for it."""
    slots: int = 1
    """Requests that are answered at once now; others wait."""
    concurrency: int = 1
    """Requests that come at once."""


def propose_candidates(own: ModelSettings, scope: CandidateScope) -> list[SettingCandidate]:
    """Return what is worth trying, each a change of what is so now."""
    candidates = [SettingCandidate(kind="threads", value=count) for count in _thread_counts(scope)]
    if "batch_tokens" in scope.takes:
        candidates += [SettingCandidate(kind="batch_tokens", value=size) for size in _BATCHES]
    if "flash_attention" in scope.takes:
        candidates += [
            SettingCandidate(kind="flash_attention", value=state)
            for state in ("on", "off")
            if not (state == "off" and own.kv_type in _SMALLER_KV)  # a smaller cache needs it
        ]
    if scope.tries_kv:
        candidates += [
            SettingCandidate(kind="kv_type", value=kind, can_change_answers=True)
            for kind in _SMALLER_KV
            if own.flash_attention != "off"
        ]
    if scope.gpu_layers is not None and "gpu_layers" in scope.takes:
        layers = [scope.gpu_layers + step for step in _LAYER_STEPS]
        candidates += [SettingCandidate(kind="gpu_layers", value=count) for count in layers if count >= 0]
    if scope.concurrency > 1:
        candidates += [SettingCandidate(kind="slots", value=count) for count in _slot_counts(scope)]
    if scope.cpu_moe_layers is not None and "cpu_moe_layers" in scope.takes:
        layers = [scope.cpu_moe_layers + step for step in _EXPERT_STEPS]
        candidates += [SettingCandidate(kind="cpu_moe_layers", value=count) for count in layers if count > 0]
    drafts = [draft for draft in scope.draft_candidates if draft != scope.draft]
    candidates += [SettingCandidate(kind="draft", value=draft) for draft in drafts]
    if scope.draft:
        candidates.append(SettingCandidate(kind="draft", value=DRAFT_OFF))
    return [part for part in candidates if getattr(own, part.kind) != part.value]


def list_untried(scope: CandidateScope) -> list[CandidateResult]:
    """Return what is tried with other engines and cannot be with this one, each with the reason."""
    layer_counts = {"gpu_layers": scope.gpu_layers, "cpu_moe_layers": scope.cpu_moe_layers}
    kinds = (*_ALWAYS_TRIED, *(kind for kind, layers in layer_counts.items() if layers is not None))
    missing_kinds = [kind for kind in kinds if kind not in scope.takes]
    untried_results = [
        CandidateResult(name=_NAMES[kind], problem=f"{scope.engine} has no option for it.") for kind in missing_kinds
    ]
    if not scope.draft and not scope.draft_candidates:
        problem = f"Nothing here drafts for it with {scope.engine}."
        untried_results.append(CandidateResult(name=_NAMES["draft"], problem=problem))
    if scope.kv_problem:
        untried_results.append(CandidateResult(name=_NAMES["kv_type"], problem=scope.kv_problem))
    return untried_results


def _thread_counts(scope: CandidateScope) -> list[int]:
    """Return other numbers of threads than now: one fewer, half, and all that may run."""
    now = scope.threads
    if now is None or "threads" not in scope.takes:
        return []
    most = int(scope.usable_cores or scope.logical_cores or now)
    counts = {now - 1, now // 2, most, scope.logical_cores or now}
    return sorted(count for count in counts if 1 <= count <= most and count != now)


def _slot_counts(scope: CandidateScope) -> list[int]:
    """Return other numbers of slots than now: one, half as many as requests, and as many."""
    most = scope.concurrency
    return sorted({1, most // 2, most} - {scope.slots})


def halve_candidates(samples: Mapping[str, Sequence[BenchmarkSample]]) -> list[str]:
    """Return the faster half of those that were measured, and that of before in any case."""
    names = [name for name in samples if samples[name] and name != BEFORE]
    fastest_first = sorted(names, key=lambda name: median(map(answer_time, samples[name])))
    return [BEFORE, *fastest_first[: max(FEW - 1, (len(fastest_first) + 1) // 2)]]


def combine_candidates(
    candidates: Sequence[SettingCandidate], samples: Mapping[str, Sequence[BenchmarkSample]]
) -> list[SettingCandidate]:
    """Return the fastest of each kind that is better than before with 95 % confidence."""
    best: dict[str, tuple[float, SettingCandidate]] = {}
    for candidate in candidates:
        ratio = ratio_to_before(samples, candidate.name)
        is_best = candidate.kind not in best or (ratio is not None and ratio.value < best[candidate.kind][0])
        if ratio is not None and is_better(ratio) and is_best:
            best[candidate.kind] = (ratio.value, candidate)
    return [candidate for _, candidate in best.values()]


def ratio_to_before(samples: Mapping[str, Sequence[BenchmarkSample]], name: str) -> Figure | None:
    """Return how long a candidate's answers take, to those of before; None where either was not measured."""
    before, after = samples.get(BEFORE, ()), samples.get(name, ())
    return bootstrap_time_ratio(before, after, answer_time) if before and after else None


def is_better(ratio: Figure) -> bool:
    """Tell whether something saves enough to be worth it, with 95 % confidence."""
    return is_faster_by(ratio, LEAST_GAIN)


def answer_time(sample: BenchmarkSample) -> float:
    """Return how long a whole answer took."""
    return sample.e2e_s


def answer_figures(samples: Sequence[BenchmarkSample]) -> AnswerFigures:
    """Return the medians. Raises ValueError for no samples."""
    return AnswerFigures(
        ttft_s=median(sample.ttft_s for sample in samples),
        tpot_s=median(sample.tpot_s for sample in samples),
        e2e_s=median(sample.e2e_s for sample in samples),
    )


def candidate_result(
    candidate: SettingCandidate,
    samples: Mapping[str, Sequence[BenchmarkSample]],
    *,
    is_kept: bool,
    loss: float | None = None,
    problem: str = "",
) -> CandidateResult:
    """Return how one candidate did."""
    own = samples.get(candidate.name, ())
    return CandidateResult(
        name=candidate.name,
        requests=len(own),
        e2e_s=median(map(answer_time, own)) if own else None,
        ratio=ratio_to_before(samples, candidate.name),
        loss=loss,
        is_kept=is_kept,
        problem=problem,
    )


def answer_ratios(before: Sequence[BenchmarkSample], after: Sequence[BenchmarkSample]) -> AnswerRatios:
    """Return how long the parts of answers take, to those of before. Raises ValueError for no samples."""
    return AnswerRatios(
        ttft=bootstrap_time_ratio(before, after, lambda sample: sample.ttft_s),
        tpot=bootstrap_time_ratio(before, after, lambda sample: sample.tpot_s),
        e2e=bootstrap_time_ratio(before, after, answer_time),
    )


def describe_unconfirmed(ratio: Figure) -> str:
    """Return what is said of a setting that looked faster while others were tried, and was not in the end."""
    return f"Not confirmed: {format_ratio(ratio)} when compared in turns."


def describe_tuning(
    applied_candidates: Sequence[SettingCandidate], ratios: AnswerRatios, unconfirmed: Sequence[str] = ()
) -> str:
    """Return what came of it, in a sentence or two. `unconfirmed` looked faster and were not when it counted."""
    if not applied_candidates:
        least = f"at least {LEAST_GAIN * 100:.0f} %, with 95 % confidence"
        doubt = f" What looked faster was not when compared in turns: {', '.join(unconfirmed)}." if unconfirmed else ""
        return f"The settings stay: none that was tried is clearly faster (by {least}).{doubt}"
    names = ", ".join(candidate.name for candidate in applied_candidates)
    return (
        f"Faster: {names}. Whole answers take {describe_bound(ratios.e2e, 'before')}. "
        f"First token: {describe_change(ratios.ttft)}; each token after it: {describe_change(ratios.tpot)}."
    )
