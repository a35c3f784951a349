"""Hugging Face's cache on disk, as `huggingface_hub` lays it out, so that every program finds what one has fetched.

    models--owner--name/refs/main              the commit of a branch
    models--owner--name/blobs/<etag>           the content
    models--owner--name/snapshots/<commit>/…   links to it under its path; the file itself where links are not allowed

https://huggingface.co/docs/huggingface_hub/guides/manage-cache
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from app.core import words
from app.core.errors import StorageFault, write_fault
from app.hub.repositories.repository import RepoFile

HEAD_ROOM_BYTES = 1 << 30
"""What a download leaves free on the disk: a system without any space does not work."""


@dataclass(frozen=True, slots=True)
class RepositoryCache:
    """One repository's place below the cache's root."""

    root: Path
    name: str

    @property
    def folder(self) -> Path:
        """All that is kept of it."""
        return self.root / ("models--" + self.name.replace("/", "--"))

    @property
    def is_there(self) -> bool:
        """Whether anything of it was fetched."""
        return (self.folder / "snapshots").is_dir()

    def blob_path(self, file: RepoFile) -> Path:
        """Where a file's content is once it is whole and right."""
        return self.folder / "blobs" / file.etag

    def part_path(self, file: RepoFile) -> Path:
        """Where it grows. No program takes a name like this for a model."""
        return self.folder / "blobs" / f"{file.etag}.part"

    def snapshot_path(self, commit: str, path: str) -> Path:
        """Where programs look for it."""
        return self.folder / "snapshots" / commit / PurePosixPath(path)

    def has_file(self, commit: str, file: RepoFile) -> bool:
        """Tell whether a file is there, whole, under its name."""
        try:
            return self.snapshot_path(commit, file.path).stat().st_size == file.size
        except OSError:
            return False

    def link_file(self, commit: str, file: RepoFile) -> None:
        """Give a whole blob its name in the snapshot. Raises StorageFault."""
        blob, pointer = self.blob_path(file), self.snapshot_path(commit, file.path)
        try:
            pointer.parent.mkdir(parents=True, exist_ok=True)
            if pointer.is_symlink() or pointer.exists():
                pointer.unlink()
            try:
                pointer.symlink_to(os.path.relpath(blob, pointer.parent))
            except OSError:  # Windows without the right to make links: huggingface_hub moves the file there as well
                blob.replace(pointer)
        except OSError as error:
            raise write_fault("the download", error) from error

    def remember_revision(self, revision: str, commit: str) -> None:
        """Note which commit a branch points to. Raises StorageFault."""
        reference = self.folder / "refs" / PurePosixPath(revision)
        if revision == commit:
            return
        try:
            reference.parent.mkdir(parents=True, exist_ok=True)
            staged_reference = reference.with_name(reference.name + ".tmp")
            staged_reference.write_text(commit, encoding="ascii")
            staged_reference.replace(reference)
        except OSError as error:
            raise write_fault("the download", error) from error

    def check_room(self, missing_bytes: int, reserved_bytes: int = 0) -> None:
        """Raise StorageFault (disk_full) unless that much fits beside what is reserved, with some left over."""
        self.root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.root).free - reserved_bytes
        if missing_bytes and missing_bytes + HEAD_ROOM_BYTES > free:
            missing_words, present = words.format_bytes(missing_bytes), words.format_bytes(max(free, 0))
            others = ""
            if reserved_bytes:
                others = f" beside the {words.format_bytes(reserved_bytes)} that other downloads still take"
            more = words.format_bytes(missing_bytes + HEAD_ROOM_BYTES - free)
            raise StorageFault(
                f"The download needs {missing_words}, and {present} are free on its disk{others}.",
                hint=f"Free {more}, or move the cache with HF_HOME.",
                code="disk_full",
            )
