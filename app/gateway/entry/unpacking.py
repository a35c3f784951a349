"""Undo a request body's Content-Encoding: gzip, deflate or zstd, whole streams only, within the limit of size.

aiohttp could do it while the bytes arrive, but then a body that is not packed as it says is refused before a handler
is there to say so in its dialect, and one that was cut short passes for a whole one.
"""

import sys
import zlib
from collections.abc import Callable
from typing import Protocol

from app.core.errors import BadRequest, UserError
from app.gateway.entry.faults import too_large

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


def unpack_body(packed: bytes, encoding: str, limit_bytes: int) -> bytes:
    """Return the body as its client wrote it. Raises UnsupportedEncoding, BadRequest or TooLarge."""
    coding = encoding.strip().lower()
    if coding in {"", "identity"} or not packed:
        return packed
    open_member = _decompressor_for(coding, packed)
    try:
        return _iter_members(open_member, packed, limit_bytes)
    except (zlib.error, ZstdError, EOFError):
        raise BadRequest(
            f"The request's body is not a complete {coding} stream, as its Content-Encoding says.",
            code="invalid_encoding",
        ) from None


def _decompressor_for(coding: str, packed: bytes) -> Callable[[], Decompressor]:
    match coding:
        case "gzip" | "x-gzip":  # the same, by RFC 9110
            return lambda: zlib.decompressobj(_GZIP)
        case "deflate":
            has_header = packed[0] & 0xF == _DEFLATE_MARK
            return lambda: zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
        case "zstd":
            return lambda: ZstdDecompressor(options={DecompressionParameter.window_log_max: _WINDOW_LOG})
        case _:
            raise UnsupportedEncoding(
                f"The Content-Encoding {coding[:40]!r} is not read here.",
                hint=f"Send the body as it is, or in one of {ACCEPTED_ENCODINGS}.",
            )


def _iter_members(open_member: Callable[[], Decompressor], packed: bytes, limit_bytes: int) -> bytes:
    """Return the bytes of all streams. Raises EOFError where one is not whole, TooLarge, or as the library does."""
    parts, room = [], limit_bytes
    for _ in range(_MOST_MEMBERS):
        member = open_member()
        part = member.decompress(packed, room + 1)
        room -= len(part)
        if room < 0:
            raise too_large(limit_bytes)
        if not member.eof:
            raise EOFError
        parts.append(part)
        packed = member.unused_data
        if not packed:
            return b"".join(parts)
    raise EOFError
