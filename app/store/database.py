"""Conversations and measurements for asyncio: one thread owns the database connection, everybody else awaits it.

Statements run one after the other, so nobody sees half a change and the event loop never waits for a disk.

How full the database is, without a word of what is in it.

Connections to other computers as they were noted, for a month and up to a bound.

Every statement takes a connection to the database its caller owns, as in `rows`.
"""

import asyncio
import functools
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from app.core.advice import Calibration, EstimateAccuracy, Generation
from app.core.attachments import Attachment, AttachmentPart
from app.core.benchmarks import BenchmarkReceipt
from app.core.chats import (
    Chat,
    ChatFolder,
    ChatFolderPatch,
    ChatImport,
    ChatImportResult,
    ChatPatch,
    ChatSummary,
    ForkChat,
    Message,
    NewChat,
    NewChatFolder,
    NewTurn,
    TagCount,
    Turn,
)
from app.core.connections import Connection
from app.core.errors import StorageFault
from app.core.keys import KeyTokens
from app.core.presets import ChatPreset, PresetImportResult, SavePreset
from app.core.requests import KeyDay, UsageRow
from app.core.tool_calls import ChatToolPermission
from app.core.trials import TrialResult
from app.store import (
    attachments,
    editing,
    folders,
    imports,
    listing,
    measurements,
    presets,
    responses,
    rows,
    usage,
)
from app.store.files import AttachmentFiles, files_folder
from app.store.opening import (
    CLOCK_SLACK_S,
    DatabaseHandle,
    is_damage,
    open_database,
    purge_old_chats,
    suspect_marker,
    transaction,
    translate_faults,
)

_OWN = "type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '%_text%'"
"""Tables that are not SQLite's own, nor those in which the index of words is kept."""


def count_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """Return how many rows each table has."""
    names = [row[0] for row in connection.execute(f"SELECT name FROM sqlite_master WHERE {_OWN} ORDER BY name")]  # noqa: S608 -- a constant
    return {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}  # noqa: S608 -- our own names of tables


KEPT_S = 30 * 24 * 3600.0
KEPT_ROWS = 10_000


def save_connections(database: sqlite3.Connection, connections: Sequence[Connection]) -> None:
    """Keep these as they are now, each in place of what its id had; forget what is old or too much."""
    rows = [(connection.id, connection.last_at, msgspec.json.encode(connection).decode()) for connection in connections]
    with transaction(database):
        database.executemany("INSERT OR REPLACE INTO connections VALUES (?, ?, ?)", rows)
        database.execute("DELETE FROM connections WHERE at < ?", (time.time() - KEPT_S - CLOCK_SLACK_S,))
        database.execute(
            "DELETE FROM connections WHERE id IN (SELECT id FROM connections ORDER BY at DESC LIMIT -1 OFFSET ?)",
            (KEPT_ROWS,),
        )


def list_connections(database: sqlite3.Connection, *, limit: int) -> list[Connection]:
    """Return the last ones, newest first. One that this version cannot read is left out."""
    connections: list[Connection] = []
    for (text,) in database.execute("SELECT value FROM connections ORDER BY at DESC, id LIMIT ?", (limit,)):
        try:
            connections.append(msgspec.json.decode(text, type=Connection))
        except msgspec.MsgspecError:  # a later version has more purposes
            continue
    return connections


def forget_connections(database: sqlite3.Connection) -> None:
    """Forget all of them."""
    with transaction(database):
        database.execute("DELETE FROM connections")


def _open_tidied(path: Path) -> DatabaseHandle:
    database = open_database(path)
    try:
        with translate_faults(path.parent):
            attachments.tidy_attachments(database.connection, AttachmentFiles(files_folder(path)))
    except BaseException:
        database.connection.close()
        raise
    return database


_ALL_CHATS = listing.ListRequest()
P = ParamSpec("P")
R = TypeVar("R")


class ChatStore:
    """The conversations of one installation. Open it with `ChatStore.open`; every method may raise StorageFault."""

    def __init__(self, path: Path, thread: ThreadPoolExecutor, database: DatabaseHandle) -> None:
        self._path = path
        self._files = AttachmentFiles(files_folder(path))
        self._thread = thread
        self._connection = database.connection
        self._is_open = True
        self.notices = database.notices
        """What a person should know about how the file was opened."""

    @classmethod
    async def open(cls, path: Path) -> "ChatStore":
        """Open or create the database. Answers that were being written when the last gateway died are `interrupted`."""
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        try:
            database = await asyncio.get_running_loop().run_in_executor(thread, _open_tidied, path)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(path, thread, database)

    async def close(self) -> None:
        """Write everything out and close the file. Harmless when called again."""
        if self._is_open:
            self._is_open = False
            await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
            self._thread.shutdown(wait=False)

    async def list_summaries(self, request: listing.ListRequest = _ALL_CHATS) -> list[ChatSummary]:
        """Return chats, newest first."""
        return await self._run_job(listing.list_chats, request)

    async def create_chat(self, new: NewChat) -> Chat:
        """Store a chat without messages."""
        return await self._run_job(rows.add_chat, new)

    async def read_chat(self, chat: str, *, with_messages: bool = True) -> Chat:
        """Return a whole chat, or what is about it without its messages. Raises NotFound."""
        return await self._run_job(rows.read_chat, chat, with_messages=with_messages)

    async def read_message(self, chat: str, message: str) -> Message:
        """Return one message. Raises NotFound."""
        return await self._run_job(rows.read_message, chat, message)

    async def read_path(self, chat: str, message: str) -> list[Message]:
        """Return the messages from the root down to `message`. Raises NotFound."""
        return await self._run_job(rows.read_path, chat, message)

    async def change_chat(self, chat: str, patch: ChatPatch) -> Chat:
        """Change what the patch names. Raises NotFound."""
        return await self._run_job(rows.change_chat, chat, patch)

    async def wants_title(self, chat: str) -> bool:
        """Tell whether a chat still has the title that its first question gave it."""
        return await self._run_job(rows.wants_title, chat)

    async def set_model_title(self, chat: str, title: str) -> bool:
        """Give a chat a model's title, unless a person gave it one; return whether it has it now."""
        return await self._run_job(rows.set_model_title, chat, title)

    async def delete_chat(self, chat: str) -> None:
        """Hide a chat; `restore_chat` undoes it for 30 days. Raises NotFound."""
        await self._run_job(rows.delete_chat, chat)

    async def restore_chat(self, chat: str) -> Chat:
        """Bring a deleted chat back. Raises NotFound."""
        return await self._run_job(rows.restore_chat, chat)

    async def purge_chat(self, chat: str) -> None:
        """Delete a chat of the trash for good, with the files that only it had. Raises NotFound."""
        await self._run_job(rows.purge_chat, chat)
        await self._run_job(attachments.tidy_attachments, self._files)

    async def tidy(self) -> list[str]:
        """Delete for good what was in the trash for 30 days, and files that nothing has; return the chats' ids."""
        purged_chats = await self._run_job(purge_old_chats)
        await self._run_job(attachments.tidy_attachments, self._files)
        return purged_chats

    async def index_files(self) -> None:
        """Have searches find the text of files that were kept before searches looked into files; one at a time."""
        for digest in await self._run_job(attachments.list_unindexed):
            with suppress(StorageFault):  # it is gone, or there is no room: searches go on without it
                await self._run_job(attachments.index_file, self._files, digest)

    async def list_folders(self) -> list[ChatFolder]:
        """Return the folders of chats by name."""
        return await self._run_job(folders.list_folders)

    async def read_folder(self, folder: str) -> ChatFolder:
        """Return one folder. Raises NotFound."""
        return await self._run_job(folders.read_folder, folder)

    async def create_folder(self, new: NewChatFolder) -> ChatFolder:
        """Store a folder. Raises BadRequest, and NotFound for files that were not uploaded."""
        return await self._run_job(folders.add_folder, new)

    async def change_folder(self, folder: str, patch: ChatFolderPatch) -> ChatFolder:
        """Change what the patch names. Raises NotFound and BadRequest."""
        changed_folder = await self._run_job(folders.change_folder, folder, patch)
        if patch.files is not None:
            await self._run_job(attachments.tidy_attachments, self._files)
        return changed_folder

    async def delete_folder(self, folder: str, *, with_chats: bool) -> list[str]:
        """Delete a folder; return the ids of its chats, which stay or go to the trash. Raises NotFound."""
        chats = await self._run_job(folders.delete_folder, folder, with_chats=with_chats)
        await self._run_job(attachments.tidy_attachments, self._files)
        return chats

    async def list_tags(self) -> list[TagCount]:
        """Return every tag with how many chats have it."""
        return await self._run_job(folders.list_tags)

    async def import_chats(self, chats: ChatImport) -> ChatImportResult:
        """Add chats that were written elsewhere, all or none. Raises BadRequest. See `imports`."""
        return await self._run_job(imports.import_chats, chats)

    async def fork_chat(self, chat: str, fork: ForkChat) -> Chat:
        """Begin a chat with a copy of a branch. Raises NotFound or Conflict. See `editing.fork_chat`."""
        return await self._run_job(editing.fork_chat, chat, fork)

    async def add_version(self, chat: str, message: str, content: str) -> Message:
        """Add another version of a message. Raises NotFound, BadRequest or Conflict."""
        return await self._run_job(editing.add_version, chat, message, content)

    async def delete_message(self, chat: str, message: str) -> None:
        """Hide a message; `restore_message` undoes it for 30 days. Raises NotFound or Conflict."""
        await self._run_job(editing.delete_message, chat, message)

    async def restore_message(self, chat: str, message: str) -> Chat:
        """Bring a deleted message back. Raises NotFound."""
        return await self._run_job(editing.restore_message, chat, message)

    async def list_presets(self) -> list[ChatPreset]:
        """Return the presets, by name."""
        return await self._run_job(presets.list_presets)

    async def save_preset(self, new: SavePreset) -> ChatPreset:
        """Keep a preset. Raises Conflict where its name is taken, and BadRequest."""
        return await self._run_job(presets.save_preset, new)

    async def import_presets(self, new: Sequence[ChatPreset]) -> PresetImportResult:
        """Add presets, all or none. Raises BadRequest."""
        return await self._run_job(presets.import_presets, new)

    async def delete_preset(self, name: str) -> None:
        """Forget a preset. Raises NotFound."""
        await self._run_job(presets.delete_preset, name)

    async def begin_turn(self, chat: str, turn: NewTurn, answer: Message) -> Turn:
        """Store a question and its answer to be. Of `answer`, id, model and engine count. See `rows.begin_turn`."""
        return await self._run_job(rows.begin_turn, chat, turn, answer)

    async def add_attachment(self, attachment: Attachment, parts: Mapping[AttachmentPart, bytes]) -> Attachment:
        """Keep a file that is not sent yet."""
        return await self._run_job(attachments.add_attachment, self._files, attachment, parts)

    async def read_attachments(self, ids: Sequence[str]) -> list[Attachment]:
        """Return these attachments, in this order. Raises NotFound."""
        return await self._run_job(attachments.read_attachments, ids)

    async def read_file(self, attachment: Attachment, part: AttachmentPart) -> bytes:
        """Return what is kept of an attached file."""
        return await asyncio.to_thread(self._files.read, attachment.hash, part)

    async def remove_attachment(self, attachment: str) -> None:
        """Forget a file that was not sent. Raises NotFound, and Conflict for one of a question."""
        await self._run_job(attachments.remove_attachment, self._files, attachment)

    async def save_answer(self, answer: Message) -> None:
        """Store what has been written of an answer so far; it survives the death of this process."""
        await self._run_job(rows.save_answer, answer)

    async def set_tool_permission(self, chat: str, permission: ChatToolPermission) -> None:
        """Keep what was decided of a tool in one chat. Raises NotFound."""
        await self._run_job(rows.set_tool_permission, chat, permission)

    async def attach_to_answer(self, answer: str, attachment: str) -> None:
        """Have an answer that is being written own a file. Raises NotFound."""
        await self._run_job(rows.attach_to_answer, answer, attachment)

    async def finish_answer(self, answer: Message) -> Message:
        """Store the final form of an answer and return it as stored. Harmless when called again."""
        return await self._run_job(rows.finish_answer, answer)

    async def list_calibrations(self) -> list[Calibration]:
        """Return what was calibrated on this machine."""
        return await self._run_job(measurements.list_calibrations)

    async def save_calibration(self, calibration: Calibration) -> None:
        """Keep a calibration in place of the one for the same device, engine build and backend."""
        await self._run_job(measurements.save_calibration, calibration)

    async def forget_calibrations(self) -> None:
        """Forget what was calibrated and the generations that refined it."""
        await self._run_job(measurements.forget_calibrations)

    async def add_generation(self, generation: Generation) -> None:
        """Keep one answer's timing."""
        await self._run_job(measurements.add_generation, generation)

    async def list_generations(self, *, limit: int = 200) -> list[Generation]:
        """Return the timings of the last answers, newest first."""
        return await self._run_job(measurements.list_generations, limit=limit)

    async def add_load(self, load: EstimateAccuracy) -> None:
        """Keep what a load took against what was predicted."""
        await self._run_job(measurements.add_load, load)

    async def list_loads(self, *, limit: int = 50) -> list[EstimateAccuracy]:
        """Return the last loads, newest first."""
        return await self._run_job(measurements.list_loads, limit=limit)

    async def save_benchmark(self, receipt: BenchmarkReceipt) -> None:
        """Keep what came of a benchmark."""
        await self._run_job(measurements.save_benchmark, receipt)

    async def list_benchmarks(self, *, model: str = "", limit: int = 100) -> list[BenchmarkReceipt]:
        """Return the last receipts, newest first, of one model or of all."""
        return await self._run_job(measurements.list_benchmarks, model=model, limit=limit)

    async def find_benchmark(self, receipt_id: str) -> BenchmarkReceipt:
        """Return one receipt. Raises NotFound."""
        return await self._run_job(measurements.find_benchmark, receipt_id)

    async def delete_benchmark(self, receipt_id: str) -> None:
        """Forget one receipt. Raises NotFound."""
        await self._run_job(measurements.delete_benchmark, receipt_id)

    async def add_trial(self, result: TrialResult) -> None:
        """Keep what came of a trial."""
        await self._run_job(measurements.add_trial, result)

    async def list_trials(self, *, model: str = "") -> list[TrialResult]:
        """Return what is kept of trials, newest first, of one model or of all."""
        return await self._run_job(measurements.list_trials, model=model)

    async def add_usage(self, entries: Sequence[usage.UsageEntry]) -> None:
        """Keep what requests used."""
        await self._run_job(usage.add_entries, entries)

    async def usage_since(self, at: float) -> list[UsageRow]:
        """Return what was used since `at` (Unix seconds) by client and model, most tokens first."""
        return await self._run_job(usage.usage_since, at)

    async def usage_by_key(self, at: float) -> list[KeyDay]:
        """Return what each key was used for on each day since `at` (Unix seconds), the newest day first."""
        return await self._run_job(usage.usage_by_key, at)

    async def key_tokens_since(self, at: float) -> list[KeyTokens]:
        """Return what counts for the limits of keys of the requests that ended since `at`, oldest first."""
        return await self._run_job(usage.key_tokens_since, at)

    async def keep_response(self, response: responses.ResponseRecord, bounds: responses.ResponseLimits) -> None:
        """Keep an answer of the Responses API, and forget what is beyond the bounds."""
        await self._run_job(responses.keep_response, response, bounds)

    async def read_response(self, response: str) -> responses.ResponseRecord:
        """Return a kept response. Raises NotFound."""
        return await self._run_job(responses.read_response, response)

    async def response_conversation(self, response: str) -> tuple[responses.ResponseRecordItem, ...]:
        """Return what was said up to and with a response, oldest first. Raises NotFound."""
        return await self._run_job(responses.read_conversation, response)

    async def response_items(self, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return those of the items that are kept, as JSON by id."""
        return await self._run_job(responses.read_items, ids)

    async def forget_responses(self, bounds: responses.ResponseLimits) -> None:
        """Forget the responses beyond the bounds."""
        await self._run_job(responses.forget_responses, bounds)

    async def delete_response(self, response: str) -> None:
        """Forget a response. Raises NotFound."""
        await self._run_job(responses.delete_response, response)

    async def save_connections(self, rows: Sequence[Connection]) -> None:
        """Keep connections to other computers as they are now, each in place of what its id had."""
        await self._run_job(save_connections, rows)

    async def list_connections(self, *, limit: int) -> list[Connection]:
        """Return the last connections to other computers, newest first."""
        return await self._run_job(list_connections, limit=limit)

    async def forget_connections(self) -> None:
        """Forget the connections to other computers."""
        await self._run_job(forget_connections)

    async def count_rows(self) -> dict[str, int]:
        """Return how many rows each table has."""
        return await self._run_job(count_rows)

    async def _run_job(
        self, job: Callable[Concatenate[sqlite3.Connection, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        call = functools.partial(job, self._connection, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._call_translating_faults, call)

    def _call_translating_faults(self, call: Callable[[], R]) -> R:
        with translate_faults(self._path.parent):
            try:
                return call()
            except sqlite3.DatabaseError as error:
                if is_damage(error):
                    suspect_marker(self._path).touch()
                raise
