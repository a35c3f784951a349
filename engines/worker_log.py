"""The supervisor's side of `worker_base.emit`: one line of a worker's standard output, as log events."""

from collections.abc import Sequence

import msgspec

from engines.api import BufferAllocated, ContextSet, LoadProgress, LogEvent, PortOpened


class _WorkerLine(msgspec.Struct):
    event: str
    stage: str = ""
    fraction: float | None = None
    port: int = 0
    tokens: int = 0
    slots: int | None = None
    device: str = ""
    purpose: str = ""
    size_bytes: int = 0


_DECODER = msgspec.json.Decoder(_WorkerLine)


def read_worker_line(line: str) -> Sequence[LogEvent] | None:
    """Return what a worker's line means; None when it is not a worker's line."""
    if not line.startswith('{"event"'):
        return None
    try:
        record = _DECODER.decode(line)
    except msgspec.DecodeError:
        return None
    return _events_of(record)


def _events_of(record: _WorkerLine) -> Sequence[LogEvent]:
    match record.event:
        case "progress":
            return (LoadProgress(stage=record.stage, fraction=record.fraction),)
        case "listening":
            return (PortOpened(port=record.port),)
        case "context":
            return (ContextSet(tokens=record.tokens, slots=record.slots),)
        case "buffer":
            return (BufferAllocated(device=record.device, purpose=record.purpose, size_bytes=record.size_bytes),)
        case _:
            return ()
