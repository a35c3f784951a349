"""The made-up engine's server: `python -m engines.made_up.server PORT ...`. It has one answer."""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "Made up."


def piece(model: str, delta: dict[str, str], reason: str | None) -> str:
    """Return one event of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return json.dumps({"id": "1", "object": "chat.completion.chunk", "created": 0, "model": model, "choices": [choice]})


def whole(model: str) -> str:
    """Return the answer at once."""
    choice = {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    document = {"id": "1", "object": "chat.completion", "created": 0, "model": model, "usage": usage}
    return json.dumps({**document, "choices": [choice]})


class Handler(BaseHTTPRequestHandler):
    """Answers chats, and tells one gauge."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._answer(b"made_up_waiting 7\n", "text/plain")
        else:
            self._answer(b"{}", "application/json")

    def do_POST(self) -> None:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != f"Bearer {os.environ['MADE_UP_KEY']}":
            self.send_error(401)
            return
        if body.get("stream"):
            events = [piece(body["model"], {"content": ANSWER}, None), piece(body["model"], {}, "stop"), "[DONE]"]
            self._answer("".join(f"data: {event}\n\n" for event in events).encode(), "text/event-stream")
        else:
            self._answer(whole(body["model"]).encode(), "application/json")

    def _answer(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    """Serve until standard input is closed."""
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
