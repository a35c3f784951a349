"""Files uploaded under their SHA-256, to make models of: checked while they are written, there whole or not at all.

Weights made of blobs are hard links to them, under names that engines and people can read. A blob nothing was made of
goes after a while.
"""

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

from app.core.errors import BadRequest, NotFound, StorageFault, write_fault

DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
RESERVE_BYTES = 1 << 30
"""Left free on the disk: a machine whose disk is full does worse things than refuse an upload."""
KEPT_S = 7 * 86_400.0
_STAGED = ".upload-"


def hex_of(digest: str) -> str:
    """Return the 64 digits of `sha256:...`. Raises BadRequest for anything else: it becomes part of a path."""
    match = DIGEST.fullmatch(digest)
    if match is None:
        raise BadRequest(f'invalid digest format: "{digest[:80]}"', code="invalid_value")
    return match[1]


class BlobStore:
    """The uploaded files, and what models were made of them. Reads and writes disks."""

    def __init__(self, folder: Path, made_models_file: Path) -> None:
        self._folder, self._models_folder = folder, made_models_file

    def blob_path(self, digest: str) -> Path:
        """Return where a blob is, or would be. Raises BadRequest."""
        return self._folder / f"sha256-{hex_of(digest)}"

    def has_blob(self, digest: str) -> bool:
        """Whether it is here. Raises BadRequest."""
        return self.blob_path(digest).is_file()

    def start_upload(self, digest: str, *, expected_bytes: int | None) -> "BlobUpload":
        """Return what takes in a blob; call its `close_and_clean` whatever happens. Raises BadRequest."""
        return BlobUpload(self.blob_path(digest), hex_of(digest), expected_bytes or 0)

    def link_blobs(self, files: dict[str, str]) -> dict[str, Path]:
        """Link blobs under the names given, and return where each is. Raises NotFound, StorageFault."""
        for digest in files.values():
            if not self.has_blob(digest):
                raise NotFound(f"There is no blob {digest}.", hint="Upload it first.", code="blob_not_found")
        fingerprint = "\0".join(f"{name}\0{hex_of(digest)}" for name, digest in sorted(files.items()))
        folder = self._models_folder / hashlib.sha256(fingerprint.encode()).hexdigest()[:16]
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return {name: _link_or_copy(self.blob_path(digest), folder / name) for name, digest in files.items()}
        except OSError as error:
            raise write_fault("the uploaded files", error, action="put together") from error

    def remove_unused(self, used_paths: set[str], now: float | None = None) -> None:
        """Remove weights whose models are gone (`used`: the paths of those that are not), and blobs left unused."""
        before = (time.time() if now is None else now) - KEPT_S
        with contextlib.suppress(OSError):
            for folder in self._models_folder.iterdir() if self._models_folder.is_dir() else ():
                if not any(str(file) in used_paths for file in folder.iterdir()):
                    shutil.rmtree(folder, ignore_errors=True)
            for blob in self._folder.iterdir() if self._folder.is_dir() else ():
                status = blob.stat()
                if status.st_mtime < before and status.st_nlink == 1:
                    blob.unlink()


class BlobUpload:
    """One blob on its way in. `move_into_place` puts it where it belongs; left otherwise, nothing of it stays."""

    def __init__(self, path: Path, digest: str, expected_bytes: int) -> None:
        self._path, self._digest, self._expected_bytes = path, digest, expected_bytes
        self._hash = hashlib.sha256()
        self._out: BinaryIO | None = None
        self._staged_file: Path | None = None

    def open_file(self) -> None:
        """Open the file. Raises StorageFault, also if the disk has no room for all of it."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_room(self._expected_bytes)
            handle, staged_path = tempfile.mkstemp(dir=self._path.parent, prefix=_STAGED)
        except OSError as error:
            raise write_fault("the file", error) from error
        self._out, self._staged_file = os.fdopen(handle, "wb"), Path(staged_path)

    def close_and_clean(self) -> None:
        """Close, and remove what is left of it."""
        with contextlib.suppress(OSError):
            if self._out is not None:
                self._out.close()
        with contextlib.suppress(OSError):
            if self._staged_file is not None:
                self._staged_file.unlink(missing_ok=True)

    def write_piece(self, data: bytes) -> None:
        """Take in a piece. Raises StorageFault."""
        assert self._out is not None  # noqa: S101 -- `open_file` comes first
        try:
            self._check_room(len(data))
            self._out.write(data)
        except OSError as error:
            raise write_fault("the file", error) from error
        self._hash.update(data)

    def move_into_place(self) -> None:
        """Put it in place. Raises BadRequest if it is not what its digest says, StorageFault."""
        assert self._out is not None  # noqa: S101 -- as above
        assert self._staged_file is not None  # noqa: S101 -- as above
        digest = self._hash.hexdigest()
        if digest != self._digest:
            raise BadRequest(
                f'digest mismatch, expected "sha256:{self._digest}", got "sha256:{digest}"', code="digest_mismatch"
            )
        try:
            self._out.flush()
            os.fsync(self._out.fileno())
            self._out.close()
            self._staged_file.replace(self._path)
        except OSError as error:
            raise write_fault("the file", error) from error

    def _check_room(self, more_bytes: int) -> None:
        free = shutil.disk_usage(self._path.parent).free
        if free - more_bytes < RESERVE_BYTES:
            raise StorageFault(
                "There is not enough disk space for this file.",
                hint=f"Free some space in {self._path.parent}.",
                code="disk_full",
            )


def _link_or_copy(blob: Path, target: Path) -> Path:
    """Make the blob known by another name; where the disk knows no hard links, by moving a copy into place."""
    if target.exists():
        return target
    try:
        os.link(blob, target)
    except OSError:
        staged_link = target.with_name(_STAGED + target.name)
        shutil.copyfile(blob, staged_link)
        staged_link.replace(target)
    return target
