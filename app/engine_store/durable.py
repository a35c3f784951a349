"""Files and folders that are there whole after a crash or a power cut, or not at all."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_AT_A_TIME = 32


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
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> int:
    """Have the disk keep every file below a folder; return how many bytes they are. Links are counted as nothing.

    Many at a time: a file system writes what is asked for together as one. An environment is ten thousand files, and
    one after the other took 20 s. `os.sync` would wait for whatever else is being written on this computer.
    """
    folders = [Path(where) for where, _, _ in os.walk(folder)]
    files = [path for directory in folders for path in directory.iterdir() if path.is_file() and not path.is_symlink()]
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        total = sum(threads.map(_sync_file, files))
        list(threads.map(sync_folder, folders))
    return total


def _sync_file(path: Path) -> int:
    with path.open("rb") as file:
        if os.name != "nt":  # Windows syncs only what is open for writing
            os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size
