"""A `GatewayApi` that answers from a table, when it is told to: `flush()` delivers what was asked for."""

from collections.abc import Callable
from typing import Any, TypeVar

from PySide6.QtCore import QObject

from app.core.api import PortFile
from app.core.errors import ErrorBody
from app.gui.net.api import ErrorHandler, GatewayApi, GatewayCall

T = TypeVar("T")
UNKNOWN = ErrorBody(code="not_found", sentence="There is nothing by that name.")


class DemoApi(GatewayApi):
    """Answers "METHOD /path" with the value in `replies`; an `ErrorBody` there is a failure.

    A callable in `replies` is given the body of the request and returns the value. `calls` keeps what was asked.
    """

    def __init__(self, replies: dict[str, object] | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.replies: dict[str, object] = dict(replies or {})
        self.calls: list[tuple[str, str, object]] = []
        self.streams: dict[str, tuple[Callable[..., object], Callable[..., object]]] = {}
        self._queue: list[Callable[[], object]] = []
        self.gateway = PortFile(pid=1, created_at=0.0, url="http://127.0.0.1:11434", token="", version="0")

    def send_request(  # noqa: PLR0913 -- as the method it replaces
        self,
        method: str,
        path: str,
        body: object,
        *,
        kind: type[T],
        then: Callable[[T], object],
        on_error: ErrorHandler | None,
    ) -> GatewayCall:
        """Keep the request until `flush`."""
        del kind
        call = GatewayCall()
        self.calls.append((method, path, body))

        def deliver_reply() -> None:
            if call.is_cancelled:
                return
            value: Any = self._find_reply(method, path, body)
            if not isinstance(value, ErrorBody):
                then(value)
            elif on_error is not None:
                on_error(value)

        self._queue.append(deliver_reply)
        return call

    def defer(self, owner: QObject, ask: Callable[[], object]) -> None:
        """Keep what is to be asked until `flush`."""
        del owner
        self._queue.append(ask)

    def open_stream(
        self, path: str, types: object, on_event: Callable[..., object], on_end: Callable[..., object]
    ) -> GatewayCall:
        """Remember who listens; `send_event` speaks to them until they cancel."""
        del types
        call = GatewayCall()
        event_callback, end_callback = (_unless_cancelled(call, callback) for callback in (on_event, on_end))
        self.streams[path] = (event_callback, end_callback)
        return call

    def send_event(self, path: str, event: object) -> None:
        """Send an event down a stream."""
        self.streams[path][0](event)

    def flush(self) -> None:
        """Answer everything that was asked, and what the answers ask in turn."""
        while self._queue:
            self._queue.pop(0)()

    def bodies_of(self, method: str, path: str) -> list[object]:
        """Return the bodies sent to a route so far."""
        return [body for verb, where, body in self.calls if (verb, where) == (method, path)]

    def _find_reply(self, method: str, path: str, body: object) -> object:
        key = f"{method} {path}"
        value = self.replies.get(key, self.replies.get(key.partition("?")[0], UNKNOWN))
        return value(body) if callable(value) else value


def _unless_cancelled(call: GatewayCall, callback: Callable[..., object]) -> Callable[..., object]:
    return lambda value: None if call.is_cancelled else callback(value)
