"""Parts of files over HTTP: range requests under limits on bytes, requests and time, to places that were checked.

A server is not believed: its sizes are limits for what we accept, never for what we allocate. The token goes to the
configured endpoint only, and a redirect may not leave https for anything but that endpoint.

How long a server that refuses wants to be left alone, by what its answer's headers say.

`Retry-After` has seconds or a date (RFC 9110, 10.2.3); Hugging Face says it in `RateLimit`, as its own client reads it:
`"api";r=0;t=55` (draft-ietf-httpapi-ratelimit-headers).
"""

import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import IO
from urllib.parse import SplitResult, urljoin, urlsplit

from app.core.connections import Purpose
from app.core.errors import BadRequest, Forbidden, NotFound, RoundhouseError, TooLarge, Unauthorized, Unavailable
from app.hub.gguf.values import MAX_NUMBER, corrupt_error
from app.network.reach import unreachable_sentence
from app.network.urls import build_opener

_LIMIT = re.compile(r"r\s*=\s*0\s*;\s*t\s*=\s*(\d{1,9})(?!\d)")
_SECONDS = re.compile(r"\d{1,9}")


def retry_wait_s(headers: Message, now: float | None = None) -> float:
    """Return the seconds; 0 where nothing is said, or nothing that makes sense. `now` is in Unix seconds."""
    limit = _LIMIT.search(headers.get("RateLimit", ""))
    retry_after = headers.get("Retry-After", "").strip()
    if _SECONDS.fullmatch(retry_after):
        return float(retry_after)
    if limit is not None:
        return float(limit[1])
    try:
        until = parsedate_to_datetime(retry_after).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, until - (time.time() if now is None else now))


MAX_BYTES = 64 << 20
"""For all headers of one model; those of GGUF files have 1 to 20 MiB."""
MAX_REQUESTS = 1024
MAX_REDIRECTS = 5
TIMEOUT_S = 15.0
"""Without a byte."""
DEADLINE_S = 180.0
"""For one model, however many parts it has."""
LARGEST_BLOCK_BYTES = 8 << 20
_PIECE_BYTES = 64 << 10
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_CONTENT_RANGE = re.compile(r"bytes (\d{1,16})-(\d{1,16})/(\d{1,16})$")


class HubBusy(Unavailable):
    """The server wants to be left alone for a while: `retry_s`, as far as it says."""

    default_code = "hub_busy"

    def __init__(self, retry_s: float) -> None:
        self.retry_s = retry_s
        hint = f"Try again in {retry_s:.0f} seconds." if retry_s else "Try again in a few minutes."
        super().__init__("The server is overloaded, or accepts no more requests from this computer for now.", hint=hint)


class ReadBudget:
    """What reading one model may cost. Shared by threads."""

    def __init__(
        self, *, max_bytes: int = MAX_BYTES, max_requests: int = MAX_REQUESTS, deadline_s: float = DEADLINE_S
    ) -> None:
        self._lock = threading.Lock()
        self._bytes_left = max_bytes
        self._requests_left = max_requests
        self._ends_at = time.monotonic() + deadline_s

    def count_request(self) -> None:
        """Count one request. Raises TooLarge or Unavailable."""
        with self._lock:
            self._requests_left -= 1
            if self._requests_left < 0:
                raise TooLarge("Reading the model's description takes more requests than any model should need.")
        self.count_bytes(0)

    def count_bytes(self, count: int) -> None:
        """Count bytes, and look at the clock. Raises TooLarge or Unavailable."""
        with self._lock:
            self._bytes_left -= count
        if self._bytes_left < 0:
            raise TooLarge("The model's description is longer than any model needs.", code="model_too_large")
        if time.monotonic() > self._ends_at:
            raise Unavailable("The server answers too slowly.", hint="Try again later.", code="hub_unreachable")


class RemoteHost:
    """One endpoint, by default reached over https, why it is asked, and the token that only it is shown."""

    def __init__(
        self,
        endpoint: str,
        purpose: Purpose,
        *,
        token: str = "",
        budget: ReadBudget | None = None,
        opener: urllib.request.OpenerDirector | None = None,
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
        self._origin = _address_origin(urlsplit(self.endpoint))
        self._token = token
        self.budget = budget or ReadBudget()
        self.purpose = purpose
        self._opener, self._plain_opener = (
            opener or build_opener(purpose, _RedirectCheck(self.check_address)),
            opener or build_opener(purpose, _NoRedirects()),
        )

    def check_address(self, url: str) -> None:
        """Raise BadRequest unless an address is https, or the endpoint's own."""
        parts = urlsplit(url)
        is_own = parts.scheme in ("http", "https") and _address_origin(parts) == self._origin
        if not is_own and not self._is_beside(parts) and (parts.scheme != "https" or not parts.hostname):
            raise BadRequest("Models are read over https only.", code="bad_address")
        if parts.username or parts.password:
            raise BadRequest("An address may not carry a password.", code="bad_address")

    def _is_beside(self, parts: SplitResult) -> bool:
        """Tell whether it is the endpoint under another of the names this computer has for itself."""
        (scheme, host, port), own = _address_origin(parts), self._origin
        return (scheme, port) == (own[0], own[2]) and {host, own[1]} <= _LOOPBACK

    def open_address(self, url: str, headers: Mapping[str, str]) -> HTTPResponse:
        """Open an address. Raises what the status means in words, or Offline."""
        return self._open_request(self._opener, url, "GET", headers)

    def read_headers(self, url: str) -> HTTPMessage:
        """Return the headers of an address, or of the redirect that is there. Raises as `open_address` does."""
        with self._open_request(self._plain_opener, url, "HEAD", {}) as answer:
            return answer.headers

    def _open_request(
        self, way: urllib.request.OpenerDirector, url: str, method: str, headers: Mapping[str, str]
    ) -> HTTPResponse:
        self.check_address(url)
        self.budget.count_request()
        more = {**headers, "Accept-Encoding": "identity"}
        request = urllib.request.Request(url, headers=more, method=method)  # noqa: S310 -- checked
        if self._token and "Authorization" not in headers and _address_origin(urlsplit(url)) == self._origin:
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            answer: HTTPResponse = way.open(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as error:
            error.close()
            raise _refusal_error(error.code, url, retry_wait_s(error.headers)) from None
        except (OSError, HTTPException, ValueError) as error:
            raise _unreachable_error(url) from error
        return answer

    def read_small_file(self, url: str, limit: int, headers: Mapping[str, str] | None = None) -> bytes:
        """Return a whole small file. Raises TooLarge beyond `limit`. With headers, no redirect is followed."""
        with self._open_request(self._plain_opener if headers else self._opener, url, "GET", headers or {}) as answer:
            content = self.read_answer(answer, limit + 1)
        if len(content) > limit:
            raise TooLarge(f"{_file_name(url)} is larger than any such file.", code="model_too_large")
        return content

    def read_answer(self, answer: HTTPResponse, count: int) -> bytes:
        """Return up to `count` bytes of an answer, never waiting beyond the budget's end."""
        pieces: list[bytes] = []
        try:
            while count > 0 and (piece := answer.read1(min(count, _PIECE_BYTES))):
                self.budget.count_bytes(len(piece))
                pieces.append(piece)
                count -= len(piece)
        except (OSError, HTTPException) as error:
            raise Unavailable("The connection broke.", hint="Try again.", code="hub_unreachable") from error
        return b"".join(pieces)


class RemoteSource:
    """A file at an address, read block by block: what a header reader asks for next is mostly there already.

    Blocks begin with `block_bytes` and grow. Opening fetches the first. Raises what the network and the budget raise.
    """

    def __init__(self, remote: RemoteHost, url: str, *, block_bytes: int = 1 << 20) -> None:
        self._remote = remote
        self._url = url
        self._block, self._start, self._next_bytes = b"", 0, block_bytes
        self.first_bytes = block_bytes
        self._stream: HTTPResponse | None = None
        self.size = 0
        try:
            self._fetch_block(0, block_bytes)
        except RoundhouseError:
            self.close()
            raise

    def read_at(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes from there. Raises what the network and the budget raise."""
        end = min(offset + count, self.size)
        if offset >= end:
            return b""
        if not (self._start <= offset and end <= self._start + len(self._block)):
            self._fetch_block(offset, max(end - offset, self._next_bytes))
            self._next_bytes = min(self._next_bytes * 2, LARGEST_BLOCK_BYTES)
        return self._block[offset - self._start : end - self._start]

    def close(self) -> None:
        """End a connection that is still open."""
        if self._stream is not None:
            self._stream.close()

    def _fetch_block(self, offset: int, count: int) -> None:
        if self._stream is not None:
            self._read_on(offset + count)
            return
        answer = self._remote.open_address(self._url, {"Range": f"bytes={offset}-{offset + count - 1}"})
        if answer.status == 206:  # noqa: PLR2004 -- partial content
            with answer:
                self._take_part(answer, offset, count)
        else:
            self._begin_whole(answer, offset + count)

    def _take_part(self, answer: HTTPResponse, offset: int, count: int) -> None:
        content_range = _CONTENT_RANGE.match(answer.headers.get("Content-Range", ""))
        if content_range is None or int(content_range[1]) != offset or int(content_range[3]) > MAX_NUMBER:
            raise Unavailable("The server sent a different part than requested.", code="hub_unreachable")
        total = int(content_range[3])
        if self.size not in (0, total):
            raise corrupt_error("it changed while it was read")
        self.size = total
        expected_bytes = min(count, total - offset)
        self._block, self._start = self._remote.read_answer(answer, expected_bytes), offset
        if len(self._block) < expected_bytes:
            raise Unavailable("The connection broke.", hint="Try again.", code="hub_unreachable")

    def _begin_whole(self, answer: HTTPResponse, end: int) -> None:
        """Read from the start, as far as needed: this server knows no ranges. The budget stops us in time."""
        length = answer.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_NUMBER:
            answer.close()
            raise Unavailable("The server does not say how large the file is.", code="hub_unreachable")
        self._stream, self.size = answer, int(length)
        self._read_on(end)

    def _read_on(self, end: int) -> None:
        assert self._stream is not None  # noqa: S101 -- for the type checker
        expected_bytes = min(end, self.size) - len(self._block)
        more = self._remote.read_answer(self._stream, expected_bytes)
        self._block += more
        if len(more) < expected_bytes:
            raise Unavailable("The connection broke.", hint="Try again.", code="hub_unreachable")


class _RedirectCheck(urllib.request.HTTPRedirectHandler):
    """Follow redirects to addresses that pass the check; unredirected headers (the token) are not sent on."""

    max_redirections = MAX_REDIRECTS

    def __init__(self, check: Callable[[str], None]) -> None:
        self._check = check

    def redirect_request(  # noqa: PLR0913, PLR0917 -- the signature is urllib's
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """Return the next request, or raise."""
        try:
            self._check(urljoin(req.full_url, newurl))
        except BadRequest:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _NoRedirects(urllib.request.HTTPErrorProcessor):
    """Take a redirect as the answer."""

    def http_response(self, request: urllib.request.Request, response: HTTPResponse) -> HTTPResponse:
        """Return a redirect as it came; raise what is an error."""
        is_redirect = 300 <= response.status < 400  # noqa: PLR2004 -- as HTTP has it
        return response if is_redirect else super().http_response(request, response)

    https_response = http_response


def _address_origin(parts: SplitResult) -> tuple[str, str, int]:
    try:
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        raise BadRequest("The address is malformed.", code="bad_address") from None
    return parts.scheme, parts.hostname or "", port


def _file_name(url: str) -> str:
    return urlsplit(url).path.rsplit("/", 1)[-1]


def _unreachable_error(url: str) -> Unavailable:
    return Unavailable(
        unreachable_sentence(urlsplit(url).hostname or ""),
        hint="Check the network connection. Models on this computer go on working.",
        code="hub_unreachable",
    )


_REFUSALS: dict[int, Callable[[str, str], RoundhouseError]] = {
    400: lambda _name, _host: BadRequest("The server did not understand the request.", code="hub_refused"),
    401: lambda name, _host: Unauthorized(
        f"{name} does not exist or is private.",
        hint="Check the name; if it is right, sign in with a token that may read it.",
        code="hub_unauthorized",
    ),
    403: lambda name, _host: Forbidden(
        f"{name} is not accessible with this account.",
        hint="Accept the model's licence on its page, with the account the token belongs to.",
        code="hub_forbidden",
    ),
    404: lambda name, host: NotFound(f"There is no {name} at {host}.", code="model_not_found"),
    410: lambda name, host: NotFound(f"There is no {name} at {host}.", code="model_not_found"),
    416: lambda _name, _host: corrupt_error("it is shorter than the server said"),
}
"""What a status means for somebody who wants a model, by the file's name and the host."""


_TOO_MANY, _NOT_NOW = 429, 503


def _refusal_error(status: int, url: str, wait_s: float) -> RoundhouseError:
    """Say a status in words."""
    if status == _TOO_MANY or (status == _NOT_NOW and wait_s):
        return HubBusy(wait_s)
    if status in _REFUSALS:
        return _REFUSALS[status](_file_name(url), urlsplit(url).hostname or "")
    return Unavailable(
        f"The server answered with an error ({status}).", hint="Try again later.", code="hub_unreachable"
    )
