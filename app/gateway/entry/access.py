"""Which requests need a key, and which key is enough.

    /health, /v1/health          nothing
    public routes                nothing on this computer; a key with `inference` once keys are asked for
    /metrics                     as the public routes, but a key with `manage`
    Roundhouse's own API         the port file's token, on this computer only; else a key with `manage`

Keys are asked of everybody once the endpoint listens wider than loopback or `gateway.require_key` is on, and always of
requests that come by way of a proxy or tunnel: those only look as if they were from this computer.
"""

import ipaddress
import logging
import math
import os
import secrets
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from aiohttp import hdrs, web
from multidict import CIMultiDictProxy

from app.core.api import PREFIX
from app.core.errors import Conflict, Forbidden, TooManyRequests, Unauthorized, UserError
from app.core.keys import NO_LIMITS, KeyInfo, Scope
from app.gateway.entry.guard import names_loopback
from app.gateway.entry.key_holders import KeyHolders
from app.gateway.entry.key_limits import KEY_USE
from app.gateway.entry.keys import KeyStore
from app.gateway.entry.local_peers import account_of
from app.gateway.exchange.observer import OBSERVATION
from app.gateway.loading.requested_model import KEY_MODELS
from app.supervisor.lease import CLIENT

log = logging.getLogger(__name__)

MAY_MANAGE = web.RequestKey("may_manage", bool)
"""Whether the request showed the port file's token, on this computer, or a key with `manage`."""

KEY_NAME = web.RequestKey("key_name", str)
"""Of the key that let a request in, if one did. Another key may have it later: what belongs to a key says its id."""

KEY_ID = web.RequestKey("key_id", str)

_OWN_PATHS = f"{PREFIX}/"
_OPEN_PATHS = frozenset({"/health", "/v1/health"})
_KEY_HEADERS = ("x-api-key", "api-key", "x-goog-api-key")
"""Anthropic's, Azure's and Google's clients; everybody else sends `Authorization: Bearer`."""
_VIA_HEADERS = frozenset({"forwarded", "via", "x-real-ip", "true-client-ip", "x-client-ip", "x-cluster-client-ip"})
_VIA_PREFIXES = ("x-forwarded-", "x-original-", "cf-", "fly-", "fastly-", "tailscale-")
"""Proxies, content networks and tunnels add headers of these names: nginx and its like, Cloudflare, Fly, Fastly."""
_MOST_SHOWN = 4
"""Keys looked at in one request: SDKs send one, some send the same one in two headers."""


class KeyNeeded(Conflict):
    """The endpoint does not listen wider than loopback while nobody could be asked for a key."""

    default_code = "key_required"

    def __init__(self) -> None:
        super().__init__(
            "The endpoint accepts other computers only when there is a key: without one, anyone on the network "
            "could use it.",
            hint="Create one with `roundhouse keys new NAME` first.",
        )


class TooManyWrongKeys(TooManyRequests):
    """This peer should wait `retry_s` seconds."""

    default_code = "too_many_wrong_keys"

    def __init__(self, retry_s: float) -> None:
        seconds = math.ceil(retry_s)
        super().__init__(
            f"Too many wrong keys came from this address. Try again in {seconds} seconds.",
            hint="A correct key is accepted at once.",
            retry_after=str(seconds),
        )


class Access:
    """Decides by path, peer and what the headers show. `is_wide`: listening to more than loopback."""

    def __init__(self, keys: KeyStore, token: str, *, is_wide: bool, asks_always: Callable[[], bool]) -> None:
        self._keys, self._token, self._is_wide, self._asks_always = keys, token, is_wide, asks_always
        self._attempts = Attempts()
        self.holders = KeyHolders(keys)

    def check_access(self, request: web.Request, path: str) -> bool:
        """Return if the request may go on, and whether `holders` has it now: a key let it in.

        `path` is that of the route that will answer, whatever way its address was written; its text if none will.
        Raises Unauthorized, Forbidden or TooManyWrongKeys.
        """
        is_here = came_from_here(request)
        if path in _OPEN_PATHS:
            return False
        is_own = path.startswith(_OWN_PATHS)
        if not is_own and is_here and not self._is_wide and not self._asks_always():
            return False
        credentials = list(keys_shown(request.headers))
        if is_here and any(self._is_token(key) for key in credentials):
            request[MAY_MANAGE] = True
            return False
        key = next(filter(None, map(self._keys.find_key, credentials)), None)
        if key is None:
            raise self._refusal_error(credentials, request.remote or "", is_own=is_own and is_here)
        CLIENT.set(key.name)
        request[KEY_NAME], request[KEY_ID] = key.name, key.id
        if (observation := request.get(OBSERVATION)) is not None:
            observation.key_name, observation.key_id = key.name, key.id
            observation.key_use = self._keys.use_of(key.id)
        if key.limits is not None:
            self._limit_request(request, key)
        request[MAY_MANAGE] = Scope.MANAGE in key.scopes
        if not request[MAY_MANAGE] and (is_own or path == "/metrics" or Scope.INFERENCE not in key.scopes):
            raise Forbidden(
                f"The key {key.name!r} may use models, but not manage Roundhouse.",
                hint="Use a key with the scope manage.",
                code="scope_missing",
            )
        self.holders.add_request(request, key)
        return True

    def _limit_request(self, request: web.Request, key: KeyInfo) -> None:
        """Have the limits of its key count for a request."""
        KEY_MODELS.set(tuple((key.limits or NO_LIMITS).models))
        if (use := self._keys.use_of(key.id)) is not None:
            request[KEY_USE] = use

    def _refusal_error(self, credentials: list[str], peer: str, *, is_own: bool) -> UserError:
        wait_s = self._attempts.note_wrong_key(peer) if credentials else 0.0
        if wait_s:
            return TooManyWrongKeys(wait_s)
        if credentials:
            log.info("A wrong key was shown", extra={"peer": peer})
        if is_own:
            return Unauthorized(
                "This address needs the token of the running gateway.",
                hint="Send `Authorization: Bearer` with the token from its port file, or with a key that may manage.",
            )
        return Unauthorized(
            "The key is not valid for this endpoint." if credentials else "This endpoint requires a key.",
            hint="Create one with `roundhouse keys new NAME` and send it as `Authorization: Bearer` or `x-api-key`.",
            code="invalid_api_key" if credentials else "key_required",
        )

    def _is_token(self, key: str) -> bool:
        return bool(self._token) and secrets.compare_digest(_to_bytes(key), _to_bytes(self._token))


def check_may_change(request: web.Request) -> None:
    """Return if who asks may change what models there are: with a key, one that may manage; without, this account.

    Raises Forbidden. Where nobody can tell which account asks, as on systems other than Linux, it may.
    """
    if MAY_MANAGE not in request:
        _check_account(request)
    if request.get(MAY_MANAGE) is False:
        raise Forbidden(
            "This key may use models, but not manage them.",
            hint="Use a key with the scope manage.",
            code="scope_missing",
        )


def _check_account(request: web.Request) -> None:
    """Raise Forbidden for another account of this computer. Reads a file of the kernel's."""
    transport = request.transport
    if transport is None or sys.platform == "win32":
        return
    uid = account_of(transport.get_extra_info("peername")[:2], transport.get_extra_info("sockname")[:2])
    if uid is not None and uid not in {0, os.geteuid()}:
        raise Forbidden(
            "Another account of this computer may use models, but not change them.",
            hint="Use a key with the scope manage: `roundhouse keys new NAME --scope manage`.",
            code="other_account",
        )


def came_from_here(request: web.Request) -> bool:
    """Tell whether a program on this computer asks, under a name of this computer, with nobody in between."""
    if any(map(_names_proxy, request.headers)):
        return False
    host = request.headers.get(hdrs.HOST)  # a request without one can only be old, not foreign
    return (host is None or names_loopback(host)) and _is_loopback(request.remote or "")


@lru_cache(maxsize=256)
def _names_proxy(header: str) -> bool:
    """Tell whether a header's name is one by which a proxy or tunnel is known."""
    name = header.lower()
    return name in _VIA_HEADERS or name.startswith(_VIA_PREFIXES)


@lru_cache(maxsize=256)
def _is_loopback(peer: str) -> bool:
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    mapped_address = getattr(address, "ipv4_mapped", None)
    return bool((mapped_address or address).is_loopback)


def keys_shown(headers: CIMultiDictProxy[str]) -> Iterator[str]:
    """Yield the keys a request shows; each header may be there more than once."""
    values = [
        credentials
        for scheme, _, credentials in map(_split_authorization, headers.getall(hdrs.AUTHORIZATION, ()))
        if scheme == "bearer"
    ]
    for name in _KEY_HEADERS:
        values += headers.getall(name, ())
    yield from [key for key in map(str.strip, values) if key][:_MOST_SHOWN]


def _split_authorization(authorization: str) -> tuple[str, str, str]:
    scheme, separator, credentials = authorization.partition(" ")
    return scheme.lower(), separator, credentials


def _to_bytes(text: str) -> bytes:
    """Bytes: compare_digest refuses text that is not ASCII, and a header can hold anything."""
    return text.encode(errors="surrogateescape")


# Count wrong keys per peer, in bounded memory, so that guessing gets slow and the log stays readable.
#
# A right key always passes, whoever else tried wrong ones from the same address: keys are random and long, so a guess
# is never right, while a household behind one address has more than one program.

ALLOWED = 10
"""Wrong keys a peer may show within `WINDOW_S`; a person who pastes wrongly needs two or three."""
WINDOW_S = 60.0
MAX_PEERS = 4096
"""Those who tried least recently are forgotten first; a peer takes about 200 bytes."""
_V6_PREFIX = 64
"""A household has at least a /64 of IPv6: single addresses cost it nothing."""


@dataclass(slots=True)
class _Tally:
    began: float
    count: int


class Attempts:
    """Wrong keys by peer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tallies: OrderedDict[str, _Tally] = OrderedDict()

    def __len__(self) -> int:
        """Return how many peers are remembered."""
        return len(self._tallies)

    def note_wrong_key(self, peer: str) -> float:
        """Note a wrong key. Return for how many seconds this peer should wait; 0 while it may try on."""
        now, who = self._clock(), _network_of(peer)
        tally = self._tallies.pop(who, None)
        if tally is None or now - tally.began >= WINDOW_S:
            tally = _Tally(now, 0)
        tally.count += 1
        self._tallies[who] = tally
        if len(self._tallies) > MAX_PEERS:
            self._tallies.popitem(last=False)
        return tally.began + WINDOW_S - now if tally.count > ALLOWED else 0.0


def _network_of(peer: str) -> str:
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv6Address):
        mapped_address = address.ipv4_mapped
        return str(mapped_address or ipaddress.ip_network((address, _V6_PREFIX), strict=False))
    return str(address)
