"""Files and folders that are there whole after a crash or a power cut, or not at all."""

import os
from pathlib import Path


def write_durably(path: Path, content: bytes) -> None:
    """Write or replace a file: whoever reads it, at any time, reads all of the old or all of the new."""
    draft = path.with_name(path.name + ".part")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Have the disk keep a folder's entries. Windows cannot open folders, and keeps them without being told."""
    if os.name == "nt":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def sync_tree(folder: Path) -> int:
    """Have the disk keep every file below a folder; return how many bytes they are. Links are counted as nothing."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            path = Path(where) / name
            if path.is_symlink():
                continue
            with path.open("rb") as file:
                os.fsync(file.fileno())
                total += os.fstat(file.fileno()).st_size
        sync_folder(Path(where))
    return total
