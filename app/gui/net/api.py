"""Calls to the gateway's own API from the window: typed, cancellable, answered by callbacks in the one thread there is.

Every call ends in exactly one callback, or in none after `cancel()`. Nothing here waits.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from PySide6.QtCore import QByteArray, QObject, QTimer, QUrl, Signal
from PySide6.QtNetwork import (
    QHttp1Configuration,
    QNetworkAccessManager,
    QNetworkProxy,
    QNetworkReply,
    QNetworkRequest,
)

from app.client.http import decode_reply, encode_body, error_from, full_path
from app.core.errors import ErrorBody
from app.core.translation import tr
from app.gui.net.sse import SseParser

if TYPE_CHECKING:
    from app.core.api import PortFile

T = TypeVar("T")
ErrorHandler = Callable[[ErrorBody], object]
Decoded = Any
"""A value of the type a caller named: `msgspec` decodes unions and generics, which no type variable can name."""

_log = logging.getLogger(__name__)
_CONNECTIONS = 24
"""Streams keep theirs open; Qt's usual six would leave none for calls."""
_ERROR_STATUS = 400


class GatewayCall:
    """A request under way. Letting go of it changes nothing; `cancel()` stops it and silences its callbacks."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self._reply: QNetworkReply | None = None

    def attach_reply(self, reply: QNetworkReply) -> None:
        """Remember what to abort."""
        self._reply = reply

    def cancel(self) -> None:
        """Stop the request. Calling it again, or after the end, does nothing."""
        self.is_cancelled = True
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.abort()

    def drop_reply(self) -> None:
        """Forget the reply: it is over."""
        self._reply = None


class GatewayApi(QObject):
    """The gateway, as the window sees it. Tests and screenshots replace `send_request`, `open_stream` and `defer`."""

    idle = Signal()
    """The last call under way was answered; streams do not count."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.gateway: PortFile | None = None
        self._is_closed = False
        self._open_calls: set[GatewayCall] = set()
        self._open_streams: set[GatewayCall] = set()
        self._network = QNetworkAccessManager(self)
        self._network.setProxy(QNetworkProxy(QNetworkProxy.ProxyType.NoProxy))

    @property
    def under_way(self) -> int:
        """How many calls were not answered yet; streams do not count."""
        return len(self._open_calls)

    def close(self) -> None:
        """Silence everything under way, and ask nothing more: whoever asks is about to go."""
        self._is_closed = True
        for call in (*self._open_calls, *self._open_streams):
            call.cancel()

    @property
    def endpoint(self) -> str:
        """Base URL other programs use; empty before the gateway was found."""
        return self.gateway.url if self.gateway else ""

    def get(
        self, path: str, kind: type[T], then: Callable[[T], object], on_error: ErrorHandler | None = None
    ) -> GatewayCall:
        """Read what `path` (below the API prefix) names."""
        return self.send_request("GET", path, None, kind=kind, then=then, on_error=on_error)

    def post(
        self,
        path: str,
        body: object,
        *,
        kind: type[T],
        then: Callable[[T], object],
        on_error: ErrorHandler | None = None,
    ) -> GatewayCall:
        """Send `body` as JSON, bytes and forms as they are. What answers with nothing has the kind `NoneType`."""
        return self.send_request("POST", path, body, kind=kind, then=then, on_error=on_error)

    def patch(
        self,
        path: str,
        body: object,
        *,
        kind: type[T],
        then: Callable[[T], object],
        on_error: ErrorHandler | None = None,
    ) -> GatewayCall:
        """Send a partial change as JSON."""
        return self.send_request("PATCH", path, body, kind=kind, then=then, on_error=on_error)

    def delete(self, path: str, then: Callable[[], object], on_error: ErrorHandler | None = None) -> GatewayCall:
        """Delete what `path` names."""
        return self.send_request("DELETE", path, None, kind=type(None), then=lambda _: then(), on_error=on_error)

    def send_request(  # noqa: PLR0913 -- the one place all five kinds of call meet
        self,
        method: str,
        path: str,
        body: object,
        *,
        kind: type[T],
        then: Callable[[T], object],
        on_error: ErrorHandler | None,
    ) -> GatewayCall:
        """Make one request and answer with `then` or `failed`, never before this returns."""
        call = GatewayCall()
        if self._is_closed:
            return call
        reply = self._start_request(method, path, body)
        call.attach_reply(reply)
        self._open_calls.add(call)

        def finish_call() -> None:
            call.drop_reply()
            reply.deleteLater()
            if not call.is_cancelled:
                _answer_call(reply, kind, then, on_error or _log_failure)
            self._open_calls.discard(call)
            if not self._open_calls:
                self.idle.emit()

        reply.finished.connect(finish_call)
        return call

    def open_stream(
        self, path: str, types: Decoded, on_event: Callable[[Decoded], object], on_end: Callable[..., object]
    ) -> GatewayCall:
        """Follow a server-sent-events route, each event decoded as one of `types` (a tagged union).

        `on_end(None)` when the gateway closes it, `on_end(ErrorBody)` when it breaks. Events of a kind this window
        does not know are passed over.
        """
        call = GatewayCall()
        if self._is_closed:
            return call
        parser = SseParser()
        decoder = msgspec.json.Decoder(types)
        reply = self._start_request("GET", path, None)
        call.attach_reply(reply)
        self._open_streams.add(call)

        def read_events() -> None:
            if _status_of(reply) >= _ERROR_STATUS:
                return
            for data in parser.feed(_read_bytes(reply)):
                if call.is_cancelled:
                    return
                _deliver_event(decoder, data, on_event)

        def finish_stream() -> None:
            reply.deleteLater()
            self._open_streams.discard(call)
            if call.is_cancelled:
                return
            read_events()
            call.drop_reply()
            if not call.is_cancelled:
                on_end(_error_of(reply))

        reply.readyRead.connect(read_events)
        reply.finished.connect(finish_stream)
        return call

    def defer(self, owner: QObject, ask: Callable[[], object]) -> None:
        """Call `ask` once all that has arrived was handed on, as several events may ask; not if `owner` is gone."""
        QTimer.singleShot(0, owner, ask)

    def _start_request(self, method: str, path: str, body: object) -> QNetworkReply:
        base, token = (self.gateway.url, self.gateway.token) if self.gateway else ("http://127.0.0.1:9", "")
        content = encode_body(body)
        request = QNetworkRequest(QUrl(base + full_path(path)))
        request.setRawHeader(b"Authorization", f"Bearer {token}".encode())
        request.setRawHeader(b"Content-Type", content.content_type.encode())
        connections = QHttp1Configuration()
        connections.setNumberOfConnectionsPerHost(_CONNECTIONS)
        request.setHttp1Configuration(connections)
        return self._network.sendCustomRequest(request, method.encode(), QByteArray(content.body))


def _deliver_event(
    decoder: "msgspec.json.Decoder[Decoded]", data: bytes, on_event: Callable[[Decoded], object]
) -> None:
    try:
        event = decoder.decode(data)
    except msgspec.MsgspecError as error:
        _log.info("An event was passed over: %s", error)
        return
    on_event(event)


def _answer_call(reply: QNetworkReply, kind: type[T], then: Callable[[T], object], on_error: ErrorHandler) -> None:
    error = _error_of(reply)
    if error is not None:
        on_error(error)
        return
    try:
        value = decode_reply(_read_bytes(reply), kind)
    except msgspec.MsgspecError as wrong:
        on_error(ErrorBody(code="internal", sentence=tr("The service's answer could not be read."), detail=str(wrong)))
        return
    then(value)


def _error_of(reply: QNetworkReply) -> ErrorBody | None:
    if _status_of(reply) >= _ERROR_STATUS:
        return error_from(_status_of(reply), _read_bytes(reply)).body
    if reply.error() is QNetworkReply.NetworkError.NoError:
        return None
    return gateway_gone(reply.errorString())


def gateway_gone(detail: str = "") -> ErrorBody:
    """Return what is said when the gateway is not there any more."""
    return ErrorBody(
        code="gateway_gone",
        sentence=tr("Roundhouse's service did not answer."),
        hint=tr("It restarts by itself; if that does not help, see the log."),
        detail=detail,
    )


def _read_bytes(reply: QNetworkReply) -> bytes:
    return bytes(reply.readAll().data())


def _status_of(reply: QNetworkReply) -> int:
    return int(reply.attribute(QNetworkRequest.Attribute.HttpStatusCodeAttribute) or 0)


def _log_failure(error: ErrorBody) -> None:
    _log.warning("A call failed: %s", error.sentence)
