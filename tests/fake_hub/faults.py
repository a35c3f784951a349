"""What goes wrong between a hub and us. Each returns a fault for `FakeHub.faults`: True when it answered instead."""

import itertools
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from tests.fake_hub.hub import StoredFile
from tests.fake_hub.server import cut

Fault = Callable[[Any, StoredFile], bool]


def first(count: int, fault: Fault) -> Fault:
    """Go wrong the first times only. Requests come from several threads."""
    turns, lock = itertools.count(), threading.Lock()

    def sometimes(request: Any, file: StoredFile) -> bool:  # noqa: ANN401 -- the handler
        with lock:
            is_wrong = next(turns) < count
        return is_wrong and fault(request, file)

    return sometimes


def status(code: int, **headers: str) -> Fault:
    """Refuse with a status."""

    def reply_status(request: Any, _file: StoredFile) -> bool:  # noqa: ANN401
        request.reply(code, b"", {name.replace("_", "-"): value for name, value in headers.items()})
        return True

    return reply_status


def breaks_after(count: int) -> Fault:
    """Reset the connection in the middle of the body."""

    def break_off(request: Any, file: StoredFile) -> bool:  # noqa: ANN401
        _begin(request, file, lambda body: body[:count])
        request.close_connection = True
        request.connection.shutdown(socket.SHUT_RDWR)
        return True

    return break_off


def truncates(count: int) -> Fault:
    """Say less than there is, in good order, as a caching proxy with a broken entry does."""

    def short(request: Any, file: StoredFile) -> bool:  # noqa: ANN401
        code, body, headers = cut(file, request.headers.get("Range"))
        request.reply(code, body[:count], headers)
        return True

    return short


def wrong_bytes(at: int, *, times: int = sys.maxsize) -> Fault:
    """Change one byte on the way, the first times that it is sent."""
    turns, lock = itertools.count(), threading.Lock()

    def send_changed(request: Any, file: StoredFile) -> bool:  # noqa: ANN401
        damaged_content = bytearray(file.content)
        damaged_content[at] ^= 0xFF
        asked_range = request.headers.get("Range")
        code, body, headers = cut(StoredFile(file.path, bytes(damaged_content)), asked_range)
        with lock:
            if body == cut(file, asked_range)[1] or next(turns) >= times:
                return False
        request.reply(code, body, {"ETag": f'"{file.etag}"', **headers})
        return True

    return send_changed


def ignores_ranges(request: Any, file: StoredFile) -> bool:  # noqa: ANN401
    """Send the whole file whatever was asked for."""
    request.reply(200, file.content, {"ETag": f'"{file.etag}"'})
    return True


def other_etag(request: Any, file: StoredFile) -> bool:  # noqa: ANN401
    """Say that it is another file now."""
    code, body, headers = cut(file, request.headers.get("Range"))
    request.reply(code, body, {"ETag": '"0123"', **headers})
    return True


def send_longer(request: Any, file: StoredFile) -> bool:  # noqa: ANN401
    """Be a longer file than the hub described."""
    code, body, headers = cut(StoredFile(file.path, file.content + b"more"), request.headers.get("Range"))
    request.reply(code, body, headers)
    return True


def redirects_for_ever(request: Any, file: StoredFile) -> bool:  # noqa: ANN401
    """Send the client round in circles."""
    request.reply(302, b"", {"Location": f"{request.served_hub.url}/storage/{file.etag}/{file.path}"})
    return True


def other_part(request: Any, file: StoredFile) -> bool:  # noqa: ANN401
    """Answer with another range than the one asked for."""
    request.reply(206, file.content[:10], {"Content-Range": f"bytes 0-9/{len(file.content)}"})
    return True


def stalls(event: threading.Event) -> Fault:
    """Send some bytes, then nothing until the event is set."""

    def stall(request: Any, file: StoredFile) -> bool:  # noqa: ANN401
        _begin(request, file, lambda body: body[: len(body) // 2])
        event.wait(30)
        request.close_connection = True
        return True

    return stall


def _begin(request: Any, file: StoredFile, part: Callable[[bytes], bytes]) -> None:  # noqa: ANN401
    """Promise the whole range and send a part of it."""
    code, body, headers = cut(file, request.headers.get("Range"))
    request.send_response(code)
    for name, value in {"Content-Length": str(len(body)), "ETag": f'"{file.etag}"', **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(part(body))
    request.wfile.flush()
