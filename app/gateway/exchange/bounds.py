"""How much an answer may make us keep: an endpoint somebody else runs may send a line, or a document, without end."""

import aiohttp

from app.core.errors import EngineFailed

LONGEST_LINE = 8 * 1024 * 1024
"""Bytes of a stream without an end of line: a token takes some hundred, a picture as text a few million."""
LARGEST_DOCUMENT = 256 * 1024 * 1024
"""Bytes of an answer in one piece: 2048 vectors of 4096 figures are half of that."""


class LineBound:
    """Looks at a stream's chunks as they come; keeps none of them."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open = 0

    def saw(self, chunk: bytes) -> None:
        """Count what has come since the last end of line. Raises EngineFailed above `LONGEST_LINE`."""
        last = chunk.rfind(b"\n")
        self._open = self._open + len(chunk) if last < 0 else len(chunk) - last - 1
        if self._open > LONGEST_LINE:
            raise _too_long("a line", LONGEST_LINE)


async def whole(upstream: aiohttp.ClientResponse) -> bytes:
    """Return an answer that comes in one piece. Raises EngineFailed above `LARGEST_DOCUMENT`, and as aiohttp does."""
    parts, size = [], 0
    async for part in upstream.content.iter_any():
        size += len(part)
        if size > LARGEST_DOCUMENT:
            upstream.close()
            raise _too_long("an answer", LARGEST_DOCUMENT)
        parts.append(part)
    return b"".join(parts)


def _too_long(what: str, limit_bytes: int) -> EngineFailed:
    return EngineFailed(
        f"The engine sends {what} of more than {limit_bytes // 1024**2} MiB, which is not read further.",
        hint="Look at what runs there.",
        code="engine_nonsense",
    )
