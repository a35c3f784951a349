"""One file behind a hub's address, handed to the system to send, so that what is measured is who receives it.

python -m tests.bench.file_server PORT FILE
"""

import os
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

RANGE = re.compile(r"bytes=(\d+)-(\d*)$")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/health":
            self.begin(200, 0, {})
            return
        file = Path(sys.argv[2])
        size, asked_range = file.stat().st_size, RANGE.match(self.headers.get("Range", ""))
        start, end = (int(asked_range[1]), int(asked_range[2] or size - 1) + 1) if asked_range else (0, size)
        headers = {"Content-Range": f"bytes {start}-{end - 1}/{size}"} if asked_range else {}
        self.begin(206 if asked_range else 200, end - start, {"ETag": '"same"', **headers})
        with file.open("rb") as content:
            try:
                self.send_part(content, start, end)
            except OSError:  # whoever asked has enough
                self.close_connection = True

    def send_part(self, content: BinaryIO, start: int, end: int) -> None:
        if sys.platform == "win32":  # which has no sendfile
            content.seek(start)
            self.wfile.write(content.read(end - start))
            return
        while start < end:
            start += os.sendfile(self.connection.fileno(), content.fileno(), start, end - start)

    def begin(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
        """Stay silent."""


if __name__ == "__main__":
    ThreadingHTTPServer.daemon_threads = True
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
