"""What the dialects' routes answer with: JSON in one piece, or streams, which nobody between is to keep back."""

import msgspec
from aiohttp import hdrs, web


def _stream_headers(content_type: str) -> dict[str, str]:
    return {hdrs.CONTENT_TYPE: content_type, hdrs.CACHE_CONTROL: "no-cache", "X-Accel-Buffering": "no"}


EVENT_STREAM_HEADERS = _stream_headers("text/event-stream")
NDJSON_HEADERS = _stream_headers("application/x-ndjson")


def json_reply(value: object, status: int = 200, *, charset: str | None = None) -> web.Response:
    """Return a whole answer. `charset` is said with its type, where a dialect's own server says it."""
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json", charset=charset
    )


def utf8_json_reply(value: object, status: int = 200) -> web.Response:
    """Return a whole answer that says that it is UTF-8, as Ollama's do."""
    return json_reply(value, status, charset="utf-8")
