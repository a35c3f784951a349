"""The files of folders, and which of them an index has to read again: those of another size or time of change.

Links are not followed: what they lead to was not chosen. Left out are hidden files and folders, and those in which
programs keep what they installed.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import NamedTuple

from app.core.documents import DocumentFile

MOST_FILES = 200_000
"""Of a collection; what a look finds after them is left out."""
_NO_TEXT = (
    frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".heic", ".heif", ".avif", ".ico"})
    | frozenset({".psd", ".raw", ".cr2", ".nef", ".arw", ".dng", ".blend", ".stl", ".ttf", ".otf", ".woff", ".woff2"})
    | frozenset({".mp3", ".wav", ".flac", ".ogg", ".oga", ".opus", ".m4a", ".aac", ".wma", ".aiff", ".mid"})
    | frozenset({".mp4", ".m4v", ".mkv", ".mov", ".avi", ".webm", ".wmv", ".flv", ".mpg", ".mpeg"})
    | frozenset({".zip", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".tar", ".tgz", ".iso", ".dmg", ".img"})
    | frozenset({".exe", ".dll", ".so", ".dylib", ".o", ".a", ".lib", ".pyc", ".class", ".jar", ".wasm", ".bin"})
    | frozenset({".dat", ".db", ".sqlite", ".sqlite3", ".parquet", ".arrow", ".npy", ".npz", ".deb", ".rpm", ".apk"})
    | frozenset({".gguf", ".safetensors", ".onnx", ".pt", ".pth", ".ckpt"})
)
"""Endings of files that have no text; in a folder they are no mistake."""
_OWN_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})


class FolderChanges(NamedTuple):
    """What differs between folders and an index. `missing` are folders that are not there now: theirs is kept."""

    to_read: list[DocumentFile]
    missing_paths: list[str]
    missing: list[str]


def file_id(path: str) -> str:
    """Return what a file at a path is called."""
    return f"file-{hashlib.sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def compare_folders(
    folders: Iterable[str], index: Iterable[DocumentFile], *, excluded_folders: Iterable[Path] = ()
) -> FolderChanges:
    """Return what to read and to forget; `excluded` folders are left out. Reads folders, no files."""
    left_out = frozenset(map(str, excluded_folders))
    there: dict[str, DocumentFile] = {}
    missing_paths = []
    for folder in folders:
        if not Path(folder).is_dir():
            missing_paths.append(folder)
        for file in _walk(folder, left_out):
            if len(there) >= MOST_FILES:
                break
            there[file.path] = file
    index_files = {file.path: file for file in index}
    to_read = [file for path, file in there.items() if path not in index_files or _differs(file, index_files[path])]
    paths = [
        path
        for path in index_files
        if path not in there and not any(_is_within(path, folder) for folder in missing_paths)
    ]
    return FolderChanges(to_read, paths, missing_paths)


def _differs(file: DocumentFile, index_file: DocumentFile) -> bool:
    return (file.size_bytes, file.modified_ns) != (index_file.size_bytes, index_file.modified_ns)


def _is_within(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def _walk(folder: str, left_out: frozenset[str]) -> Iterator[DocumentFile]:
    folders_to_visit = [folder]
    while folders_to_visit:
        try:
            with os.scandir(folders_to_visit.pop()) as entries:
                listing = sorted(entries, key=lambda entry: entry.name)
        except OSError:  # gone meanwhile, or not ours to read
            continue
        for entry in listing:
            if entry.name.startswith(".") or entry.name in _OWN_FOLDERS or entry.path in left_out:
                continue
            if entry.is_dir(follow_symlinks=False):
                folders_to_visit.append(entry.path)
            elif entry.is_file(follow_symlinks=False) and (file := _describe(entry)):
                yield file


def _describe(entry: os.DirEntry[str]) -> DocumentFile | None:
    try:
        facts = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    path = entry.path
    if PurePath(entry.name).suffix.casefold() in _NO_TEXT:
        return None
    if not _is_text(path):  # a name in no encoding: it could be told to nobody
        return None
    return DocumentFile(id=file_id(path), path=path, size_bytes=facts.st_size, modified_ns=facts.st_mtime_ns)


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
