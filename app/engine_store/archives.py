"""Unpack an archive that came from elsewhere, and trust nothing in it.

Kept are files, folders, links that stay inside, and the right to execute. Refused is whatever would land outside, be a
device, or blow up: one archive is a few hundred megabytes, and a bomb is caught by the bytes it really writes.
"""

import errno
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from app.core.errors import EnvironmentFault

MOST_FILES = 20_000
MOST_BYTES = 8_000_000_000
"""Unpacked. The largest official archive, CUDA with its libraries, is about 2 GB."""
_CHUNK = 1 << 20
_LONGEST_LINK = 4096


class _MemberKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    HARD_LINK = "hard link"
    OTHER = "other"


class _ArchiveMember(NamedTuple):
    name: str
    kind: _MemberKind
    target: str
    can_execute: bool
    content: IO[bytes] | None


def unpack_archive(archive: Path, into: Path, *, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES) -> None:
    """Unpack a .zip or .tar.* into a folder, which may hold something already.

    A single top folder that holds everything is left out. Raises EnvironmentFault (bad_archive), and `into` is then
    to be thrown away.
    """
    scratch = into / ".unpacking"
    scratch.mkdir(parents=True)
    try:
        _unpack_members(archive, scratch, most_bytes, most_files)
        _move_entries(_skip_top_folder(scratch), into)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError, NotImplementedError) as error:
        raise _bad_archive(archive, str(error)) from error
    except OSError as error:
        if isinstance(error, FileExistsError | NotADirectoryError | IsADirectoryError):
            raise _bad_archive(archive, "two of its entries conflict") from error
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _unpack_members(archive: Path, into: Path, most_bytes: int, most_files: int) -> None:
    members = _zip_members(archive) if _is_zip(archive) else _tar_members(archive)
    bytes_left, links = most_bytes, []
    for count, member in enumerate(members, start=1):
        if count > most_files:
            raise _bad_archive(archive, f"it has more than {most_files} entries")
        path = _path_inside(into, member.name, archive)
        if member.kind is _MemberKind.LINK:
            links.append((path, member.target))  # made last: nothing may be written through a link
        elif member.kind is _MemberKind.HARD_LINK:
            _hard_link(_path_inside(into, member.target, archive), path, archive)
        elif member.kind is _MemberKind.FOLDER:
            path.mkdir(parents=True, exist_ok=True)
        elif member.kind is _MemberKind.FILE and member.content is not None:
            bytes_left -= _write_member(path, member, bytes_left, archive)
        else:
            raise _bad_archive(archive, f"{member.name!r} is neither file, folder nor link")
    for path, target in links:
        _make_link(path, target, into, archive)
    _check_links([path for path, _ in links], into, archive)


def _check_links(links: list[Path], into: Path, archive: Path) -> None:
    """Raise EnvironmentFault for links that lead in a circle, or outside together."""
    for path in links:
        try:
            path.stat()
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _bad_archive(archive, "its links lead in a circle") from error
    if not all(path.resolve().is_relative_to(into.resolve()) for path in links):
        raise _bad_archive(archive, "its links together point outside")  # each alone may be harmless


def _is_zip(archive: Path) -> bool:
    """Tell by the beginning: `zipfile.is_zipfile` looks at the end, and a tar may end with a zip."""
    with archive.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _path_inside(into: Path, name: str, archive: Path) -> Path:
    parts = PurePosixPath(name).parts
    if not name or "\\" in name or "\0" in name or name.startswith("/") or ".." in parts or ":" in name:
        raise _bad_archive(archive, f"{name!r} would be written outside")
    return into.joinpath(*parts)


def _write_member(path: Path, member: _ArchiveMember, most: int, archive: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    written_bytes = 0
    with path.open("xb") as file:
        while member.content is not None and (chunk := member.content.read(_CHUNK)):
            written_bytes += len(chunk)
            if written_bytes > most:
                raise _bad_archive(archive, "it unpacks to more than it may")
            file.write(chunk)
    path.chmod(0o755 if member.can_execute else 0o644)
    return written_bytes


def _hard_link(source: Path, path: Path, archive: Path) -> None:
    if not source.is_file():
        raise _bad_archive(archive, f"{path.name!r} is a link to what is not there")
    path.parent.mkdir(parents=True, exist_ok=True)
    os.link(source, path)


def _make_link(path: Path, target: str, into: Path, archive: Path) -> None:
    """Make a relative link that stays inside, also through the links that are there already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    points_at = (path.parent / target).resolve()
    is_outside = not points_at.is_relative_to(into.resolve()) or not path.parent.resolve().is_relative_to(
        into.resolve()
    )
    if not target or PurePosixPath(target).is_absolute() or "\\" in target or is_outside:
        raise _bad_archive(archive, f"{path.name!r} is a link that points outside")
    path.symlink_to(target)


def _skip_top_folder(folder: Path) -> Path:
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() and not inside[0].is_symlink() else folder


def _move_entries(source: Path, into: Path) -> None:
    """Move everything; a companion brings files of its own and replaces none."""
    for path in source.iterdir():
        target = into / path.name
        if path.is_dir() and not path.is_symlink() and target.is_dir() and not target.is_symlink():
            _move_entries(path, target)
        elif os.path.lexists(target):
            raise FileExistsError(target)
        else:
            path.rename(target)


def _tar_members(archive: Path) -> Iterator[_ArchiveMember]:
    with tarfile.open(archive, "r:*") as stream:
        for info in stream:
            kind = _tar_kind(info)
            content = stream.extractfile(info) if kind is _MemberKind.FILE else None
            yield _ArchiveMember(info.name, kind, info.linkname, bool(info.mode & stat.S_IXUSR), content)


def _tar_kind(info: tarfile.TarInfo) -> _MemberKind:
    if info.isreg():
        return _MemberKind.FILE
    if info.isdir():
        return _MemberKind.FOLDER
    if info.issym():
        return _MemberKind.LINK
    return _MemberKind.HARD_LINK if info.islnk() else _MemberKind.OTHER


def _zip_members(archive: Path) -> Iterator[_ArchiveMember]:
    with zipfile.ZipFile(archive) as archive_recipe_found:
        for info in archive_recipe_found.infolist():
            mode = info.external_attr >> 16
            is_executable = bool(mode & stat.S_IXUSR) or info.filename.endswith((".exe", ".dll"))
            if info.is_dir():
                yield _ArchiveMember(info.filename, _MemberKind.FOLDER, "", can_execute=False, content=None)
                continue
            if stat.S_ISLNK(mode) and info.file_size <= _LONGEST_LINK:
                target = archive_recipe_found.read(info).decode("utf-8", "replace")
                yield _ArchiveMember(info.filename, _MemberKind.LINK, target, can_execute=False, content=None)
                continue
            kind = _MemberKind.FILE if not stat.S_IFMT(mode) or stat.S_ISREG(mode) else _MemberKind.OTHER
            with archive_recipe_found.open(info) as content:
                yield _ArchiveMember(info.filename, kind, "", is_executable, content)


def _bad_archive(archive: Path, why: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"The archive {archive.name} cannot be used: {why}.",
        hint="Nothing was installed. Install another version, or report this with the log.",
        code="bad_archive",
    )
