"""Reading whole files to know what is in them: in stretches, saying how far it is, and stopping when told to."""

import hashlib
from collections.abc import Callable
from pathlib import Path

STRETCH_BYTES = 4 << 20

Said = Callable[[Path, int], None]
"""Told after every stretch: of which file, and how many bytes more. It raises what ends the reading."""


def sha256_of(file: Path, said: Said) -> str:
    """Return the SHA-256 of a file. Raises OSError, and what `said` raises."""
    return _hashed(file, hashlib.sha256(), said)


def git_oid_of(file: Path, said: Said) -> str:
    """Return git's own hash of a file's content, as the hub names small files. Raises as `sha256_of`."""
    begun = hashlib.sha1(b"blob %d\0" % file.stat().st_size, usedforsecurity=False)
    return _hashed(file, begun, said)


def _hashed(file: Path, digest: "hashlib._Hash", said: Said) -> str:
    with file.open("rb", buffering=0) as source:
        while stretch := source.read(STRETCH_BYTES):
            digest.update(stretch)
            said(file, len(stretch))
    return digest.hexdigest()
