"""Free loopback ports, none handed out twice while it may still be about to be bound."""

import contextlib
import socket
from collections.abc import Iterator

HOST = "127.0.0.1"


class LoopbackPorts:
    """Ask the kernel for a free port and remember it: between asking and binding, somebody else could be given it."""

    def __init__(self) -> None:
        self.reserved: set[int] = set()

    @contextlib.contextmanager
    def reserve_port(self) -> Iterator[int]:
        """Keep one port for as long as the block runs. Another program can still take it: then try again."""
        port = self._pick_port()
        self.reserved.add(port)
        try:
            yield port
        finally:
            self.reserved.discard(port)

    def _pick_port(self) -> int:
        with (
            contextlib.ExitStack() as sockets
        ):  # ports already reserved stay bound meanwhile, so the kernel offers others
            while True:
                probe = sockets.enter_context(socket.socket())
                probe.bind((HOST, 0))
                port: int = probe.getsockname()[1]
                if port not in self.reserved:
                    return port
