"""Files that only their owner may read, written whole or not at all."""

import os
from pathlib import Path

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
"""Windows has none: there, links take a right that few accounts have."""


def write_private(path: Path, content: bytes) -> None:
    """Write or replace `path`, mode 0600, making its folders (0700) when they are missing."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".part")
    draft.unlink(missing_ok=True)  # of a write that was interrupted, or a link that somebody planted
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600), "wb") as file:
        file.write(content)
    draft.replace(path)
