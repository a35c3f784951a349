"""What tools answer agents and the Guide: the few fields one decides by, made from the gateway's replies.

Bytes are bytes, contexts tokens, rates tokens per second; an unknown figure is None.
"""

import msgspec

from app.core.advice import Estimate, Plan, Rate
from app.core.downloads import Download
from app.core.engines import EngineStatus
from app.core.hub import HubCard, HubPick, HubResults, MachineAdvice
from app.core.models import ModelInfo

_MOST_PLANS = 3
_MOST_PICKS = 8
_MOST_CARDS = 10


class SpeedInterval(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per second: the likely figure, and the interval that holds at least nine of ten such predictions."""

    likely: float
    low: float
    high: float


class LoadedModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model with an engine, running or failed."""

    model: str
    engine: str
    state: str
    context: int | None = None
    memory_bytes: int | None = None
    requests: int = 0
    problem: str = ""


class DownloadProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A download, on its way or ended."""

    title: str
    state: str
    total_bytes: int
    present_bytes: int
    eta_s: float | None = None
    reason: str = ""
    """Why these files were chosen."""
    problem: str = ""


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The service: its endpoint for programs, the loaded models, and the downloads."""

    version: str
    endpoint: str
    loaded: list[LoadedModel]
    downloads: list[DownloadProgress]


class InstalledModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model that can be loaded."""

    name: str
    format: str
    size_bytes: int
    capabilities: list[str] = []
    trained_context: int | None = None
    endpoint: str = ""
    """Of the other computer or program that serves it; empty for one that runs here."""
    problem: str = ""


class InstalledModels(msgspec.Struct, frozen=True, kw_only=True):
    """The models of the library."""

    models: list[InstalledModel]


class RecommendedModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model of the catalogue, judged for this machine. `pull` is its name for the tool of that name."""

    name: str
    pull: str
    is_recommended: bool = False
    is_installed: bool = False
    fits: bool | None = None
    parameters: int | None = None
    quantization: str = ""
    memory_bytes: int | None = None
    download_bytes: int | None = None
    speed: SpeedInterval | None = None
    good_for: list[str] = []
    licence: str = ""
    reason: str = ""


class PlanSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way to run a model. `missing` says what stands against it, and `steps` how to get it."""

    model: str
    engine: str
    backend: str
    format: str
    quantization: str
    context: int
    fits: bool | None = None
    memory_bytes: int | None = None
    speed: SpeedInterval | None = None
    reasons: list[str] = []
    warnings: list[str] = []
    missing: list[str] = []
    steps: list[str] = []


class PlanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The best ways to run a model here, the best first; the models of the catalogue where none was named."""

    machine: str
    plans: list[PlanSummary]
    recommended: list[RecommendedModel]
    note: str = ""


class EstimateAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model takes at a context. `largest_context` is what fits into the memory that is free now."""

    model: str
    engine: str
    context: int
    fits: bool
    memory_bytes: int
    largest_context: int
    arithmetic: str
    decode: SpeedInterval | None = None
    prefill: SpeedInterval | None = None
    notes: list[str] = []


class SearchedModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model of a search and the repositories that hold it, the most downloaded first."""

    title: str
    repositories: list[str]
    parameters: int | None = None
    fits: bool | None = None
    memory_bytes: int | None = None
    download_bytes: int | None = None
    downloads: int = 0


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Models of the hub, or for a use those of the catalogue, the best first."""

    recommended: list[RecommendedModel] = []
    models: list[SearchedModel] = []
    note: str = ""


class ManualPassage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage of the manual, and the file below docs and the headings that it stands under."""

    file: str
    heading: str
    text: str


class ManualAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Passages of the manual, the best first."""

    passages: list[ManualPassage]


class AnswerText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's answer, and what it cost."""

    text: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    tokens_per_s: float | None = None


def speed_interval(rate: Rate | None) -> SpeedInterval | None:
    """Return a rate without its arithmetic."""
    if rate is None:
        return None
    return SpeedInterval(likely=round(rate.tokens_per_second, 1), low=round(rate.low, 1), high=round(rate.high, 1))


def loaded_model(status: EngineStatus) -> LoadedModel:
    """Return an engine's status in short."""
    return LoadedModel(
        model=status.model,
        engine=status.engine,
        state=status.state.value,
        context=status.context,
        memory_bytes=status.memory_bytes,
        requests=status.in_flight + status.queued,
        problem=status.failure.sentence if status.failure else "",
    )


def download_progress(download: Download) -> DownloadProgress:
    """Return how far a download is."""
    return DownloadProgress(
        title=download.title,
        state=download.state.value,
        total_bytes=download.total_bytes,
        present_bytes=download.present_bytes,
        eta_s=download.eta_s,
        reason=download.reason,
        problem=download.error.sentence if download.error else download.note,
    )


def installed_model(model: ModelInfo) -> InstalledModel:
    """Return a model of the library in short."""
    return InstalledModel(
        name=model.name,
        format=model.format,
        size_bytes=model.size_bytes,
        capabilities=[capability.value for capability in model.capabilities],
        trained_context=model.trained_context,
        endpoint=model.attached,
        problem=model.problem,
    )


def recommended_model(pick: HubPick) -> RecommendedModel:
    """Return a model of the catalogue in short."""
    card = pick.card
    return RecommendedModel(
        name=pick.name,
        pull=pick.pull,
        is_recommended=pick.is_recommended,
        is_installed=pick.is_here,
        fits=card.fits,
        parameters=card.parameters,
        quantization=card.quantization,
        memory_bytes=card.memory_bytes,
        download_bytes=card.download_bytes,
        speed=speed_interval(card.decode),
        good_for=pick.good_for,
        licence=pick.licence,
        reason=" ".join(filter(None, (pick.reason, pick.needs))),
    )


def plan_answer(advice: MachineAdvice) -> PlanAnswer:
    """Return the first plans that are not refused, and the first recommended models."""
    plans = [plan for plan in advice.plans if not plan.refused]
    return PlanAnswer(
        machine=advice.machine,
        plans=[_summarize_plan(plan) for plan in plans[:_MOST_PLANS]],
        recommended=[recommended_model(pick) for pick in advice.recommended[:_MOST_PICKS]],
        note=advice.note,
    )


def _summarize_plan(plan: Plan) -> PlanSummary:
    estimate = plan.estimate
    return PlanSummary(
        model=plan.model,
        engine=plan.name,
        backend=plan.backend,
        format=plan.format,
        quantization=plan.quantization,
        context=plan.context,
        fits=None if estimate is None else estimate.fits,
        memory_bytes=None if estimate is None else estimate.needed_bytes,
        speed=None if estimate is None else speed_interval(estimate.decode),
        reasons=[reason.text for reason in plan.reasons],
        warnings=plan.warnings,
        missing=plan.missing,
        steps=plan.steps,
    )


def estimate_answer(estimate: Estimate) -> EstimateAnswer:
    """Return an estimate with its sum in one line."""
    return EstimateAnswer(
        model=estimate.model,
        engine=estimate.engine,
        context=estimate.context,
        fits=estimate.fits,
        memory_bytes=estimate.needed_bytes,
        largest_context=estimate.largest_context,
        arithmetic=estimate.sentence,
        decode=speed_interval(estimate.decode),
        prefill=speed_interval(estimate.prefill),
        notes=estimate.notes,
    )


def picks_answer(picks: list[HubPick]) -> SearchAnswer:
    """Return the first models of the catalogue for a use."""
    return SearchAnswer(recommended=[recommended_model(pick) for pick in picks[:_MOST_PICKS]])


def search_answer(results: HubResults) -> SearchAnswer:
    """Return the first models of a search."""
    return SearchAnswer(models=[_summarize_card(card) for card in results.cards[:_MOST_CARDS]], note=results.note)


def _summarize_card(card: HubCard) -> SearchedModel:
    return SearchedModel(
        title=card.title,
        repositories=[hit.repository for hit in card.repositories],
        parameters=card.parameters,
        fits=card.fits,
        memory_bytes=card.memory_bytes,
        download_bytes=card.download_bytes,
        downloads=card.downloads,
    )
