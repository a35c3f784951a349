"""An opener of urllib whose connections pass the door, redirects and proxies included, and whose bytes are counted.

The door stands at the connection, not at the request: what urllib does on its own is noted too. Behind a proxy the
host that is meant counts, not the proxy.
"""

import contextlib
import socket
import urllib.request
from functools import partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, Any, cast

from app.core.connections import Purpose
from app.network.egress import EgressCall, egress_gate
from app.network.pinned_tls import MachineAddress, check_peer
from app.network.reach import connect_soon

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def build_opener(purpose: Purpose, *handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """Return an opener for one purpose. Opening raises Offline beside what urllib raises."""
    return urllib.request.build_opener(_EgressHttpHandler(purpose), _EgressHttpsHandler(purpose), *handlers)


def build_machine_opener(purpose: Purpose, machine: MachineAddress) -> urllib.request.OpenerDirector:
    """Return an opener whose every https address is that of one paired machine: past proxies, redirected nowhere."""
    opener = urllib.request.OpenerDirector()
    for handler in (_MachineHandler(purpose, machine), urllib.request.HTTPErrorProcessor(), _NoErrorPages()):
        opener.add_handler(handler)
    return opener


class _EgressConnection(HTTPConnection):
    """Notes its connection when it is made, and has its answers count what comes."""

    def __init__(self, purpose: Purpose, *args: Any, **options: Any) -> None:  # noqa: ANN401 -- http.client's own
        super().__init__(*args, **options)
        self._purpose = purpose
        self._create_connection = connect_soon  # http.client's own waits for every address of a name in turn

    def connect(self) -> None:
        """Connect, if that is allowed. Raises Offline, OSError."""
        tunnelled_host: str | None = getattr(self, "_tunnel_host", None)
        call = egress_gate.note_call(tunnelled_host or self.host, self._target_port(), self._purpose)
        try:
            super().connect()
        except OSError:
            call.note_failure()
            raise
        self.response_class = cast("type[HTTPResponse]", partial(_ByteCountResponse, call))

    def _target_port(self) -> int:
        tunnelled_port: int | None = getattr(self, "_tunnel_port", None)
        return tunnelled_port or self.port


class _EgressTlsConnection(_EgressConnection, HTTPSConnection):
    """The same over TLS."""


class _MachineConnection(_EgressTlsConnection):
    """The same to a paired machine, whose certificate is compared before anything is sent."""

    def __init__(self, purpose: Purpose, machine: MachineAddress, _host: str, *, timeout: float) -> None:
        super().__init__(purpose, machine.address, machine.port, context=machine.context, timeout=timeout)
        self._fingerprint = machine.fingerprint

    def connect(self) -> None:
        """Connect. Raises Offline, OSError, UnpinnedPeerError among them."""
        super().connect()
        check_peer(self.sock, {self._fingerprint})


class _MachineHandler(urllib.request.HTTPSHandler):
    def __init__(self, purpose: Purpose, machine: MachineAddress) -> None:
        super().__init__()
        self._purpose, self._machine = purpose, machine

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(_MachineConnection, self._purpose, self._machine), req)


class _NoErrorPages(urllib.request.HTTPDefaultErrorHandler):
    """Raises HTTPError for what is no success, redirects among it."""


class _EgressHttpHandler(urllib.request.HTTPHandler):
    def __init__(self, purpose: Purpose) -> None:
        super().__init__()
        self._purpose = purpose

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(_EgressConnection, self._purpose), req)


class _EgressHttpsHandler(urllib.request.HTTPSHandler):
    def __init__(self, purpose: Purpose) -> None:
        super().__init__()
        self._purpose = purpose

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(_EgressTlsConnection, self._purpose), req)


class _ByteCountResponse(HTTPResponse):
    """An answer that counts what comes, its head included, and breaks off when the door is closed."""

    def __init__(self, call: EgressCall, sock: socket.socket, *args: Any, **options: Any) -> None:  # noqa: ANN401 -- http.client's own
        super().__init__(sock, *args, **options)
        counting_reader = _ByteCountReader(self.fp.detach(), call, sock)
        egress_gate.add_holder(counting_reader)
        self.fp = BufferedReader(counting_reader)


class _ByteCountReader(RawIOBase):
    """What a socket is read through."""

    def __init__(self, raw: RawIOBase, call: EgressCall, sock: socket.socket) -> None:
        super().__init__()
        self._raw, self._call, self._socket = raw, call, sock

    def cut_connections(self) -> None:
        """End the connection under whoever reads, in whatever thread."""
        with contextlib.suppress(OSError):  # it has ended by itself
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # TLS's own would pull it from under the reader

    def readable(self) -> bool:
        return True

    def readinto(self, room: "WriteableBuffer", /) -> int | None:
        count = self._raw.readinto(room)
        if count:
            self._call.count_received(count)
        return count

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()
