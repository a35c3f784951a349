"""Read a request's body within limits of size and time, and decode it whatever its Content-Type says.

LiteLLM sends JSON without a Content-Type and Ollama's manual sends it as a form; cross-site requests are the guard's
business, not this header's.

Undo a request body's Content-Encoding: gzip, deflate or zstd, whole streams only, within the limit of size.

aiohttp could do it while the bytes arrive, but then a body that is not packed as it says is refused before a handler
is there to say so in its dialect, and one that was cut short passes for a whole one.

Refuse a body of more values than can be read in passing: 15 MB of `{}` are five million objects, which take seconds and
hundreds of megabytes. Long texts and pictures have few values, and are no matter.
"""

import asyncio
import re
import sys
import zlib
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

import msgspec
from aiohttp import hdrs, web

from app.core.errors import BadRequest, TooLarge, UserError, quote_value
from app.gateway.entry.faults import RequestTimeout, too_large
from app.gateway.exchange.observer import BODY_BYTES, OBSERVATION
from app.gateway.services import SERVICES

P = ParamSpec("P")
T = TypeVar("T")


UPLOAD = web.RequestKey("upload", bytes)
"""The body, kept where another machine may have to be asked after the first."""


async def read_body(request: web.Request) -> bytes:
    """Return the whole body, unpacked. Raises TooLarge, RequestTimeout, UnsupportedEncoding or BadRequest."""
    body = await read_upload(request)
    if len(body) >= LARGE_BYTES:
        await asyncio.to_thread(refuse_crowded, body)
    observation = request.get(OBSERVATION)
    if observation is not None and observation.caller.keeps_bodies:
        observation.kept_request = body[:BODY_BYTES]
    return body


async def read_upload(request: web.Request) -> bytes:
    """Return the same of a body that is no JSON: nobody keeps it for the inspector. Raises as `read_body` does."""
    content, limit_bytes = request.content, request.client_max_size
    if UPLOAD in request:  # it is understood anew, for another machine
        return request[UPLOAD]
    if content.is_eof() and content.exception() is None:  # as with most requests: head and body came together
        body = content.read_nowait()
        if len(body) > limit_bytes:
            raise too_large(limit_bytes)
    else:
        body = await _read_in_time(request, request.app[SERVICES].limits.body_s)
    if hdrs.CONTENT_ENCODING in request.headers:
        encoding = ", ".join(request.headers.getall(hdrs.CONTENT_ENCODING))
        body = await asyncio.to_thread(unpack_body, body, encoding, limit_bytes)
    if request.app[SERVICES].machine_routes.has_models:
        request[UPLOAD] = body
    return body


LARGE_BYTES = 1 << 18
"""From here on, looking through a body and decoding it takes milliseconds; a thread takes a tenth of one."""


async def call_off_loop(body: bytes, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function makes of a body; one that is large is read in a thread, and holds nobody else up."""
    if len(body) < LARGE_BYTES:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


MOST_VALUES = 500_000
"""Tokens of a batch of texts that are to be embedded come to 300,000."""
MOST_PARTS = 100_000
"""Texts, lists and objects: what a conversation of ten thousand turns has. Each costs more than a number."""
_MARK = re.compile(rb'["\[{,]')
_PIECE_BYTES = 1 << 20
"""So much is looked through at once: other threads wait meanwhile."""


def refuse_crowded(body: bytes) -> None:
    """Return if a JSON body has no more values than can be read in passing. Raises TooLarge."""
    if _has_many_marks(body) and _is_crowded(body):
        raise TooLarge(
            f"The request has more than {MOST_PARTS:,} texts, lists and objects, or {MOST_VALUES:,} values.",
            hint="Send it in several parts.",
        )


def _has_many_marks(body: bytes) -> bool:
    """Tell whether there could be too many: marks in texts are counted as well, which is quick."""
    values = parts = 0
    for at in range(0, len(body), _PIECE_BYTES):
        end = at + _PIECE_BYTES
        values += body.count(b",", at, end)
        parts += body.count(b'"', at, end) + body.count(b"[", at, end) + body.count(b"{", at, end)
        if values > MOST_VALUES or parts > MOST_PARTS:
            return True
    return False


def _is_crowded(body: bytes) -> bool:
    """Count what stands outside of texts."""
    values = parts = at = 0
    while at < len(body) and values <= MOST_VALUES and parts <= MOST_PARTS:
        mark = _MARK.search(body, at, at + _PIECE_BYTES)
        if mark is None:
            at += _PIECE_BYTES
        elif mark[0] == b",":
            values, at = values + 1, mark.end()
        else:
            parts, at = parts + 1, _end_of_text(body, mark.end()) if mark[0] == b'"' else mark.end()
    return values > MOST_VALUES or parts > MOST_PARTS


def _end_of_text(body: bytes, start: int) -> int:
    """Return where the text that begins there has ended: after the first quotation mark that is not escaped."""
    while (end := body.find(b'"', start)) >= 0:
        piece = body[start:end]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 0:
            return end + 1
        start = end + 1
    return len(body)


async def _read_in_time(request: web.Request, limit_s: float) -> bytes:
    if (request.content_length or 0) > request.client_max_size:
        raise too_large(request.client_max_size)
    try:
        async with asyncio.timeout(limit_s):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large(request.client_max_size) from None
    except web.RequestPayloadError as error:
        raise BadRequest(f"The request's body cannot be read: {error}") from None
    except TimeoutError:
        raise RequestTimeout(f"The request's body did not arrive within {limit_s:g} seconds.") from None


def decode_body(body: bytes, kind: type[T]) -> T:
    """Return the JSON body as `kind`. Raises BadRequest that says where it is wrong."""
    try:
        str(body, "utf-8")  # msgspec skips over unknown fields without looking at their encoding
        return msgspec.json.decode(body, type=kind)
    except UnicodeDecodeError as error:
        raise BadRequest(f"The request is not UTF-8 (byte {error.start}).", code="invalid_json") from None
    except msgspec.ValidationError as error:
        raise BadRequest(f"The request is not as expected: {error}.", code="invalid_value") from None
    except msgspec.DecodeError as error:
        reason = str(error) if body else "it is empty"
        raise BadRequest(f"The request is not valid JSON: {reason}.", code="invalid_json") from None
    except RecursionError:
        raise BadRequest("The request is nested too deeply.", code="invalid_json") from None


async def read_json(request: web.Request, kind: type[T]) -> T:
    """Read and decode a body in one go."""
    body = await read_body(request)
    return await call_off_loop(body, decode_body, body, kind)


if sys.version_info >= (3, 14):
    from compression.zstd import DecompressionParameter, ZstdDecompressor, ZstdError
else:
    from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError

ACCEPTED_ENCODINGS = "gzip, deflate, zstd"
"""The codings, as a refusal names them to the client."""
_GZIP = 16 + zlib.MAX_WBITS
_DEFLATE_MARK = 8
"""The low half of the first byte of a deflate stream that has its header (RFC 1950); some clients leave it out."""
_WINDOW_LOG = 23
"""What a zstd stream may ask us to keep in memory, as a power of two: 8 MiB, the most that RFC 9659 allows."""
_MOST_MEMBERS = 16
"""Streams one after another in one body: each may be as small as 20 bytes, and costs a copy of all that follow."""


class UnsupportedEncoding(UserError):
    """The body is packed in a way that is not read here."""

    default_code = "unsupported_encoding"
    status = 415


class Decompressor(Protocol):
    """What zlib's and zstd's decompressors have in common."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """Return the next bytes, `max_length` at most."""

    @property
    def eof(self) -> bool:
        """Whether the stream has come to its end."""

    @property
    def unused_data(self) -> bytes:
        """What was given after the end."""


def unpack_body(packed_body: bytes, encoding: str, limit_bytes: int) -> bytes:
    """Return the body as its client wrote it. Raises UnsupportedEncoding, BadRequest or TooLarge."""
    coding_name = encoding.strip().lower()
    if coding_name in {"", "identity"} or not packed_body:
        return packed_body
    open_member = _decompressor_for(coding_name, packed_body)
    try:
        return _iter_members(open_member, packed_body, limit_bytes)
    except (zlib.error, ZstdError, EOFError):
        raise BadRequest(
            f"The request's body is not a complete {coding_name} stream, as its Content-Encoding says.",
            code="invalid_encoding",
        ) from None


def _decompressor_for(coding_name: str, packed_body: bytes) -> Callable[[], Decompressor]:
    match coding_name:
        case "gzip" | "x-gzip":  # the same, by RFC 9110
            return lambda: zlib.decompressobj(_GZIP)
        case "deflate":
            has_header = packed_body[0] & 0xF == _DEFLATE_MARK
            return lambda: zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
        case "zstd":
            return lambda: ZstdDecompressor(options={DecompressionParameter.window_log_max: _WINDOW_LOG})
        case _:
            raise UnsupportedEncoding(
                f"The Content-Encoding {quote_value(coding_name)} is not read here.",
                hint=f"Send the body as it is, or in one of {ACCEPTED_ENCODINGS}.",
            )


def _iter_members(open_member: Callable[[], Decompressor], packed_body: bytes, limit_bytes: int) -> bytes:
    """Return the bytes of all streams. Raises EOFError where one is not whole, TooLarge, or as the library does."""
    parts, room = [], limit_bytes
    for _ in range(_MOST_MEMBERS):
        member = open_member()
        part = member.decompress(packed_body, room + 1)
        room -= len(part)
        if room < 0:
            raise too_large(limit_bytes)
        if not member.eof:
            raise EOFError
        parts.append(part)
        packed_body = member.unused_data
        if not packed_body:
            return b"".join(parts)
    raise EOFError
