"""How engines and models are spoken of in the window: the words and the token colour of each state.

Figures and times in the words the chat page uses, where `core.words` has none for them.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

from app.core import words
from app.core.api import GUIDE
from app.core.capabilities import Capability
from app.core.chats import Timings
from app.core.downloads import Download, DownloadState
from app.core.engines import EngineState, EngineStatus, FailureReport, RemedyOffer
from app.core.models import ModelChoices, ModelInfo

_S = EngineState
_STATES = {
    _S.STOPPED: ("ink-3", "Not loaded"),
    _S.STARTING: ("accent", "Starting"),
    _S.LOADING: ("accent", "Loading"),
    _S.READY: ("ok", "Ready"),
    _S.DRAINING: ("accent", "Finishing answers"),
    _S.STOPPING: ("accent", "Stopping"),
    _S.FAILED: ("bad", "Failed"),
    _S.BACKING_OFF: ("warn", "Waiting to retry"),
}

_GUIDE = "Guide"
TINY = "tiny help model"

_MINUTE_S, _DAY_S = 60.0, 86_400.0
ONE_PRESS = 2
"""Buttons that load a model otherwise, beside a failure."""


def engine_state(status: EngineStatus) -> tuple[str, str]:
    """Return the colour and the words of an engine's state, loading with how far it has come."""
    color, text = _STATES[status.state]
    if status.state is _S.LOADING:
        text = status.stage or text
        if status.progress is not None:
            text = f"{text} {status.progress * 100:.0f} %"
    return color, text


def engine_facts(status: EngineStatus) -> str:
    """Return the quiet line of a running model: engine, memory, context, requests."""
    facts = [TINY] if status.model == GUIDE else []
    facts.append(f"{status.engine} {status.version}".strip())
    if status.backend:
        facts.append(status.backend.upper())
    if status.memory_bytes is not None:
        facts.append(words.format_bytes(status.memory_bytes))
    if status.context is not None:
        facts.append(f"{words.format_tokens(status.context)} context")
    if status.slots is not None:
        facts.append(f"{status.in_flight} of {status.slots} answering")
    if status.queued:
        facts.append(f"{status.queued} waiting")
    if status.is_pinned:
        facts.append("pinned")
    return " · ".join(facts)


def quick_remedies(failure: FailureReport) -> list[RemedyOffer]:
    """Return the remedies that are one press away, most promising first: more than two would be a menu."""
    return [remedy for remedy in failure.remedies if remedy.options][:ONE_PRESS]


def model_title(model: ModelInfo) -> str:
    """Return what a model is called here: the Guide by its short name, whatever its file says."""
    return _GUIDE if model.is_builtin else model.title


def model_label(model: ModelInfo) -> str:
    """Return a model's title where nothing else says what it is: the Guide is always known for a tiny help model."""
    return f"{_GUIDE} · {TINY}" if model.is_builtin else model.title


def model_origin(model: ModelInfo) -> str:
    """Return where a model is from if that is no file of its own: what it was made from, or who serves it."""
    if model.preset is not None:
        return f"made from {model.preset.base}" if model.preset.base else "made from an uploaded file"
    return f"attached: {urlsplit(model.attached).netloc}" if model.attached else ""


_EXPECTED = {Capability.COMPLETION, Capability.CHAT}
"""What is expected of a model, and not said."""


def model_facts(model: ModelInfo) -> str:
    """Return the quiet line of a model: size, parameters, context, architecture, and what it can do beyond chatting.

    What is unknown is left out.
    """
    facts = [model_origin(model)] if model_origin(model) else []
    if not model.attached:
        facts.append(words.format_bytes(model.size_bytes))
    if model.parameters is not None:
        facts.append(f"{words.format_parameters(model.parameters)} parameters")
    if model.trained_context is not None:
        facts.append(f"{words.format_tokens(model.trained_context)} context")
    if model.architecture:
        facts.append(model.architecture)
    beyond = words.format_capabilities({*model.capabilities} - _EXPECTED)
    if beyond:
        facts.append(beyond)
    return " · ".join(facts)


def downloads_summary(downloads: Sequence[Download]) -> str:
    """Return all downloads that come or wait in a few words: "2 downloads, 43%"; empty without any."""
    pending = [item for item in downloads if item.state in {DownloadState.QUEUED, DownloadState.RUNNING}]
    if not pending:
        return ""
    total = sum(item.total_bytes for item in pending)
    share = sum(item.present_bytes for item in pending) / total if total else 0.0
    return f"{len(pending)} downloads, {share:.0%}" if len(pending) > 1 else f"{pending[0].title}, {share:.0%}"


def download_ended(download: Download) -> tuple[str, str]:
    """Return title and text of what is said when a download is over."""
    if download.error is not None:
        return f"{download.title} was not downloaded", download.error.text
    return f"{download.title} was downloaded", f"{words.format_bytes(download.total_bytes)}, complete and checked."


def sampling_placeholder(choices: ModelChoices | None, name: str) -> str:
    """Return what an empty field of sampling means: the model's own value, or the engine's."""
    counts = choices is not None and choices.settings.uses_model_sampling
    value = getattr(choices.sampling, name) if choices is not None and counts else None
    return "engine's own" if value is None else f"{value:g} from the model"


def time_ago(seconds: float) -> str:
    """Return how long ago something was."""
    if seconds < _DAY_S:
        return f"{words.format_duration(seconds)} ago" if seconds >= _MINUTE_S else "just now"
    days = int(seconds // _DAY_S)
    return f"{days} days ago" if days > 1 else "yesterday"


_WHOLE_MINUTE_S = 60


def format_duration(duration_s: float) -> str:
    """Return a duration a person can take in, to the second: "6 s", "2 min 5 s"."""
    whole = max(1, round(duration_s))
    return f"{whole} s" if whole < _WHOLE_MINUTE_S else f"{whole // _WHOLE_MINUTE_S} min {whole % _WHOLE_MINUTE_S} s"


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
