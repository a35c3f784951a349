"""The supervisor's side of `worker_base.emit`: one line of a worker's standard output, as log events."""

from collections.abc import Sequence

import msgspec

from engines.api import BufferAllocated, ContextSet, Listening, LogEvent, Progress


class _Line(msgspec.Struct):
    event: str
    stage: str = ""
    fraction: float | None = None
    port: int = 0
    tokens: int = 0
    slots: int | None = None
    device: str = ""
    purpose: str = ""
    size_bytes: int = 0


_DECODER = msgspec.json.Decoder(_Line)


def read_worker_line(line: str) -> Sequence[LogEvent] | None:
    """Return what a worker's line means; None when it is not a worker's line."""
    if not line.startswith('{"event"'):
        return None
    try:
        said = _DECODER.decode(line)
    except msgspec.DecodeError:
        return None
    return _meaning(said)


def _meaning(said: _Line) -> Sequence[LogEvent]:
    match said.event:
        case "progress":
            return (Progress(stage=said.stage, fraction=said.fraction),)
        case "listening":
            return (Listening(port=said.port),)
        case "context":
            return (ContextSet(tokens=said.tokens, slots=said.slots),)
        case "buffer":
            return (BufferAllocated(device=said.device, purpose=said.purpose, size_bytes=said.size_bytes),)
        case _:
            return ()
