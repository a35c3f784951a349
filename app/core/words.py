"""Figures and warnings in words, the same on the command line and in the window. Binary units for memory."""

from collections.abc import Collection

from app.core.capabilities import Capability, in_order
from app.core.models import Autocomplete, ModelChoices, ModelSampling
from app.core.thinking import ThinkingLevel
from app.core.translation import LazyText, tr, tr_list, tr_plural

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024
_THOUSAND, _MILLION, _BILLION = 1e3, 1e6, 1e9
_MINUTE, _HOUR = 60, 3600
_TEN = 10


CODE_MEANING = LazyText(
    "Programs among the model's files then run with your permissions: they can read, change and send anything that "
    "you can."
)
"""What it is to allow a model's code."""
BRINGS_CODE = LazyText(
    "It contains custom code, which runs only if an engine needs it and you allow it, in the model's settings or with "
    "roundhouse tune NAME --allow-code."
)
"""Of a model on the hub."""


def format_bytes(count: float | None) -> str:
    """Return bytes as "23.5 GiB"; "unknown" for None."""
    if count is None:
        return tr("unknown")
    value = float(count)
    for unit in _UNITS:
        if value < _STEP or unit == _UNITS[-1]:
            break
        value /= _STEP
    return f"{value:.0f} {unit}" if unit == "B" or value >= _STEP / _TEN else f"{value:.1f} {unit}"


def format_parameters(count: int | None) -> str:
    """Return a parameter count as models are named: "8.0B", "5.2M"."""
    if count is None:
        return tr("unknown")
    for limit, letter in ((_BILLION, "B"), (_MILLION, "M"), (_THOUSAND, "K")):
        if count >= limit:
            return f"{count / limit:.1f}{letter}"
    return str(count)


def format_tokens(count: int | None) -> str:
    """Return a token count as contexts are named: "512", "48k", "1.0M"."""
    if count is None:
        return tr("unknown")
    if count >= _STEP * _STEP:
        return f"{count / (_STEP * _STEP):.1f}M"
    return f"{count / _STEP:.0f}k" if count >= _STEP else str(count)


def format_capabilities(capabilities: Collection[Capability]) -> str:
    """Return what a model can do: "chat, tools"; that one which chats goes on with texts is not said."""
    hidden_capabilities = {Capability.COMPLETION} if Capability.CHAT in capabilities else set()
    return ", ".join(in_order({*capabilities} - hidden_capabilities))


_SUBJECTS = {
    "chat": LazyText("conversation"),
    "coding": LazyText("code"),
    "reasoning": LazyText("hard questions"),
    "vision": LazyText("images"),
    "speech": LazyText("speech"),
    "autocomplete": LazyText("code completion"),
}


def format_purpose(good_for: Collection[str]) -> str:
    """Return in a line what a model of the catalogue is good for: "For conversation and code; calls tools"."""
    if "embedding" in good_for:
        return tr("Finds texts and images by meaning") if "vision" in good_for else tr("Finds texts by meaning")
    if "rerank" in good_for:
        return tr("Sorts search results by how well they answer a question")
    if {*good_for} == {"speech"}:
        return tr("Turns speech into text")
    subjects = tr_list([subject.tr() for use, subject in _SUBJECTS.items() if use in good_for])
    if not subjects:
        return tr("Calls tools") if "tools" in good_for else ""
    return (
        tr("For {subjects}; calls tools", subjects=subjects)
        if "tools" in good_for
        else tr("For {subjects}", subjects=subjects)
    )


def format_autocomplete(state: Autocomplete) -> str:
    """Return how code completion stands: the model, and whether it has room beside the one for chats."""
    if not state.model:
        return tr("No model completes code.")
    if state.problem:
        return tr("{model} cannot complete code. {problem}", model=state.model, problem=state.problem)
    if state.fits is None:
        return tr("{model} completes code, and stays loaded.", model=state.model)
    needed_words, room = format_bytes(state.needed), format_bytes(state.room)
    if state.fits:
        return tr(
            "{model} completes code, and stays loaded beside {other}: together they take {needed} of {room}.",
            model=state.model,
            other=state.beside,
            needed=needed_words,
            room=room,
        )
    return tr(
        "{model} completes code, but has no room beside {other}: together they take {needed}, and there are {room}. "
        "Each makes way for the other. Choose a smaller one.",
        model=state.model,
        other=state.beside,
        needed=needed_words,
        room=room,
    )


def format_rate(tokens_per_s: float | None) -> str:
    """Return tokens per second as "38 tok/s", with one decimal below ten."""
    if tokens_per_s is None:
        return tr("unknown")
    return tr("{rate} tok/s", rate=f"{tokens_per_s:.1f}" if tokens_per_s < _TEN else f"{tokens_per_s:.0f}")


def format_duration(duration_s: float | None) -> str:
    """Return a duration as "0.21 s", "12 s", "3 min 5 s" or "2 h 10 min"."""
    if duration_s is None:
        return tr("unknown")
    duration_s = max(duration_s, 0.0)  # a clock that was set back since
    if duration_s < _TEN:
        return tr("{seconds} s", seconds=f"{duration_s:.2f}")
    whole = round(duration_s)
    if whole < _MINUTE:
        return tr("{seconds} s", seconds=whole)
    if whole < _HOUR:
        return tr("{minutes} min {seconds} s", minutes=whole // _MINUTE, seconds=whole % _MINUTE)
    return tr("{hours} h {minutes} min", hours=whole // _HOUR, minutes=whole % _HOUR // _MINUTE)


def describe_removal(model: str, projectors: int, *, to_trash: bool) -> str:
    """Return where a model and its projectors went."""
    if not projectors:
        return tr("{model} is in the trash.", model=model) if to_trash else tr("{model} was deleted.", model=model)
    if to_trash:
        return tr_plural(
            "{model} and its projector are in the trash.",
            "{model} and its projectors are in the trash.",
            projectors,
            model=model,
        )
    return tr_plural(
        "{model} and its projector were deleted.", "{model} and its projectors were deleted.", projectors, model=model
    )


def describe_trash(files: int, size_bytes: int) -> str:
    """Return models in the trash: "3 files of removed models (11.3 GiB)"."""
    size = format_bytes(size_bytes)
    return tr_plural(
        "{count:,} file of a removed model ({size})", "{count:,} files of removed models ({size})", files, size=size
    )


def describe_emptying(files: int, size_bytes: int) -> str:
    """Return what came of deleting them."""
    if not files:
        return tr("Nothing was deleted: the files are no longer in the trash.")
    return tr_plural(
        "{count:,} file of a removed model ({size}) was deleted permanently.",
        "{count:,} files of removed models ({size}) were deleted permanently.",
        files,
        size=format_bytes(size_bytes),
    )


_SAMPLING = {
    "temperature": "temperature",
    "top_p": "top-p",
    "top_k": "top-k",
    "min_p": "min-p",
    "repeat_penalty": LazyText("repeat penalty"),
}


def format_sampling(sampling: ModelSampling) -> str:
    """Return what is chosen, such as "temperature 0.6, top-k 20"; empty for nothing."""
    values = ((word, getattr(sampling, name)) for name, word in _SAMPLING.items())
    return ", ".join(f"{word} {value:g}" for word, value in values if value is not None)


THINKING = {
    ThinkingLevel.DEFAULT: LazyText("as its chat template does"),
    ThinkingLevel.OFF: LazyText("off"),
    ThinkingLevel.ON: LazyText("on"),
    ThinkingLevel.MINIMAL: LazyText("minimal"),
    ThinkingLevel.LOW: LazyText("low"),
    ThinkingLevel.MEDIUM: LazyText("medium"),
    ThinkingLevel.HIGH: LazyText("high"),
    ThinkingLevel.MAX: LazyText("highest"),
}
"""How much a model thinks, in a word or a few."""


def describe_thinking(choices: ModelChoices) -> str:
    """Return how much a model thinks for a request that does not say: "medium, as its makers recommend"."""
    level = THINKING[choices.thinking.level or ThinkingLevel.DEFAULT].tr()
    is_theirs = choices.settings.thinking is None and choices.thinking.level is not None
    text = tr("{level}, as its makers recommend", level=level) if is_theirs else level
    if choices.thinking.budget is None:
        return text
    if not choices.answers.takes_budget:
        return tr("{level}; its engine cannot end it after a number of tokens", level=text)
    return tr("{level}, at most {count:,} tokens", level=text, count=choices.thinking.budget)
