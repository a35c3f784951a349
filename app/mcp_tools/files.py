"""Read-only files of the folders a person chose: list them, read text, search in it. Nothing outside is followed."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from app.mcp_tools.toolbox import BuiltinTool, ToolMistake

_MOST_ENTRIES = 500
_LARGEST_BYTES = 20 * 1024 * 1024
_MOST_LINES = 400
_MOST_HITS = 100
_LONGEST_LINE = 500
_MOST_SEARCHED = 20_000
"""Files that one search looks at."""
_SNIFF_BYTES = 4096
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})


class ListFolder(msgspec.Struct, frozen=True):
    """A folder: a whole path, or empty for those that may be read."""

    path: str = ""


class ReadFile(msgspec.Struct, frozen=True):
    """A text file, and the lines of it that are wanted, from 1 on."""

    path: str
    first_line: Annotated[int, msgspec.Meta(ge=1)] = 1
    lines: Annotated[int, msgspec.Meta(ge=1, le=_MOST_LINES)] = 200


class FindText(msgspec.Struct, frozen=True):
    """Text to look for, in capitals or not, in the files of a folder and below it; of names that end so."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    path: str = ""
    ending: str = ""


class FolderReader:
    """Reads below some folders."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = [root.resolve() for root in roots]

    def tools(self) -> tuple[BuiltinTool, ...]:
        """Return the tools."""
        where = ", ".join(map(str, self._roots))
        return (
            BuiltinTool(
                name="list_folder",
                description=f"List what is in a folder. Folders that can be read: {where}.",
                arguments=ListFolder,
                run=self.list_folder,
            ),
            BuiltinTool(
                name="read_file",
                description="Read lines of a text file.",
                arguments=ReadFile,
                run=self.read_file,
            ),
            BuiltinTool(
                name="find_text",
                description="Find a text in the text files of a folder and of the folders in it.",
                arguments=FindText,
                run=self.find_text,
            ),
        )

    def list_folder(self, request: ListFolder) -> str:
        """Return the names in a folder, folders with a slash, files with their size. Raises ToolMistake."""
        if not request.path:
            return "\n".join(f"{root}{os.sep}" for root in self._roots)
        folder = self._resolve(request.path)
        if not folder.is_dir():
            raise ToolMistake(f"{request.path} is no folder.")
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: (not entry.is_dir(), entry.name.casefold()))
        except OSError as error:
            raise ToolMistake(f"{request.path} cannot be read: {error.strerror}.") from None
        lines = [
            f"{entry.name}{os.sep}" if entry.is_dir() else f"{entry.name} ({_size_of(entry):,} bytes)"
            for entry in entries[:_MOST_ENTRIES]
        ]
        more = len(entries) - _MOST_ENTRIES
        return "\n".join([*lines, *([f"({more} more)"] if more > 0 else [])]) or "(empty)"

    def read_file(self, request: ReadFile) -> str:
        """Return lines of a text file, with their numbers. Raises ToolMistake."""
        lines = self._read_text(self._resolve(request.path)).splitlines()
        first = request.first_line - 1
        part = lines[first : first + request.lines]
        if not part:
            return f"(The file has {len(lines)} lines.)"
        text = "\n".join(f"{number}: {line[:_LONGEST_LINE]}" for number, line in enumerate(part, first + 1))
        more = len(lines) - first - len(part)
        return f"{text}\n({more} more lines)" if more > 0 else text

    def find_text(self, request: FindText) -> str:
        """Return the lines that have a text, by file. Raises ToolMistake."""
        roots = [self._resolve(request.path)] if request.path else self._roots
        query, hits, count = request.text.casefold(), [], 0
        for path in _files_below(roots, request.ending):
            count += 1
            if count > _MOST_SEARCHED:
                hits.append(f"(Only the first {_MOST_SEARCHED:,} files were looked at.)")
                break
            try:
                lines = self._read_text(path).splitlines()
            except ToolMistake:
                continue
            for number, line in enumerate(lines, 1):
                if query in line.casefold():
                    hits.append(f"{path}:{number}: {line.strip()[:_LONGEST_LINE]}")
            if len(hits) >= _MOST_HITS:
                return "\n".join([*hits[:_MOST_HITS], "(More was found; look for something rarer.)"])
        return "\n".join(hits) or f"Nothing in {count:,} files has this text."

    def _resolve(self, path: str) -> Path:
        """Return a path below the folders, links followed. Raises ToolMistake."""
        given_path = Path(path).expanduser()
        candidates = [given_path] if given_path.is_absolute() else [root / given_path for root in self._roots]
        for candidate in candidates:
            real = Path(os.path.realpath(candidate))
            if any(real.is_relative_to(root) for root in self._roots) and real.exists():
                return real
        raise ToolMistake(f"There is no {path} in the folders that can be read.")

    def _read_text(self, path: Path) -> str:
        try:
            if not path.is_file():
                raise ToolMistake(f"{path.name} is no file.")
            if path.stat().st_size > _LARGEST_BYTES:
                raise ToolMistake(f"{path.name} is larger than {_LARGEST_BYTES // 1024 // 1024} MiB.")
            content = path.read_bytes()
        except OSError as error:
            raise ToolMistake(f"{path.name} cannot be read: {error.strerror}.") from None
        if b"\0" in content[:_SNIFF_BYTES]:
            raise ToolMistake(f"{path.name} is no text file.")
        return content.decode("utf-8", "replace")


def _size_of(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat().st_size
    except OSError:
        return 0


def _files_below(roots: Sequence[Path], suffix: str) -> Iterator[Path]:
    for root in roots:
        if root.is_file():
            yield root
            continue
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED)
            paths = (Path(folder, name) for name in sorted(names) if name.endswith(suffix))
            yield from (path for path in paths if not _leads_out(path, root))


def _leads_out(path: Path, root: Path) -> bool:
    return path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root)


def make_tools(folders: Sequence[str]) -> tuple[BuiltinTool, ...]:
    """Return the tools for these folders."""
    return FolderReader(list(map(Path, folders))).tools()
