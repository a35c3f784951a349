"""A collector that takes traces and forgets them: python -m tests.bench.trace_sink PORT."""

import sys

from aiohttp import web


async def take(request: web.Request) -> web.Response:
    await request.read()
    return web.Response()


if __name__ == "__main__":
    app = web.Application()
    app.router.add_get("/health", take)
    app.router.add_post("/v1/traces", take)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
