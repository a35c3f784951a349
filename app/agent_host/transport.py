"""Lines of JSON to and from an agent. What is none is skipped; too much of it, or a line without end, is the end."""

import asyncio
import json
from typing import Any

LONGEST_LINE = 16 * 1024 * 1024
MOST_OTHER_LINES = 1000
"""Lines in a session that are no message: some programs print a few before they begin."""


class AgentTransport:
    """What the SDK sends and receives by. `problem` says why nothing more comes, where the agent is to blame."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._other_lines = 0
        self.problem = ""
        self.closed = asyncio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message. Raises ConnectionError."""
        self._writer.write(json.dumps(message, ensure_ascii=False).encode(errors="replace") + b"\n")
        await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None at the end."""
        try:
            while line := await self._reader.readline():
                message = _read_message(line)
                if message is not None:
                    return message
                self._other_lines += bool(line.strip())
                if self._other_lines > MOST_OTHER_LINES:
                    self.problem = "It writes what is none of the protocol's messages."
                    break
        except ValueError:  # longer than the reader takes
            self.problem = "It wrote a message that is too long."
        except ConnectionError:
            pass
        self.closed.set()
        return None

    async def close(self) -> None:
        """Let the agent read the end of its input."""
        self._writer.close()


def _read_message(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None
