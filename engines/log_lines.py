"""What an engine's lines mean, as rows of data: stages with their fractions, buffers, and the context it settled on."""

import re
from collections.abc import Callable, Sequence

from engines.api import BufferAllocated, ContextSet, LoadProgress, LogEvent
from engines.failures import FailureReader

GIB = 1 << 30
_SCALE = {"gib": GIB, "gb": GIB, "mib": 1 << 20, "mb": 1 << 20}
"""Engines that write GB for weights divide by 2**30 as well."""

SHARDS = r"[Ll]oading (?:safetensors |pt )?(?:checkpoint )?shards(?: \(eager\))?:\s+(?P<percent>\d+)%"
"""How vLLM and SGLang tell how many files of weights are read, by one thread or several."""

Row = Callable[[str], LogEvent | None]


def stage_row(pattern: str, name: str) -> Row:
    """Return a row that reads progress. Groups `percent`, or `done` and `total`, give the fraction."""
    compiled_pattern = re.compile(pattern)

    def read(line: str) -> LogEvent | None:
        match = compiled_pattern.search(line)
        return LoadProgress(stage=name, fraction=_fraction(match.groupdict())) if match else None

    return read


def buffer_row(pattern: str, purpose: str, *, device: str = "GPU") -> Row:
    """Return a row that reads an allocation from groups `size` and `unit`."""
    compiled_pattern = re.compile(pattern)

    def read(line: str) -> LogEvent | None:
        match = compiled_pattern.search(line)
        if match is None:
            return None
        size = round(float(match["size"]) * _SCALE[match["unit"].lower()])
        return BufferAllocated(device=device, purpose=purpose, size_bytes=size)

    return read


def context_row(pattern: str) -> Row:
    """Return a row that reads the context from group `tokens`."""
    compiled_pattern = re.compile(pattern)

    def read(line: str) -> LogEvent | None:
        match = compiled_pattern.search(line)
        return ContextSet(tokens=int(match["tokens"].replace(",", ""))) if match else None

    return read


def read_line(line: str, rows: Sequence[Row], reader: FailureReader) -> Sequence[LogEvent]:
    """Return what a line means by the rows, and what it gives away."""
    return [event for event in (row(line) for row in (*rows, reader.suspect)) if event is not None]


def _fraction(groups: dict[str, str | None]) -> float | None:
    if groups.get("percent"):
        return min(1.0, float(groups["percent"] or 0) / 100)
    if groups.get("total"):
        return min(1.0, float(groups["done"] or 0) / max(1.0, float(groups["total"] or 1)))
    return None
