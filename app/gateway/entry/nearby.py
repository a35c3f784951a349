"""Which address was meant by one at which there is nothing. Pure.

Most are an address of ours without its beginning (`/chat`), with it twice (`/v1/v1/models`), or misspelt.
"""

from collections.abc import Collection
from difflib import SequenceMatcher

_ALIKE = 0.8
"""Of all letters; by trial: a letter or two left out or wrong is above, another vendor's address below."""
_LONGEST = 200
"""Characters; no address of ours is half as long, and comparing takes time by the square."""


def nearest_route(path: str, known: Collection[str]) -> str:
    """Return the known address that was most likely meant; "" if none is like it."""
    path = path.rstrip("/")
    if not path or len(path) > _LONGEST:
        return ""
    begun = [address for address in known if path.count("/") > 1 and address.startswith(f"{path}/")]
    ending = [address for address in known if address.endswith(path) or path.endswith(address)]
    best = max(begun or ending or known, key=lambda address: (_route_likeness(path, address), address), default="")
    return best if begun or ending or _route_likeness(path, best) >= _ALIKE else ""


def _route_likeness(path: str, address: str) -> float:
    return SequenceMatcher(None, path, address, autojunk=False).ratio()
