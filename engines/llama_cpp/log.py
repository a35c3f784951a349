"""What llama.cpp's log lines mean, as data: one pattern per row, checked against recorded runs of the pinned build."""

import re
from collections.abc import Callable, Sequence

import msgspec

from engines.api import BufferAllocated, ContextSet, LoadProgress, LogEvent
from engines.llama_cpp.failures import READER
from engines.worker_log import read_worker_line

MIB = 1024 * 1024

_CHILD_STATE = "cmd_child_to_router:state:"
"""How llama.cpp prefixes the JSON of its load progress."""

_STAGES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"loaded meta data with \d+ key-value pairs"), "Reading the model's description"),
    (re.compile(r"loading model tensors"), "Reading weights"),
    (re.compile(r"constructing llama_context"), "Preparing the context"),
    (re.compile(r"warming up the model"), "Warming up"),
    (re.compile(r"srv\s+init: model loaded"), "Ready"),
)

_PURPOSES = {"model": "model", "KV": "kv", "compute": "compute", "output": "output", "RS": "recurrent"}
_BUFFER = re.compile(r"\s(?P<device>\S+)\s+(?P<purpose>model|KV|compute|output|RS) buffer size =\s+(?P<mib>[\d.]+) MiB")
_CONTEXT = re.compile(r"initializing, n_slots = (?P<slots>\d+), n_ctx_slot = (?P<tokens>\d+)")


class _LoadState(msgspec.Struct):
    stages: list[str] = []
    current: str = ""
    value: float = 0.0


class _ChildState(msgspec.Struct):
    state: str
    payload: msgspec.Raw = msgspec.Raw(b"{}")


_STAGE_NAMES = {
    "text_model": "Reading weights",
    "mmproj_model": "Reading the projector",
    "spec_model": "Reading the draft model",
}


def read_log_line(line: str) -> Sequence[LogEvent]:
    """Return what a line means; most mean nothing."""
    if line.startswith(_CHILD_STATE):
        return _read_child_state(line.removeprefix(_CHILD_STATE))
    events = read_worker_line(line)
    if events is not None:
        return events
    line = _message(line)
    return [event for event in (reader(line) for reader in _READERS) if event is not None]


class _JsonLine(msgspec.Struct):
    type: str
    level: str = ""
    msg: str = ""


def _message(line: str) -> str:
    """Return what a line of `--log-jsonl` says, as the text log puts it; any other line as it is."""
    if not line.startswith('{"type"'):
        return line
    try:
        record = msgspec.json.decode(line, type=_JsonLine)
    except msgspec.DecodeError:
        return line
    return f"{record.level[:1].upper()} {record.msg}".lstrip()


def _read_child_state(text: str) -> Sequence[LogEvent]:
    """Turn one state of llama.cpp into progress; several stages (text, projector) share the whole evenly."""
    try:
        child = msgspec.json.decode(text, type=_ChildState)
        if child.state != "loading":
            return ()
        loading = msgspec.json.decode(child.payload, type=_LoadState)
    except msgspec.DecodeError:
        return ()
    done = loading.stages.index(loading.current) if loading.current in loading.stages else 0
    fraction = min(1.0, (done + max(0.0, loading.value)) / max(1, len(loading.stages)))
    return (LoadProgress(stage=_STAGE_NAMES.get(loading.current, "Reading weights"), fraction=fraction),)


def _read_buffer(line: str) -> LogEvent | None:
    match = _BUFFER.search(line)
    if match is None:
        return None
    size = round(float(match["mib"]) * MIB)
    return BufferAllocated(device=match["device"], purpose=_PURPOSES[match["purpose"]], size_bytes=size)


def _read_context(line: str) -> LogEvent | None:
    match = _CONTEXT.search(line)
    return ContextSet(tokens=int(match["tokens"]), slots=int(match["slots"])) if match else None


def _read_stage(line: str) -> LogEvent | None:
    stage = next((stage for pattern, stage in _STAGES if pattern.search(line)), None)
    return LoadProgress(stage=stage) if stage else None


_READERS: tuple[Callable[[str], LogEvent | None], ...] = (_read_buffer, _read_context, _read_stage, READER.suspect)
