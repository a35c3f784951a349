"""Who makes a request, told from its head: which program, from where, in which dialect."""

import re
from functools import lru_cache

from aiohttp import hdrs, web

from app.core.requests import Peer
from app.gateway.dialects.anthropic.record import ANTHROPIC_DIALECT
from app.gateway.dialects.record import DialectName
from app.gateway.dialects.registry import dialect_of
from app.gateway.exchange.observer import Caller

_LONGEST_CLIENT = 60
_LONGEST_PATH = 200
"""What tells a dialect stands before that."""
_LOOPBACK = ("127.", "::1")
_BROWSER = frozenset(
    {"Mozilla", "AppleWebKit", "Chrome", "Safari", "Gecko", "Firefox", "Version", "Mobile", "Electron"}
)
_PRODUCT = re.compile(r"([^\s/()]+)(?:/(\S+))?")
_COMMENT = re.compile(r"\([^)]*\)")


def caller_of(request: web.Request, request_id: str, *, keeps_bodies: bool) -> Caller:
    """Return who makes a request."""
    return Caller(
        id=request_id,
        client=client_name(request.headers.get(hdrs.USER_AGENT, "")),
        peer=Peer.THIS_COMPUTER if (request.remote or "").startswith(_LOOPBACK) else Peer.NETWORK,
        dialect=_dialect_name(request.path[:_LONGEST_PATH], is_named=ANTHROPIC_DIALECT.header in request.headers),
        path=request.path,
        keeps_bodies=keeps_bodies,
    )


@lru_cache(maxsize=256)
def _dialect_name(path: str, *, is_named: bool) -> DialectName:
    return dialect_of(path, {ANTHROPIC_DIALECT.header: ""} if is_named else {}).name


@lru_cache(maxsize=256)
def client_name(user_agent: str) -> str:
    """Return the product a User-Agent names: "claude-cli" for "claude-cli/2.1 (external)", "OpenAI/Python" as it is.

    A browser's names come before that of what is built on it, so there the last one counts that is no browser's.
    """
    text = "".join(letter for letter in _COMMENT.sub(" ", user_agent) if letter.isprintable())
    products = [_product_name(*parts) for parts in _PRODUCT.findall(text)]
    if not products:
        return "unknown"
    own = [name for name in products if name not in _BROWSER]
    if products[0] in _BROWSER:
        return (own[-1] if own else "browser")[:_LONGEST_CLIENT]
    return products[0][:_LONGEST_CLIENT]


def _product_name(name: str, version: str) -> str:
    is_version = not version or version.lstrip("vV")[:1].isdigit()
    return name if is_version else f"{name}/{version}"
