"""Collections: their folders are read, watched and searched, and whoever has no leave sees none of it."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from app.config.paths import Paths
from app.core.documents import (
    Collection,
    CollectionPatch,
    CollectionStage,
    DocumentFile,
    DocumentText,
    NewCollection,
    PassageQuery,
    PassageResults,
    SearchMeans,
)
from app.core.events import CollectionsChanged, Event
from app.core.keys import NewKey, Scope
from app.gateway.documents import collections as collections_module
from app.gateway.documents.indexing import IndexUpdate
from app.gateway.documents.model_calls import DocumentModels
from tests.gateway.admin.conftest import Api
from tests.gateway.played import Upstream
from tests.patience import until

TRAINS = "# Trains\n\nThe locomotive stood in the roundhouse.\n"
BREAD = "Yeast makes the dough rise.\n"
TOPICS = ({"locomotive", "roundhouse", "train", "railway"}, {"yeast", "dough", "bread", "baker"})


def embed(text: str) -> list[float]:
    """A vector that says how much a text is about each of two things."""
    words = set(text.casefold().replace(".", " ").replace("?", " ").split())
    return [1.0 + len(words & topic) * 10 for topic in TOPICS] + [0.5]


async def play(request: web.Request) -> web.StreamResponse:
    body = json.loads(await request.read())
    if request.path.endswith("embeddings"):
        data = [{"index": at, "embedding": embed(text)} for at, text in enumerate(body["input"])]
        return web.json_response({"data": data, "usage": {"prompt_tokens": 1}})
    rows = [{"index": at, "relevance_score": -at} for at in range(len(body["documents"]))]
    return web.json_response({"results": rows})


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is none of ours: `tmp_path` holds the settings."""
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture
def folder(elsewhere: Path) -> Path:
    folder = elsewhere / "documents"
    (folder / "sub").mkdir(parents=True)
    (folder / "trains.md").write_text(TRAINS)
    (folder / "sub" / "bread.txt").write_text(BREAD)
    return folder


@pytest.fixture
def api(gateway: object, upstream: Upstream) -> Api:
    upstream.play = play
    return Api(gateway)  # type: ignore[arg-type]


@pytest.fixture
async def docs(api: Api, folder: Path) -> Collection:
    return await add(api, "Docs", folder)


async def add(api: Api, name: str, *folders: Path, **fields: object) -> Collection:
    new = NewCollection(name=name, folders=list(map(str, folders)), **fields)  # type: ignore[arg-type]
    return await ready(api, (await api.call("POST", "/collections", Collection, new)).id)


async def ready(api: Api, name: str) -> Collection:
    async def is_ready() -> bool:
        collection = await api.call("GET", f"/collections/{name}", Collection)
        return collection.stage is CollectionStage.READY and collection.looked_at is not None

    await until(is_ready)
    return await api.call("GET", f"/collections/{name}", Collection)


async def index(api: Api, name: str) -> Collection:
    await api.call("POST", f"/collections/{name}/index", Collection)
    return await ready(api, name)


async def search(api: Api, text: str, *names: str, limit: int = 8) -> PassageResults:
    query = PassageQuery(text=text, collections=list(names or ("docs",)), limit=limit)
    return await api.call("POST", "/collections/search", PassageResults, query)


def without_models(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find_none(_self: object, _present: str = "") -> None:
        return None

    monkeypatch.setattr(DocumentModels, "find_embedder", find_none)


async def test_a_folder_is_read_and_found_by_words_and_meaning(api: Api, docs: Collection, folder: Path) -> None:
    assert (docs.files, docs.passages, docs.embedded, docs.problem) == (2, 2, 2, "")
    assert docs.embedding_model.startswith("org/embed:q8")

    results = await search(api, "Which locomotives?")

    assert results.means == [SearchMeans.WORDS, SearchMeans.MEANING]
    best = results.passages[0]
    assert (best.path, best.text, best.heading) == (str(folder / "trains.md"), TRAINS.strip(), "Trains")
    assert results.note == ""
    assert (await search(api, "baker")).passages[0].path.endswith("bread.txt")


async def test_without_a_model_words_find_and_that_is_said(
    api: Api, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_models(monkeypatch)
    docs = await add(api, "Docs", folder)
    assert (docs.passages, docs.embedded) == (2, 0)

    results = await search(api, "locomotive")

    assert [passage.path for passage in results.passages] == [str(folder / "trains.md")]
    assert results.means == [SearchMeans.WORDS]
    assert "by their words only" in results.note


async def test_what_changes_in_a_folder_changes_what_is_found(api: Api, docs: Collection, folder: Path) -> None:
    (folder / "trains.md").write_text("Ships have sails, as everybody knows.")
    (folder / "sub" / "bread.txt").unlink()
    (folder / "new.txt").write_text("The giraffe is tall.")

    changed_index = await index(api, docs.id)

    assert (changed_index.files, changed_index.passages, changed_index.embedded) == (2, 2, 2)
    assert (await search(api, "giraffe", limit=1)).passages[0].path == str(folder / "new.txt")
    assert all("Yeast" not in passage.text for passage in (await search(api, "yeast")).passages)


async def test_a_file_that_is_as_it_was_is_not_read_again(api: Api, docs: Collection, upstream: Upstream) -> None:
    count = len(upstream.bodies)

    await index(api, docs.id)

    assert len(upstream.bodies) == count


async def test_folders_are_looked_at_by_themselves(api: Api, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collections_module, "LOOK_EVERY_S", 0.05)
    await add(api, "Docs", folder)
    (folder / "later.txt").write_text("An okapi came by.")

    async def is_there() -> bool:
        return any("okapi" in passage.text for passage in (await search(api, "okapi")).passages)

    await until(is_there)


async def test_a_folder_that_is_away_keeps_what_it_had(api: Api, docs: Collection, folder: Path) -> None:
    folder.rename(folder.with_name("away"))  # noqa: ASYNC240 -- nobody else waits

    away = await index(api, docs.id)

    assert (away.missing_folders, away.files) == ([str(folder)], 2)
    assert (await search(api, "locomotive")).passages


async def test_links_hidden_files_and_our_own_folders_are_left_out(api: Api, folder: Path, elsewhere: Path) -> None:
    secret = elsewhere / "secret.txt"
    secret.write_text("The password is okapi.")
    (folder / "link.txt").symlink_to(secret)
    (folder / "linked").symlink_to(elsewhere)
    (folder / ".hidden.txt").write_text("okapi")
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "a.txt").write_text("okapi")

    await add(api, "Docs", folder)

    assert all("okapi" not in passage.text for passage in (await search(api, "okapi password")).passages)


@pytest.mark.parametrize("name", ["unknown.xyz", "broken.pdf"])
async def test_a_file_that_cannot_be_read_says_why(api: Api, folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"%PDF-1.7 nothing more" if name.endswith("pdf") else bytes(range(256)))
    docs = await add(api, "Docs", folder)

    files = await api.call("GET", f"/collections/{docs.id}/files", list[DocumentFile])

    assert docs.unread_files == 1
    assert next(file.problem for file in files if file.path.endswith(name)).endswith(".")
    assert (await api.call("GET", f"/collections/{docs.id}/files?limit=1&offset=2", list[DocumentFile])) == files[2:3]
    unread = await api.call("GET", f"/collections/{docs.id}/files?unread=true", list[DocumentFile])
    assert unread == [file for file in files if file.problem]


@pytest.mark.slow
async def test_a_document_of_another_kind_is_read_in_a_child(api: Api, folder: Path) -> None:
    (folder / "page.html").write_text("<html><body><h1>Zebras</h1><p>They have stripes.</p></body></html>")
    docs = await add(api, "Docs", folder)

    passage = (await search(api, "zebras stripes", limit=1)).passages[0]
    text = await api.call("GET", f"/collections/{docs.id}/files/{passage.file}/text", DocumentText)

    assert passage.heading == "Zebras"
    assert text.text[passage.start : passage.end] == passage.text


async def test_another_embedding_model_is_noticed(
    api: Api, docs: Collection, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_embedder = DocumentModels.find_embedder

    async def find_other(self: DocumentModels, present: str = "") -> object:
        model = await find_embedder(self, present)
        return model._replace(identity="another") if model else None

    monkeypatch.setattr(DocumentModels, "find_embedder", find_other)
    assert "still being worked out" in (await search(api, "baker")).note
    count = len(upstream.bodies)

    changed_index = await index(api, docs.id)

    assert len(upstream.bodies) > count
    assert (changed_index.embedding_model, changed_index.embedded) == ("another", 2)
    assert (await search(api, "baker")).note == ""


async def test_an_engine_that_fails_leaves_the_words(api: Api, folder: Path, upstream: Upstream) -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no"}}, status=500)

    upstream.play = refuse
    docs = await add(api, "Docs", folder)

    assert (docs.passages, docs.embedded) == (2, 0)
    assert docs.problem
    assert (await search(api, "locomotive")).passages

    upstream.play = play
    assert (await index(api, docs.id)).problem == ""


async def test_a_passage_that_the_model_does_not_take_is_shortened(api: Api, folder: Path, upstream: Upstream) -> None:
    async def refuse_long(request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        if sum(map(len, body["input"])) > 400:
            error = {"code": 400, "message": "input is too long", "type": "exceed_context_size_error"}
            return web.json_response({"error": {**error, "n_prompt_tokens": 900, "n_ctx": 100}}, status=400)
        return await play(request)

    upstream.play = refuse_long
    (folder / "long.txt").write_text("A baker has dough. " * 100)

    docs = await add(api, "Docs", folder)

    assert docs.embedded == docs.passages > 3


async def test_a_reranker_puts_passages_in_order(api: Api, docs: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    async def find_reranker(_self: object) -> str:
        return "org/embed:q8"

    async def rank(_self: object, _model: str, _question: str, texts: list[str]) -> list[float]:
        return [float("Yeast" in text) for text in texts]

    monkeypatch.setattr(DocumentModels, "find_reranker", find_reranker)
    monkeypatch.setattr(DocumentModels, "rerank", rank)

    results = await search(api, "locomotive")

    assert results.means[-1] is SearchMeans.RERANKER
    assert [passage.score for passage in results.passages] == [1.0, 0.0]
    assert docs.passages == 2


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"name": "a", "folders": ["relative"]}, "invalid_value"),
        ({"name": "a", "folders": ["/no/such/folder"]}, "no_such_folder"),
        ({"name": "a", "folders": [__file__]}, "no_such_folder"),
        ({"name": "a", "folders": [str(Path(os.sep).resolve())]}, "invalid_value"),
        ({"name": "a", "folders": ["/a\0b"]}, "invalid_value"),
        ({"name": "  "}, "invalid_value"),
    ],
)
async def test_what_cannot_be_a_collection_is_refused(api: Api, body: object, code: str) -> None:
    assert await api.expect_refusal("POST", "/collections", body) == (400, code)


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "a/b"}, {"name": "a" * 65}, {"name": "a", "x": 1}, 7])
async def test_a_body_of_another_form_is_refused(api: Api, body: object) -> None:
    assert (await api.raw("POST", "/collections", body))[0] == 400


async def test_our_own_folders_are_no_documents(api: Api, paths: Paths) -> None:
    body = {"name": "a", "folders": [str(paths.logs)]}
    assert await api.expect_refusal("POST", "/collections", body) == (403, "own_folder")


async def test_names_are_taken_once(api: Api, docs: Collection, folder: Path) -> None:
    assert await api.expect_refusal("POST", "/collections", {"name": "DOCS"}) == (409, "name_taken")
    other = await add(api, "Other", folder)
    assert await api.expect_refusal("PATCH", f"/collections/{other.id}", {"name": "docs"}) == (409, "name_taken")
    assert docs.name == "Docs"


async def test_nobody_is_found_where_nothing_is(api: Api) -> None:
    refusal = (404, "collection_not_found")
    for method, path, body in [
        ("GET", "/collections/none", None),
        ("PATCH", "/collections/none", {}),
        ("DELETE", "/collections/none", None),
        ("POST", "/collections/none/index", None),
        ("GET", "/collections/none/files", None),
        ("GET", "/collections/none/files/x/text", None),
        ("POST", "/collections/search", {"text": "a", "collections": ["none"]}),
        ("GET", "/collections/..%2F..", None),
    ]:
        assert await api.expect_refusal(method, path, body) == refusal


async def test_a_file_of_nobody_has_no_text(api: Api, docs: Collection) -> None:
    for name in ("none", "..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd"):
        path = f"/collections/{docs.id}/files/{name}/text"
        assert await api.expect_refusal("GET", path) == (404, "file_not_found")


async def test_a_removed_collection_leaves_nothing_but_its_folder(
    api: Api, docs: Collection, paths: Paths, folder: Path
) -> None:
    assert (await api.raw("DELETE", "/collections/docs"))[0] == 204

    assert await api.call("GET", "/collections", list[Collection]) == []
    assert list(paths.collections.iterdir()) == []
    assert (folder / "trains.md").read_text() == TRAINS
    assert docs.id


async def test_a_collection_is_renamed_and_gets_other_folders(api: Api, docs: Collection, elsewhere: Path) -> None:
    (elsewhere / "other").mkdir()
    (elsewhere / "other" / "a.txt").write_text("An okapi.")
    patch = CollectionPatch(name="Animals", folders=[str(elsewhere / "other")])
    await api.call("PATCH", f"/collections/{docs.id}", Collection, patch)

    changed_collection = await ready(api, "animals")

    assert (changed_collection.id, changed_collection.files) == (docs.id, 1)
    assert [passage.text for passage in (await search(api, "okapi", "animals")).passages] == ["An okapi."]


async def test_a_key_sees_what_it_was_given_and_changes_nothing(api: Api, folder: Path) -> None:
    key = api.gateway.services.keys.make_key(NewKey(name="agent", scopes=[Scope.MANAGE])).key
    program = Api(api.gateway, token=key)
    closed_collection, shared_collection = (
        await add(api, "Closed", folder),
        await add(api, "Shared", folder, keys=["agent"]),
    )

    assert [collection.id for collection in await program.call("GET", "/collections", list[Collection])] == [
        shared_collection.id
    ]
    assert (await search(program, "locomotive", "shared")).passages
    for method, path, body in [
        ("GET", f"/collections/{closed_collection.id}", None),
        ("GET", f"/collections/{closed_collection.id}/files", None),
        ("POST", f"/collections/{closed_collection.id}/index", None),
        ("POST", "/collections/search", {"text": "a", "collections": [shared_collection.id, closed_collection.id]}),
    ]:
        assert await program.expect_refusal(method, path, body) == (404, "collection_not_found")
    changes: list[tuple[str, str, object]] = [
        ("POST", "/collections", {"name": "a", "folders": [str(folder)]}),
        ("PATCH", f"/collections/{shared_collection.id}", {"folders": ["/"]}),
        ("DELETE", f"/collections/{shared_collection.id}", None),
    ]
    for method, path, change in changes:
        assert await program.expect_refusal(method, path, change) == (403, "collection_needs_person")


async def test_windows_hear_of_changes(api: Api, folder: Path) -> None:
    async with api.events("/events", Event) as events:
        add_task = asyncio.create_task(add(api, "Docs", folder))
        async for event in events:
            if isinstance(event, CollectionsChanged):
                break
        await add_task


async def test_collections_are_there_after_a_restart(
    api: Api, docs: Collection, paths: Paths, wait_for_start: Callable[[], Awaitable[list[Collection]]]
) -> None:
    (paths.collections / "vs_half").mkdir()  # what a removal left behind

    again = await wait_for_start()

    assert [(collection.id, collection.name, collection.passages) for collection in again] == [(docs.id, "Docs", 2)]
    assert not (paths.collections / "vs_half").exists()
    assert await api.call("GET", "/collections", list[Collection])


@pytest.fixture
def wait_for_start(api: Api, paths: Paths) -> Callable[[], Awaitable[list[Collection]]]:
    async def start() -> list[Collection]:
        services = api.gateway.services
        models = DocumentModels(services, api.gateway.engines)
        again = collections_module.Collections(paths, services.events, None, models)  # type: ignore[arg-type]
        task = asyncio.create_task(again.keep_up_to_date())
        try:
            return await again.list_collections()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await again.close()

    return start


async def test_damage_that_shows_itself_is_said_and_mended_at_the_next_look(
    api: Api, docs: Collection, paths: Paths, folder: Path
) -> None:
    database = paths.collections / docs.id / "index.db"
    database.write_bytes(database.read_bytes()[:4096] + b"\xa5" * 200_000)

    damaged_index = await index(api, docs.id)
    mended_index = await index(api, docs.id)

    assert (mended_index.files, mended_index.passages, mended_index.problem) == (2, 2, "")
    assert damaged_index.stage is CollectionStage.READY
    assert (await search(api, "locomotive")).passages[0].path == str(folder / "trains.md")


async def test_a_mistake_of_ours_leaves_no_collection_unfinished(
    api: Api, docs: Collection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(*_args: object, **_kwargs: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(IndexUpdate, "run", stumble)
    broken_index = await index(api, docs.id)

    assert (broken_index.stage, "mistake in Roundhouse" in broken_index.problem) == (CollectionStage.READY, True)
    assert "ZeroDivisionError" in caplog.text
    caplog.clear()
