"""What is put before MLX-LM's request handler: the key, a pinned model, honest health, errors in OpenAI's form, limits.

Standard library only; `mlx_lm.server.APIHandler` is mixed in by the worker.
"""

import dataclasses
import hmac
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from engines.serving.backend import share_time

_Handler: Any = object
"""`mlx_lm.server.APIHandler` follows in the order of methods; it is not there to type-check against."""
_REFUSED_FIELDS = {
    "adapters": "Adapters are chosen when a model is loaded, not in a request.",
    "draft_model": "A draft model is chosen when a model is loaded, not in a request.",
}
_CLIENTS_FAULT = (ValueError, TypeError, KeyError)


def is_loaded(generator: Any) -> bool:  # noqa: ANN401 -- mlx_lm has no types here
    """Say whether requests can be answered: the key of a model is set after everything of it is there."""
    return bool(generator.generation_available()) and generator.model_provider.model_key is not None


class GuardedHandler(_Handler):  # type: ignore[misc]  # Any: what is mixed in has no types
    """What is put before `mlx_lm.server.APIHandler`. Subclasses set the three values of a launch."""

    key = ""
    served_name = ""
    context: int | None = None
    response_generator: Any
    wfile: Any

    def do_GET(self) -> None:  # noqa: N802 -- http.server names it
        """Answer health to everybody, the rest to whoever has the key."""
        if self.path == "/health" or self._is_allowed():
            super().do_GET()

    def do_POST(self) -> None:  # noqa: N802 -- http.server names it
        """Answer whoever has the key."""
        if self._is_allowed():
            super().do_POST()

    def do_OPTIONS(self) -> None:  # noqa: N802 -- http.server names it
        """Refuse: no page of a browser talks to an engine."""
        self._send_refusal(401, "This engine accepts requests from its gateway only.", "authentication_error")

    def handle_health_check(self) -> None:
        """Say ok once the model is loaded, and not before."""
        is_well = is_loaded(self.response_generator)
        self._set_completion_headers(200 if is_well else 503)
        self.end_headers()
        self.wfile.write(json.dumps({"status": "ok" if is_well else "loading"}).encode())

    def handle_models_request(self) -> None:
        """List the model that is loaded, not every folder of a cache."""
        document = {"object": "list", "data": [{"id": self.served_name, "object": "model", "created": self.created}]}
        self._set_completion_headers(200)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def validate_model_parameters(self) -> None:
        """Check the fields as mlx_lm does, and pin the model."""
        super().validate_model_parameters()
        _refuse_fields(self.body)
        self.requested_model, self.requested_draft_model = "default_model", "default_model"

    def handle_completion(self, request: Any, stop_words: list[str]) -> None:  # noqa: ANN401 -- untyped
        """Answer, and stop when the client has gone."""
        inner = self.response_generator
        self.response_generator = WatchedGenerator(inner, self, self.context)
        try:
            super().handle_completion(request, stop_words)
        except _ClientGone:
            self.close_connection = True
        finally:
            self.response_generator = inner

    def generate_response(self, *given: Any, **named: Any) -> dict[str, Any]:  # noqa: ANN401 -- untyped
        """Return a piece in the words of the other engines."""
        return _in_our_words(super().generate_response(*given, **named), self.served_name)

    def completion_usage_response(self, *given: Any) -> dict[str, Any]:  # noqa: ANN401 -- untyped
        """Return the usage in the words of the other engines."""
        return _in_our_words(super().completion_usage_response(*given), self.served_name)

    def _set_completion_headers(self, status_code: int = 200) -> None:
        status = self.response_generator.status(status_code) if self._is_answering() else status_code
        super()._set_completion_headers(status)
        if status >= 400:  # noqa: PLR2004 -- HTTP: errors begin here
            self.wfile = _ErrorEnvelope(self.wfile, status)

    def _is_answering(self) -> bool:
        return isinstance(self.response_generator, WatchedGenerator)

    def _is_allowed(self) -> bool:
        authorization = (self.headers.get("Authorization") or "").encode()
        if self.key and hmac.compare_digest(authorization, f"Bearer {self.key}".encode()):
            return True
        self._send_refusal(401, "This engine accepts requests from its gateway only.", "authentication_error")
        return False

    def _send_refusal(self, status: int, message: str, kind: str) -> None:
        body = json.dumps({"error": {"message": message, "type": kind, "code": status}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_given: object) -> None:
        """Write no line for every request: the gateway has its own record."""


class _ClientGone(Exception):
    """The client went away."""


class WatchedGenerator:
    """The generator as one request sees it: watches the client, keeps to the context, remembers whose fault it was."""

    def __init__(self, generator: Any, handler: Any, context: int | None) -> None:  # noqa: ANN401 -- untyped
        self._generator, self._handler, self._context = generator, handler, context
        self._error: Exception | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- passes on what mlx_lm asks of its own object
        return getattr(self._generator, name)

    def generate(self, request: Any, arguments: Any, progress_callback: Any = None) -> tuple[Any, Iterator[Any]]:  # noqa: ANN401
        """Begin an answer. Raises what mlx_lm raises, and ValueError for a prompt that fills the context."""
        try:
            generation, pieces = self._generator.generate(request, arguments, self._watch_progress(progress_callback))
            room = self._context_room(generation)
        except Exception as error:
            self._error = error
            raise
        return generation, self._follow_pieces(generation, pieces, room)

    def status(self, intended_status: int) -> int:
        """Return the status for what mlx_lm answers with `intended_status`: it says 404 whatever happened."""
        if self._error is None:
            return intended_status
        return 400 if isinstance(self._error, _CLIENTS_FAULT) or _is_templates(self._error) else 500

    def _context_room(self, generation: Any) -> int | None:  # noqa: ANN401 -- untyped
        if self._context is None:
            return None
        used_tokens = len(generation.prompt)
        if used_tokens >= self._context:
            generation.stop()
            raise ValueError(
                f"The request has {used_tokens} tokens, and the context holds {self._context} "
                "(exceed_context_size_error)."
            )
        return self._context - used_tokens

    def _watch_progress(self, callback: Any) -> Callable[[int, int], None]:  # noqa: ANN401 -- untyped
        def watch_progress(read_tokens: int, total: int) -> None:
            self._check_client()
            if callback is not None:
                callback(read_tokens, total)

        return watch_progress

    def _follow_pieces(self, generation: Any, pieces: Iterator[Any], room: int | None) -> Iterator[Any]:  # noqa: ANN401
        """Pass an answer's tokens on, those that come within `share_time` together: each costs an event of its own."""
        held_pieces: list[Any] = []
        due_at = 0.0
        try:
            for count, piece in enumerate(pieces, start=1):
                is_cut = count == room and piece.finish_reason is None
                held_pieces.append(dataclasses.replace(piece, finish_reason="length") if is_cut else piece)
                now = time.perf_counter()
                if held_pieces[-1].finish_reason is None and now < due_at:
                    continue
                self._check_client()
                yield from _gather_text(held_pieces)
                held_pieces.clear()
                due_at = now + share_time(threading.active_count())  # each connection has a thread
                if is_cut:
                    return
            self._check_client()
            yield from _gather_text(held_pieces)
        finally:
            generation.stop()

    def _check_client(self) -> None:
        """Raise when the client has closed its end; a request without a stream would never notice."""
        connection = self._handler.connection
        readable, _, _ = select.select([connection], [], [], 0)
        if readable and not connection.recv(1, socket.MSG_PEEK):
            raise _ClientGone


class _ErrorEnvelope:
    """A way out that gives errors OpenAI's form: mlx_lm writes {"error": "text"} or plain text."""

    def __init__(self, out: Any, status: int) -> None:  # noqa: ANN401 -- socketserver's writer
        self._out, self._status = out, status
        self._is_head = True

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- passes on what http.server asks of its own object
        return getattr(self._out, name)

    def write(self, data: bytes) -> int:
        """Pass the head on, and what follows in its form."""
        if self._is_head:
            self._is_head = False
            return int(self._out.write(data))
        return int(self._out.write(error_body(data, self._status)))


def error_body(data: bytes, status: int) -> bytes:
    """Return an error in OpenAI's form."""
    try:
        message = json.loads(data)["error"]
    except (ValueError, KeyError, TypeError):
        message = data.decode(errors="replace")
    kind = "invalid_request_error" if status < 500 else "server_error"  # noqa: PLR2004 -- HTTP: the server's own
    if "exceed_context_size_error" in str(message):
        kind = "exceed_context_size_error"
    return json.dumps({"error": {"message": str(message), "type": kind, "code": status}}).encode()


def _gather_text(pieces: Sequence[Any]) -> Sequence[Any]:
    """Return the pieces with the text of all in the last; what comes with a stop is not shown, and stays apart."""
    if not pieces:
        return []
    *before, last = pieces
    if last.finish_reason == "stop":
        return [*_gather_text(before), last]
    text = "".join(piece.text for piece in pieces)
    return [*(dataclasses.replace(piece, text="") for piece in before), dataclasses.replace(last, text=text)]


def _refuse_fields(body: dict[str, Any]) -> None:
    """Raise ValueError for fields it would act on behind our back, or pass over."""
    for field, sentence in _REFUSED_FIELDS.items():
        if body.get(field) is not None:
            raise ValueError(sentence)
    shape = (body.get("response_format") or {}).get("type", "text")
    if shape != "text":
        raise ValueError("MLX-LM cannot keep an answer to a given format.")


def _is_templates(error: Exception) -> bool:
    return type(error).__module__.startswith("jinja2")


def _in_our_words(payload: dict[str, Any], served_name: str) -> dict[str, Any]:
    """Name the model as clients do, and reasoning as everybody else does."""
    payload["model"] = served_name
    for choice in payload["choices"]:
        for part in (choice.get("delta"), choice.get("message")):
            if part and "reasoning" in part:
                part["reasoning_content"] = part.pop("reasoning")
    return payload
