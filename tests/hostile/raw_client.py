"""Sends requests as they are given, from a thread of its own, and does as little as it can with answers."""

import re
import socket
from collections.abc import Sequence

_PATIENCE_S = 60.0
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_PIECE = 1 << 16


def request_bytes(method: str, path: str, headers: Sequence[tuple[str, bytes]], body: bytes = b"") -> bytes:
    """Return a request whose connection ends with the answer. `Host` is ours unless it is given."""
    given_names = {name for name, _ in headers}
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Connection: close", b"Content-Length: %d" % len(body)]
    if "Host" not in given_names:
        lines.append(b"Host: localhost")
    lines += [name.encode() + b": " + value for name, value in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def exchange(port: int, data: bytes, *, only_head: bool = False) -> int:
    """Send and read to the end. Return the status, 0 where the connection was closed without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        start = b""
        try:
            connection.sendall(data)
        except OSError:  # refused before all of it was read
            start = b""
        try:
            while piece := connection.recv(_PIECE):
                start = start or piece
                if only_head:
                    break
        except ConnectionError:
            pass
    match = _STATUS.match(start)
    return int(match[1]) if match else 0
