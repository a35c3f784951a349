"""A small hub on this machine: serves files with or without ranges, and misbehaves on request."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RANGE = re.compile(r"bytes=(\d+)-(\d+)$")


@dataclass
class Hub:
    """What is served, by path, and what was asked for."""

    files: dict[str, bytes] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    """Sent instead of those that would be."""
    ranges: bool = True
    endless: bool = False
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Path and range of each request."""
    tokens: list[str | None] = field(default_factory=list)
    sent_bytes: int = 0
    url: str = ""


@contextmanager
def serve_ranges(hub: Hub) -> Iterator[Hub]:
    """Serve on a free port until the block ends; `hub.url` is the endpoint."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self, hub)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(request: BaseHTTPRequestHandler, hub: Hub) -> None:
    path = request.path
    range_header = request.headers.get("Range", "")
    hub.requests.append((path, range_header))
    hub.tokens.append(request.headers.get("Authorization"))
    if path in hub.redirects:
        send(request, hub, 302, b"", {"Location": hub.redirects[path]})
    elif path in hub.statuses or path not in hub.files:
        send(request, hub, hub.statuses.get(path, 404), b"", {})
    else:
        send_file(request, hub, hub.files[path], RANGE.match(range_header))


def send_file(request: BaseHTTPRequestHandler, hub: Hub, content: bytes, byte_range: re.Match[str] | None) -> None:
    if hub.endless:
        send(request, hub, 200, content, {"Content-Length": str(1 << 40)})
        pour(request, hub)
    elif byte_range is None or not hub.ranges:
        send(request, hub, 200, content, {})
    else:
        start, end = int(byte_range[1]), min(int(byte_range[2]), len(content) - 1)
        if start > end:
            send(request, hub, 416, b"", {})
            return
        send(request, hub, 206, content[start : end + 1], {"Content-Range": f"bytes {start}-{end}/{len(content)}"})


def send(request: BaseHTTPRequestHandler, hub: Hub, status: int, body: bytes, headers: dict[str, str]) -> None:
    request.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers, **hub.headers}.items():
        request.send_header(name, value)
    request.end_headers()
    try:
        request.wfile.write(body)
        hub.sent_bytes += len(body)
    except OSError:
        request.close_connection = True


def pour(request: BaseHTTPRequestHandler, hub: Hub) -> None:
    try:
        while True:
            request.wfile.write(bytes(1 << 16))
            hub.sent_bytes += 1 << 16
    except OSError:
        request.close_connection = True
