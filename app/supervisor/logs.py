"""What engines write: cut into lines, freed of secrets, kept in memory and in a rotating file, told at a bounded rate.

Reading, cutting and filing happen in the threads that drain the pipes; the ring and what is published belong to the
event loop.
"""

import codecs
import hashlib
import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path

from app.core.events import LogLine

RING_LINES = 2000
FILE_BYTES = 1 << 20
FILES_KEPT = 3
LINE_CHARACTERS = 4096
"""A longer line is cut into pieces: an engine may dump a tensor, or never end its line."""
LINES_PER_SECOND = 200
"""What subscribers get of a flood; ring and file get all of it."""

_ENDS = re.compile(r"\r\n|\n|\r")
"""A progress bar redraws its line with a bare carriage return."""


class LineSplitter:
    """Bytes in, whole lines out, whatever the cuts between writes; an emoji cut in two comes out whole."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def feed_bytes(self, data: bytes) -> list[str]:
        """Return the lines that `data` completes. A bare carriage return at its end waits for its line feed."""
        text = self._rest + self._decoder.decode(data)
        ends_in_return = text.endswith("\r")
        *whole, rest = _ENDS.split(text[:-1] if ends_in_return else text)
        self._rest = rest + "\r" if ends_in_return else rest
        lines = [piece for line in whole for piece in _cut_line(line)]
        while len(self._rest) > LINE_CHARACTERS:
            lines.append(self._rest[:LINE_CHARACTERS])
            self._rest = self._rest[LINE_CHARACTERS:]
        return [line for line in lines if line]

    def flush_rest(self) -> list[str]:
        """Return what was left without an end of line."""
        text, self._rest = self._rest + self._decoder.decode(b"", final=True), ""
        return [piece for line in _ENDS.split(text) for piece in _cut_line(line) if piece]


def _cut_line(line: str) -> list[str]:
    return [line[at : at + LINE_CHARACTERS] for at in range(0, len(line), LINE_CHARACTERS)]


class LogRedactor:
    """Take secrets out of text."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._longest_first = sorted(filter(None, secrets), key=len, reverse=True)

    def redact_text(self, text: str) -> str:
        """Return `text` with every secret as `***`."""
        for secret in self._longest_first:
            text = text.replace(secret, "***")
        return text


class LossyFile(RotatingFileHandler):
    """A log file that loses what its disk will not take: a full disk must stop neither an engine nor the gateway."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 -- overrides logging's name
        """Lose the line."""

    def close(self) -> None:
        """Close the file, and lose what could not be written before."""
        with suppress(OSError):
            super().close()


class EngineLog:
    """The log of one model's engine, across its runs."""

    def __init__(self, model: str, folder: Path, publish: Callable[[LogLine], None]) -> None:
        self.path = folder / f"engine-{file_slug(model)}.log"
        self._ring: deque[LogLine] = deque(maxlen=RING_LINES)
        self._publish = publish
        self._model = model
        self._file: LossyFile | None = None
        self._lock = threading.Lock()
        self._second = 0
        self._published_lines = 0
        self._suppressed_lines = 0

    def append_to_file(self, lines: Sequence[str]) -> None:
        """Append to the file; safe from any thread. A secret must have been taken out before."""
        record = logging.makeLogRecord({"msg": "\n".join(lines)})
        with self._lock:
            if self._file is None:
                with suppress(OSError):
                    self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._file = LossyFile(
                    self.path, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8", delay=True
                )
            self._file.handle(record)

    def add_lines(self, stream: str, lines: Sequence[str], at: float) -> None:
        """Keep lines in memory and tell subscribers, in the event loop. `at` is Unix seconds."""
        for text in lines:
            line = LogLine(model=self._model, stream=stream, text=text, at=at)
            self._ring.append(line)
            self._publish_line(line)

    def _publish_line(self, line: LogLine) -> None:
        if int(line.at) != self._second:
            self._second, self._published_lines = int(line.at), 0
            self._admit_gap(line)
        if self._published_lines < LINES_PER_SECOND:
            self._published_lines += 1
            self._publish(line)
        else:
            self._suppressed_lines += 1

    def _admit_gap(self, line: LogLine) -> None:
        if not self._suppressed_lines:
            return
        text = f"[{self._suppressed_lines} lines are not shown here; {self.path} has them]"
        self._suppressed_lines = 0
        self._publish(LogLine(model=self._model, stream=line.stream, text=text, at=line.at))

    def tail_lines(self, count: int) -> list[LogLine]:
        """Return the last lines, oldest first."""
        return list(self._ring)[-count:] if count > 0 else []

    def close(self) -> None:
        """Close the file; a later line opens it again."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


def file_slug(name: str) -> str:
    """Return a file name for a model's name: readable, and different for different names on every file system."""
    plain = re.sub(r"[^a-z0-9._-]", "_", name.lower())[:60]
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
