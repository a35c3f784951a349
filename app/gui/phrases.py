"""How engines and models are spoken of in the window: the words and the token colour of each state.

Figures and times in the words the chat page uses, where `core.words` has none for them.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from app.core import words
from app.core.api import GUIDE
from app.core.capabilities import Capability
from app.core.chats import Timings
from app.core.documents import AnswerSource, Collection, CollectionStage, Passage, name_of_file
from app.core.downloads import Download, DownloadState
from app.core.engines import EngineState, EngineStatus, FailureReport, RemedyOffer
from app.core.mcp import McpServer, McpServerState
from app.core.models import ModelChoices, ModelInfo
from app.core.translation import LazyText, tr, tr_plural

_S = EngineState
_STATES = {
    _S.STOPPED: ("ink-3", LazyText("Not loaded")),
    _S.STARTING: ("accent", LazyText("Starting")),
    _S.LOADING: ("accent", LazyText("Loading")),
    _S.READY: ("ok", LazyText("Ready")),
    _S.DRAINING: ("accent", LazyText("Finishing answers")),
    _S.STOPPING: ("accent", LazyText("Stopping")),
    _S.FAILED: ("bad", LazyText("Failed")),
    _S.BACKING_OFF: ("warn", LazyText("Waiting to retry")),
}

_GUIDE = LazyText("Guide")
TINY = LazyText("tiny help model")

_SENTENCE_ENDS = re.compile(r"(?<=[.!?]) +")
_PURPOSE = re.compile(r"To\b")
_COMMAND = re.compile(r"(?:,? or)?(?: with| by|:) (?:`roundhouse [^`]*`|roundhouse [\w-]+(?: [^ .`]+)*)")

_MINUTE_S, _DAY_S = 60.0, 86_400.0
ONE_PRESS = 2
"""Buttons that load a model otherwise, beside a failure."""


def engine_state(status: EngineStatus) -> tuple[str, str]:
    """Return the colour and the words of an engine's state, loading with how far it has come."""
    color, message = _STATES[status.state]
    if status.state is not _S.LOADING:
        return color, message.tr()
    text = status.stage or message.tr()
    return color, text if status.progress is None else f"{text} {status.progress * 100:.0f} %"


def engine_facts(status: EngineStatus) -> str:
    """Return the quiet line of a running model: engine, memory, context, requests."""
    facts = [TINY.tr()] if status.model == GUIDE else []
    facts.append(f"{status.engine} {status.version}".strip())
    if status.backend:
        facts.append(status.backend.upper())
    if status.memory_bytes is not None:
        facts.append(words.format_bytes(status.memory_bytes))
    if status.context is not None:
        facts.append(tr("{tokens} context", tokens=words.format_tokens(status.context)))
    if status.slots is not None:
        facts.append(tr("{active} of {slots} answering", active=status.in_flight, slots=status.slots))
    if status.queued:
        facts.append(tr_plural("{count} waiting", "{count} waiting", status.queued))
    if status.is_pinned:
        facts.append(tr("pinned"))
    return " · ".join(facts)


def quick_remedies(failure: FailureReport) -> list[RemedyOffer]:
    """Return the remedies that are one press away, most promising first: more than two would be a menu."""
    return [remedy for remedy in failure.remedies if remedy.options][:ONE_PRESS]


def drop_commands(hint: str) -> str:
    """Return a next step without the commands of a terminal: the window has buttons for them."""
    return " ".join(filter(None, map(_drop_command, _SENTENCE_ENDS.split(hint))))


def _drop_command(sentence: str) -> str:
    """Return a sentence without its command; nothing where the command is what it is about."""
    rest = _COMMAND.sub("", sentence)
    is_about = "`roundhouse" in rest or (rest != sentence and _PURPOSE.match(sentence) is not None)
    return "" if is_about else rest


def model_title(model: ModelInfo) -> str:
    """Return what a model is called here: the Guide by its short name, whatever its file says."""
    return _GUIDE.tr() if model.is_builtin else model.title


def model_label(model: ModelInfo) -> str:
    """Return a model's title where nothing else says what it is: the Guide is always known for a tiny help model."""
    return f"{_GUIDE} · {TINY}" if model.is_builtin else model.title


def model_origin(model: ModelInfo) -> str:
    """Return where a model is from if that is no file of its own: what it was made from, or who serves it."""
    if model.preset is not None:
        return tr("made from {base}", base=model.preset.base) if model.preset.base else tr("made from an uploaded file")
    if model.served_by:
        return tr("attached: {host}, {program}", host=model_host(model), program=model.served_by)
    return tr("attached: {host}", host=model_host(model)) if model.attached else ""


def model_host(model: ModelInfo) -> str:
    """Return the host and port of the endpoint that serves a model; empty for one that runs here."""
    return urlsplit(model.attached).netloc.rpartition("@")[2]


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
        facts.append(tr("{parameters} parameters", parameters=words.format_parameters(model.parameters)))
    if model.trained_context is not None:
        facts.append(tr("{tokens} context", tokens=words.format_tokens(model.trained_context)))
    if model.architecture:
        facts.append(model.architecture)
    beyond = words.format_capabilities({*model.capabilities} - _EXPECTED)
    if beyond:
        facts.append(beyond)
    return " · ".join(facts)


def downloads_summary(downloads: Sequence[Download]) -> str:
    """Return all downloads that come or wait in a few words: "2 downloads, 43%"; empty without any."""
    pending_downloads = [item for item in downloads if item.state in {DownloadState.QUEUED, DownloadState.RUNNING}]
    if not pending_downloads:
        return ""
    total = sum(item.total_bytes for item in pending_downloads)
    share = sum(item.present_bytes for item in pending_downloads) / total if total else 0.0
    if len(pending_downloads) == 1:
        return f"{pending_downloads[0].title}, {share:.0%}"
    return tr_plural(
        "{count} download, {share:.0%}", "{count} downloads, {share:.0%}", len(pending_downloads), share=share
    )


def download_ended(download: Download) -> tuple[str, str]:
    """Return title and text of what is said when a download is over."""
    if download.error is not None:
        return tr("{title} was not downloaded", title=download.title), download.error.text
    return tr("{title} was downloaded", title=download.title), tr(
        "{size}, complete and checked.", size=words.format_bytes(download.total_bytes)
    )


def library_name(models: Iterable[ModelInfo], download: Download) -> str:
    """Return what the library calls a model that was downloaded; where it is not listed, what was asked for."""
    folder = Path(download.folder)
    places = {folder, *(folder / file for file in download.files)}
    names = (model.name for model in models if download.folder and Path(model.path) in places)
    return next(names, download.title)


def sampling_placeholder(choices: ModelChoices | None, name: str) -> str:
    """Return what an empty field of sampling means: the model's own value, or the engine's."""
    counts = choices is not None and choices.settings.uses_model_sampling
    value = getattr(choices.sampling, name) if choices is not None and counts else None
    return tr("engine default") if value is None else tr("model: {value:g}", value=value)


def time_ago(seconds: float) -> str:
    """Return how long ago something was."""
    if seconds < _DAY_S:
        return tr("{duration} ago", duration=words.format_duration(seconds)) if seconds >= _MINUTE_S else tr("just now")
    days = int(seconds // _DAY_S)
    return tr_plural("yesterday", "{count} days ago", days)


_WHOLE_MINUTE_S = 60


def format_duration(duration_s: float) -> str:
    """Return a duration a person can take in, to the second: "6 s", "2 min 5 s"."""
    whole = max(1, round(duration_s))
    minutes, seconds = divmod(whole, _WHOLE_MINUTE_S)
    return (
        tr("{minutes} min {seconds} s", minutes=minutes, seconds=seconds)
        if minutes
        else tr("{seconds} s", seconds=seconds)
    )


def quiet_line(timings: Timings | None) -> str:
    """Return the line below an answer: speed, wait, length. Loading is told apart from the wait."""
    if timings is None:
        return ""
    parts = []
    if timings.decode_tokens_per_s:
        parts.append(words.format_rate(timings.decode_tokens_per_s))
    if timings.ttft_s is not None:
        wait_s = max(0.0, timings.ttft_s - (timings.load_s or 0.0))
        parts.append(tr("{duration} to first token", duration=words.format_duration(wait_s)))
    if timings.load_s and timings.load_s >= 1:
        parts.append(tr("{duration} to load", duration=format_duration(timings.load_s)))
    if timings.completion_tokens is not None:
        parts.append(tr_plural("{count:,} token", "{count:,} tokens", timings.completion_tokens))
    return " · ".join(parts)


def thinking_title(duration_s: float | None, *, is_running: bool) -> str:
    """Return the title of folded thinking."""
    if is_running:
        return tr("Thinking…")
    return tr("Thought") if duration_s is None else tr("Thought for {duration}", duration=format_duration(duration_s))


def progress_words(stage: str, fraction: float | None, left_s: float | None) -> str:
    """Return what happens before the first word: "Reading weights 63 %, 4 s left"."""
    if fraction is None:
        return tr("{stage}…", stage=stage)
    progress_text = f"{stage} {fraction * 100:.0f} %"
    return (
        progress_text
        if left_s is None
        else tr("{done}, {duration} left", done=progress_text, duration=format_duration(left_s))
    )


def describe_mcp_server(server: McpServer) -> str:
    """Return how a server stands, and what it may reach, in one line."""
    if not server.is_confirmed:
        return tr("Added by a program, and not confirmed yet")
    if not server.is_enabled:
        return tr("Switched off")
    if server.state is McpServerState.FAILED:
        return server.problem
    count = len(server.tools)
    about = {
        McpServerState.STARTING: tr("Starting"),
        McpServerState.SIGN_IN: tr("Waits until you sign in"),
        McpServerState.READY: tr_plural("{count} tool", "{count} tools", count),
    }.get(server.state, tr("Starts when it is first used"))
    return " · ".join(filter(None, (about, _describe_mcp_reach(server))))


def describe_passage_place(passage: Passage | AnswerSource) -> str:
    """Return where a passage is, in a line."""
    page = tr("page {number}", number=passage.page) if passage.page else ""
    return " · ".join(filter(None, (name_of_file(passage.path), page, passage.heading)))


def describe_collection(collection: Collection) -> str:
    """Return how far a collection is, and how large, in one line."""
    if collection.stage is CollectionStage.WAITING:
        return tr("Waiting")
    if collection.stage is CollectionStage.READING and collection.total:
        return tr("Reading file {done:,} of {total:,}", done=collection.done + 1, total=collection.total)
    if collection.stage is CollectionStage.EMBEDDING and collection.total:
        return tr("Comparing passage {done:,} of {total:,}", done=collection.done + 1, total=collection.total)
    if collection.missing_folders:
        return tr("Not there now: {folders}", folders=", ".join(collection.missing_folders))
    files = tr_plural("{count} file", "{count} files", collection.files)
    passages = tr_plural("{count} passage", "{count} passages", collection.passages)
    unread = tr("{count} not read", count=collection.unread_files) if collection.unread_files else ""
    return " · ".join(filter(None, (files, passages, unread)))


def describe_collection_means(collection: Collection) -> str:
    """Return how passages of a collection are found."""
    if not collection.embedded:
        return tr("Found by their words. An embedding model on this computer would find them by what they mean, too.")
    model = collection.embedding_model.partition(", ")[0]
    if collection.embedded < collection.passages:
        return tr("Found by their words, and in part by what they mean ({model}).", model=model)
    return tr("Found by their words, and by what they mean ({model}).", model=model)


def _describe_mcp_reach(server: McpServer) -> str:
    if server.url:
        return tr("runs on another computer, or elsewhere on this one")
    reach = tr("may reach other computers") if server.network else tr("no network")
    return reach if server.is_confined else tr("runs unconfined")
