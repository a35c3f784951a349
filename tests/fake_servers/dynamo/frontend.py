"""Plays `python -m dynamo.frontend`: it answers from the first second, and lists what workers have registered."""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def list_registered() -> list[str]:
    """Return the models that workers have put into the file they all know."""
    place = Path(os.environ["DYN_FILE_KV"])
    return [path.read_text(encoding="utf-8") for path in place.glob("*")] if place.is_dir() else []


class Frontend(BaseHTTPRequestHandler):
    """The routes that are asked before anything is written."""

    def do_GET(self) -> None:
        models = [
            {"id": name, "object": "model", "created": 1, "owned_by": "nvidia", "context_window": 512}
            for name in list_registered()
        ]
        body = {"object": "list", "data": models} if self.path == "/v1/models" else {"status": "healthy"}
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_what: object) -> None:
        """Say nothing of requests."""


def after(flag: str) -> str:
    """Return what follows a flag."""
    return sys.argv[sys.argv.index(flag) + 1]


if __name__ == "__main__":
    assert after("--discovery-backend") == "file", "the default is etcd, which nobody runs here"
    server = ThreadingHTTPServer((after("--http-host"), int(after("--http-port"))), Frontend)
    sys.stderr.write(
        "2026-11-22T14:57:36.604518Z  INFO dynamo_llm::http::service::service_v2: Starting HTTP(S) service "
        f'protocol="HTTP" address="127.0.0.1:{after("--http-port")}"\n'
    )
    sys.stderr.flush()
    server.serve_forever()
