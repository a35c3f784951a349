"""Where a file of the hub's cache is from, told by the place it lies at."""

import re
from typing import NamedTuple, Protocol

_FOLDER = re.compile(r"models--(?P<owner>[^/\\]+?)--(?P<name>[^/\\]+)")


class HasParts(Protocol):
    """A path."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Its folders, and its name last."""


class Origin(NamedTuple):
    """Where a file of the hub's cache is from; `path` is within the repository, "." for its root."""

    repository: str
    commit: str
    path: str


def origin_of(path: HasParts) -> Origin | None:
    """Return what a place in the hub's cache says of itself; None for any other place."""
    parts = path.parts
    for at, part in enumerate(parts[:-2]):
        folder = _FOLDER.fullmatch(part)
        if folder is not None and parts[at + 1] == "snapshots":
            rest = "/".join(parts[at + 3 :]) or "."
            return Origin(f"{folder['owner']}/{folder['name']}", parts[at + 2], rest)
    return None
