"""Find the handler of a POST at a fixed address in one step; every other request goes through aiohttp's router.

aiohttp looks at each request's address and wraps its handler anew, which takes longer than the checks in `middleware`.
A request found here passes the same checks.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from aiohttp import hdrs, web

from app.gateway.entry.middleware import ENTRY

ServerHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_Post = tuple[web.UrlMappingMatchInfo, Callable[[web.Request], Awaitable[web.StreamResponse]]]


def dispatch_posts(app: web.Application, otherwise: ServerHandler) -> ServerHandler:
    """Return what answers a request to the application, `otherwise` where its address is not one of a fixed POST's."""
    posts = _post_table(app)

    def dispatch(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        post = posts.get(request.raw_path) if request.method == hdrs.METH_POST else None
        if post is None or hdrs.EXPECT in request.headers or not isinstance(request, web.Request):
            return otherwise(request)  # which sends 100 Continue, too
        request._match_info, handler = post  # noqa: SLF001 -- what aiohttp's router would set; nothing public does
        return handler(request)

    return dispatch


def _post_table(app: web.Application) -> Mapping[str, _Post]:
    """Return by address what the router would find."""
    posts, entry = dict[str, _Post](), app[ENTRY]
    for route in app.router.routes():
        if route.method == hdrs.METH_POST and isinstance(route.resource, web.PlainResource):
            match = web.UrlMappingMatchInfo({}, route)
            match.add_app(app)
            match.freeze()
            path = route.resource.canonical
            posts[path] = match, partial(entry.answer_request, handler=route.handler, path=path)
    return posts
