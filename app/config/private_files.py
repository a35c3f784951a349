"""Files that only their owner may read, written whole or not at all.

What is written grows under a name of its own and takes the place of the old file once it is closed: a full disk or a
kill in between leaves the old file as it was.
"""

import os
import tempfile
from pathlib import Path

from app.core.errors import write_fault


def write_private(path: Path, content: bytes) -> None:
    """Write or replace `path`, mode 0600, making its folders (0700) when they are missing. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A new name each time: several threads may write the same file, and a link that somebody planted is not followed.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part")
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def save_private(path: Path, content: bytes, what: str) -> None:
    """Write or replace `path` as `write_private` does. Raises StorageFault, which names the file as `what`."""
    try:
        write_private(path, content)
    except OSError as error:
        raise write_fault(what, error, place=str(path.parent)) from error
