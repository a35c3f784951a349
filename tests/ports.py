"""Ports for programs that tests start: none of those that systems give to connections, which come and go all the time.

A port of that range, found free and closed again, may belong to any connection of this computer by the time a program
has started. https://www.iana.org/assignments/port-numbers ; Linux begins with 32768, macOS and Windows with 49152.
"""

import socket
from secrets import randbelow

LOWEST, COUNT = 20_000, 12_000


def free_port() -> int:
    """Return a port of this computer on which nothing listens. Chosen at random: other tests look for theirs."""
    while True:
        port = LOWEST + randbelow(COUNT)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
