"""Chats from the service into files, and from files into the service, with what is attached to them."""

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import click
import msgspec

from app.chat_files.reading import ReadChat, ReadFolder, read_export
from app.chat_files.source import FileContent
from app.chat_files.writing import attachments_of, encode_chats, title_of, visible_path, write_html, write_markdown
from app.cli.output import print_note
from app.client.http import GatewayClient, quote_segment
from app.config.programs import child_environment, module_command
from app.core.attachments import Attachment, AttachmentKind, AttachmentPart
from app.core.chats import Chat, ChatFolder, ChatImport, ChatImportResult, ChatSummary, ExportReport, ImportReport
from app.core.errors import BadRequest, EnvironmentFault, NotFound, StorageFault, UserError

FORMATS = ("md", "html", "json", "pdf")
_SUFFIXES = {".md": "md", ".markdown": "md", ".html": "html", ".htm": "html", ".json": "json", ".pdf": "pdf"}
_BATCH_BYTES = 8 * 1024 * 1024
"""Of one request; a chat that is larger goes alone."""
_IMPORT_S = 120.0
_UPLOAD_S = 120.0
_PRINT_S = 120.0
_NOT_IN_NAMES = re.compile(r"[^\w .,()+-]+")
_LONGEST_NAME = 80


class ExportTarget(NamedTuple):
    """Where to write, in which format; a file that is there is an error unless it `overwrites`."""

    file: Path
    kind: str
    overwrites: bool


def format_of(file: Path) -> str:
    """Return the format that a file's name ends with; nothing where it ends with none."""
    return _SUFFIXES.get(file.suffix.lower(), "")


class ChatExporter:
    """Writes chats. Raises EnvironmentFault, or BadRequest for a file that is there."""

    def __init__(self, client: GatewayClient, target: ExportTarget) -> None:
        self._client, self._target = client, target
        self._left_out: dict[str, None] = {}
        """The names of files, in the order in which they are missed."""

    def export_one(self, summary: ChatSummary) -> ExportReport:
        """Write one chat to the file."""
        self._write_chat(self._target.file, self._read_chat(summary))
        return self._report(chats=1)

    def export_all(self, summaries: Iterable[ChatSummary]) -> ExportReport:
        """Write all of them, and their folders: into the file as JSON, else a file for each into a folder of that name.

        Only JSON has what new chats in a folder begin with.
        """
        listing, folders = list(summaries), self._client.get("/chats/folders", list[ChatFolder])
        if self._target.kind != "json":
            self._write_pages(listing, folders)
            return self._report(chats=len(listing))
        chats = [self._read_chat(summary) for summary in listing]
        messages = [message for chat in chats for message in chat.messages]
        files = self._fetch_files([*attachments_of(messages), *(file for folder in folders for file in folder.files)])
        self._write_file(self._target.file, encode_chats(chats, files, folders))
        return self._report(chats=len(listing), folders=len(folders))

    def _write_pages(self, summaries: Sequence[ChatSummary], folders: Sequence[ChatFolder]) -> None:
        """Write a file for each chat, those of a folder into one that is called like it."""
        names: dict[str, set[str]] = {"": set()}
        places = {folder.id: _free_name(_name_of(folder.name, "Folder"), names[""]) for folder in folders}
        for count, summary in enumerate(summaries, start=1):
            chat = self._read_chat(summary)
            place = places.get(chat.folder, "")
            name = _free_name(_file_stem(chat), names.setdefault(place, set()))
            self._write_chat(self._target.file / place / f"{name}.{self._target.kind}", chat)
            if sys.stderr.isatty():
                click.echo(f"\r\x1b[K{count} of {len(summaries)}", nl=count == len(summaries), err=True)

    def _report(self, *, chats: int, folders: int = 0) -> ExportReport:
        path = str(self._target.file)
        return ExportReport(chats=chats, folders=folders, path=path, left_out=list(self._left_out))

    def _read_chat(self, summary: ChatSummary) -> Chat:
        return self._client.get(f"/chats/{quote_segment(summary.id)}", Chat)

    def _write_chat(self, file: Path, chat: Chat) -> None:
        match self._target.kind:
            case "json":
                self._write_file(file, encode_chats([chat], self._fetch_files(attachments_of(chat.messages))))
            case "md":
                self._write_file(file, write_markdown(chat, self._write_attachments(file, chat)))
            case "html":
                self._write_file(file, write_html(chat, self._fetch_pictures(chat)))
            case _:
                self._write_file(file, print_pdf(write_html(chat, self._fetch_pictures(chat))))

    def _write_attachments(self, file: Path, chat: Chat) -> Mapping[str, str]:
        """Write attached files into a folder beside a file; return by id where they are, seen from there."""
        links: dict[str, str] = {}
        names: set[str] = set()
        for attachment in attachments_of(chat.messages):
            file_name = Path(_NOT_IN_NAMES.sub(" ", attachment.name).strip(" .") or "file")
            name = _free_name(file_name.stem[:_LONGEST_NAME], names) + file_name.suffix
            content = self._fetch(attachment, AttachmentPart.ORIGINAL)
            if content is not None:
                self._write_file(file.with_name(f"{file.stem} files") / name, content)
                links[attachment.id] = f"{file.stem} files/{name}"
        return links

    def _fetch_files(self, attachments: Iterable[Attachment]) -> Mapping[str, bytes]:
        files: dict[str, bytes] = {}
        for attachment in attachments:
            content = None if attachment.hash in files else self._fetch(attachment, AttachmentPart.ORIGINAL)
            if content is not None:
                files[attachment.hash] = content
        return files

    def _fetch_pictures(self, chat: Chat) -> Mapping[str, tuple[str, bytes]]:
        """Return the pictures of a page; other files are left out of it."""
        files = list(attachments_of(visible_path(chat)))
        contents = {
            file.id: self._fetch(file, AttachmentPart.PICTURE) if file.kind is AttachmentKind.PICTURE else None
            for file in files
        }
        self._left_out |= {file.name: None for file in files if contents[file.id] is None}
        return {id_: (_picture_type(content), content) for id_, content in contents.items() if content is not None}

    def _fetch(self, attachment: Attachment, part: AttachmentPart) -> bytes | None:
        """Return a part of a file; None, said, for one that is not there any more: the chat is written without it."""
        try:
            return self._client.get(f"/attachments/{quote_segment(attachment.id)}/content?part={part}", bytes)
        except (NotFound, StorageFault) as error:
            print_note(f"{attachment.name}: {error}")
            self._left_out[attachment.name] = None
            return None

    def _write_file(self, file: Path, data: bytes) -> None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb" if self._target.overwrites else "xb") as stream:
                stream.write(data)
        except FileExistsError:
            raise BadRequest(f"{file} exists already.", hint="--overwrite replaces it.", code="file_exists") from None
        except OSError as error:
            raise EnvironmentFault(f"{file} cannot be written: {error.strerror}.") from error


def _picture_type(content: bytes) -> str:
    """Return the media type of a picture that was made for models: PNG, or else JPEG."""
    return "image/png" if content.startswith(b"\x89PNG") else "image/jpeg"


def _file_stem(chat: Chat) -> str:
    """Return a name for a chat's file that every system takes."""
    day = datetime.fromtimestamp(chat.created_at).astimezone().date()
    return f"{day} {_name_of(title_of(chat), 'Chat')}"


def _name_of(words: str, default: str) -> str:
    """Return words as a file may be called."""
    return " ".join(_NOT_IN_NAMES.sub(" ", words).split())[:_LONGEST_NAME].strip(" .") or default


def _free_name(stem: str, names: set[str]) -> str:
    """Return the name, or the first of "NAME 2", "NAME 3" that is not among `names`, which gain it."""
    name, number = stem, 1
    while name.lower() in names:
        number += 1
        name = f"{stem} {number}"
    names.add(name.lower())
    return name


def print_pdf(page: bytes) -> bytes:
    """Return a page as PDF, drawn in a process of its own: this one has no need of Qt. Raises EnvironmentFault."""
    try:
        printer = subprocess.run(
            module_command("app.gui.print_pdf"),
            input=page,
            capture_output=True,
            timeout=_PRINT_S,
            env=child_environment({"QT_QPA_PLATFORM": "offscreen"}),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFault("The PDF could not be made.", detail=str(error)) from error
    if printer.returncode or not printer.stdout.startswith(b"%PDF"):
        raise EnvironmentFault("The PDF could not be made.", detail=printer.stderr[-500:].decode("utf-8", "replace"))
    return printer.stdout


class ChatImporter:
    """Adds the chats of a file, several in one request; one that is refused keeps none of the others out."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client
        self._report = ImportReport()
        self._batch: list[Chat] = []
        self._size_bytes = 0

    def import_file(self, path: Path) -> ImportReport:
        """Add everything. Raises what `read_export` raises."""
        for item in read_export(path):
            if isinstance(item, ReadFolder):
                self._add_folder(item)
            else:
                self._add_chat(item)
        self._send_batch()
        return self._report

    def _add_chat(self, item: ReadChat) -> None:
        self._count(left_out=item.left_out, unreadable=item.chat is None)
        if item.program not in self._report.programs:
            programs = [*self._report.programs, item.program]
            self._report = msgspec.structs.replace(self._report, programs=programs)
        if item.chat is not None:
            self._add(self._with_files(item.chat, item))

    def _add_folder(self, item: ReadFolder) -> None:
        """Add a folder with its files; one that is there already stays as it is."""
        if item.folder.id in {folder.id for folder in self._client.get("/chats/folders", list[ChatFolder])}:
            return
        folder = msgspec.structs.replace(item.folder, files=self._upload_files(item.files))
        try:
            self._client.post("/chats/import", ChatImport(chats=[], folders=[folder]), ChatImportResult)
        except UserError as error:
            print_note(str(error))
            self._count(unreadable=1)
            return
        self._count(folders=1, left_out=item.left_out)

    def _count(self, **more: int) -> None:
        counts = {name: getattr(self._report, name) + count for name, count in more.items()}
        self._report = msgspec.structs.replace(self._report, **counts)

    def _add(self, chat: Chat) -> None:
        size_bytes = len(msgspec.json.encode(chat))
        if self._size_bytes + size_bytes > _BATCH_BYTES:
            self._send_batch()
        self._batch.append(chat)
        self._size_bytes += size_bytes

    def _send_batch(self) -> None:
        batch, self._batch, self._size_bytes = self._batch, [], 0
        if batch:
            self._send(batch)

    def _send(self, chats: Sequence[Chat]) -> None:
        """Send some chats; if one of them is refused, each by itself."""
        body = ChatImport(chats=list(chats))
        try:
            result = self._client.post("/chats/import", body, ChatImportResult, timeout_s=_IMPORT_S)
        except UserError as error:
            if len(chats) == 1:
                print_note(str(error))
                self._count(unreadable=1)
                return
            for chat in chats:
                self._send([chat])
            return
        self._count(**msgspec.structs.asdict(result))

    def _with_files(self, chat: Chat, item: ReadChat) -> Chat:
        """Return the chat with its files uploaded, but those of messages that are there already."""
        if not any(message.attachments for message in chat.messages) and not item.files:
            return chat
        there = self._ids_there(chat.id)
        messages = [
            msgspec.structs.replace(
                message, attachments=[] if message.id in there else self._upload_files(item.files.get(message.id, ()))
            )
            for message in chat.messages
        ]
        return msgspec.structs.replace(chat, messages=messages)

    def _ids_there(self, chat: str) -> set[str]:
        try:
            return {message.id for message in self._client.get(f"/chats/{quote_segment(chat)}", Chat).messages}
        except NotFound:
            return set()

    def _upload_files(self, files: Iterable[FileContent]) -> list[Attachment]:
        uploads = [self._upload(file) for file in files]
        return [upload for upload in uploads if upload is not None]

    def _upload(self, file: FileContent) -> Attachment | None:
        """Return the file as the service keeps it; None, counted, for one that it does not take."""
        path = f"/attachments?name={quote(file.name, safe='')}"
        try:
            return self._client.post(path, file.content, Attachment, timeout_s=_UPLOAD_S)
        except UserError:
            self._count(left_out=1)
            return None
