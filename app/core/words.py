"""Figures and warnings in words, the same on the command line and in the window. Binary units for memory."""

from collections.abc import Collection

from app.core.capabilities import Capability, in_order
from app.core.models import ModelSampling

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024
_THOUSAND, _MILLION, _BILLION = 1e3, 1e6, 1e9
_MINUTE, _HOUR = 60, 3600
_TEN = 10


CODE_MEANING = (
    "Programs among the model's files then run with your permissions: they can read, change and send anything that "
    "you can."
)
"""What it is to allow a model's code."""
BRINGS_CODE = (
    "It contains custom code, which runs only if an engine needs it and you allow it, in the model's settings or with "
    "roundhouse tune NAME --allow-code."
)
"""Of a model on the hub."""


def format_bytes(count: float | None) -> str:
    """Return bytes as "23.5 GiB"; "unknown" for None."""
    if count is None:
        return "unknown"
    value = float(count)
    for unit in _UNITS:
        if value < _STEP or unit == _UNITS[-1]:
            break
        value /= _STEP
    return f"{value:.0f} {unit}" if unit == "B" or value >= _STEP / _TEN else f"{value:.1f} {unit}"


def format_parameters(count: int | None) -> str:
    """Return a parameter count as models are named: "8.0B", "5.2M"."""
    if count is None:
        return "unknown"
    for limit, letter in ((_BILLION, "B"), (_MILLION, "M"), (_THOUSAND, "K")):
        if count >= limit:
            return f"{count / limit:.1f}{letter}"
    return str(count)


def format_tokens(count: int | None) -> str:
    """Return a token count as contexts are named: "512", "48k", "1.0M"."""
    if count is None:
        return "unknown"
    if count >= _STEP * _STEP:
        return f"{count / (_STEP * _STEP):.1f}M"
    return f"{count / _STEP:.0f}k" if count >= _STEP else str(count)


def format_capabilities(capabilities: Collection[Capability]) -> str:
    """Return what a model can do: "chat, tools"; that one which chats goes on with texts is not said."""
    hidden = {Capability.COMPLETION} if Capability.CHAT in capabilities else set()
    return ", ".join(in_order({*capabilities} - hidden))


def format_rate(tokens_per_s: float | None) -> str:
    """Return tokens per second as "38 tok/s", with one decimal below ten."""
    if tokens_per_s is None:
        return "unknown"
    return f"{tokens_per_s:.1f} tok/s" if tokens_per_s < _TEN else f"{tokens_per_s:.0f} tok/s"


def format_duration(duration_s: float | None) -> str:
    """Return a duration as "0.21 s", "12 s", "3 min 5 s" or "2 h 10 min"."""
    if duration_s is None:
        return "unknown"
    if duration_s < _TEN:
        return f"{duration_s:.2f} s"
    whole = round(duration_s)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"


def describe_going(model: str, projectors: int) -> str:
    """Return what is removed, with its verb: "M is", "M and its projector are"."""
    return f"{model} and its projector{'s' * (projectors > 1)} are" if projectors else f"{model} is"


def describe_trash(files: int, size_bytes: int) -> str:
    """Return models in the trash, with their verb: "3 files of removed models (11.3 GiB) are"."""
    if files == 1:
        return f"1 file of a removed model ({format_bytes(size_bytes)}) is"
    return f"{files:,} files of removed models ({format_bytes(size_bytes)}) are"


def describe_emptying(files: int, size_bytes: int) -> str:
    """Return what came of deleting them."""
    if not files:
        return "Nothing was deleted: the files are no longer in the trash."
    return f"{describe_trash(files, size_bytes)} deleted for good."


_SAMPLING = {
    "temperature": "temperature",
    "top_p": "top-p",
    "top_k": "top-k",
    "min_p": "min-p",
    "repeat_penalty": "repeat penalty",
}


def format_sampling(chosen: ModelSampling) -> str:
    """Return what is chosen, such as "temperature 0.6, top-k 20"; empty for nothing."""
    values = ((word, getattr(chosen, name)) for name, word in _SAMPLING.items())
    return ", ".join(f"{word} {value:g}" for word, value in values if value is not None)
