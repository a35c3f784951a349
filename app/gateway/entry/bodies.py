"""Read a request's body within limits of size and time, and decode it whatever its Content-Type says.

LiteLLM sends JSON without a Content-Type and Ollama's manual sends it as a form; cross-site requests are the guard's
business, not this header's.
"""

import asyncio
from typing import TypeVar

import msgspec
from aiohttp import hdrs, web

from app.core.errors import BadRequest
from app.gateway.entry.faults import RequestTimeout, too_large
from app.gateway.entry.unpacking import unpack_body
from app.gateway.exchange.observer import BODY_BYTES, OBSERVATION
from app.gateway.services import SERVICES

T = TypeVar("T")


async def read_body(request: web.Request) -> bytes:
    """Return the whole body, unpacked. Raises TooLarge, RequestTimeout, UnsupportedEncoding or BadRequest."""
    body = await _read_bytes(request)
    if hdrs.CONTENT_ENCODING in request.headers:
        encoding = ", ".join(request.headers.getall(hdrs.CONTENT_ENCODING))
        body = await asyncio.to_thread(unpack_body, body, encoding, request.client_max_size)
    observed = request.get(OBSERVATION)
    if observed is not None and observed.caller.keeps_bodies:
        observed.kept_request = body[:BODY_BYTES]
    return body


async def _read_bytes(request: web.Request) -> bytes:
    if (request.content_length or 0) > request.client_max_size:
        raise too_large(request.client_max_size)
    try:
        if request.content.is_eof():  # as with most requests: head and body came together
            return await request.read()
        return await _read_in_time(request, request.app[SERVICES].limits.body_s)
    except web.HTTPRequestEntityTooLarge:
        raise too_large(request.client_max_size) from None
    except web.RequestPayloadError as error:
        raise BadRequest(f"The request's body cannot be read: {error}") from None


async def _read_in_time(request: web.Request, limit_s: float) -> bytes:
    try:
        async with asyncio.timeout(limit_s):
            return await request.read()
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
    return decode_body(await read_body(request), kind)
