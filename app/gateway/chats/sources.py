"""What an answer of a chat is given of documents: passages of the chat's collections, and of its files that are long.

A file that fits is given whole. One that does not gets an index, as a collection has, made when it is first asked
about. Passages are looked up for each question anew and stand before it, numbered; the answer keeps them.
"""

from collections.abc import Mapping, Sequence

import msgspec

from app.core.attachments import SENSES, Attachment, AttachmentPart
from app.core.chats import Chat, Message, Role
from app.core.documents import MOST_PASSAGES, AnswerSource, CollectionStage, Passage, number_sources, quote_passages
from app.core.errors import NotFound, RoundhouseError
from app.gateway.canonical.request import Part, Text
from app.gateway.chats.live_answer import LiveAnswer
from app.gateway.documents.attached_files import AttachmentIndexes
from app.gateway.documents.collections import Collections
from app.gateway.documents.searching import PassageSearch
from app.store.database import ChatStore

FILES_SHARE = 0.6
"""Of the context that files may fill when they are given whole."""
PASSAGES_SHARE = 0.35
"""Of the context that passages may fill."""
MOST_PASSAGE_TOKENS = 6000
"""More passages than this hold answer hardly any question better, and cost time with every one."""
_NOT_WHOLE = "{name} does not fit whole, so passages of it were chosen."
_FEW_WORDS = 4
"""A question as short as this is looked for together with the one before: it goes on with it."""


class SourceFinder:
    """Finds what answers are given of documents."""

    def __init__(
        self, chats: ChatStore, collections: Collections, search: PassageSearch, indexes: AttachmentIndexes
    ) -> None:
        self._chats, self._collections = chats, collections
        self._search, self._indexes = search, indexes

    def split_files(self, path: Sequence[Message], context: int) -> tuple[list[Attachment], list[Attachment]]:
        """Return the texts among the files of a path: those that are given whole, and those that are too long.

        The longest are, until the others fit their share of the context; without a context, all.
        """
        texts = [file for message in path for file in message.attachments if file.kind not in SENSES]
        whole = sorted({file.hash: file for file in texts}.values(), key=lambda file: file.tokens)
        long = []
        while whole and (not context or sum(file.tokens for file in whole) > context * FILES_SHARE):
            long.append(whole.pop())
        return whole, long

    async def find_sources(
        self, chat: Chat, path: Sequence[Message], long_files: Sequence[Attachment], context: int, live: LiveAnswer
    ) -> list[AnswerSource]:
        """Return the passages for the last question of a path, as many as fit. What is missing is told to `live`."""
        question = question_of(path)
        if not question or not (chat.collections or long_files):
            return []
        live.report_progress("Searching your documents")
        hits: list[tuple[str, Passage]] = []
        for name in chat.collections:
            hits += await self._search_collection(name, question, live)
        for file in long_files:
            live.note_source_problem(_NOT_WHOLE.format(name=file.name))
            hits += await self._search_file(file, question, live)
        ranked_hits = sorted(hits, key=lambda pair: -pair[1].score)
        return number_sources(ranked_hits, most_tokens=int(min(MOST_PASSAGE_TOKENS, context * PASSAGES_SHARE)))

    async def _search_collection(self, name: str, question: str, live: LiveAnswer) -> list[tuple[str, Passage]]:
        try:
            record = await self._collections.find_record(name)
        except NotFound:
            live.note_source_problem("A collection of this chat was removed.")
            return []
        try:
            results = await self._search.search([record], question, count=MOST_PASSAGES)
        except RoundhouseError as error:
            live.note_source_problem(f"{record.name}: {error.body.text}")
            return []
        if results.note:
            live.note_source_problem(results.note)
        return [(record.name, passage) for passage in results.passages]

    async def _search_file(self, file: Attachment, question: str, live: LiveAnswer) -> list[tuple[str, Passage]]:
        text = (await self._chats.read_file(file, AttachmentPart.TEXT)).decode()

        def report(stage: CollectionStage, done_count: int, total: int) -> None:
            del stage
            live.report_progress(f"Reading {file.name}", done_count / total if total else None)

        try:
            await self._indexes.prepare(file, text, report)
        except RoundhouseError as error:
            live.note_source_problem(f"{file.name}: {error.body.text}")
        results = await self._search.search_index(self._indexes.index_of(file), question, count=MOST_PASSAGES)
        if results.note:
            live.note_source_problem(results.note)
        return [("", msgspec.structs.replace(passage, file=file.id, path=file.name)) for passage in results.passages]


def question_of(path: Sequence[Message]) -> str:
    """Return what to look for: the last question, with the one before it if it is short."""
    questions = [message.content.strip() for message in path if message.role is Role.USER and message.content.strip()]
    if not questions:
        return ""
    if len(questions) > 1 and len(questions[-1].split()) < _FEW_WORDS:
        return "\n".join(questions[-2:])
    return questions[-1]


def with_sources(
    parts: Mapping[str, tuple[Part, ...]], path: Sequence[Message], sources: Sequence[AnswerSource]
) -> Mapping[str, tuple[Part, ...]]:
    """Return what questions bring along, with the passages before the last question's words."""
    question = next((message for message in reversed(path) if message.role is Role.USER), None)
    if question is None or not sources:
        return parts
    return {**parts, question.id: (*parts.get(question.id, ()), Text(quote_passages(sources)))}
