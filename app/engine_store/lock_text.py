"""What a lock names: each package with its version, whether an index has it or an address is given."""

import re
from urllib.parse import unquote

_PINNED = re.compile(
    r"^(?P<name>[A-Za-z0-9][\w.-]*)(?:==(?P<version>[^\s;]+)| @ \S*/[^\s/-]+-(?P<file>[^\s/-]+)-[^\s/]*\.whl)",
    re.MULTILINE,
)


def read_pins(lock: str) -> dict[str, str]:
    """Return the version of every package, by its name as the lock writes it."""
    return {match["name"]: match["version"] or unquote(match["file"]) for match in _PINNED.finditer(lock)}
