"""Figures and times in the words the chat page uses, where `core.words` has none for them."""

from app.core import words
from app.core.chats import Timings

_MINUTE_S = 60


def format_duration(duration_s: float) -> str:
    """Return a duration a person can take in, to the second: "6 s", "2 min 5 s"."""
    whole = max(1, round(duration_s))
    return f"{whole} s" if whole < _MINUTE_S else f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"


def quiet_line(timings: Timings | None) -> str:
    """Return the line below an answer: speed, wait, length. Loading is told apart from the wait."""
    if timings is None:
        return ""
    parts = []
    if timings.decode_tokens_per_s:
        parts.append(words.format_rate(timings.decode_tokens_per_s))
    if timings.ttft_s is not None:
        parts.append(f"{words.format_duration(max(0.0, timings.ttft_s - (timings.load_s or 0.0)))} to first token")
    if timings.load_s and timings.load_s >= 1:
        parts.append(f"{format_duration(timings.load_s)} to load")
    if timings.completion_tokens is not None:
        parts.append(f"{timings.completion_tokens:,} {'token' if timings.completion_tokens == 1 else 'tokens'}")
    return " · ".join(parts)


def thinking_title(duration_s: float | None, *, is_running: bool) -> str:
    """Return the title of folded thinking."""
    if is_running:
        return "Thinking…"
    return "Thought" if duration_s is None else f"Thought for {format_duration(duration_s)}"


def progress_words(stage: str, fraction: float | None, left_s: float | None) -> str:
    """Return what happens before the first word: "Reading weights 63 %, 4 s left"."""
    if fraction is None:
        return f"{stage}…"
    left = "" if left_s is None else f", {format_duration(left_s)} left"
    return f"{stage} {fraction * 100:.0f} %{left}"
