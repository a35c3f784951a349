"""Access keys: what may be done with one, how it is made, and what is told about it later.

The key itself is in `KeyWithSecret` alone, which exists once: when it is made.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

MAX_NAME = 64
_NAME_PATTERN = r"^[^\s/\x00-\x1f\x7f](?:[^/\x00-\x1f\x7f]*[^\s/\x00-\x1f\x7f])?$"
NAME_RULE = f"A name has 1 to {MAX_NAME} characters, without slashes, and without spaces at either end."
KeyName = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME, pattern=_NAME_PATTERN)]
"""No slash and no control character, and no blank at either end: a name stands in addresses and in tables."""


class Scope(StrEnum):
    """What a key is good for. `manage` includes `inference`."""

    INFERENCE = "inference"
    """Ask models, on the public routes."""
    MANAGE = "manage"
    """Also Roundhouse's own API and /metrics: load models, read conversations, change settings, make keys."""


MOST_KEY_MODELS = 64
Limit = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000_000)]


class KeyLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much may be done with a key. None where there is no limit."""

    requests_per_minute: Limit | None = None
    tokens_per_minute: Limit | None = None
    """Of prompts and answers together, as with the next."""
    tokens_per_day: Limit | None = None
    concurrent_requests: Limit | None = None
    models: Annotated[
        list[Annotated[str, msgspec.Meta(min_length=1, max_length=200)]], msgspec.Meta(max_length=MOST_KEY_MODELS)
    ] = []
    """Names of the only models it may ask; `*` stands for any letters. Without any it may ask every model."""


NO_LIMITS = KeyLimits()


class LimitName(StrEnum):
    """The limits that can be used up, called as in `KeyLimits`."""

    REQUESTS_PER_MINUTE = "requests_per_minute"
    TOKENS_PER_MINUTE = "tokens_per_minute"
    TOKENS_PER_DAY = "tokens_per_day"
    CONCURRENT_REQUESTS = "concurrent_requests"


class KeyUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a key was used for lately. A day is the last 24 hours; restarts of the gateway do not shorten it."""

    requests_last_minute: int
    tokens_last_minute: int
    tokens_last_day: int
    requests_in_flight: int
    refused_last_hour: int = 0
    """Requests over a limit, since the gateway started."""
    limit_reached: LimitName | None = None
    """Why the next request would be refused now."""
    wait_s: float | None = None
    """For how long it would be, if nothing else is used; None too while it waits for an answer in progress to end."""


class NewKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to be made. `expires_at` in Unix seconds; without it the key is good until it is revoked."""

    name: KeyName
    scopes: Annotated[list[Scope], msgspec.Meta(min_length=1, max_length=2)] = msgspec.field(
        default_factory=lambda: [Scope.INFERENCE]
    )
    expires_at: Annotated[float, msgspec.Meta(ge=0, le=253_402_300_799)] | None = None
    limits: KeyLimits = NO_LIMITS
    """Not together with `manage`: who may make keys can change limits."""


class KeyTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that count for the limits of a key, as of a moment in Unix seconds."""

    key_id: str
    at: float
    tokens: int


class KeyRename(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another name for a key."""

    name: KeyName


class KeyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is told about a key. Times in Unix seconds."""

    name: str
    id: str = ""
    """Stays when the key is renamed, and is never that of another key, not even of a later one with its name."""
    scopes: list[Scope]
    created_at: float
    expires_at: float | None = None
    last_used_at: float | None = None
    """Good to a minute."""
    limits: KeyLimits | None = None
    usage: KeyUsage | None = None
    """Told with the list."""


class KeyWithSecret(KeyInfo, frozen=True, kw_only=True):
    """A key that was just made, with the one copy of it there is."""

    key: str
