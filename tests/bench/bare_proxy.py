"""The least a streaming proxy in aiohttp can be: what the gateway's cost is measured against.

python -m tests.bench.bare_proxy PORT ENGINE_URL ENGINE_KEY
"""

import sys
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

HTTP = web.AppKey("http", aiohttp.ClientSession)


async def forward(request: web.Request) -> web.StreamResponse:
    body = await request.read()
    headers = {"Authorization": f"Bearer {sys.argv[3]}", "Content-Type": "application/json"}
    async with request.app[HTTP].post(sys.argv[2] + request.path, data=body, headers=headers) as upstream:
        response = web.StreamResponse(status=upstream.status, headers={"Content-Type": upstream.content_type})
        await response.prepare(request)
        async for chunk in upstream.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
        return response


async def health(_request: web.Request) -> web.Response:
    return web.Response()


async def session(app: web.Application) -> AsyncIterator[None]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as app[HTTP]:
        yield


if __name__ == "__main__":
    app = web.Application()
    app.router.add_get("/health", health)
    app.router.add_post("/{path:.*}", forward)
    app.cleanup_ctx.append(session)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
