"""Another program's server, run inside its own environment so that it ends with us and opens to nobody without the key.

    python -P -m engines.foreign_worker MODULE ARGUMENTS...

Most engines have a server in Python on uvicorn. Their own keys are in argv for every user to read, leave half of the
routes open, or do not exist. Here the key comes by the environment and guards every route but `GET /health`, and the
module then runs as if it had been started by itself. Standard library only, beside what the engine brings.
"""

import hmac
import importlib
import json
import os
import runpy
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from engines import worker_base

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]

_HEALTH = "/health"
_READING = frozenset({"GET", "HEAD"})
_REFUSAL = json.dumps(
    {
        "error": {
            "message": "This engine accepts requests from its gateway only.",
            "type": "authentication_error",
            "code": 401,
        }
    }
).encode()


def main() -> None:
    """Guard what uvicorn will serve, then become the module that was named."""
    module, *arguments = sys.argv[1:]
    end_group_with_lifeline()
    worker_base.hold_lifeline()
    key = os.environ.pop(worker_base.KEY_VARIABLE, "")
    listener = take_listener(os.environ.pop(worker_base.LISTENER_VARIABLE, ""))
    try:
        if listener is None or ANSWERS_NOBODY not in os.environ:
            guard_uvicorn(key)
        if listener is not None:
            use_listener(listener)
    except ImportError as error:
        sys.stderr.write(f"worker: {type(error).__name__}: {error}\n")
        sys.exit(worker_base.ExitCode.MISSING_PACKAGE)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def end_group_with_lifeline() -> None:
    """Have a process beside us kill our group when the lifeline ends. Nothing where the group is not ours alone.

    vLLM's engine core and its workers are processes of their own: they outlive a server that is killed, and hold the
    GPU's memory. The one that waits is no child of ours, since servers end and count theirs.
    """
    if sys.platform == "win32" or os.getpgrp() != os.getpid():  # a job object does it there
        return
    between = os.fork()
    if between:
        os.waitpid(between, 0)
    elif os.fork():
        os._exit(0)
    else:
        _kill_group_at_end(0)


def _kill_group_at_end(lifeline: int) -> None:
    if sys.platform == "win32":  # a group is POSIX's
        return
    for signal_number in (
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
    ):  # sent to the group, for the server to end in peace
        signal.signal(signal_number, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # whoever reads them waits for their end
        os.dup2(nowhere, stream)
    while os.read(lifeline, 4096):
        pass
    os.killpg(0, signal.SIGKILL)


ANSWERS_NOBODY = "ROUNDHOUSE_ANSWERS_NOBODY"
"""Set for a process that holds a part of a model and serves no requests: that it listens says that it was started."""


def take_listener(descriptor: str) -> socket.socket | None:
    """Return the socket that the launcher made outside this network, if it made one."""
    return socket.socket(fileno=int(descriptor)) if descriptor else None


def use_listener(listener: socket.socket) -> None:
    """Have uvicorn serve on this socket instead of its own. Raises ImportError without uvicorn."""
    if ANSWERS_NOBODY in os.environ:
        listener.listen()
        _KEPT.append(listener)
        return
    server = importlib.import_module("uvicorn").Server
    start = server.startup

    async def start_on_listener(self: Any, sockets: object = None) -> None:  # noqa: ANN401 -- uvicorn's, as above
        del sockets  # in a network where nobody would reach them
        await start(self, sockets=[listener])

    server.startup = start_on_listener


_KEPT: list[socket.socket] = []
"""What is to stay open."""


def guard_uvicorn(key: str) -> None:
    """Make every application that uvicorn loads from now on ask for the key. Raises ImportError without uvicorn."""
    config = importlib.import_module("uvicorn.config").Config
    load = config.load

    def load_guarded(self: Any) -> None:  # noqa: ANN401 -- uvicorn's, which is not there to type-check against
        load(self)
        self.loaded_app = require_key(self.loaded_app, key)

    config.load = load_guarded


def require_key(app: App, key: str) -> App:
    """Return the application behind the key. An empty key opens to nobody.

    Whether it is up is told without one, as these servers and llama.cpp's do by themselves: routers such as smg ask so.
    """
    authorization = f"Bearer {key}".encode()

    async def answer(
        scope: Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["type"] == "lifespan" or (key and (_carries(scope, authorization) or _asks_for_health(scope))):
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _refuse(send)

    return answer


def _carries(scope: Scope, authorization: bytes) -> bool:
    sent_values = [text for name, text in scope["headers"] if name == b"authorization"]
    return len(sent_values) == 1 and hmac.compare_digest(sent_values[0], authorization)


def _asks_for_health(scope: Scope) -> bool:
    """Whether that is all. With another key it is refused: who sends one asks whether this is a certain server."""
    has_key = any(name == b"authorization" for name, _ in scope["headers"])
    return scope["type"] == "http" and scope["path"] == _HEALTH and scope["method"] in _READING and not has_key


async def _refuse(send: Callable[[Any], Awaitable[None]]) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(_REFUSAL)).encode())]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": _REFUSAL})


if __name__ == "__main__":
    main()
