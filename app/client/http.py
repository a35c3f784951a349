"""Typed calls to a gateway: one request, one decoded reply, or a stream of events.

Synchronous and on the standard library, so that the command line starts fast; `http.client`, a third of what a command
imports, comes with the first call, so that a gateway can be started before. An error reply is raised as the same error
the gateway raised.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote, urlsplit

import msgspec

from app.core.api import PREFIX, PortFile
from app.core.errors import (
    BadRequest,
    Bug,
    Conflict,
    EngineFailed,
    ErrorBody,
    Forbidden,
    GatewayGone,
    NotFound,
    RoundhouseError,
    StorageFault,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from app.core.recordings import FormContent

if TYPE_CHECKING:
    import http.client

T = TypeVar("T")

_KINDS: tuple[type[RoundhouseError], ...] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    Conflict,
    TooLarge,
    StorageFault,
    EngineFailed,
    Unavailable,
)
_BY_STATUS = {kind.status: kind for kind in _KINDS}


class GatewayClient:
    """A connection to one gateway. Each call uses a connection of its own; nothing is kept open between calls."""

    def __init__(self, gateway: PortFile, *, timeout_s: float = 10.0) -> None:
        self.gateway = gateway
        self._timeout_s = timeout_s

    def get(self, path: str, reply: type[T], *, timeout_s: float | None = None) -> T:
        """Return the decoded reply to a GET below the API prefix; `timeout_s` as for `post`."""
        return self._call_gateway("GET", path, None, reply, timeout_s=timeout_s)

    def post(self, path: str, body: object, reply: type[T], *, timeout_s: float | None = None) -> T:
        """Send `body` as JSON, or bytes as they are; with `timeout_s` wait that long for the reply."""
        return self._call_gateway("POST", path, body, reply, timeout_s=timeout_s)

    def patch(self, path: str, body: object, reply: type[T], *, timeout_s: float | None = None) -> T:
        """Send a partial change as JSON; `timeout_s` as in `post`."""
        return self._call_gateway("PATCH", path, body, reply, timeout_s=timeout_s)

    def delete(self, path: str) -> None:
        """Delete what `path` names."""
        with self._send_request("DELETE", path, None, self._timeout_s) as response:
            response.read()

    def stream_events(self, path: str, event: Any, *, timeout_s: float | None = None) -> Iterator[Any]:  # noqa: ANN401 -- msgspec decodes unions, which no type variable can name
        """Yield the events of a server-sent-events route, each decoded as `event` (a tagged union)."""
        decoder = msgspec.json.Decoder(event)
        with self._send_request("GET", path, None, timeout_s) as response:
            for data in event_data(response):
                yield decoder.decode(data)

    def _call_gateway(
        self, method: str, path: str, body: object, reply: type[T], *, timeout_s: float | None = None
    ) -> T:
        with self._send_request(method, path, body, timeout_s or self._timeout_s) as response:
            data = response.read()
        return decode_reply(data, reply)

    @contextmanager
    def _send_request(
        self, method: str, path: str, body: object, timeout_s: float | None
    ) -> "Iterator[http.client.HTTPResponse]":
        import http.client  # noqa: PLC0415 -- see above

        where = urlsplit(self.gateway.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=timeout_s)
        content = encode_body(body)
        headers = {"Authorization": f"Bearer {self.gateway.token}", "Content-Type": content.content_type}
        try:
            connection.request(method, full_path(path), None if body is None else content.body, headers)
            response = connection.getresponse()
            if response.status >= HTTPStatus.BAD_REQUEST:
                raise error_from(response.status, response.read())
            yield response
        except (OSError, http.client.HTTPException) as error:
            raise GatewayGone(
                "Roundhouse's service did not answer.", hint="`roundhouse up` starts it.", detail=str(error)
            ) from error
        finally:
            connection.close()


def encode_body(body: object) -> FormContent:
    """Return a body as it is sent: a form and bytes as they are, nothing as no bytes, all else as JSON."""
    if isinstance(body, FormContent):
        return body
    if isinstance(body, bytes):
        return FormContent(body, "application/octet-stream")
    return FormContent(b"" if body is None else msgspec.json.encode(body), "application/json")


def full_path(path: str) -> str:
    """Return a path below the API prefix in full; those of the public endpoint (`/v1/`) are in full already."""
    return path if path.startswith("/v1/") else PREFIX + path


def decode_reply(data: bytes, kind: type[T]) -> T:
    """Return a reply as `kind`; bytes are a file as it is. Raises msgspec.MsgspecError."""
    return cast("T", data) if kind is bytes else msgspec.json.decode(data or b"null", type=kind)


def quote_segment(name: str) -> str:
    """Return `name` as one path segment: model names may hold slashes and colons."""
    return quote(name, safe="")


def error_from(status: int, data: bytes) -> RoundhouseError:
    """Return the error an error reply stands for; a body that is none of ours becomes a Bug with its text."""
    try:
        body = _error_body(data)
    except msgspec.MsgspecError:
        return Bug(f"The service answered {status}.", detail=data[:500].decode("utf-8", "replace"))
    kind = _BY_STATUS.get(status, Bug)
    return kind(body.sentence, hint=body.hint, code=body.code, detail=body.detail)


class _EndpointError(msgspec.Struct, frozen=True):
    message: str
    code: str | None = None


class _EndpointRefusal(msgspec.Struct, frozen=True):
    error: _EndpointError


def _error_body(data: bytes) -> ErrorBody:
    """Return the error of our own API, or of the public endpoint, which says it in OpenAI's form."""
    try:
        return msgspec.json.decode(data, type=ErrorBody)
    except msgspec.ValidationError:
        error = msgspec.json.decode(data, type=_EndpointRefusal).error
        return ErrorBody(code=error.code or "endpoint", sentence=error.message)


def event_data(lines: "Iterator[bytes] | http.client.HTTPResponse") -> Iterator[bytes]:
    """Yield the data of each server-sent event; comments and unknown fields are skipped."""
    data: list[bytes] = []
    for raw in lines:
        line = raw.rstrip(b"\r\n")
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data)
            data = []
