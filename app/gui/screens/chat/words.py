"""Figures and times in the words the chat page uses."""

from app.core.chats import Timings

_MINUTE_S = 60
_THOUSAND = 1000
_FAST = 10.0


def seconds(value: float) -> str:
    """Return a duration a person can take in: "0.21 s", "6 s", "2 min 5 s"."""
    if value < 1:
        return f"{value:.2f} s"
    if value < _MINUTE_S:
        return f"{value:.0f} s"
    return f"{int(value) // _MINUTE_S} min {int(value) % _MINUTE_S} s"


def rate(value: float) -> str:
    """Return a speed of writing."""
    return f"{value:.0f} tok/s" if value >= _FAST else f"{value:.1f} tok/s"


def quiet_line(timings: Timings | None) -> str:
    """Return the line below an answer: speed, wait, length."""
    if timings is None:
        return ""
    parts = []
    if timings.decode_tokens_per_s:
        parts.append(rate(timings.decode_tokens_per_s))
    if timings.ttft_s is not None:
        wait = timings.ttft_s - (timings.load_s or 0.0)
        parts.append(f"{seconds(max(0.0, wait))} to first")
    if timings.load_s:
        parts.append(f"{seconds(timings.load_s)} to load")
    if timings.completion_tokens is not None:
        unit = "token" if timings.completion_tokens == 1 else "tokens"
        parts.append(f"{timings.completion_tokens:,} {unit}")
    return " · ".join(parts)


def thought(value: float | None, *, is_running: bool) -> str:
    """Return the title of folded thinking."""
    if is_running:
        return "Thinking…"
    return "Thought" if value is None else f"Thought for {seconds(max(1.0, value))}"


def context_size(tokens: int) -> str:
    """Return a number of tokens as "812", "4k", "48k"."""
    if tokens < _THOUSAND:
        return str(tokens)
    return f"{tokens / 1024:.0f}k" if tokens >= 2 * _THOUSAND else f"{tokens / 1024:.1f}k"


def size(size_bytes: int) -> str:
    """Return a file size."""
    gib = size_bytes / 2**30
    return f"{gib:.1f} GB" if gib >= 1 else f"{size_bytes / 2**20:.0f} MB"
