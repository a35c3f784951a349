"""Runs vllm-router inside its own environment, with a judge of keys beside it: it has no key of its own to ask for.

Its interpreter lock is held while it serves, so the judge is a process of its own.
"""

import hmac
import os
import socket
import sys
import urllib.error
import urllib.request
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from typing import Any

from engines import worker_base
from engines.smg.worker import HEALTH_S, WEEK_S, find_free_port


def serve(launch: worker_base.WorkerLaunch) -> None:
    """Start the router and return when it ended. Raises RuntimeError where no replica answers."""
    worker_base.emit("progress", stage="Starting", fraction=None)
    judge_url = start_judge(str(launch.config["host"]), launch.key)
    router: Any = import_module("vllm_router.router")
    arguments: Any = import_module("vllm_router.router_args")
    choices = build_arguments(launch)
    worker_base.emit("metrics", port=choices["prometheus_port"])
    settings = arguments.RouterArgs(**choices)
    settings.api_key_validation_urls = [judge_url]  # the library has it, its command line does not
    router.Router.from_args(settings).start()


def build_arguments(launch: worker_base.WorkerLaunch) -> dict[str, object]:
    """Return its own names for what it is told. Raises RuntimeError where no replica answers.

    It waits at its start for every replica that it knows: those that do not answer yet are added by the gateway.
    """
    replicas = launch.config["replicas"]
    ready = [url for url in replicas if answers(str(url))] if isinstance(replicas, list) else []
    if not ready:
        raise RuntimeError("none of the replicas answers")
    return {
        "host": launch.config["host"],
        "port": launch.config["port"],
        "policy": launch.config["policy"],
        "worker_urls": ready,
        "api_key": launch.key,
        "prometheus_host": launch.config["host"],
        "prometheus_port": find_free_port(str(launch.config["host"])),
        "worker_startup_check_interval": 1,
        "health_check_interval_secs": HEALTH_S,
        "health_check_timeout_secs": HEALTH_S,
        "request_timeout_secs": WEEK_S,
    }


def answers(url: str) -> bool:
    """Tell whether a replica says anything at all."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/health", timeout=HEALTH_S):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


class KeyJudge(BaseHTTPRequestHandler):
    """Answers 200 to whoever shows the key. `key` is set on a subclass."""

    key = ""

    def do_GET(self) -> None:
        """Judge the key of one request."""
        shown_header = self.headers.get("Authorization", "").encode()
        is_right = hmac.compare_digest(shown_header, f"Bearer {self.key}".encode())
        self.send_response(HTTPStatus.OK if is_right else HTTPStatus.UNAUTHORIZED)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        """Say nothing: a line for each request is none of the router's log."""


def start_judge(host: str, key: str) -> str:
    """Start a process that judges keys and ends with this one, and return its address."""
    if sys.platform == "win32":  # there are no wheels for it
        raise RuntimeError("vllm-router does not run on Windows")
    judge = HTTPServer((host, 0), type("Judge", (KeyJudge,), {"key": key}))
    judge.socket.listen(socket.SOMAXCONN)
    if os.fork() == 0:
        worker_base.hold_lifeline()
        judge.serve_forever()
    judge.socket.close()
    return f"http://{host}:{judge.server_port}/"


if __name__ == "__main__":
    worker_base.run(serve)
