"""What folders hold, listed again only once they changed: looking through thousands again costs a `stat` each.

A folder's time of change tells that names came, went or were replaced. One that changed a moment ago is listed every
time, since it may change again within the tick of its file system's clock.
"""

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

SETTLED_NS = 2_500_000_000
"""FAT's clock ticks every two seconds."""


class FolderListing(NamedTuple):
    """One folder: its identity, the names in it that can be shown, in order, and those of its folders."""

    identity: tuple[int, int]
    files: tuple[str, ...]
    folders: tuple[str, ...]


class FolderListings:
    """Remembers what was listed. Not thread-safe: its owner holds a lock."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, FolderListing]] = {}
        self._used: set[str] = set()

    def listing_of(self, folder: str) -> FolderListing | None:
        """Return what a folder holds; None if it cannot be listed."""
        try:
            status = os.stat(folder)  # noqa: PTH116 -- thousands of times; a Path takes longer than the question
            identity = (status.st_dev, status.st_ino)
            self._used.add(folder)
            known = self._known.get(folder)
            if known is not None and known[0] == status.st_mtime_ns and known[1].identity == identity:
                return known[1]
            listing, is_sure = _list_folder(folder, identity)
        except OSError:
            return None
        if is_sure and status.st_mtime_ns < time.time_ns() - SETTLED_NS:
            self._known[folder] = (status.st_mtime_ns, listing)
        return listing

    def forget_unused(self) -> None:
        """Forget folders that nobody asked for since the last call."""
        for folder in self._known.keys() - self._used:
            del self._known[folder]
        self._used.clear()


def _list_folder(folder: str, identity: tuple[int, int]) -> tuple[FolderListing, bool]:
    """Return what is in a folder, and whether that stays so while its time of change does."""
    with os.scandir(folder) as entries:
        sorted_entries = sorted((entry for entry in entries if is_text(entry.name)), key=lambda entry: entry.name)
    folders = tuple(entry.name for entry in sorted_entries if _is_folder(entry))
    inside = frozenset(folders)
    files = [entry for entry in sorted_entries if entry.name not in inside and _is_file(entry)]
    # What a link leads to comes and goes without this folder's knowledge.
    return FolderListing(identity, tuple(entry.name for entry in files), folders), not any(map(_leads_nowhere, files))


def is_text(name: str) -> bool:
    """Return whether a name is Unicode: one that is not could be neither shown nor sent."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a plain file. A link that leads nowhere is kept, to be listed with its problem."""
    try:
        return entry.is_file() or entry.is_symlink()
    except OSError:
        return False


def _leads_nowhere(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink() and not entry.is_file()
    except OSError:
        return True


def walk_folders(
    listings: FolderListings, folder: str, depth: int, seen: set[tuple[int, int]]
) -> Iterator[tuple[str, FolderListing]]:
    """Yield a folder and those below it, hidden ones left out. `seen` has those visited: a link back ends there."""
    listing = listings.listing_of(folder)
    if listing is None or listing.identity in seen:
        return
    seen.add(listing.identity)
    yield folder, listing
    for name in listing.folders if depth > 0 else ():
        if not name.startswith("."):
            yield from walk_folders(listings, f"{folder}{os.sep}{name}", depth - 1, seen)
