"""What Python runs first in every program that `tests.gateway.outside` starts: writes down each name that is looked up
and each address that is connected to, and has names that end in .outside.test lead here, so that they count as outside.
"""

import json
import os
import socket
import sys
from typing import Any

OUTSIDE = ".outside.test"
_file = os.open(os.environ["WATCHED_CONNECTIONS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
_resolve = socket.getaddrinfo


def _write(what: str, where: Any) -> None:  # noqa: ANN401 -- as the audit hook has it
    os.write(_file, json.dumps([what, where], default=repr).encode() + b"\n")


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        _write("connect", args[1])
    elif event in {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}:
        _write("lookup", args[0])


def _lead_here(host: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401 -- socket's own
    name = host.decode() if isinstance(host, bytes) else host
    if isinstance(name, str) and name.endswith(OUTSIDE):
        _write("lookup", name)
        host = "127.0.0.1"
    return _resolve(host, *args, **options)


sys.addaudithook(_hear)
socket.getaddrinfo = _lead_here
