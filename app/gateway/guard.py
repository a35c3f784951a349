"""Who may call: programs on this computer, pages served from it, and editor or browser extensions.

The Host check stops DNS rebinding: a foreign page that made its name point at 127.0.0.1 still sends its own name. The
Origin check stops foreign pages that call us outright; programs send no Origin and pass.
"""

import ipaddress
import re
from collections.abc import Collection

from multidict import CIMultiDict, CIMultiDictProxy

from app.core.errors import Forbidden

_APP_SCHEMES = frozenset(
    {
        "app",
        "file",
        "tauri",
        "vscode-webview",
        "vscode-file",
        "chrome-extension",
        "moz-extension",
        "safari-web-extension",
    }
)
_LOCAL_PAGE = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?")
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
ALLOWED_HEADERS = (
    "Authorization, Content-Type, Accept, User-Agent, X-Requested-With, "
    "OpenAI-Beta, OpenAI-Organization, OpenAI-Project, "
    "x-api-key, anthropic-version, anthropic-beta, anthropic-dangerous-direct-browser-access"
)
"""As Ollama's own CORS rule, and what Anthropic's SDK sends from a browser.

The x-stainless headers of both SDKs are added as asked for.
"""
_PREFLIGHT_S = "86400"


class Guard:
    """Decides by the Host and Origin headers. `bound` is the address listened on, `extra` the user's own origins."""

    def __init__(self, bound: str, extra: Collection[str]) -> None:
        self._names = _LOCAL_NAMES | {bound.lower(), f"[{bound}]"}
        self._extra = frozenset(origin.rstrip("/").lower() for origin in extra)

    def check(self, headers: CIMultiDictProxy[str]) -> None:
        """Return if the request may go on; raise Forbidden with the reason otherwise."""
        host = headers.get("Host", "")
        if not self.is_our_name(host):
            raise Forbidden(f"This endpoint is not called {host!r}.", hint="Use localhost.", code="host_not_allowed")
        origin = headers.get("Origin")
        if origin is not None and not self.is_allowed(origin):
            raise Forbidden(
                f"Pages from {origin} may not use this endpoint.",
                hint="Add the origin to the setting gateway.allowed_origins.",
                code="origin_not_allowed",
            )

    def is_our_name(self, host: str) -> bool:
        """Tell whether a Host header names this computer's loopback. HTTP/1.0 clients may send none."""
        name = _without_port(host.lower())
        return not name or name in self._names or name.endswith(".localhost") or _is_loopback(name)

    def is_allowed(self, origin: str) -> bool:
        """Tell whether pages of that origin may call. The opaque origin "null" may not: any page can have it."""
        lowered = origin.lower()
        scheme, separator, _ = lowered.partition("://")
        is_app = bool(separator) and scheme in _APP_SCHEMES
        return is_app or lowered.rstrip("/") in self._extra or bool(_LOCAL_PAGE.fullmatch(lowered))


def cors_headers(origin: str) -> CIMultiDict[str]:
    """Return what lets a page of the allowed `origin` read an answer."""
    return CIMultiDict(
        {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Expose-Headers": "x-request-id, request-id",
            "Vary": "Origin",
        }
    )


def preflight_headers(asked: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return what a preflight is told beside `cors_headers`. Of unknown headers, only x-stainless ones are allowed."""
    names = [name.strip() for name in asked.get("Access-Control-Request-Headers", "").split(",")]
    stainless = [name for name in names if name.lower().startswith("x-stainless-")]
    headers = CIMultiDict(
        {
            "Access-Control-Allow-Methods": "GET, POST, PATCH, DELETE, HEAD, OPTIONS",
            "Access-Control-Allow-Headers": ", ".join((ALLOWED_HEADERS, *stainless)),
            "Access-Control-Max-Age": _PREFLIGHT_S,
        }
    )
    if asked.get("Access-Control-Request-Private-Network") == "true":
        headers["Access-Control-Allow-Private-Network"] = "true"
    return headers


def _without_port(authority: str) -> str:
    if authority.startswith("["):
        return authority.partition("]")[0] + "]"
    return authority.partition(":")[0]


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False
