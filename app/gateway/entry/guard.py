"""Who may call: programs on this computer, pages served from it, and editor or browser extensions.

The Host check stops DNS rebinding: a foreign page that made its name point at 127.0.0.1 still sends its own name. An
address in figures cannot be rebound, so beyond loopback all of those pass, and names only if they are ours. The Origin
check stops foreign pages that call us outright; programs send no Origin and pass. Which key is needed, if any, is for
`access` to say.
"""

import ipaddress
import re
from collections.abc import Collection, Sequence
from functools import lru_cache

from aiohttp.web import BaseRequest
from multidict import CIMultiDict, CIMultiDictProxy

from app.config.store import SettingsStore
from app.core.errors import Forbidden, quote_value

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
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{0,5})?", re.ASCII)
_LONGEST_AUTHORITY = 261
"""Characters of a Host header that are looked at: a name has 253 at most, and a port five."""
_LONGEST_ORIGIN = 300
"""As much with a scheme before it; extensions' pages have shorter names."""
_LOCAL_PAGE = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?")
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_FROM_CONTAINERS = frozenset({"host.docker.internal", "host.containers.internal"})
"""What Docker and Podman call this computer inside a container. Nobody can have a name below .internal on the internet,
and whoever comes under one needs a key (`access`)."""
ALLOWED_HEADERS = (
    "Authorization, Content-Type, Accept, User-Agent, X-Requested-With, "
    "OpenAI-Beta, OpenAI-Organization, OpenAI-Project, "
    "x-api-key, anthropic-version, anthropic-beta, anthropic-dangerous-direct-browser-access, "
    "x-goog-api-key, x-goog-api-client, x-roundhouse-profile"
)
"""As Ollama's own CORS rule, and what Anthropic's and Google's SDKs send from a browser.

The x-stainless headers of both SDKs are added as asked for.
"""
_PREFLIGHT_S = "86400"
_LONGEST_LIST = 1024
"""Characters of a preflight's list of headers that are looked at; SDKs name twenty."""
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """Decides by the Host and Origin headers.

    `bound` is the address listened on, `extra` the user's own origins, `names` what this endpoint is called besides.
    """

    def __init__(self, bound_host: str, extra: Collection[str], names: Collection[str] = ()) -> None:
        self._is_wide = is_wide(bound_host)
        self._names = (
            _LOCAL_NAMES
            | _FROM_CONTAINERS
            | {bound_host.lower(), f"[{bound_host.lower()}]"}
            | {name.lower() for name in names}
        )
        self._extra = frozenset(origin.rstrip("/").lower() for origin in extra)

    def check_request(self, request: BaseRequest) -> None:
        """Return if the request may go on; raise Forbidden with the reason otherwise.

        An address that names a host, as those sent to a proxy do, goes before the header.
        """
        headers, target = request.headers, request.raw_path
        hosts = headers.getall("Host", [])
        if len(hosts) != 1 or not names_loopback(hosts[0]) or not target.startswith("/"):
            self._check_names(hosts, _names_in_target(target))
        origin = headers.get("Origin")
        if origin is None:
            # Another site's page sends none for an image's address, a script's, and often a form. A link that somebody
            # follows comes likewise, and changes nothing.
            is_foreign = headers.get("Sec-Fetch-Site") == "cross-site"
            if is_foreign and (request.method not in _READING or headers.get("Sec-Fetch-Mode") == "no-cors"):
                raise Forbidden("Pages from other sites may not use this endpoint.", code="origin_not_allowed")
        elif not self.is_allowed(origin):
            raise Forbidden(
                f"Pages from {quote_value(origin)} may not use this endpoint.",
                hint="Add the origin to the setting gateway.allowed_origins.",
                code="origin_not_allowed",
            )

    def _check_names(self, hosts: Sequence[str], header_names: Sequence[str]) -> None:
        """Return if all names are ours, and the header at most one; raise Forbidden otherwise."""
        foreign = [host for host in (*hosts, *header_names) if not self.is_our_name(host)]
        if foreign or len(hosts) > 1:
            raise Forbidden(
                f"This endpoint is not called {quote_value(foreign[0] if foreign else ' and '.join(hosts))}.",
                hint="Use localhost, or add the name to the setting gateway.allowed_hosts.",
                code="host_not_allowed",
            )

    def is_our_name(self, host: str) -> bool:
        """Tell whether a Host header names this endpoint."""
        name = _name_in(host)
        return name is not None and (
            names_loopback(host) or name in self._names or (self._is_wide and _parse_address(name) is not None)
        )

    def is_allowed(self, origin: str) -> bool:
        """Tell whether pages of that origin may call. The opaque origin "null" may not: any page can have it."""
        if len(origin) > _LONGEST_ORIGIN:
            return False
        lower_origin = origin.lower()
        scheme, separator, _ = lower_origin.partition("://")
        is_app = bool(separator) and scheme in _APP_SCHEMES
        return is_app or lower_origin.rstrip("/") in self._extra or bool(_LOCAL_PAGE.fullmatch(lower_origin))


def asks_for_keys(bound_host: str, settings: SettingsStore) -> bool:
    """Return whether every program needs a key, also one on this computer."""
    return is_wide(bound_host) or settings.get_flag("gateway.require_key")


def is_wide(bound_host: str) -> bool:
    """Tell whether listening at `bound` lets other computers in."""
    return not names_loopback(f"[{bound_host}]" if ":" in bound_host else bound_host)


@lru_cache(maxsize=256)
def names_loopback(host: str) -> bool:
    """Tell whether a Host header names this computer's loopback."""
    name = _name_in(host)
    if name is None:
        return False
    address = _parse_address(name)
    return name in _LOCAL_NAMES or name.endswith(".localhost") or bool(address and address.is_loopback)


def cors_headers(origin: str) -> CIMultiDict[str]:
    """Return what lets a page of the allowed `origin` read an answer."""
    return CIMultiDict(
        {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Expose-Headers": "x-request-id, request-id, x-roundhouse-estimated",
            "Vary": "Origin",
        }
    )


def preflight_headers(request_headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return what a preflight is told beside `cors_headers`. Of unknown headers, only x-stainless ones are allowed."""
    header_names = request_headers.get("Access-Control-Request-Headers", "")[:_LONGEST_LIST]
    names = [name.strip() for name in header_names.split(",")]
    stainless = [name for name in names if name.lower().startswith("x-stainless-")]
    headers = CIMultiDict(
        {
            "Access-Control-Allow-Methods": "GET, POST, PATCH, DELETE, HEAD, OPTIONS",
            "Access-Control-Allow-Headers": ", ".join((ALLOWED_HEADERS, *stainless)),
            "Access-Control-Max-Age": _PREFLIGHT_S,
        }
    )
    if request_headers.get("Access-Control-Request-Private-Network") == "true":
        headers["Access-Control-Allow-Private-Network"] = "true"
    return headers


def _names_in_target(target: str) -> list[str]:
    _, is_whole, rest = target.partition("://")
    return [rest.partition("/")[0].partition("?")[0]] if is_whole else []


def _name_in(authority: str) -> str | None:
    """Return the name before the port, in lower case; None for what is no name with or without a port."""
    if len(authority) > _LONGEST_AUTHORITY:
        return None
    match = _AUTHORITY.fullmatch(authority.lower())
    return match[1] if match else None


def _parse_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None
