"""An engine that streams chunks at an even pace and costs next to nothing: asyncio's own protocol, no framework.

python -m tests.perf.paced_engine PORT CHUNKS CHUNKS_PER_SECOND
"""

import asyncio
import json
import sys

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
HEALTHY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def token(text: str) -> bytes:
    """Return an event of the size llama-server sends."""
    chunk = {
        "choices": [{"finish_reason": None, "index": 0, "delta": {"content": text}}],
        "created": 1_763_000_000,
        "id": "chatcmpl-0123456789abcdefghijklmnopqrstuv",
        "model": "guide",
        "system_fingerprint": "b7000-0123456",
        "object": "chat.completion.chunk",
    }
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def framed(event: bytes) -> bytes:
    return f"{len(event):x}\r\n".encode() + event + b"\r\n"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    loop = asyncio.get_running_loop()
    while head := await request_head(reader):
        if head.startswith(b"GET"):
            writer.write(HEALTHY)
            break
        writer.write(HEAD)
        began = loop.time()
        for number in range(1, CHUNKS + 1):
            await asyncio.sleep(began + number / PER_SECOND - loop.time())
            writer.write(TOKEN)
        writer.write(framed(DONE) + b"0\r\n\r\n")
    writer.close()


async def request_head(reader: asyncio.StreamReader) -> bytes:
    """Read a whole request; return its head, or nothing when the client is through."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            await reader.readexactly(int(line.partition(b":")[2]))
    return head


async def serve(port: int) -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    CHUNKS, PER_SECOND = int(sys.argv[2]), float(sys.argv[3])
    TOKEN = framed(token(" word"))
    asyncio.run(serve(int(sys.argv[1])))
