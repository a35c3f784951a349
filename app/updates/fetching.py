"""Fetch a release's description and its file: over https, within limits, gone on with after a break, checked whole.

A file counts once its size and SHA-256 are those that were signed, looked at again right before it is used: in between
it lay on a disk. Blocks; call it from a thread.
"""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from app.core import words
from app.core.connections import ConnectionReason, Purpose
from app.core.errors import Forbidden, RoundhouseError, StorageFault, Unauthorized, Unavailable
from app.hub.download.transfer import TransferDeps, fetch_blob
from app.hub.download.wire import HttpSource, remote_without_limit
from app.hub.repositories.ranges import ReadBudget, RemoteHost
from app.hub.repositories.repository import RepoFile
from app.updates.manifest import MAX_BYTES, ReleaseFile, SignedManifest, UpdateRefused, file_address

HEAD_ROOM_BYTES = 256 << 20
"""What is left free on the disk: a system without any space does not work."""
PURPOSE = Purpose(why=ConnectionReason.APP_UPDATE)
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class _UpdateFolder:
    """Where one file grows and ends up, under its own name: a system's installer goes by it."""

    folder: Path

    def blob_path(self, file: RepoFile) -> Path:
        """Return where it is once it is whole and right."""
        return self.folder / file.path

    def part_path(self, file: RepoFile) -> Path:
        """Return where it grows."""
        return self.folder / f"{file.path}.part"


def fetch_manifest(url: str) -> SignedManifest:
    """Return what is served at an address and what signs it. Raises what the network raises."""
    remote = RemoteHost(url, PURPOSE, budget=ReadBudget(max_bytes=2 * MAX_BYTES, max_requests=8))
    try:
        return SignedManifest(
            content=remote.read_small_file(url, MAX_BYTES),
            signatures=remote.read_small_file(f"{url}.sig", MAX_BYTES).decode("latin-1"),
        )
    except (Unauthorized, Forbidden) as error:
        raise _withheld_fault(error) from None


def fetch_file(manifest_url: str, file: ReleaseFile, folder: Path, means: TransferDeps) -> Path:
    """Return a release's file, checked. Raises DownloadStopped, StorageFault, UpdateRefused, or the network's.

    Only the manifest's own server may be other than https, as it is on this computer in tests.
    """
    repo_file = RepoFile(path=file.name, size=file.size, sha256=file.sha256)
    place = _UpdateFolder(folder)
    path = place.blob_path(repo_file)
    if path.exists():
        try:
            return verify_file(path, file)
        except UpdateRefused:  # it was whole once; now fetch it anew
            path.unlink(missing_ok=True)
    _make_private(folder)
    check_room(folder, file.size)
    try:
        wire = HttpSource(remote_without_limit(manifest_url, PURPOSE), file_address(manifest_url, file), size=file.size)
        fetch_blob(place, repo_file, wire, means)
    except (Unauthorized, Forbidden) as error:
        raise _withheld_fault(error) from None
    return verify_file(path, file)


def verify_file(path: Path, file: ReleaseFile) -> Path:
    """Return a file that is what was signed. Raises UpdateRefused, and removes one that is not."""
    try:
        size, digest = path.stat().st_size, _sha256(path)
    except OSError as error:
        raise StorageFault(f"{path} cannot be read: {error.strerror or error}.") from error
    if (size, digest) == (file.size, file.sha256):
        return path
    path.unlink(missing_ok=True)
    raise UpdateRefused(
        f"{file.name} is not the signed file, so it was deleted.",
        hint="Try again; if it happens again, something changes files on this disk or during the download.",
        code="update_damaged",
    )


def check_room(folder: Path, needed_bytes: int) -> None:
    """Raise StorageFault (disk_full) unless that much fits into a folder's disk, with some left over."""
    free = shutil.disk_usage(folder).free
    missing_bytes = needed_bytes + HEAD_ROOM_BYTES - free
    if missing_bytes > 0:
        raise StorageFault(
            f"The update needs {words.format_bytes(needed_bytes)} in {folder}, "
            f"and {words.format_bytes(free)} are free there.",
            hint=f"Free {words.format_bytes(missing_bytes)}.",
            code="disk_full",
        )


def remove_other_versions(folder: Path, keep: str) -> None:
    """Remove what was fetched of other versions; what cannot be removed is left."""
    if folder.is_dir():
        for path in folder.iterdir():
            if path.is_dir() and path.name != keep:
                shutil.rmtree(path, ignore_errors=True)


def _make_private(folder: Path) -> None:
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StorageFault(f"{folder} cannot be made: {error.strerror or error}.") from error


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _withheld_fault(error: RoundhouseError) -> Unavailable:
    return Unavailable("The update server does not provide it.", hint="Try again later.", detail=str(error))
