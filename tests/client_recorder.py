"""Notes what a program asks of a gateway: it stands between them, and passes everything on as it is.

A program started by `roundhouse launch` with the recorder's `home` finds the recorder in the gateway's place: a port
file there names it, and what the command line is told of the gateway's address names it too.
"""

import asyncio
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp import web
from yarl import URL

from app.config.paths import Paths
from app.config.private_files import write_private
from app.core.api import PREFIX, PortFile

_OWN_HEADERS = {
    "accept-encoding",  # replies are read here
    "connection",
    "content-encoding",  # aiohttp has unpacked it
    "content-length",
    "host",
    "keep-alive",
    "transfer-encoding",
    "upgrade",
}
"""Headers of a connection, which each of the two has for itself."""


class Exchange(NamedTuple):
    """A request and what came back. The body is unpacked, but `headers` say how it was packed."""

    method: str
    target: str
    """Path and query, as they were sent."""
    headers: Mapping[str, str]
    """Names in small letters."""
    body: bytes
    status: int
    content_type: str
    reply: bytes


class RequestRecorder:
    """The recorder, for as long as the `with` block runs; requests for the admin API are passed on and not noted."""

    def __init__(self, gateway: PortFile, home: Path) -> None:
        self.home = home
        self.exchanges: list[Exchange] = []
        self._gateway, self._loop = gateway, asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._port = 0

    @property
    def url(self) -> str:
        """What a program takes for the gateway's address."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._runner, self._session = asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        self._port = self._runner.addresses[0][1]
        base = self.home
        paths = Paths(config=base / "config", data=base / "data", state=base / "state", logs=base / "logs")
        paths.create_folders()
        write_private(paths.port_file, msgspec.json.encode(msgspec.structs.replace(self._gateway, url=self.url)))
        return self

    def __exit__(self, *_error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self) -> tuple[web.AppRunner, aiohttp.ClientSession]:
        app = web.Application(client_max_size=0)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner, aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))

    async def _close(self) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body, url = await request.read(), URL(self._gateway.url + request.raw_path, encoded=True)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OWN_HEADERS}
        async with self._session.request(
            request.method, url, data=body or None, headers=headers, allow_redirects=False
        ) as reply:
            if request.path.startswith(PREFIX):
                return self._rename_gateway(reply, await reply.read())
            return await self._pass_on(request, body, reply)

    def _rename_gateway(self, reply: aiohttp.ClientResponse, data: bytes) -> web.Response:
        place, own = urlsplit(self._gateway.url).netloc.encode(), urlsplit(self.url).netloc.encode()
        return web.Response(
            status=reply.status, body=data.replace(place, own), headers={"Content-Type": reply.headers["Content-Type"]}
        )

    async def _pass_on(self, request: web.Request, body: bytes, reply: aiohttp.ClientResponse) -> web.StreamResponse:
        headers = {name: value for name, value in reply.headers.items() if name.lower() not in _OWN_HEADERS}
        response, data = web.StreamResponse(status=reply.status, headers=headers), bytearray()
        names = {name.lower(): value for name, value in request.headers.items()}
        try:
            with suppress(ConnectionResetError):  # it has read enough
                await response.prepare(request)
                async for piece in reply.content.iter_any():
                    data += piece
                    await response.write(piece)
                await response.write_eof()
        finally:
            self.exchanges.append(
                Exchange(request.method, request.raw_path, names, body, reply.status, reply.content_type, bytes(data))
            )
        return response
