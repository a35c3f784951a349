"""One window for each person and home: a second start hands over what it was asked to open, and ends.

Whoever holds the lock is the first and listens on a local socket that only this person can reach. A lock whose process
is gone is void, and its socket is replaced, so a window that was killed is in nobody's way. A first window that does
not answer in time is taken as hung: the second opens after all.
"""

import hashlib
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from PySide6.QtCore import QLockFile, QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from app.config.paths import Paths

_ANSWER_MS = 2000
_LISTENS_WITHIN_S = 2.0
_POLL_S = 0.02
_LONGEST_PATH = 90
"""Bytes; sockets' addresses end at 104 (macOS) or 108, and Qt adds a few while it makes one."""
_LARGEST = 128 * 1024
_TAKEN = b"taken\n"


class HandOverMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a later start says to the first: its arguments, and the folder they are meant from."""

    arguments: list[str]
    folder: str


class SingleInstance(QObject):
    """This process's part in it. `handed` carries `HandOverMessage` from starts that came later."""

    message_received = Signal(object)

    def __init__(self, paths: Paths, parent: QObject | None = None) -> None:
        super().__init__(parent)
        with suppress(OSError):  # the gateway will say what is wrong with the disk
            paths.create_folders()
        self._name = _socket_name(paths.state)
        self._lock = QLockFile(str(paths.state / "window.lock"))
        self._lock.setStaleLockTime(0)  # no age makes it void, only the end of its process
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._accept_connections)
        self._buffers: dict[QLocalSocket, bytes] = {}

    def claim(self) -> bool:
        """Be the first, if nobody is; listen for later starts from then on. Where no lock can be kept, be one alone."""
        if not self._lock.tryLock(0):
            return self._lock.error() is not QLockFile.LockError.LockFailedError
        QLocalServer.removeServer(self._name)
        self._server.listen(self._name)
        return True

    def hand_over(self, arguments: list[str], folder: Path) -> bool:
        """Give what was asked to the first. Returns False when it does not answer."""
        message = msgspec.json.encode(HandOverMessage(arguments=arguments, folder=str(folder))) + b"\n"
        deadline = time.monotonic() + _LISTENS_WITHIN_S
        while True:
            socket = QLocalSocket()
            socket.connectToServer(self._name)
            if socket.waitForConnected(_ANSWER_MS):
                return _send_message(socket, message)
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)  # it holds the lock and will listen in a moment

    def close(self) -> None:
        """Stop listening; the next start is the first."""
        self._server.close()
        self._lock.unlock()

    def _accept_connections(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            self._buffers[socket] = b""
            socket.readyRead.connect(lambda socket=socket: self._read_message(socket))
            socket.disconnected.connect(lambda socket=socket: self._forget_socket(socket))

    def _read_message(self, socket: QLocalSocket) -> None:
        if socket not in self._buffers:
            return
        self._buffers[socket] += socket.readAll().data()
        message, end, _ = self._buffers[socket].partition(b"\n")
        if len(message) > _LARGEST:
            socket.abort()
        elif end:
            self._take_message(socket, message)

    def _take_message(self, socket: QLocalSocket, message: bytes) -> None:
        try:
            hand_over = msgspec.json.decode(message, type=HandOverMessage)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            socket.abort()
            return
        socket.write(_TAKEN)
        socket.flush()
        socket.disconnectFromServer()
        self.message_received.emit(hand_over)

    def _forget_socket(self, socket: QLocalSocket) -> None:
        self._buffers.pop(socket, None)
        socket.deleteLater()


def _send_message(socket: QLocalSocket, message: bytes) -> bool:
    socket.write(message)
    socket.flush()
    return socket.waitForReadyRead(_ANSWER_MS) and socket.readAll().data() == _TAKEN


def _socket_name(state: Path) -> str:
    """Return the socket's address: in our own private folder, or, where that is too long, named after it."""
    path = state / "window.sock"
    if len(str(path).encode()) <= _LONGEST_PATH:
        return str(path)
    mark = hashlib.sha256(str(state).encode()).hexdigest()[:24]
    return str(Path(tempfile.gettempdir()) / f"roundhouse-{mark}.sock")
