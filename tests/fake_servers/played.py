"""Plays the servers of engines that cannot run here: their log lines, when they listen, how they say they load, ends.

`PLAYED_END` is a file to write to standard error, and `PLAYED_CODE` the code to end with then.
"""

import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvicorn

GO = "PLAYED_GO"
"""A file: loading ends when it is there."""


class Server:
    """One engine: the lines of its load, and whether it listens while it loads."""

    def __init__(self, lines: Sequence[str], *, listens_early: bool = False, port: str = "--port") -> None:
        self.lines, self.listens_early, self.port_flag = lines, listens_early, port
        self.is_loaded = threading.Event()

    def play(self) -> None:
        """Behave as told."""
        end = os.environ.get("PLAYED_END")
        if end:
            sys.stderr.write(Path(end).read_text(encoding="utf-8"))
            sys.stderr.flush()
            os._exit(int(os.environ["PLAYED_CODE"]))
        if self.listens_early:
            threading.Thread(target=self._load, daemon=True).start()
        else:
            self._load()
        uvicorn.run(self.app, host="127.0.0.1", port=int(_after(self.port_flag)))

    async def app(self, scope: dict[str, Any], _receive: Any, send: Any) -> None:
        """Answer as OpenAI-shaped servers do."""
        status, body = self._reply(scope["path"])
        data = json.dumps(body).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    def _reply(self, path: str) -> tuple[int, object]:
        if not self.is_loaded.is_set():
            return 503, {"status": "starting"}
        if path == "/v1/models":
            return 200, {"object": "list", "data": [{"id": _served_name()}]}
        if path in {"/health", "/metrics"}:
            return 200, {"status": "healthy"}
        return 404, {"object": "error", "message": f"no route {path}", "code": 404}

    def _load(self) -> None:
        for line in self.lines:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        go = Path(os.environ[GO])
        while not go.exists():
            threading.Event().wait(0.01)
        self.is_loaded.set()


def _after(flag: str) -> str:
    return sys.argv[sys.argv.index(flag) + 1]


def _served_name() -> str:
    """Return the model's name; without a flag for it an engine calls it by its path."""
    for flag in ("--served-model-name", "--served_model_name", "--model-name"):
        if flag in sys.argv:
            return _after(flag)
    return sys.argv[2]
