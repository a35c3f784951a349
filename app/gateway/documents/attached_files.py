"""Indexes of files of chats that are too long to be given whole, each in a folder named by the file's hash.

They are made when they are first asked, and again if need be: those that were not used for a month are deleted.
"""

import asyncio
import shutil
import time
from contextlib import suppress
from pathlib import Path

from app.config.paths import Paths
from app.core.attachments import Attachment
from app.core.documents import DocumentFile
from app.documents.index import DocumentIndex, IndexWriter
from app.documents.splitting import split_text
from app.gateway.documents.indexing import Report, WriterThread, embed_all, has_markup, open_writer
from app.gateway.documents.model_calls import DocumentModels

_KEEP_S = 30 * 24 * 3600.0


class AttachmentIndexes:
    """The indexes of single files. Belongs to the event loop."""

    def __init__(self, paths: Paths, models: DocumentModels) -> None:
        self._folder, self._models = paths.attachment_indexes, models
        self._turns: dict[str, asyncio.Lock] = {}

    def index_of(self, file: Attachment) -> DocumentIndex:
        """Return the index of a file."""
        return DocumentIndex(self._folder / file.hash)

    async def prepare(self, file: Attachment, text: str, report: Report) -> None:
        """Make the index of a file, or what is missing of it. Raises StorageFault, and what models raise."""
        turn = self._turns.setdefault(file.hash, asyncio.Lock())
        async with turn, open_writer(self.index_of(file)) as writer:
            await self._put_text(writer, file, text)
            await embed_all(writer, self._models, report)
        await asyncio.to_thread(self._sweep)

    async def _put_text(self, writer: WriterThread, file: Attachment, text: str) -> None:
        if await writer.call(IndexWriter.find_file, file.hash) is not None:
            return
        entry = DocumentFile(id=file.hash, path=file.name, size_bytes=file.size_bytes)
        chunks = await asyncio.to_thread(split_text, text, is_marked_up=has_markup(file))
        await writer.call(IndexWriter.put_file, entry, text, chunks)

    def _sweep(self) -> None:
        with suppress(OSError):
            for folder in list(self._folder.iterdir()):
                if time.time() - _last_use(folder) > _KEEP_S:
                    shutil.rmtree(folder, ignore_errors=True)


def _last_use(folder: Path) -> float:
    return max((path.stat().st_mtime for path in folder.iterdir()), default=0.0)
