"""What Python runs first in every program that `tests.gateway.outside` starts: writes down each name that is looked up
and each address that is connected to, and has names that end in .outside.test lead here, so that they count as outside.
"""

import json
import os
import socket
import sys
from functools import partial
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


def _hear_uvloop() -> None:
    """Have uvloop, which is C and has no audit events, look names up in Python and say what it connects to."""
    try:
        from uvloop import Loop  # noqa: PLC0415 -- only the gateway's environment has it
    except ImportError:
        return
    loop_class: Any = Loop
    connect = Loop.create_connection

    async def look_up(loop: Any, host: Any, port: Any, **options: int) -> Any:  # noqa: ANN401 -- uvloop's own
        return await loop.run_in_executor(None, partial(socket.getaddrinfo, host, port, **options))

    async def create_connection(loop: Any, protocol: Any, host: Any = None, port: Any = None, **options: Any) -> Any:  # noqa: ANN401
        if host is not None:
            host = (await look_up(loop, host, port, type=socket.SOCK_STREAM))[0][4][0]
            _write("connect", [host, port])
        return await connect(loop, protocol, host, port, **options)

    loop_class.getaddrinfo, loop_class.create_connection = look_up, create_connection


_hear_uvloop()
