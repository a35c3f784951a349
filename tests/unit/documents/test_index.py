"""The index of a collection: what is in it is found, what left is not, and a killed program leaves it whole."""

import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.core.documents import DocumentFile, Passage
from app.core.errors import StorageFault
from app.documents.folders import file_id
from app.documents.index import DocumentIndex, EmbeddingModel, IndexWriter, fuse_ranks
from app.documents.splitting import split_text
from app.documents.vectors import quantise
from app.documents.words import question_words

MODEL = EmbeddingModel("small", 8)
TOPICS = {"/d/trains.md": "The locomotive stood in the roundhouse.", "/d/bread.md": "Yeast makes the dough rise."}


def put(writer: IndexWriter, path: str, text: str) -> None:
    file = DocumentFile(id=file_id(path), path=path, size_bytes=len(text))
    writer.put_file(file, text, split_text(text, is_marked_up=True))


def embed(text: str) -> list[float]:
    numbers = random.Random(text)  # noqa: S311 -- any numbers do
    return [numbers.gauss(0, 1) for _ in range(MODEL.dimensions)]


def embed_all(writer: IndexWriter) -> None:
    while some := writer.list_unembedded(3):
        writer.save_vectors({passage.place: quantise(embed(passage.text)) for passage in some})


def find(index: DocumentIndex, question: str, vector: bytes = b"", files: Sequence[str] | None = None) -> list[Passage]:
    with index.read() as reader:
        return reader.search("c", question, vector, count=5, files=files)


def paths(passages: Sequence[Passage]) -> list[str]:
    return [passage.path for passage in passages]


@pytest.fixture
def index(tmp_path: Path) -> DocumentIndex:
    index = DocumentIndex(tmp_path / "index")
    with index.write() as writer:
        for path, text in TOPICS.items():
            put(writer, path, text)
    return index


def test_words_find_passages_in_other_forms_too(index: DocumentIndex) -> None:
    (passage,) = find(index, "Which locomotives?")

    assert (passage.path, passage.text, passage.word_rank) == ("/d/trains.md", TOPICS["/d/trains.md"], 1)
    assert passage.meaning_rank is None


@pytest.mark.parametrize("question", ["", "?", '"', "AND OR NOT", "a* NEAR(b", "\0", "x" * 100_000, "rise " * 9000])
def test_no_question_breaks_the_search(index: DocumentIndex, question: str) -> None:
    find(index, question)


@pytest.mark.parametrize("question", ["天気は", "今日の天気"])
def test_scripts_without_blanks_are_found_inside_a_sentence(index: DocumentIndex, question: str) -> None:
    with index.write() as writer:
        put(writer, "/d/weather.txt", "東京の今日の天気は晴れです。")

    assert paths(find(index, question)) == ["/d/weather.txt"]


def test_a_file_that_changed_is_found_by_what_it_says_now(index: DocumentIndex) -> None:
    with index.write() as writer:
        put(writer, "/d/bread.md", "Rye is sour.")

    assert find(index, "yeast") == []
    assert paths(find(index, "sour rye")) == ["/d/bread.md"]


def test_a_file_that_left_is_not_found(index: DocumentIndex) -> None:
    with index.write() as writer:
        writer.use_model(MODEL)
        embed_all(writer)
        writer.remove_file("/d/bread.md")

    assert find(index, "yeast", quantise(embed(TOPICS["/d/bread.md"])))[0].path == "/d/trains.md"


def test_only_the_files_that_are_wanted_are_searched(index: DocumentIndex) -> None:
    with index.write() as writer:
        writer.use_model(MODEL)
        embed_all(writer)
    vector = quantise(embed(TOPICS["/d/bread.md"]))

    assert paths(find(index, "the", vector, [file_id("/d/trains.md")])) == ["/d/trains.md"]
    assert find(index, "the", vector, []) == []
    assert find(index, "the", vector, ["file-of-nobody"]) == []


def test_meaning_finds_what_no_word_does(index: DocumentIndex) -> None:
    with index.write() as writer:
        writer.use_model(MODEL)
        embed_all(writer)

    best = find(index, "zzz", quantise(embed(TOPICS["/d/bread.md"])))[0]

    assert (best.path, best.meaning_rank, best.word_rank) == ("/d/bread.md", 1, None)


def test_another_model_makes_all_vectors_anew(index: DocumentIndex) -> None:
    other = EmbeddingModel("large", 8)
    with index.write() as writer:
        assert writer.use_model(MODEL) == writer.use_model(MODEL)
        embed_all(writer)
        assert writer.figures().embedded == 2
        writer.use_model(other)
        figures = writer.figures()
        assert (figures.embedded, figures.model) == (0, "large")
        assert len(writer.list_unembedded(10)) == 2
    assert find(index, "zzz", quantise(embed("x"))) == []

    with index.write() as writer:
        embed_all(writer)
        assert writer.figures().embedded == 2


def test_a_model_that_went_and_came_makes_them_anew(index: DocumentIndex) -> None:
    with index.write() as writer:
        writer.use_model(MODEL)
        embed_all(writer)
        writer.use_model(None)
        writer.use_model(MODEL)

        assert writer.figures().embedded == 0


def test_a_place_that_is_used_again_has_no_vector_of_the_passage_before(index: DocumentIndex) -> None:
    with index.write() as writer:
        writer.use_model(MODEL)
        embed_all(writer)
        writer.remove_file("/d/bread.md")
        put(writer, "/d/new.md", "Nothing alike.")

    assert "/d/new.md" not in paths(find(index, "zzz", quantise(embed(TOPICS["/d/bread.md"]))))


def test_words_in_names_and_headings_count(index: DocumentIndex) -> None:
    with index.write() as writer:
        put(writer, "/d/invoice 2024.md", "# Totals\n\nForty.")

    assert paths(find(index, "invoice")) == ["/d/invoice 2024.md"]
    assert find(index, "totals")[0].heading == "Totals"


def test_files_are_listed_with_their_passages_and_problems(index: DocumentIndex) -> None:
    with index.write() as writer:
        writer.put_file(DocumentFile(id="p", path="/d/z.pdf", size_bytes=1, problem="It is damaged."), "", [])
        files = writer.list_files()
        figures = writer.figures()

    assert [(file.path, file.passages, file.problem) for file in files] == [
        ("/d/bread.md", 1, ""),
        ("/d/trains.md", 1, ""),
        ("/d/z.pdf", 0, "It is damaged."),
    ]
    assert (figures.files, figures.problems, figures.passages) == (3, 1, 2)


def test_an_index_that_is_not_there_is_empty(tmp_path: Path) -> None:
    index = DocumentIndex(tmp_path / "none")

    assert find(index, "anything") == []
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to be read as one" * 100])
def test_an_index_that_is_no_database_is_begun_anew(index: DocumentIndex, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "index" / "index.db").write_bytes(content)

    assert find(index, "locomotive") == []
    with index.write() as writer:
        assert writer.list_files() == []
        put(writer, "/d/trains.md", TOPICS["/d/trains.md"])
    assert paths(find(index, "locomotive")) == ["/d/trains.md"]


def test_an_index_of_another_version_is_begun_anew(index: DocumentIndex, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "index" / "index.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()

    assert find(index, "locomotive") == []
    with index.write() as writer:
        assert writer.list_files() == []


def test_damage_that_shows_itself_has_the_next_writer_begin_anew(index: DocumentIndex, tmp_path: Path) -> None:
    database = tmp_path / "index" / "index.db"
    content = bytearray(database.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    database.write_bytes(content)

    with pytest.raises(StorageFault) as fault:
        find(index, "locomotive")
    assert fault.value.code == "index_unreachable"
    with index.write() as writer:
        assert writer.list_files() == []


def test_ranks_of_two_lists_become_one() -> None:
    scores = fuse_ranks([1, 2, 3], [3, 4])

    assert sorted(scores, key=lambda entry: -scores[entry]) == [3, 1, 2, 4] or scores[2] == scores[4]
    assert scores[3] > scores[1] > scores[2]


def test_words_of_a_question_are_asked_once_and_bounded() -> None:
    assert question_words("Is it, is IT snake_case?") == ['"is"', '"it"', '"snake"', '"case"']
    assert question_words("天気はx") == ['"天 気"', '"気 は"', '"x"']
    assert len(question_words(" ".join(f"w{number}" for number in range(900)))) == 48


@pytest.mark.slow
def test_a_killed_program_leaves_whole_files_and_vectors_that_are_theirs(tmp_path: Path) -> None:
    folder, rounds = tmp_path / "index", 12
    for number in range(rounds):
        # Each is killed after one file more than the one before, wherever it is then.
        child = subprocess.Popen([sys.executable, "-c", _WRITES, str(folder), str(number)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        for _ in range(1 + number):
            child.stdout.readline()
        time.sleep(0.003 * number)
        child.kill()
        child.communicate()
        assert child.returncode, "it was killed"
        check_whole(folder)
    with DocumentIndex(folder).read() as reader:
        assert reader.figures().embedded > 0


_WRITES = """
import itertools, sys
from pathlib import Path
from tests.unit.documents.test_index import *

with DocumentIndex(Path(sys.argv[1])).write() as writer:
    writer.use_model(MODEL)
    print("begun", flush=True)
    for number in itertools.count():
        name = f"/d/{number % 7}.md"
        put(writer, name, f"# {name}\\n\\n" + f"Round {sys.argv[2]}, number {number}, of {name}. " * 200)
        writer.save_vectors(
            {passage.place: quantise(embed(passage.text)) for passage in writer.list_unembedded(20)}
        )
        if number % 5 == 0:
            writer.remove_file(f"/d/{number % 3}.md")
        print(number, flush=True)
"""


def check_whole(folder: Path) -> None:
    with sqlite3.connect(folder / "index.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        connection.execute("INSERT INTO passage_words (passage_words) VALUES ('integrity-check')")
        statement = "SELECT path, place, heading, text, generation FROM passages JOIN files ON seq = file"
        rows = connection.execute(statement)
        passages = rows.fetchall()
        free = {row[0] for row in connection.execute("SELECT place FROM free_places")}
    connection.close()
    assert not free & {row[1] for row in passages}
    texts: dict[str, str] = {}
    for path, _, _, text, _ in passages:
        texts[path] = texts.get(path, "") + text
    for path, text in texts.items():
        assert text.count(f"of {path}. ") >= 199, "a file is not whole"
    with DocumentIndex(folder).read() as reader:
        for path, place, heading, text, generation in passages:
            if generation:
                vector = quantise(embed(f"{heading}\n{text}"))
                stored_vector = (folder / "vectors-1").read_bytes()[place * MODEL.dimensions :][: MODEL.dimensions]
                assert stored_vector == vector, f"the vector of {path} is another passage's"
        if passages:
            assert reader.search("c", "Round", count=3)
