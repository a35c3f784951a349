"""Read chats from a file, an archive or a folder, whichever program wrote it.

Nothing in a file is trusted: sizes are bounded, archives are read member by member and never unpacked, links are not
followed, and one conversation that cannot be read keeps none of the others from being read.
"""

import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import IO

import msgspec

from app.chat_files.companions import CompanionFiles, attach_references, files_of_archive, files_of_folder
from app.chat_files.forms import JsonObject, decode_base64, object_of, objects_of
from app.chat_files.programs import chatgpt, claude, jan, llama_cpp, lm_studio, open_webui, plain
from app.chat_files.source import FileContent, FilesByMessage, build_chat
from app.chat_files.writing import FORMAT, attachments_of
from app.core.attachments import Attachment
from app.core.chats import Chat, ChatFolder
from app.core.errors import BadRequest, EnvironmentFault, NotFound

PROGRAMS: tuple[ModuleType, ...] = (chatgpt, claude, open_webui, lm_studio, llama_cpp, jan, plain)
"""In the order in which they are tried: the last one's form is the least particular."""
LARGEST_BYTES = 1 << 30
"""Of one file: ten years of talk are a fifth of that, and reading takes several times as much memory."""
MOST_FILES = 100_000
"""Of one folder or archive."""
_OWN_NAME = "Roundhouse"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChat:
    """One conversation of a file. `chat` is None for one that cannot be read, or in which nothing is said."""

    chat: Chat | None
    program: str
    files: FilesByMessage = field(default_factory=dict)
    left_out: int = 0
    """Pictures and files that the export names and does not have, or that are of no use here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFolder:
    """A folder of chats in one of our own exports, before its chats. `left_out` of its files are not there."""

    folder: ChatFolder
    files: Sequence[FileContent] = ()
    left_out: int = 0


def read_chats(path: Path) -> Iterator[ReadChat]:
    """Yield the chats of an export, without its folders. Raises what `read_export` raises."""
    return (item for item in read_export(path) if isinstance(item, ReadChat))


def read_export(path: Path) -> Iterator[ReadChat | ReadFolder]:
    """Yield what is in an export. Raises NotFound, BadRequest for what is none, or EnvironmentFault."""
    count = 0
    try:
        for value, files in _read_values(path):
            count += 1
            folder = _read_folder(value)
            yield _with_times(_read_chat(value, files), path) if folder is None else folder
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise EnvironmentFault(f"{path.name} cannot be read: {reason}.") from error
    if not count:
        raise _no_export(path)


def _with_times(item: ReadChat, path: Path) -> ReadChat:
    """Return the chat with the file's own time, where its program notes none."""
    chat = item.chat
    if chat is None or chat.created_at:
        return item
    at = path.stat().st_mtime
    return replace(item, chat=msgspec.structs.replace(chat, created_at=at, updated_at=chat.updated_at or at))


def _read_chat(value: JsonObject, beside: CompanionFiles) -> ReadChat:
    if value.get("format") == FORMAT:
        return _read_own(value)
    program = next(program for program in PROGRAMS if program.is_chat(value))
    source = program.read_chat(value)
    attach_references(source, beside)
    chat, files = build_chat(source)
    return ReadChat(chat=chat, program=program.NAME, files=files, left_out=source.left_out)


def _read_folder(value: JsonObject) -> ReadFolder | None:
    """Return a folder of ours; None for what is none, or cannot be read: its chats are in no folder then."""
    if value.get("format") != FORMAT or "folder" not in value:
        return None
    try:
        folder = msgspec.convert(value["folder"], ChatFolder)
    except msgspec.ValidationError:
        return None
    files = _contents_of(folder.files, value)
    return ReadFolder(folder=folder, files=files, left_out=len(folder.files) - len(files))


def _read_own(value: JsonObject) -> ReadChat:
    """Return a chat of ours."""
    try:
        chat = msgspec.convert(value["chat"], Chat)
    except (msgspec.ValidationError, KeyError):
        return ReadChat(chat=None, program=_OWN_NAME)
    files = {message.id: _contents_of(message.attachments, value) for message in chat.messages if message.attachments}
    left_out = sum(1 for _ in attachments_of(chat.messages)) - sum(map(len, files.values()))
    return ReadChat(chat=chat, program=_OWN_NAME, files=files, left_out=left_out)


def _contents_of(attachments: Iterable[Attachment], value: JsonObject) -> list[FileContent]:
    """Return those of the files that an export of ours has, by their hashes."""
    contents = object_of(value.get("files"))
    files = [FileContent(file.name, decode_base64(contents.get(file.hash))) for file in attachments]
    return [file for file in files if file.content]


def _read_values(path: Path) -> Iterator[tuple[JsonObject, CompanionFiles]]:
    """Yield what is a conversation of some program's, and the files beside it."""
    if not path.exists():
        raise NotFound(f"There is no {path}.")
    if path.is_dir():
        beside = files_of_folder(_companions_of(path))
        yield from ((value, beside) for value in _read_directory(path))
    elif zipfile.is_zipfile(path):
        yield from _read_archive(path)
    else:
        beside = files_of_folder(_companions_of(path.parent) if path.parent.name == lm_studio.FOLDER else ())
        with path.open("rb") as file:
            values = _conversations_in(_decode(_read_bounded(file, path.name), path.name))
            yield from ((value, beside) for value in values)


def _companions_of(folder: Path) -> list[Path]:
    """Return the files in a folder that are no JSON; of LM Studio's conversations also those that lie beside it."""
    beside = folder.with_name(lm_studio.FILES_FOLDER)
    places = [folder, *([beside] if folder.name == lm_studio.FOLDER and beside.is_dir() else [])]
    files: list[Path] = []
    for place in places:
        for at, folders, names in os.walk(place):
            folders.sort()
            files += [Path(at, name) for name in sorted(names) if not name.endswith((".json", ".jsonl"))]
            if len(files) > MOST_FILES:
                return files[:MOST_FILES]
    return files


def _read_directory(folder: Path) -> Iterator[JsonObject]:
    for count, file in enumerate(_files_in(folder)):
        if count >= MOST_FILES:
            raise BadRequest(f"{folder} has more than {MOST_FILES:,} files.", hint="Name the folder of the chats.")
        if file.name == jan.MESSAGES_FILE:
            continue
        with file.open("rb") as stream:
            data = _read_bounded(stream, file.name)
        value = _try_decode(data)
        if file.name == jan.THREAD_FILE and isinstance(value, dict):
            messages = file.with_name(jan.MESSAGES_FILE)
            value = {**value, "messages": _read_lines(messages) if messages.is_file() else []}
        yield from _conversations_in(value)


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield the JSON files below a folder, links aside."""
    for at, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            file = Path(at, name)
            if name.endswith((".json", ".jsonl")) and not file.is_symlink():
                yield file


def _read_archive(path: Path) -> Iterator[tuple[JsonObject, CompanionFiles]]:
    with zipfile.ZipFile(path) as archive:
        beside = files_of_archive(archive)
        members = [member for member in archive.infolist() if member.filename.endswith(".json")]
        if len(members) > MOST_FILES:
            raise BadRequest(f"{path.name} has more than {MOST_FILES:,} files.")
        for member in members:
            with archive.open(member) as stream:
                values = _conversations_in(_try_decode(_read_bounded(stream, member.filename)))
                yield from ((value, beside) for value in values)


def _conversations_in(value: object) -> Iterator[JsonObject]:
    """Yield what is a conversation: the value itself, or those it lists."""
    if isinstance(value, dict) and value.get("format") == FORMAT:
        files = value.get("files")
        for kind, values in (("folder", value.get("folders")), ("chat", value.get("chats"))):
            yield from ({"format": FORMAT, kind: item, "files": files} for item in objects_of(values))
        return
    items = [value] if isinstance(value, dict) else objects_of(value)
    if items and all(set(item) >= {"role", "content"} for item in items):
        items = [{"messages": items}]
    yield from (item for item in items if any(program.is_chat(item) for program in PROGRAMS))


def _read_bounded(file: IO[bytes], name: str) -> bytes:
    data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise BadRequest(f"{name} is larger than {LARGEST_BYTES // 1024**3} GiB, which is more than is read.")
    return data


def _read_lines(path: Path) -> list[object]:
    """Return the values of a file that has one in each line; a line that was cut off is left out."""
    with path.open("rb") as file:
        lines = _read_bounded(file, path.name).splitlines()
    return [value for line in lines if (value := _try_decode(line)) is not None]


def _decode(data: bytes, name: str) -> object:
    value = _try_decode(data)
    if value is None:
        raise BadRequest(
            f"{name} is no JSON that can be read.",
            hint="It may have been cut off: export it again.",
            code="invalid_json",
        )
    return value


def _try_decode(data: bytes) -> object:
    """Return what JSON says; None for what is none, or is nested too deeply."""
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _no_export(path: Path) -> BadRequest:
    names = ", ".join(program.NAME for program in PROGRAMS)
    return BadRequest(
        f"There are no chats in {path.name} that can be read.",
        hint=f"Exports of {_OWN_NAME}, {names} are read.",
        code="no_chats",
    )
