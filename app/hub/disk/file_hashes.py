"""Reading whole files to know what is in them: in stretches, saying how far it is, and stopping when told to."""

import hashlib
from collections.abc import Callable
from pathlib import Path

STRETCH_BYTES = 4 << 20

ReadProgress = Callable[[Path, int], None]
"""Told after every stretch: of which file, and how many bytes more. It raises what ends the reading."""


def sha256_of(file: Path, report: ReadProgress) -> str:
    """Return the SHA-256 of a file. Raises OSError, and what `report` raises."""
    return _hash_file(file, hashlib.sha256(), report)


def git_oid_of(file: Path, report: ReadProgress) -> str:
    """Return git's own hash of a file's content, as the hub names small files. Raises as `sha256_of`."""
    digest = hashlib.sha1(b"blob %d\0" % file.stat().st_size, usedforsecurity=False)
    return _hash_file(file, digest, report)


def _hash_file(file: Path, digest: "hashlib._Hash", report: ReadProgress) -> str:
    with file.open("rb", buffering=0) as source:
        while stretch := source.read(STRETCH_BYTES):
            digest.update(stretch)
            report(file, len(stretch))
    return digest.hexdigest()
