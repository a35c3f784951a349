"""Stands in for uvicorn: loads an application through `Config.load`, as the real one does, and serves it."""

import asyncio
from typing import Any

from uvicorn.config import Config


def run(app: Any, *, host: str, port: int) -> None:
    """Serve until killed."""
    config = Config(app)
    config.load()
    asyncio.run(_serve(config.loaded_app, host, port))


async def _serve(app: Any, host: str, port: int) -> None:
    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        method, path, _ = head[0].decode().split(" ")
        headers = [tuple(part.strip() for part in line.split(b":", 1)) for line in head[1:] if b":" in line]
        lowercase_headers = [(name.lower(), value) for name, value in headers]
        length = next((int(value) for name, value in lowercase_headers if name == b"content-length"), 0)
        body = await reader.readexactly(length)
        await app(
            {"type": "http", "method": method, "path": path, "headers": lowercase_headers},
            _receiver(body),
            _sender(writer),
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle_connection, host, port)
    async with server:
        await server.serve_forever()


def _receiver(body: bytes) -> Any:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    return receive


def _sender(writer: asyncio.StreamWriter) -> Any:
    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            lines = b"".join(name + b": " + value + b"\r\n" for name, value in message.get("headers", []))
            writer.write(f"HTTP/1.1 {message['status']} Said\r\n".encode() + lines + b"Connection: close\r\n\r\n")
        else:
            writer.write(message["body"])

    return send
