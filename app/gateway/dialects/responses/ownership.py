"""Whose a response is: its id says so, so that another key finds nothing under it.

An id ends with a mark made of its random part and the id of the key that asked, or of none. Nobody but the key that
made a response comes to the same mark, whichever id it shows; nothing has to be looked up.
"""

import hashlib
import secrets

from aiohttp import web

from app.gateway.entry.access import KEY_ID

_RANDOM_BYTES, _MARK_BYTES = 20, 4


def owner_of(request: web.Request) -> str:
    """Return the id of the key a request showed; empty without one."""
    key_id: str = request.get(KEY_ID, "")
    return key_id


def new_response_id(owner: str) -> str:
    """Return an id that nobody can guess, of a response that belongs to `owner`."""
    random_part = secrets.token_hex(_RANDOM_BYTES)
    return f"resp_{random_part}{_mark(random_part, owner)}"


def is_owned(response_id: str, owner: str) -> bool:
    """Tell whether a response belongs to `owner`."""
    random_part = response_id.removeprefix("resp_")[: 2 * _RANDOM_BYTES]
    return response_id == f"resp_{random_part}{_mark(random_part, owner)}"


def _mark(random_part: str, owner: str) -> str:
    return hashlib.blake2b(f"{random_part} {owner}".encode(), digest_size=_MARK_BYTES).hexdigest()
