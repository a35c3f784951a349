"""Sentences from what was looked up. Every figure is a tool's; a model's name is written as its command takes it."""

from app.core import words
from app.core.guide import ActionKind, AnswerAction
from app.core.tool_results import (
    EstimateAnswer,
    InstalledModels,
    PlanAnswer,
    RecommendedModel,
    SearchAnswer,
    ServiceStatus,
    SpeedInterval,
)

_MOST_NAMED = 3
"""Models that are named beside the first."""
_MOST_LISTED = 20

Statement = tuple[str, list[AnswerAction]]
"""A text, and what can be done about it."""


def say_recommended(answer: SearchAnswer) -> Statement:
    """Return which model suits this computer, and others that do."""
    picks = [pick for pick in answer.recommended if pick.is_recommended]
    if not picks:
        return "No model of the catalogue fits this computer well for that.", []
    first, others = picks[0], [pick for pick in picks[1:] if pick.pull != picks[0].pull][:_MOST_NAMED]
    lines = [f"**{first.name}** suits this computer best: {_pick_facts(first)}.", first.reason]
    if others:
        lines.append(
            "Others that run well: " + "; ".join(f"{pick.name} ({_pick_facts(pick)})" for pick in others) + "."
        )
    actions = [download_action(pick.pull, pick.name) for pick in picks[:1] if not pick.is_installed]
    actions += [load_action(pick.pull, pick.name) for pick in picks[:1] if pick.is_installed]
    return "\n\n".join(filter(None, lines)), actions


def say_estimate(answer: EstimateAnswer, name: str, *, is_here: bool) -> Statement:
    """Return what a model takes here, whether it fits, and how fast it will be."""
    fit = "fits" if answer.fits else "does not fit"
    speed = f" It writes {_speed(answer.decode)}." if answer.decode is not None and answer.fits else ""
    text = (
        f"**{answer.model}** {fit} on this computer: with a context of {words.format_tokens(answer.context)} tokens "
        f"it takes {words.format_bytes(answer.memory_bytes)}.{speed} "
    )
    text += (
        f"The largest context that fits into what is free now is {words.format_tokens(answer.largest_context)} tokens."
        if answer.largest_context
        else "No context fits into the memory that is free now."
    )
    lines = [text, answer.arithmetic, *answer.notes]
    actions = []
    if answer.fits:
        actions = [load_action(name, answer.model) if is_here else download_action(name, answer.model)]
    return "\n\n".join(filter(None, lines)), actions


def say_plan(answer: PlanAnswer, name: str, *, is_here: bool) -> Statement:
    """Return how a model is best run here, and why."""
    if not answer.plans:
        return answer.note or "Nothing here can run that model.", []
    plan = answer.plans[0]
    parts = [plan.engine, plan.quantization or plan.format, f"a context of {words.format_tokens(plan.context)} tokens"]
    lines = [f"**{plan.model or name}** is best run with {', '.join(filter(None, parts))}.", " ".join(plan.reasons[:2])]
    lines += [f"Still missing: {' '.join(plan.missing)}" if plan.missing else ""]
    actions = (
        [] if plan.fits is False else [load_action(name, plan.model) if is_here else download_action(name, plan.model)]
    )
    return "\n\n".join(filter(None, lines)), actions


def say_engine(answer: PlanAnswer) -> Statement:
    """Return which engine suits this computer, and why."""
    if not answer.plans:
        return "No engine runs on this computer.", []
    plan = answer.plans[0]
    return f"**{plan.engine}** suits this computer best. {' '.join(plan.reasons[:2])}".strip(), []


def say_machine(answer: PlanAnswer) -> Statement:
    """Return what this computer is."""
    return f"This computer: {answer.machine}", []


def say_installed(answer: InstalledModels, model_name: str) -> Statement:
    """Return which models are here, or whether one is."""
    models = answer.models
    if model_name:
        model = next((model for model in models if model.name == model_name), None)
        if model is None:
            return f"**{model_name}** is not on this computer.", [download_action(model_name, model_name)]
        return f"**{model.name}** is on this computer ({words.format_bytes(model.size_bytes)}).", [
            load_action(model_name, model_name)
        ]
    if not models:
        return "There is no model on this computer yet but the Guide.", []
    lines = [f"- {model.name} ({words.format_bytes(model.size_bytes)})" for model in models[:_MOST_LISTED]]
    more = [f"- and {len(models) - _MOST_LISTED} more"] if len(models) > _MOST_LISTED else []
    count = "1 model is" if len(models) == 1 else f"{len(models)} models are"
    return "\n".join([f"{count} on this computer:", "", *lines, *more]), []


def say_loaded(status: ServiceStatus) -> Statement:
    """Return which models are in memory, and what they take."""
    if not status.loaded:
        return "No model is in memory.", []
    lines = []
    for model in status.loaded:
        facts = [model.state, model.engine]
        facts += [] if model.memory_bytes is None else [words.format_bytes(model.memory_bytes)]
        facts += [] if model.context is None else [f"context {words.format_tokens(model.context)}"]
        lines.append(f"- {model.model}: {', '.join(facts)}{'. ' + model.problem if model.problem else ''}")
    return "\n".join(["In memory:", "", *lines]), [unload_action(model.model) for model in status.loaded[:_MOST_NAMED]]


def say_downloads(status: ServiceStatus) -> Statement:
    """Return how far the downloads are."""
    if not status.downloads:
        return "Nothing is being downloaded.", []
    lines = []
    for download in status.downloads[:_MOST_LISTED]:
        far = f"{words.format_bytes(download.present_bytes)} of {words.format_bytes(download.total_bytes)}"
        left_words = f", {words.format_duration(download.eta_s)} left" if download.eta_s else ""
        problem = f". {download.problem}" if download.problem else ""
        lines.append(f"- {download.title}: {download.state}, {far}{left_words}{problem}")
    return "\n".join(["Downloads:", "", *lines]), []


def say_endpoint(status: ServiceStatus) -> Statement:
    """Return where programs reach the models."""
    return f"The endpoint is {status.endpoint}; for OpenAI's clients the base URL is {status.endpoint}/v1.", []


def say_version(status: ServiceStatus) -> Statement:
    """Return which version this is."""
    return f"This is Roundhouse {status.version}.", []


def load_action(model: str, title: str) -> AnswerAction:
    """Return the offer to load a model."""
    return AnswerAction(kind=ActionKind.LOAD, target=model, title=title, command=f"roundhouse load {model}")


def download_action(model: str, title: str) -> AnswerAction:
    """Return the offer to download a model."""
    return AnswerAction(kind=ActionKind.DOWNLOAD, target=model, title=title, command=f"roundhouse pull {model}")


def unload_action(model: str) -> AnswerAction:
    """Return the offer to free a model's memory."""
    return AnswerAction(kind=ActionKind.UNLOAD, target=model, title=model, command=f"roundhouse unload {model}")


def _pick_facts(pick: RecommendedModel) -> str:
    facts = [
        pick.quantization,
        f"{words.format_bytes(pick.memory_bytes)} of memory" if pick.memory_bytes else "",
        _speed(pick.speed) if pick.speed is not None else "",
        f"{words.format_bytes(pick.download_bytes)} to download"
        if pick.download_bytes and not pick.is_installed
        else "",
    ]
    return ", ".join(filter(None, facts))


def _speed(speed: SpeedInterval) -> str:
    return f"about {words.format_rate(speed.likely)} ({speed.low:g} to {speed.high:g})"
