"""The index of one collection: its files, their passages, the words in them, and vectors of what they mean.

A file's passages come and go in one transaction, so a program killed at any moment leaves whole files only. Vectors are
made afterwards, some at a time: a passage says which generation of vectors it has one in, and a change of the embedding
model begins a new generation. All of it can be made again from the files: an index that is damaged or of another
version is begun anew. Readers open it for themselves and wait for nobody.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from app.core.documents import DocumentFile, Passage, TextChunk
from app.core.errors import StorageFault
from app.documents.vectors import VectorFile
from app.documents.words import index_words, question_words
from app.store.opening import is_damage, transaction

FORMAT = 2
"""Of the index, and of how texts are cut into passages; another is begun anew."""
_BUSY_S = 30.0
_CACHE_KIB = 8192
"""Of pages: rows of the full-text index are touched all over."""
MOST_RANKED = 8_000
"""Passages with the question's words that are put in order: more take too long, and common words say little."""
_CANDIDATES = 50
"""Of each way of searching, before they become one list."""
_SPARE = 4
"""Times as many neighbours are looked for: some places are of passages that are gone."""
_FUSION = 60
"""What reciprocal rank fusion adds to a rank: Cormack, Clarke and Büttcher, 2009."""
_NAME_WEIGHT, _HEADING_WEIGHT, _TEXT_WEIGHT = 2.0, 2.0, 1.0

_SCHEMA = f"""
CREATE TABLE facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE files (
    seq         INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    path        TEXT NOT NULL UNIQUE,
    size_bytes  INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    problem     TEXT NOT NULL
);
CREATE TABLE passages (
    place      INTEGER PRIMARY KEY,
    file       INTEGER NOT NULL REFERENCES files (seq),
    start      INTEGER NOT NULL,
    end        INTEGER NOT NULL,
    page       INTEGER,
    heading    TEXT NOT NULL,
    text       TEXT NOT NULL,
    generation INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX passages_of_files ON passages (file);
CREATE INDEX passages_by_generation ON passages (generation);
CREATE TABLE free_places (place INTEGER PRIMARY KEY);
CREATE VIRTUAL TABLE passage_words USING fts5 (
    name, heading, text, content = '', tokenize = 'porter unicode61 remove_diacritics 2'
);
PRAGMA user_version = {FORMAT};
"""


class EmbeddingModel(NamedTuple):
    """Whose vectors an index has: two with one identity make the same vector of the same text."""

    identity: str
    dimensions: int


class IndexFigures(NamedTuple):
    """How large an index is. `embedded` passages have a vector of `model`."""

    files: int = 0
    problems: int = 0
    passages: int = 0
    embedded: int = 0
    size_bytes: int = 0
    model: str = ""


class PassageText(NamedTuple):
    """What is embedded of a passage: its headings and its text."""

    place: int
    text: str


class DocumentIndex:
    """One index, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._database = folder / "index.db"
        self._damage_mark = folder / "index.damaged"
        """Left by whoever notices damage: the next writer begins anew."""

    @contextmanager
    def write(self) -> Iterator["IndexWriter"]:
        """Open it for its one writer; it is made if it is not there or of no use. Raises StorageFault."""
        with self.translate_faults():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with closing(self._open_writable()) as connection:
                yield IndexWriter(connection, self._folder)

    @contextmanager
    def read(self) -> Iterator["IndexReader"]:
        """Open it for reading; an index that is not there is an empty one. Raises StorageFault."""
        with self.translate_faults(), closing(self._open_readable()) as connection:
            yield IndexReader(connection, self._folder)

    def remove(self) -> None:
        """Delete it. What a reader on Windows has open stays until the next time."""
        for path in (*self._folder.glob("index.db*"), *self._folder.glob("vectors-*"), self._damage_mark):
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _open_writable(self) -> sqlite3.Connection:
        if self._damage_mark.exists():
            self.remove()
        try:
            return self._prepare()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self.remove()
            return self._prepare()

    def _open_readable(self) -> sqlite3.Connection:
        if self._database.exists():
            with suppress(sqlite3.DatabaseError):  # its writer makes it anew
                connection = sqlite3.connect(self._database, isolation_level=None, timeout=_BUSY_S)
                if _version_of(connection) == FORMAT:
                    connection.execute("PRAGMA query_only = ON")
                    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
                    return connection
                connection.close()
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.executescript(_SCHEMA)
        return connection

    def _prepare(self) -> sqlite3.Connection:
        """Return a connection to an index of this format. Raises sqlite3.DatabaseError."""
        connection = sqlite3.connect(self._database, isolation_level=None, timeout=_BUSY_S)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            version = _version_of(connection)
            if version == 0:
                connection.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}COMMIT;")
            elif version != FORMAT:
                raise _useless()  # noqa: TRY301 -- treated as damage is
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def translate_faults(self) -> Iterator[None]:
        """Turn what goes wrong with the files of the index into a StorageFault, and have damage remembered."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, sqlite3.Error) and is_damage(error):
                with suppress(OSError):
                    self._damage_mark.touch()
            raise StorageFault(
                "The index of a collection could not be read or written.",
                hint="Check that its disk is there and not full. A damaged index is made again from the documents.",
                code="index_unreachable",
                detail=f"{self._folder}: {error}",
            ) from error


def _useless() -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError("the index is of another version")
    error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
    return error


def _version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


class IndexReader:
    """Reads one index."""

    def __init__(self, connection: sqlite3.Connection, folder: Path) -> None:
        self._connection, self._folder = connection, folder

    def figures(self) -> IndexFigures:
        """Return how large it is."""
        generation, model = self.generation()
        files, problems = self._row("SELECT count(*), count(nullif(problem, '')) FROM files")
        (passages,) = self._row("SELECT count(*) FROM passages")
        (embedded_count,) = (
            self._row("SELECT count(*) FROM passages WHERE generation = ?", generation) if model else (0,)
        )
        size = sum(path.stat().st_size for path in self._folder.glob("*") if path.is_file())
        return IndexFigures(files, problems, passages, embedded_count, size, model.identity if model else "")

    def generation(self) -> tuple[int, EmbeddingModel | None]:
        """Return the number of the vectors that count, and whose they are."""
        facts = dict(self._connection.execute("SELECT name, value FROM facts"))
        if "model" not in facts:
            return 0, None
        return int(facts["generation"]), EmbeddingModel(str(facts["model"]), int(facts["dimensions"]))

    def list_files(self, *, limit: int = -1, offset: int = 0, unread: bool = False) -> list[DocumentFile]:
        """Return the files by path; only those that cannot be read, if `unread`."""
        which = "WHERE problem <> ''" if unread else ""
        statement = f"{_SELECT_FILES} {which} ORDER BY path LIMIT ? OFFSET ?"
        return [_file_of(row) for row in self._connection.execute(statement, (limit, offset))]

    def find_file(self, file: str) -> DocumentFile | None:
        """Return the file with this id."""
        row = self._connection.execute(f"{_SELECT_FILES} WHERE id = ?", (file,)).fetchone()
        return _file_of(row) if row else None

    def passages_of(self, file: str) -> list[str]:
        """Return the texts of a file's passages, in order."""
        statement = "SELECT text FROM passages WHERE file = (SELECT seq FROM files WHERE id = ?) ORDER BY start"
        return [text for (text,) in self._connection.execute(statement, (file,))]

    def search(
        self, collection: str, question: str, vector: bytes = b"", *, count: int, files: Sequence[str] | None = None
    ) -> list[Passage]:
        """Return the passages that answer a question best, by its words and, with a vector, by what it means.

        With `files`, only passages of those, by their ids.
        """
        wanted_files = None if files is None else self._numbers_of(files)
        words = self._by_words(question, wanted_files, max(count, _CANDIDATES))
        meanings = self._by_meaning(vector, wanted_files, max(count, _CANDIDATES)) if vector else []
        scores = fuse_ranks(words, meanings)
        best = sorted(scores, key=lambda place: (-scores[place], place))[:count]
        word_ranks, meaning_ranks = _ranks(words), _ranks(meanings)
        return [
            passage
            for place in best
            if (
                passage := self._read_passage(
                    collection, place, scores[place], (word_ranks.get(place), meaning_ranks.get(place))
                )
            )
        ]

    def _numbers_of(self, files: Sequence[str]) -> set[int]:
        statement = "SELECT seq FROM files WHERE id = ?"
        return {row[0] for file in files for row in self._connection.execute(statement, (file,))}

    def _by_words(self, question: str, files: set[int] | None, count: int) -> list[int]:
        """Return the places of passages with words of the question, the best first."""
        expression = self._expression(question)
        if not expression:
            return []
        numbers = "" if files is None else ",".join(map(str, sorted(files)))
        values = (_NAME_WEIGHT, _HEADING_WEIGHT, _TEXT_WEIGHT, expression, files is None, numbers, MOST_RANKED, count)
        rows = self._connection.execute(_BY_WORDS, values)
        return [row[0] for row in rows]

    def _expression(self, question: str) -> str:
        """Return what asks for the question's words: the rarest, as many as can be put in order."""
        counts = {term: self._count(term) for term in question_words(question)}
        terms: list[str] = []
        total = 0
        for term in sorted(filter(counts.__getitem__, counts), key=counts.__getitem__):
            total += counts[term]
            if terms and total > MOST_RANKED:
                break
            terms.append(term)
        return " OR ".join(terms)

    def _count(self, term: str) -> int:
        statement = "SELECT count(*) FROM (SELECT 1 FROM passage_words WHERE passage_words MATCH ? LIMIT ?)"
        return int(self._row(statement, term, MOST_RANKED)[0])

    def _by_meaning(self, vector: bytes, files: set[int] | None, count: int) -> list[int]:
        """Return the places of passages whose vectors are nearest, the nearest first."""
        generation, model = self.generation()
        if model is None or len(vector) != model.dimensions:
            return []
        neighbours = vector_file(self._folder, generation, model).nearest(vector, count * _SPARE)
        statement = "SELECT file FROM passages WHERE place = ? AND generation = ?"
        places = []
        for place in neighbours:
            row = self._connection.execute(statement, (place, generation)).fetchone()
            if row is not None and (files is None or row[0] in files):
                places.append(place)
        return places[:count]

    def _read_passage(
        self, collection: str, place: int, score: float, ranks: tuple[int | None, int | None]
    ) -> Passage | None:
        row = self._connection.execute(_SELECT_PASSAGE, (place,)).fetchone()
        if row is None:
            return None
        file, path, start, end, page, heading, text = row
        return Passage(
            collection=collection,
            file=file,
            path=path,
            text=text,
            start=start,
            end=end,
            page=page,
            heading=heading,
            score=score,
            word_rank=ranks[0],
            meaning_rank=ranks[1],
        )

    def _row(self, statement: str, *values: object) -> tuple[int, ...]:
        row: tuple[int, ...] = self._connection.execute(statement, values).fetchone()
        return row


class IndexWriter(IndexReader):
    """Changes one index; there is one at a time."""

    def put_file(self, file: DocumentFile, text: str, chunks: Sequence[TextChunk]) -> None:
        """Have the index hold a file as it is now, in place of what it held of that path."""
        with transaction(self._connection):
            self._drop_file(file.path)
            row = self._connection.execute(
                "INSERT INTO files (id, path, size_bytes, modified_ns, problem) VALUES (?, ?, ?, ?, ?)",
                (file.id, file.path, file.size_bytes, file.modified_ns, file.problem),
            )
            name = Path(file.path).name
            for chunk in chunks:
                self._insert_passage(row.lastrowid or 0, name, chunk, text[chunk.start : chunk.end])

    def remove_file(self, path: str) -> None:
        """Forget a file and its passages."""
        with transaction(self._connection):
            self._drop_file(path)

    def use_model(self, model: EmbeddingModel | None) -> int:
        """Have vectors be of this model from now on; those of another count no more. Return their generation."""
        generation, present = self.generation()
        if present == model:
            return generation
        facts = {"last_generation": self._last_generation()}
        if model is not None:
            facts["last_generation"] += 1
        with transaction(self._connection):
            self._connection.execute("DELETE FROM facts")
            values: dict[str, object] = dict(facts)
            if model is not None:
                values |= {"generation": facts["last_generation"], "model": model.identity}
                values["dimensions"] = model.dimensions
            self._connection.executemany("INSERT INTO facts VALUES (?, ?)", values.items())
        for path in self._folder.glob("vectors-*"):
            with suppress(OSError):  # a reader on Windows has it; the next change deletes it
                path.unlink()
        return facts["last_generation"] if model else 0

    def list_unembedded(self, count: int) -> list[PassageText]:
        """Return some passages without a vector of the model; without one, of any."""
        generation, model = self.generation()
        generation = generation if model else -1
        # Two ranges of an index: a condition of inequality would walk through all that have one.
        statement = (
            "SELECT place, heading, text FROM passages WHERE generation < ?1 "
            "UNION ALL SELECT place, heading, text FROM passages WHERE generation > ?1 LIMIT ?2"
        )
        rows = self._connection.execute(statement, (generation, count))
        return [PassageText(place, f"{heading}\n{text}" if heading else text) for place, heading, text in rows]

    def save_vectors(self, vectors: Mapping[int, bytes]) -> None:
        """Keep the vectors of passages, by place: on the disk before the database says that they are there."""
        generation, model = self.generation()
        if model is None or not vectors:
            return
        vector_file(self._folder, generation, model).write(vectors)
        with transaction(self._connection):
            self._connection.executemany(
                "UPDATE passages SET generation = ? WHERE place = ?", [(generation, place) for place in vectors]
            )

    def _last_generation(self) -> int:
        row = self._connection.execute("SELECT value FROM facts WHERE name = 'last_generation'").fetchone()
        return int(row[0]) if row else 0

    def _insert_passage(self, file: int, name: str, chunk: TextChunk, text: str) -> None:
        free = self._connection.execute("DELETE FROM free_places WHERE place = (SELECT min(place) FROM free_places) "
                                        "RETURNING place").fetchall()  # fmt: skip
        row = self._connection.execute(
            "INSERT INTO passages (place, file, start, end, page, heading, text) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (free[0][0] if free else None, file, chunk.start, chunk.end, chunk.page, chunk.heading, text),
        )
        self._connection.execute(
            "INSERT INTO passage_words (rowid, name, heading, text) VALUES (?, ?, ?, ?)",
            (row.lastrowid, index_words(name), index_words(chunk.heading), index_words(text)),
        )

    def _drop_file(self, path: str) -> None:
        row = self._connection.execute("SELECT seq FROM files WHERE path = ?", (path,)).fetchone()
        if row is None:
            return
        name = index_words(Path(path).name)
        rows = self._connection.execute("SELECT place, heading, text FROM passages WHERE file = ?", row).fetchall()
        self._connection.executemany(
            "INSERT INTO passage_words (passage_words, rowid, name, heading, text) VALUES ('delete', ?, ?, ?, ?)",
            [(place, name, index_words(heading), index_words(text)) for place, heading, text in rows],
        )
        self._connection.executemany("INSERT INTO free_places VALUES (?)", [(place,) for place, _, _ in rows])
        self._connection.execute("DELETE FROM passages WHERE file = ?", row)
        self._connection.execute("DELETE FROM files WHERE seq = ?", row)


_SELECT_FILES = """
SELECT id, path, size_bytes, modified_ns, problem, (SELECT count(*) FROM passages WHERE file = files.seq) FROM files
"""
_SELECT_PASSAGE = """
SELECT files.id, path, start, end, page, heading, text FROM passages JOIN files ON files.seq = file WHERE place = ?
"""
_BY_WORDS = """
SELECT rowid FROM (
    SELECT rowid, bm25(passage_words, ?, ?, ?) AS score FROM passage_words WHERE passage_words MATCH ? AND (
        ? OR rowid IN (SELECT place FROM passages WHERE file IN (SELECT value FROM json_each('[' || ? || ']')))
    ) LIMIT ?
) ORDER BY score, rowid LIMIT ?
"""
"""At most so many are put in order: a word that is in half of a million passages would take a second."""


def vector_file(folder: Path, generation: int, model: EmbeddingModel) -> VectorFile:
    """Return the vectors of one generation."""
    return VectorFile(folder / f"vectors-{generation}", model.dimensions)


def fuse_ranks(*lists: Sequence[int]) -> dict[int, float]:
    """Return a score for each entry of ranked lists: who is high in several is above who is high in one."""
    scores: dict[int, float] = {}
    for ranked_list in lists:
        for rank, entry in enumerate(ranked_list, 1):
            scores[entry] = scores.get(entry, 0.0) + 1 / (_FUSION + rank)
    return scores


def _ranks(places: Sequence[int]) -> dict[int, int]:
    return {place: rank for rank, place in enumerate(places, 1)}


def _file_of(row: Sequence[object]) -> DocumentFile:
    id_, path, size_bytes, modified_ns, problem, passages = row
    return DocumentFile(
        id=str(id_),
        path=str(path),
        size_bytes=int(str(size_bytes)),
        modified_ns=int(str(modified_ns)),
        problem=str(problem),
        passages=int(str(passages)),
    )
