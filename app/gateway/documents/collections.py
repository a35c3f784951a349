"""The collections of this installation: what is set, what is done for them, and searches in them.

One task brings them up to date, one after another: those that changed, and all of them every so often, as models'
folders are watched (`app.gateway.library.watch` says why nobody is asked to notify). Files that are read, and passages
that are embedded, are kept as they come; whatever ends the program, the next start goes on.
"""

import asyncio
import logging
import time
from collections.abc import Collection as AnyOf
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web
from msgspec.structs import replace

from app.config.paths import Paths, expand_path
from app.core.documents import (
    MOST_COLLECTIONS,
    Collection,
    CollectionPatch,
    CollectionStage,
    DocumentFile,
    DocumentText,
    NewCollection,
)
from app.core.errors import BadRequest, Bug, Conflict, Forbidden, NotFound, RoundhouseError, quote_value
from app.core.events import CollectionsChanged
from app.documents.index import DocumentIndex, IndexFigures
from app.gateway.attachments.reading_child import FileReader
from app.gateway.background import Background
from app.gateway.documents.indexing import IndexUpdate
from app.gateway.documents.model_calls import DocumentModels
from app.gateway.documents.records import CollectionRecord, CollectionRecords, new_collection_id
from app.gateway.events import EventHub
from app.gateway.library.watch import SHARE

log = logging.getLogger(__name__)

LOOK_EVERY_S = 30.0
"""How often folders are compared with the index; longer where that takes more than a small share of the time."""
_TELL_EVERY_S = 0.5
_BUG = Bug("It could not be read because of a mistake in Roundhouse.", hint="Please report this.")


class CollectionWork:
    """What is done for one collection, and what came of the last time."""

    def __init__(self) -> None:
        self.stage = CollectionStage.READY
        self.done = self.total = 0
        self.missing: list[str] = []
        self.looked_at: float | None = None
        self.problem = ""
        self.figures = IndexFigures()


class Collections:
    """All collections. Belongs to the event loop; files and indexes are read and written in threads."""

    def __init__(self, paths: Paths, events: EventHub, files: FileReader, models: DocumentModels) -> None:
        self.records = CollectionRecords(paths.collections)
        self._own_folders = (paths.config, paths.data, paths.state, paths.logs)
        self._events, self._files, self.models = events, files, models
        self._records: dict[str, CollectionRecord] = {}
        self._work: dict[str, CollectionWork] = {}
        self._due: dict[str, None] = {}
        self._awake = asyncio.Event()
        self._current_update = ("", Background())
        self._told_at = 0.0
        self._load_event = asyncio.Event()

    async def keep_up_to_date(self) -> None:
        """Read what is kept of collections, and bring their indexes up to date until cancelled."""
        for record in await asyncio.to_thread(self.records.read_all):
            self._records.setdefault(record.id, record)
            self._work.setdefault(record.id, CollectionWork())
            self._work[record.id].figures = await self._read_figures(record.id)
        self._load_event.set()
        pause_s = LOOK_EVERY_S
        while True:
            self._due.update(dict.fromkeys(self._records))
            began = time.monotonic()
            while self._due:
                collection = next(iter(self._due))
                del self._due[collection]
                await self._update(collection)
            pause_s = max(LOOK_EVERY_S, (time.monotonic() - began) / SHARE)
            await self._wait_until_due(pause_s)

    async def list_collections(self, key: str = "") -> list[Collection]:
        """Return the collections, by name; with a key those that it may use."""
        await self._load_event.wait()
        records = [record for record in self._records.values() if not key or key in record.keys]
        return [self._describe(record) for record in sorted(records, key=lambda record: record.name.casefold())]

    async def read_collection(self, name: str, key: str = "") -> Collection:
        """Return one, by id or name. Raises NotFound, also for one that a key may not use."""
        return self._describe(await self.find_record(name, key))

    async def find_record(self, name: str, key: str = "") -> CollectionRecord:
        """Return what is set of a collection, by id or name. Raises NotFound."""
        await self._load_event.wait()
        allowed_records = [record for record in self._records.values() if not key or key in record.keys]
        match = next((record for record in allowed_records if record.id == name), None) or next(
            (record for record in allowed_records if record.name.casefold() == name.casefold()), None
        )
        if match is None:
            raise NotFound(
                f"There is no collection {quote_value(name)}.",
                hint="`roundhouse collections list` shows them.",
                code="collection_not_found",
            )
        return match

    async def add_collection(self, new: NewCollection, *, metadata: dict[str, str] | None = None) -> Collection:
        """Add a collection and have its folders read. Raises BadRequest, Conflict or StorageFault."""
        await self._load_event.wait()
        if len(self._records) >= MOST_COLLECTIONS:
            raise Conflict(f"There are {MOST_COLLECTIONS} collections already.", hint="Remove one.", code="too_many")
        self._check_name(new.name)
        record = CollectionRecord(
            id=new_collection_id(),
            name=new.name.strip(),
            folders=await asyncio.to_thread(self._check_folders, new.folders),
            created_at=time.time(),
            is_served=new.is_served,
            keys=new.keys,
            metadata=metadata or {},
        )
        await self.save_record(record)
        return self._describe(record)

    async def change_collection(self, name: str, patch: CollectionPatch) -> Collection:
        """Change what is set of a collection. Raises NotFound, BadRequest, Conflict or StorageFault."""
        record = await self.find_record(name)
        if patch.name is not None and patch.name != record.name:
            self._check_name(patch.name, besides=record.id)
            record = replace(record, name=patch.name.strip())
        if patch.folders is not None:
            record = replace(record, folders=await asyncio.to_thread(self._check_folders, patch.folders))
        if patch.is_served is not None:
            record = replace(record, is_served=patch.is_served)
        if patch.keys is not None:
            record = replace(record, keys=patch.keys)
        await self.save_record(record)
        return self._describe(record)

    async def rename_key(self, name: str, new_name: str) -> None:
        """Let a key that is called otherwise now search what it could. Raises StorageFault."""
        await self._load_event.wait()
        for record in [record for record in self._records.values() if name in record.keys and name != new_name]:
            keys = [new_name if key == name else key for key in record.keys]
            await self.save_record(replace(record, keys=list(dict.fromkeys(keys))))

    async def save_record(self, record: CollectionRecord) -> None:
        """Keep what is set of a collection, and look at its folders. Raises StorageFault."""
        await asyncio.to_thread(self.records.save, record)
        self._records[record.id] = record
        self._work.setdefault(record.id, CollectionWork())
        self.have_updated(record.id)

    async def remove_collection(self, name: str) -> Collection:
        """Remove a collection with its index; the folders stay as they are. Raises NotFound or StorageFault."""
        record = await self.find_record(name)
        description = self._describe(record)
        del self._records[record.id]
        self._due.pop(record.id, None)
        if self._current_update[0] == record.id:
            await self._current_update[1].join(cancel=True)
        self._work.pop(record.id, None)
        try:
            await asyncio.to_thread(self.records.remove, record.id)
        finally:
            self._events.publish(CollectionsChanged())
        return description

    def have_updated(self, collection: str) -> None:
        """Have a collection's folders looked at now."""
        self._due[collection] = None
        work = self._work[collection]
        if work.stage is CollectionStage.READY:
            work.stage = CollectionStage.WAITING
        self._awake.set()
        self._events.publish(CollectionsChanged())

    async def list_files(self, name: str, *, limit: int, offset: int, unread: bool = False) -> list[DocumentFile]:
        """Return the files of a collection by path, or those that cannot be read. Raises NotFound or StorageFault."""
        record = await self.find_record(name)

        def read() -> list[DocumentFile]:
            with self.index_of(record.id).read() as reader:
                return reader.list_files(limit=limit, offset=offset, unread=unread)

        return await asyncio.to_thread(read)

    async def read_text(self, name: str, file: str) -> DocumentText:
        """Return the text of a file of a collection as it is now. Raises NotFound, BadRequest or StorageFault."""
        record = await self.find_record(name)
        known_file = await asyncio.to_thread(self._find_file, record.id, file)
        if known_file is None:
            raise NotFound("There is no such file in that collection.", code="file_not_found")
        try:
            content = await asyncio.to_thread(Path(known_file.path).read_bytes)
        except OSError as error:
            raise NotFound(
                f"{known_file.path} is not there any more.", code="file_not_found", detail=str(error)
            ) from error
        extraction = await self._files.read(Path(known_file.path).name, content)
        text = getattr(extraction, "text", "")
        if not text:
            raise BadRequest(f"{known_file.path} has no text any more.", code="file_no_text")
        return DocumentText(path=known_file.path, text=text)

    def index_of(self, collection: str) -> DocumentIndex:
        """Return a collection's index."""
        return DocumentIndex(self.records.folder_of(collection))

    async def wait_until_ready(self, collection: str) -> None:
        """Wait until nothing is to be done for a collection."""
        with self._events.subscribe() as event_stream:
            if self._is_ready(collection):
                return
            async for _ in event_stream:
                if self._is_ready(collection):
                    return

    def _is_ready(self, collection: str) -> bool:
        work = self._work.get(collection)
        return work is None or (work.stage is CollectionStage.READY and collection not in self._due)

    async def close(self) -> None:
        """End what is done."""
        await self._current_update[1].join(cancel=True)

    async def _wait_until_due(self, pause_s: float) -> None:
        self._awake.clear()
        if self._due:
            return
        try:
            async with asyncio.timeout(pause_s):
                await self._awake.wait()
        except TimeoutError:
            pass

    async def _update(self, collection: str) -> None:
        """Bring one collection up to date, unless it is removed meanwhile. What goes wrong is told with it."""
        record, work = self._records.get(collection), self._work.get(collection)
        if record is None or work is None:
            return
        self._current_update = (collection, Background())
        task = self._current_update[1].spawn(self._run_update(record, work))
        await asyncio.wait({task})
        self._current_update = ("", Background())

    async def _run_update(self, record: CollectionRecord, work: CollectionWork) -> None:
        def report(stage: CollectionStage, done_count: int, total: int) -> None:
            work.stage, work.done, work.total = stage, done_count, total
            self._tell_progress()

        before = (work.problem, work.missing, work.figures)
        update = IndexUpdate(self.index_of(record.id), self._files, self.models, report)
        try:
            folders = [*record.folders, *await asyncio.to_thread(self._upload_folders, record.id)]
            changes = await update.run(folders, self._own_folders)
            work.missing, work.problem = changes.missing, ""
        except RoundhouseError as error:
            work.problem = error.body.text
            log.info("A collection could not be brought up to date: %s", error.body.text)
        except Exception:
            log.exception("A collection could not be brought up to date")
            work.problem = _BUG.body.text
        work.looked_at = time.time()
        work.figures = await self._read_figures(record.id)
        was = work.stage
        work.stage = CollectionStage.READY if record.id not in self._due else CollectionStage.WAITING
        work.done = work.total = 0
        if was is not CollectionStage.READY or before != (work.problem, work.missing, work.figures):
            self._events.publish(CollectionsChanged())

    def _upload_folders(self, collection: str) -> list[str]:
        uploads = self.records.uploads_of(collection)
        return [str(uploads)] if uploads.is_dir() else []

    def _tell_progress(self) -> None:
        if time.monotonic() - self._told_at > _TELL_EVERY_S:
            self._told_at = time.monotonic()
            self._events.publish(CollectionsChanged())

    async def _read_figures(self, collection: str) -> IndexFigures:
        try:
            return await asyncio.to_thread(self._figures_of, collection)
        except RoundhouseError as error:
            log.warning("An index cannot be read: %s", error.body.detail)
            return IndexFigures()

    def _figures_of(self, collection: str) -> IndexFigures:
        with self.index_of(collection).read() as reader:
            return reader.figures()

    def _find_file(self, collection: str, file: str) -> DocumentFile | None:
        with self.index_of(collection).read() as reader:
            return reader.find_file(file)

    def _check_name(self, name: str, besides: str = "") -> None:
        if not name.strip():
            raise BadRequest("A collection needs a name.", code="invalid_value")
        taken_names = {record.name.casefold() for record in self._records.values() if record.id != besides}
        if name.strip().casefold() in taken_names:
            raise Conflict(f"There is a collection {quote_value(name)} already.", code="name_taken")

    def _check_folders(self, folders: Sequence[str]) -> list[str]:
        """Return the folders as they are kept, each once. Raises BadRequest. Looks at the disk."""
        return list(dict.fromkeys(str(_check_folder(folder, self._own_folders)) for folder in folders))

    def _describe(self, record: CollectionRecord) -> Collection:
        work = self._work.get(record.id) or CollectionWork()
        figures = work.figures
        return Collection(
            id=record.id,
            name=record.name,
            folders=record.folders,
            missing_folders=work.missing,
            created_at=record.created_at,
            files=figures.files,
            unread_files=figures.problems,
            passages=figures.passages,
            embedded=figures.embedded,
            size_bytes=figures.size_bytes,
            embedding_model=figures.model,
            stage=work.stage,
            done=work.done,
            total=work.total,
            looked_at=work.looked_at,
            problem=work.problem,
            is_served=record.is_served,
            keys=record.keys,
        )


def _check_folder(folder: str, own_folders: AnyOf[Path]) -> Path:
    path = expand_path(folder)
    if "\0" in folder or not path.is_absolute():
        raise BadRequest(f"{quote_value(folder)} is no absolute path.", code="invalid_value")
    try:
        path = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise BadRequest(f"There is no folder {quote_value(folder)}.", code="no_such_folder") from None
    if not path.is_dir():
        raise BadRequest(f"{quote_value(folder)} is no folder.", hint="Add the folder it is in.", code="no_such_folder")
    if path == Path(path.anchor):
        raise BadRequest("A whole disk is no collection.", hint="Choose a folder on it.", code="invalid_value")
    if any(path.is_relative_to(own.resolve()) for own in own_folders):
        raise Forbidden("That folder is Roundhouse's own, and holds its keys.", code="own_folder")
    return path


COLLECTIONS = web.AppKey("collections", Collections)
