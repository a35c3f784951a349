"""Find the handler of a POST at a fixed address in one step; every other request goes through aiohttp's router.

aiohttp looks at each request's address and wraps its handler anew, which takes longer than the checks in `middleware`.
A request found here passes the same checks.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, partial

from aiohttp import hdrs, web

from app.gateway.entry.middleware import ENTRY, send_continue

ServerHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_Post = tuple[web.UrlMappingMatchInfo, Callable[[web.Request], Awaitable[web.StreamResponse]]]


class Router(web.UrlDispatcher):
    """Finds nothing with the same caution: a client that waits for leave to send its body gets none before its head."""

    @cached_property
    def posts_by_path(self) -> Mapping[str, web.AbstractRoute]:
        """The POSTs at fixed addresses, by address. Ask once all routes are there."""
        return {
            route.resource.canonical: route
            for route in self.routes()
            if route.method == hdrs.METH_POST and isinstance(route.resource, web.PlainResource)
        }

    async def resolve(self, request: web.Request) -> web.UrlMappingMatchInfo:
        """Return what is at an address."""
        match = await super().resolve(request)
        if match.http_exception is not None:
            match.route._expect_handler = send_continue  # noqa: SLF001 -- as for the routes there are
        return match


def dispatch_posts(app: web.Application, otherwise: ServerHandler) -> ServerHandler:
    """Return what answers a request to an application with our router, `otherwise` where it is not a fixed POST."""
    router, posts = app.router, dict[str, _Post]()
    assert isinstance(router, Router)  # noqa: S101 -- for the type checker: `app` makes no other

    def make_post(path: str) -> _Post | None:
        if path in router.posts_by_path:
            posts[path] = _make_post(app, path, router.posts_by_path[path])
        return posts.get(path)

    def dispatch(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        path = request.raw_path
        post = (posts.get(path) or make_post(path)) if request.method == hdrs.METH_POST else None
        if post is None or hdrs.EXPECT in request.headers or not isinstance(request, web.Request):
            return otherwise(request)  # which sends 100 Continue, too
        request._match_info, handler = post  # noqa: SLF001 -- what aiohttp's router would set; nothing public does
        return handler(request)

    return dispatch


def _make_post(app: web.Application, path: str, route: web.AbstractRoute) -> _Post:
    """Return what the router would find."""
    match = web.UrlMappingMatchInfo({}, route)
    match.add_app(app)
    match.freeze()
    return match, partial(app[ENTRY].answer_request, handler=route.handler, path=path)
