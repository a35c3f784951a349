"""Server-sent events out of packets that break anywhere, even inside a character."""

from app.client.http import event_data


class SseParser:
    """Collects bytes and gives back the data of every event that is complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[bytes] = []

    def feed(self, packet: bytes) -> list[bytes]:
        """Take the next bytes; return the data of the events they complete, in order."""
        *lines, self._rest = (self._rest + packet).split(b"\n")
        events: list[bytes] = []
        for line in lines:
            self._lines.append(line)
            if not line.rstrip(b"\r"):
                events += event_data(iter(self._lines))
                self._lines = []
        return events
