"""One engine process and the three threads that serve it.

One thread per pipe, so that it never blocks on writing, and one that waits for its end. Everything they learn is handed
to the event loop.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO

import msgspec

from app.confinement.rules import LaunchOrder
from app.supervisor.logs import EngineLog, LineSplitter, LogRedactor
from engines.api import LogEvent, SoftStop

if sys.platform == "win32":
    from app.supervisor.windows import Group, kill_leader_group
else:
    from app.supervisor.posix import Group, kill_leader_group

__all__ = ["ChildHandlers", "ChildOutput", "EngineProcess", "kill_leader_group"]

_CHUNK = 1 << 16
_LAST_WORDS_S = 2.0
"""How long a pipe may stay open after the end and bring nothing: something it started may have inherited it."""
_MOST_WORDS_S = 20.0
"""And how long if that something goes on writing."""
_LOOKS_EVERY_S = 0.05
_HAND_OVER_S = 1.0
"""How long a flood waits for the event loop before it goes on reading regardless."""


class ChildOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Lines from one pipe, and what they mean to the engine's adapter. `at` is Unix seconds."""

    stream: str
    lines: Sequence[str]
    events: Sequence[LogEvent]
    at: float


class ChildHandlers(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to what a child says. `read_log` and `redactor` run in its threads, the other two in the loop."""

    log: EngineLog
    redactor: LogRedactor
    read_log: Callable[[str], Sequence[LogEvent]]
    hear: Callable[[ChildOutput], None]
    ended: Callable[["EngineProcess", int], None]


class EngineProcess:
    """A started process. Make it in the event loop's thread; raises OSError when it cannot be started."""

    def __init__(
        self, order: LaunchOrder, *, role: str, has_lifeline: bool, prefix: str, handlers: ChildHandlers
    ) -> None:
        self.role = role
        self._group = Group(order, has_lifeline=has_lifeline)
        self._loop = asyncio.get_running_loop()
        self._prefix = prefix
        self._handlers = handlers
        self._reading_since: dict[str, float] = {}
        """By pipe that is waited for: since when, in monotonic seconds."""
        pipes = self._group.pipes
        self._readers = {stream: self._start_thread(self._drain_pipe, stream, pipe) for stream, pipe in pipes.items()}
        self._start_thread(self._wait_for_end)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._group.pid

    def ask_to_end(self, how: SoftStop) -> None:
        """Ask it to end in its own time."""
        self._group.ask_to_end(how)

    def kill(self) -> None:
        """Kill it and all it started; harmless when it has ended."""
        self._group.kill()

    def _start_thread(self, target: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=arguments, daemon=True, name=f"engine-{self.role}")
        thread.start()
        return thread

    def _drain_pipe(self, stream: str, pipe: IO[bytes]) -> None:
        lines = LineSplitter()
        with pipe:
            while data := self._read_chunk(stream, pipe):
                self._publish_lines(stream, lines.feed_bytes(data))
        self._publish_lines(stream, lines.flush_rest())

    def _read_chunk(self, stream: str, pipe: IO[bytes]) -> bytes:
        self._reading_since[stream] = time.monotonic()
        try:
            return pipe.read(_CHUNK)
        finally:
            del self._reading_since[stream]

    def _publish_lines(self, stream: str, raw: Sequence[str]) -> None:
        if not raw:
            return
        clean = [self._handlers.redactor.redact_text(line) for line in raw]
        events = [event for line in clean for event in self._handlers.read_log(line)]
        lines = [self._prefix + line for line in clean]
        self._handlers.log.append_to_file(lines)
        output = ChildOutput(stream=stream, lines=lines, events=events, at=time.time())
        delivery = threading.Event()
        self._call_in_loop(self._handlers.hear, output)
        if self._call_in_loop(delivery.set):
            delivery.wait(_HAND_OVER_S)

    def _wait_for_end(self) -> None:
        code = self._group.wait()
        ended_at = time.monotonic()
        for stream, reader in self._readers.items():
            while reader.is_alive() and not self._is_silent(stream, ended_at):
                reader.join(_LOOKS_EVERY_S)
        self._group.close_stdin()
        self._call_in_loop(self._handlers.ended, self, code)

    def _is_silent(self, stream: str, ended_at: float) -> bool:
        """Tell whether nothing more is to be expected. What was read and waits to be passed on is."""
        now = time.monotonic()
        silent_since = max(ended_at, self._reading_since.get(stream, now))
        return now - silent_since > _LAST_WORDS_S or now - ended_at > _MOST_WORDS_S

    def _call_in_loop(self, call: Callable[..., None], *arguments: object) -> bool:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop is closed: nobody is left to tell
            return False
        return True
