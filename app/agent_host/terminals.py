"""Commands that an agent has us run, each in the session's folder, confined as we are, ended with the session."""

import asyncio
import codecs
import contextlib
import itertools
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence

from app.agent_host.reading import split_text
from app.core.agents import LONGEST_PART, AgentTerminalUpdate

MOST_TERMINALS = 16
"""At the same time."""
_KEPT_BYTES = 1024 * 1024
_PIECE = 1 << 16


class TerminalRefused(Exception):
    """A command is not run; says why."""


class Terminal:
    """One command. What it writes is told as it comes, up to a limit, and kept for the agent."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, most_bytes: int) -> None:
        self.name, self._process, self._most_bytes = name, process, most_bytes
        self._output = b""
        self.was_cut = False
        self.exit_code: int | None = None
        self.over = asyncio.Event()

    @property
    def output(self) -> str:
        """What it has written, from where it is kept on."""
        return self._output.decode("utf-8", "replace")

    async def follow_output(self, tell: Callable[[AgentTerminalUpdate], None]) -> None:
        """Read its output to the end."""
        decoder, room = codecs.getincrementaldecoder("utf-8")("replace"), LONGEST_PART
        assert self._process.stdout is not None  # noqa: S101 -- for the type checker: it was started so
        while piece := await self._process.stdout.read(_PIECE):
            self._output += piece
            if len(self._output) > self._most_bytes:
                self._output, self.was_cut = self._output[-self._most_bytes :], True
            text = decoder.decode(piece)[: max(room, 0)]
            room -= len(text)
            for part in split_text(text):
                tell(AgentTerminalUpdate(terminal=self.name, output=part))
        self.exit_code = await self._process.wait()
        self.over.set()
        tell(AgentTerminalUpdate(terminal=self.name, exit_code=self.exit_code))

    def kill(self) -> None:
        """End it, and what it started."""
        with contextlib.suppress(ProcessLookupError):
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGKILL)


class Terminals:
    """The commands of a session."""

    def __init__(
        self, folder: str, environment: Mapping[str, str], tell: Callable[[AgentTerminalUpdate], None]
    ) -> None:
        self._folder, self._environment, self._tell = folder, environment, tell
        self._terminals: dict[str, Terminal] = {}
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start_command(
        self, words: Sequence[str], folder: str, variables: Mapping[str, str], most_bytes: int | None
    ) -> Terminal:
        """Run a command, a single word by the shell. Raises TerminalRefused."""
        if sum(not terminal.over.is_set() for terminal in self._terminals.values()) >= MOST_TERMINALS:
            raise TerminalRefused(f"There are {MOST_TERMINALS} commands already.")
        argv = list(words) if len(words) > 1 else [*_shell(), words[0]]
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=folder,
                env={**self._environment, **variables},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise TerminalRefused(f"{words[0]} cannot be run: {error}.") from error
        name = f"terminal-{next(self._numbers)}"
        kept_bytes = _KEPT_BYTES if most_bytes is None else min(max(most_bytes, 0), _KEPT_BYTES)
        terminal = self._terminals[name] = Terminal(name, process, kept_bytes)
        self._tell(AgentTerminalUpdate(terminal=name, command=shlex.join(words) if len(words) > 1 else words[0]))
        task = asyncio.create_task(terminal.follow_output(self._tell))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return terminal

    def find_terminal(self, name: str) -> Terminal:
        """Return a terminal. Raises TerminalRefused."""
        try:
            return self._terminals[name]
        except KeyError:
            raise TerminalRefused(f"There is no terminal {name[:100]}.") from None

    def release_terminal(self, name: str) -> None:
        """End a terminal and forget it."""
        self.find_terminal(name).kill()
        del self._terminals[name]

    def close(self) -> None:
        """End every one."""
        for terminal in self._terminals.values():
            if not terminal.over.is_set():
                terminal.kill()


def _shell() -> list[str]:
    return ["cmd", "/c"] if sys.platform == "win32" else ["/bin/sh", "-c"]
