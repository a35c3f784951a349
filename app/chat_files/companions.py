"""Files that lie beside the conversations of an export: in its archive, or in its folder.

They are found by their names alone, read one at a time when a message refers to them, and never unpacked.
"""

import bisect
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from app.chat_files.source import FileContent, FileReference, SourceChat, SourceMessage

LARGEST_FILE_BYTES = 256 << 20
"""More than any service takes by its settings' default; what is larger is counted and left out."""
_ENDS = ("-", "_", ".")
"""What may follow an id in a name."""

ReadFile = Callable[[], bytes]


class CompanionFiles:
    """Names of files, and how each is read."""

    def __init__(self, files: Iterable[tuple[str, ReadFile]] = ()) -> None:
        self._readers: dict[str, ReadFile] = {}
        for name, read in files:
            self._readers.setdefault(name, read)
        self._names = sorted(self._readers)

    def find(self, reference: FileReference) -> FileContent | None:
        """Return the file that is meant; None if none is, or it cannot be read."""
        name = self._name_of(reference.id)
        content = self._readers[name]() if name else b""
        return FileContent(reference.name or name, content) if content else None

    def _name_of(self, id_: str) -> str:
        """Return the name that is this id, or begins with it."""
        if id_ in self._readers:
            return id_
        for name in self._names[bisect.bisect_left(self._names, id_) :]:
            if not name.startswith(id_):
                break
            if name[len(id_) :].startswith(_ENDS):
                return name
        return ""


def attach_references(source: SourceChat, files: CompanionFiles) -> None:
    """Give the messages of a chat the files that they refer to; what is not there, or not asked, is counted."""
    for place, message in enumerate(source.messages):
        if message.references:
            source.messages[place] = _with_files(source, message, files)


def _with_files(source: SourceChat, message: SourceMessage, files: CompanionFiles) -> SourceMessage:
    is_question = message.role == "user"  # answers have no files here
    contents = [files.find(reference) if is_question else None for reference in message.references]
    source.left_out += contents.count(None)
    return replace(message, files=(*message.files, *(content for content in contents if content is not None)))


def files_of_archive(archive: zipfile.ZipFile) -> CompanionFiles:
    """Return what an archive holds beside its JSON."""
    members = [member for member in archive.infolist() if not member.filename.endswith((".json", "/"))]
    return CompanionFiles((PurePosixPath(member.filename).name, _member_reader(archive, member)) for member in members)


def _member_reader(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> ReadFile:
    def read() -> bytes:
        if member.file_size > LARGEST_FILE_BYTES:
            return b""
        with archive.open(member) as stream:
            content = stream.read(LARGEST_FILE_BYTES + 1)
        return content if len(content) <= LARGEST_FILE_BYTES else b""

    return read


def files_of_folder(paths: Iterable[Path]) -> CompanionFiles:
    """Return these files, links aside."""
    return CompanionFiles((path.name, _path_reader(path)) for path in paths if not path.is_symlink())


def _path_reader(path: Path) -> ReadFile:
    def read() -> bytes:
        try:
            return b"" if path.stat().st_size > LARGEST_FILE_BYTES else path.read_bytes()
        except OSError:
            return b""

    return read
