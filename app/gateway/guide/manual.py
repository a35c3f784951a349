"""The manual that comes with Roundhouse, as passages that are searched: what the Guide has no answer of its own to.

It is a collection like a person's own, with an index made at the first question, and again when a version brings other
texts. Links and pictures are left out, as they lead nowhere from here.
"""

import hashlib
import re
from functools import cached_property
from pathlib import Path

from app.core.documents import DocumentFile, Passage
from app.core.errors import NotFound
from app.core.guide import MANUAL
from app.documents.index import DocumentIndex
from app.documents.splitting import split_text
from app.guide.passages import PassageScorer, key_words

PARTS = ("guide", "reference")
"""What is for people and for programs; how it works inside is not asked for."""
_CANDIDATES = 12
_SPARE = 12
"""Passages that are looked at besides: some are left out."""
_ASIDE = re.compile(
    r"> (?:What was (?:not )?(?:tested|tried)|How this is tested|Measured|Figures|The list"
    r"|Published attacks|Attacks of \d+, tried)$"
)
"""Sections that say how the manual knows, which nobody asks for, and the list of models."""
_PICTURE = re.compile(r"^!\[[^\]\n]*\]\([^)\n]*\)\n?", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\[\]\n]+)\]\([^()\s]+\)")


class Manual:
    """The texts of the manual and their index. Its methods read files: call them off the event loop."""

    def __init__(self, docs: Path, index: Path) -> None:
        self._docs, self._index = docs, DocumentIndex(index)
        self._is_current = False

    @cached_property
    def texts(self) -> dict[str, str]:
        """The chapters by their paths below docs, as they are shown."""
        return {
            f"{part}/{path.name}": _plain(path.read_text(encoding="utf-8"))
            for part in PARTS
            for path in sorted((self._docs / part).glob("*.md"))
        }

    def read_text(self, file: str) -> str:
        """Return the text of a chapter, in which passages count characters. Raises NotFound."""
        text = self.texts.get(file)
        if text is None:
            raise NotFound("There is no such chapter.", code="file_not_found")
        return text

    def search(self, words: str, *, count: int) -> list[Passage]:
        """Return the passages with these words, the best first. Raises StorageFault."""
        self._bring_up_to_date()
        with self._index.read() as reader:
            passages = reader.search(MANUAL, words, count=count + _SPARE)
        return [passage for passage in passages if not _ASIDE.search(passage.heading)][:count]

    def find_answer(self, question: str) -> Passage | None:
        """Return the passage that answers a question; None where the manual says nothing of it. Raises StorageFault."""
        return self._scorer.choose(question, self.search(" ".join(sorted(key_words(question))), count=_CANDIDATES))

    @cached_property
    def _scorer(self) -> PassageScorer:
        return PassageScorer(
            f"{chunk.heading}\n{text[chunk.start : chunk.end]}"
            for text in self.texts.values()
            for chunk in split_text(text, is_marked_up=True)
        )

    def find_section(self, file: str, heading: str) -> Passage | None:
        """Return how a section begins; that of a chapter without a heading."""
        text = self.texts.get(file, "")
        for chunk in split_text(text, is_marked_up=True):
            if chunk.heading.rpartition(" > ")[2].startswith(heading):
                return Passage(
                    collection=MANUAL, file=file, path=file, text=text[chunk.start : chunk.end],
                    start=chunk.start, end=chunk.end, heading=chunk.heading,
                )  # fmt: skip
        return None

    def _bring_up_to_date(self) -> None:
        if self._is_current:
            return
        files = [_file_of(name, text) for name, text in self.texts.items()]
        with self._index.write() as writer:
            present = {file.path: file.modified_ns for file in writer.list_files()}
            for path in present.keys() - self.texts.keys():
                writer.remove_file(path)
            for file in files:
                if present.get(file.path) != file.modified_ns:
                    text = self.texts[file.path]
                    writer.put_file(file, text, split_text(text, is_marked_up=True))
        self._is_current = True


def _file_of(name: str, text: str) -> DocumentFile:
    content = text.encode()
    mark = int.from_bytes(hashlib.sha256(content).digest()[:7])  # in place of a time: what SQLite has as an integer
    return DocumentFile(id=name, path=name, size_bytes=len(content), modified_ns=mark)


def _plain(text: str) -> str:
    return _LINK.sub(r"\1", _PICTURE.sub("", text))
