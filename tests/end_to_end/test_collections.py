"""Collections in the terminal: the real command line and the real service; without an embedding model."""

import json
from pathlib import Path

import httpx
import pytest

from app.client.discovery import find_running_gateway
from app.config.paths import Paths
from tests.end_to_end.conftest import Roundhouse
from tests.patience import PATIENCE_S
from tests.tiny_reranker import TinyReranker

pytestmark = [pytest.mark.real_engine, pytest.mark.usefixtures("client")]


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    (folder / "trains.md").write_text("# Trains\n\nThe locomotive stood in the \x1b[2Jroundhouse.\n")
    (folder / "bread.txt").write_text("Yeast makes the dough rise.\n")
    return folder


@pytest.mark.slow
def test_a_collection_is_made_shown_searched_brought_up_to_date_and_removed(
    roundhouse: Roundhouse, folder: Path
) -> None:
    roundhouse("collections", "remove", "docs")  # of a test before
    assert "There are no collections" in roundhouse("collections").stdout
    collection = json.loads(roundhouse("collections", "add", "docs", str(folder), "--json").stdout)["collection"]
    assert (collection["files"], collection["passages"], collection["stage"]) == (2, 2, "ready")

    hit = roundhouse("collections", "search", "docs", "which", "locomotive")
    assert (hit.returncode, "trains.md (Trains)" in hit.stdout, "\x1b[2J" in hit.stdout) == (0, True, False)
    assert "by their words only" in hit.stderr

    (folder / "later.txt").write_text("An okapi came by.")
    assert roundhouse("collections", "index", "docs").returncode == 0
    passages = json.loads(roundhouse("collections", "search", "docs", "okapi", "--json").stdout)["passages"]["passages"]
    assert [passage["text"] for passage in passages] == ["An okapi came by."]

    listing = roundhouse("collections", "show", "docs").stdout
    assert ("later.txt" in listing, str(folder) in listing) == (True, True)
    (folder / "nothing.txt").write_text(" ")
    roundhouse("collections", "index", "docs")
    unread = json.loads(roundhouse("collections", "show", "docs", "--unread", "--json").stdout)["collection"]["files"]
    assert [(Path(file["path"]).name, file["problem"]) for file in unread] == [("nothing.txt", "It is empty.")]
    assert "Animals" in roundhouse("collections", "change", "docs", "--rename", "Animals", "--served").stdout
    assert json.loads(roundhouse("collections", "list", "--json").stdout)["collections"][0]["is_served"]
    assert "was removed" in roundhouse("collections", "remove", "animals").stdout
    assert (folder / "later.txt").exists()


@pytest.mark.slow
def test_a_reranker_puts_passages_in_order(roundhouse: Roundhouse, folder: Path, home: Paths) -> None:
    """With weights that are made up: its order is noise, but it is the one that the endpoint's `/v1/rerank` gives.

    The second has little room, so that what it reads is shortened first.
    """
    (folder / "long.txt").write_text("A locomotive came by, and then another one. " * 200)
    for name, context in (("ranker", 2048), ("small-ranker", 256)):
        model = home.models / f"{name}.gguf"
        TinyReranker(context).write(model)
        assert roundhouse("settings", "documents.reranker", name).returncode == 0
        roundhouse("collections", "add", name, str(folder))
        hit = roundhouse("collections", "search", name, "which", "locomotive", "--json")
        result = json.loads(hit.stdout)["passages"]
        assert result["means"] == ["words", "reranker"], hit.stderr
        scores = [passage["score"] for passage in result["passages"]]
        assert len(scores) > 3
        assert scores == sorted(scores, reverse=True)
        if name == "ranker":
            assert scores == pytest.approx(rank(home, name, result["passages"]), abs=1e-3)
        roundhouse("collections", "remove", name)
    roundhouse("settings", "documents.reranker", "--reset")


def rank(home: Paths, model: str, passages: list[dict[str, str]]) -> list[float]:
    """Return what the endpoint says of passages."""
    texts = [f"{item['heading']}\n{item['text']}" if item["heading"] else item["text"] for item in passages]
    port = find_running_gateway(home)
    assert port is not None
    body = {"model": model, "query": "which locomotive", "documents": texts}
    rows = httpx.post(f"{port.url}/v1/rerank", json=body, timeout=PATIENCE_S).json()["results"]
    return [row["relevance_score"] for row in sorted(rows, key=lambda row: int(row["index"]))]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("add", "a", "/no/such/folder"), "does not exist"),
        (("add", "a"), "Missing argument"),
        (("add", "a/b", "."), "not as expected"),
        (("show", "nobody"), "There is no collection 'nobody'"),
        (("search", "nobody", "x"), "There is no collection 'nobody'"),
        (("index", "nobody"), "There is no collection 'nobody'"),
        (("remove", "nobody"), "There is no collection 'nobody'"),
        (("change", "nobody", "--key", "a", "--no-keys"), "contradict"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(roundhouse: Roundhouse, arguments: tuple[str, ...], sentence: str) -> None:
    result = roundhouse("collections", *arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
