"""An engine that streams chunks at an even pace and costs next to nothing: asyncio's own protocol, no framework.

python -m tests.perf.paced_engine PORT CHUNKS CHUNKS_PER_SECOND

It answers as llama-server does, on /v1/messages in Anthropic's form, elsewhere in OpenAI's, and to GET with its models;
and as llama-server it closes the connection after each, so that whoever proxies it has to connect for every stream.
"""

import asyncio
import json
import sys
from typing import NamedTuple

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
MODELS = json.dumps({"object": "list", "data": [{"id": "guide", "object": "model"}]}).encode()
LISTED = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(MODELS), MODELS)


class Stream(NamedTuple):
    """The bytes of a stream, framed: what comes before the tokens, each token, and what comes after."""

    begin: bytes
    token: bytes
    end: bytes


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


def named(kind: str, **fields: object) -> bytes:
    """Return an event of Anthropic's."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def openai() -> Stream:
    return Stream(b"", framed(token(" word")), framed(b"data: [DONE]\n\n"))


def anthropic() -> Stream:
    counts = {"input_tokens": 9, "output_tokens": 0}
    message = {"id": "msg", "type": "message", "role": "assistant", "content": [], "model": "guide", "usage": counts}
    begin = named("message_start", message=message)
    begin += named("content_block_start", index=0, content_block={"type": "text", "text": ""})
    end = named("content_block_stop", index=0)
    end += named("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage=counts)
    end += named("message_stop")
    word = named("content_block_delta", index=0, delta={"type": "text_delta", "text": " word"})
    return Stream(framed(begin), framed(word), framed(end))


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    loop = asyncio.get_running_loop()
    head = await request_head(reader)
    if head.startswith(b"GET"):
        writer.write(LISTED)
    elif head:
        stream = STREAMS["messages" if b"/v1/messages " in head.split(b"\r\n")[0] else "chat"]
        writer.write(HEAD + stream.begin)
        began = loop.time()
        for number in range(1, CHUNKS + 1):
            await asyncio.sleep(began + number / PER_SECOND - loop.time())
            writer.write(stream.token)
        writer.write(stream.end + b"0\r\n\r\n")
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
    STREAMS = {"chat": openai(), "messages": anthropic()}
    asyncio.run(serve(int(sys.argv[1])))
