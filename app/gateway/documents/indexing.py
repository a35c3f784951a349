"""Bring one index up to date: read what is new in its folders, forget what is gone, embed what has no vector.

The index has a thread of its own while that lasts. Files of plain text are read in it, too; all others by `FileReader`
in a child, as files of chats are.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace

from app.core.attachments import LONGEST_TEXT, Attachment, AttachmentKind, Extraction, ExtractionProblem, FileProblem
from app.core.documents import CollectionStage, DocumentFile
from app.core.errors import RoundhouseError
from app.documents.folders import FolderChanges, compare_folders
from app.documents.index import DocumentIndex, EmbeddingModel, IndexWriter, PassageText
from app.documents.splitting import split_text
from app.documents.vectors import quantise
from app.extraction.reading import read_plain_text
from app.gateway.attachments.reading_child import FileReader
from app.gateway.documents.model_calls import DocumentModel, DocumentModels

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

LARGEST_FILE = 64 * 1024 * 1024
_BATCH = 32
"""Passages that are embedded at a time: a few seconds on a slow computer, after which others have their turn."""
_MARKED_UP = frozenset({"text/markdown", "text/html"})
_SIGHTS = frozenset({AttachmentKind.PICTURE, AttachmentKind.PAGES, AttachmentKind.SOUND})
_NO_TEXT = "It has no text."

Report = Callable[[CollectionStage, int, int], None]
"""Told what is done, how much of it, and of how much."""


class WriterThread:
    """An index and the only thread that may touch it."""

    def __init__(self, index: DocumentIndex, thread: ThreadPoolExecutor, writer: IndexWriter) -> None:
        self._index, self._thread, self._writer = index, thread, writer

    async def call(self, job: Callable[Concatenate[IndexWriter, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what `job` makes of the index. Raises StorageFault."""

        def run() -> R:
            with self._index.translate_faults():
                return job(self._writer, *args, **kwargs)

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)


class IndexUpdate:
    """One round over one collection."""

    def __init__(self, index: DocumentIndex, files: FileReader, models: DocumentModels, report: Report) -> None:
        self._index, self._files, self._models, self._report = index, files, models, report

    async def run(self, folders: Sequence[str], excluded_folders: Sequence[Path]) -> FolderChanges:
        """Bring the index up to date, and return what differed. Raises StorageFault, and what models raise."""
        async with open_writer(self._index) as writer:
            changes = await writer.call(_compare, folders, excluded_folders)
            for path in changes.missing_paths:
                await writer.call(IndexWriter.remove_file, path)
            for done_count, file in enumerate(changes.to_read):
                self._report(CollectionStage.READING, done_count, len(changes.to_read))
                await self._read_file(writer, file)
            await embed_all(writer, self._models, self._report)
        return changes

    async def _read_file(self, writer: WriterThread, file: DocumentFile) -> None:
        extraction = await writer.call(lambda _writer: _read_plain(file))
        if isinstance(extraction, bytes):
            extraction = await self._files.read(Path(file.path).name, extraction)
        if isinstance(extraction, ExtractionProblem):
            await writer.call(IndexWriter.put_file, replace(file, problem=extraction.sentence), "", [])
        elif extraction.kind in _SIGHTS:
            await writer.call(IndexWriter.put_file, replace(file, problem=_NO_TEXT), "", [])
        else:
            await writer.call(_put_text, file, extraction)


@asynccontextmanager
async def open_writer(index: DocumentIndex) -> AsyncIterator[WriterThread]:
    """Have an index written in a thread of its own while the block runs. Raises StorageFault."""
    thread, writer_stack = ThreadPoolExecutor(1, "documents"), ExitStack()
    loop = asyncio.get_running_loop()
    try:
        writer = await loop.run_in_executor(thread, writer_stack.enter_context, index.write())
        yield WriterThread(index, thread, writer)
    finally:
        # The thread does one thing after another: also what was begun when this was called off is closed where it is.
        await asyncio.shield(asyncio.wrap_future(thread.submit(writer_stack.close)))
        thread.shutdown(wait=False)


async def embed_all(writer: WriterThread, models: DocumentModels, report: Report) -> None:
    """Give each passage that has none a vector, if a model embeds. Raises StorageFault, and what models raise."""
    _, present = await writer.call(IndexWriter.generation)
    model = await models.find_embedder(present.identity if present else "")
    if model is None:
        await writer.call(IndexWriter.use_model, None)
        return
    if present is not None and present.identity != model.identity:
        await writer.call(IndexWriter.use_model, None)
    figures = await writer.call(IndexWriter.figures)
    done_count = figures.embedded
    while passages := await writer.call(IndexWriter.list_unembedded, _BATCH):
        report(CollectionStage.EMBEDDING, done_count, figures.passages)
        vectors = await models.embed_passages(model.name, [passage.text for passage in passages])
        await writer.call(_save_vectors, model, passages, vectors)
        done_count += len(passages)


def _compare(writer: IndexWriter, folders: Sequence[str], excluded_folders: Sequence[Path]) -> FolderChanges:
    return compare_folders(folders, writer.list_files(), excluded_folders=excluded_folders)


def _read_plain(file: DocumentFile) -> Extraction | ExtractionProblem | bytes:
    """Return what a file gives if it is plain text, else what is in it. Its size may have changed since the look."""
    if file.size_bytes > LARGEST_FILE:
        return ExtractionProblem(code="too_large", sentence=f"It is larger than {LARGEST_FILE // 2**20} MiB.")
    try:
        with Path(file.path).open("rb") as source:
            content = source.read(LARGEST_FILE)
    except OSError as error:
        return ExtractionProblem(code="unreadable", sentence=f"It cannot be opened: {error.strerror}.")
    if not content.strip():
        return ExtractionProblem(code=FileProblem.EMPTY, sentence="It is empty.")
    return read_plain_text(file.path, content) or content


def _put_text(writer: IndexWriter, file: DocumentFile, extraction: Extraction) -> None:
    text = extraction.text[:LONGEST_TEXT].encode(errors="replace").decode()
    is_marked_up = has_markup(extraction)
    writer.put_file(file, text, split_text(text, is_marked_up=is_marked_up))


def has_markup(source: Extraction | Attachment) -> bool:
    """Tell whether a text has Markdown's headings, and marks before its pages."""
    return source.kind is AttachmentKind.DOCUMENT or source.media_type in _MARKED_UP


def _save_vectors(
    writer: IndexWriter,
    model: DocumentModel,
    passages: Sequence[PassageText],
    vectors: Sequence[Sequence[float] | None],
) -> None:
    """Keep the vectors; a passage that has none gets one that is near to nothing, so that it is not tried again."""
    dimensions = max((len(vector) for vector in vectors if vector), default=0)
    if not dimensions:
        raise RoundhouseError("The embedding model makes no vectors.", code="engine_nonsense")
    writer.use_model(EmbeddingModel(model.identity, dimensions))
    writer.save_vectors(
        {
            passage.place: _quantise_or_blank(vector, dimensions)
            for passage, vector in zip(passages, vectors, strict=True)
        }
    )


def _quantise_or_blank(vector: Sequence[float] | None, dimensions: int) -> bytes:
    try:
        return quantise(vector or ())
    except ValueError:
        return bytes(dimensions)
