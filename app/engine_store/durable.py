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
    """Have the disk keep every file below a folder; return how many bytes they are. Links are counted as nothing.

    All at once: an environment is ten thousand files, and syncing each by itself took 20 s where this takes one.
    """
    if hasattr(os, "sync"):
        os.sync()
    paths = (Path(where) / name for where, _, names in os.walk(folder) for name in names)
    return sum(path.stat().st_size for path in paths if not path.is_symlink())
