"""OpenAI's own client on files and vector stores: created, filled, searched, filtered and deleted."""

from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI

from app.client.http import GatewayClient
from app.core.documents import Collection, NewCollection

pytestmark = [pytest.mark.real_engine, pytest.mark.usefixtures("client")]


@pytest.fixture
def api(client: GatewayClient) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{client.gateway.url}/v1", api_key="any", max_retries=0, timeout=60) as client_api:
        yield client_api
        for store in client_api.vector_stores.list():
            client_api.vector_stores.delete(store.id)


def test_a_store_is_made_filled_searched_and_deleted(api: OpenAI) -> None:
    store = api.vector_stores.create(name="Manuals", metadata={"of": "a test"})
    assert (store.object, store.name, store.metadata, store.file_counts.total) == (
        "vector_store", "Manuals", {"of": "a test"}, 0,
    )  # fmt: skip
    trains = api.files.create(file=("trains.md", b"# Trains\n\nThe locomotive stood here."), purpose="assistants")
    assert (trains.filename, trains.bytes, trains.purpose) == ("trains.md", 36, "assistants")
    assert api.files.content(trains.id).read() == b"# Trains\n\nThe locomotive stood here."

    read = api.vector_stores.files.create_and_poll(trains.id, vector_store_id=store.id, attributes={"year": 2026})
    assert (read.status, read.last_error, read.attributes) == ("completed", None, {"year": 2026})
    bread = api.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("bread.txt", b"Yeast makes the dough rise.")
    )
    assert bread.status == "completed"

    (hit,) = api.vector_stores.search(store.id, query="Which locomotive?").data
    assert (hit.file_id, hit.filename, hit.attributes) == (trains.id, "trains.md", {"year": 2026})
    assert hit.content[0].text == "# Trains\n\nThe locomotive stood here."
    assert 0 < hit.score <= 1
    old = api.vector_stores.search(
        store.id, query="locomotive yeast", filters={"type": "lt", "key": "year", "value": 2000}
    )
    assert old.data == []
    texts = api.vector_stores.files.content(bread.id, vector_store_id=store.id).data
    assert [part.text for part in texts] == ["Yeast makes the dough rise."]

    assert {file.id for file in api.vector_stores.files.list(store.id)} == {trains.id, bread.id}
    counts = api.vector_stores.retrieve(store.id).file_counts
    assert (counts.completed, counts.total) == (2, 2)
    assert api.vector_stores.files.delete(trains.id, vector_store_id=store.id).deleted
    assert [file.id for file in api.vector_stores.files.list(store.id)] == [bread.id]
    assert api.vector_stores.update(store.id, name="Other").name == "Other"
    assert api.vector_stores.delete(store.id).deleted
    with pytest.raises(openai.NotFoundError):
        api.vector_stores.retrieve(store.id)
    assert api.files.delete(trains.id).deleted
    with pytest.raises(openai.NotFoundError):
        api.files.retrieve(trains.id)


def test_a_store_is_made_with_its_files_and_a_file_without_text_fails(api: OpenAI) -> None:
    files = [
        api.files.create(file=(name, content), purpose="assistants")
        for name, content in (("a.txt", b"An okapi."), ("b.pdf", b"%PDF-1.7 damaged"))
    ]
    store = api.vector_stores.create(name="Two", file_ids=[file.id for file in files])
    polled_files = [api.vector_stores.files.poll(file.id, vector_store_id=store.id) for file in files]
    assert [file.status for file in polled_files] == ["completed", "failed"]
    assert polled_files[1].last_error is not None
    assert polled_files[1].last_error.message.endswith(".")


def test_a_persons_collection_is_seen_once_it_is_served_and_never_changed(
    api: OpenAI, client: GatewayClient, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("documents")
    (folder / "note.txt").write_text("The zebra has stripes.")
    mine = client.post("/collections", NewCollection(name="Mine", folders=[str(folder)]), Collection)
    try:
        assert mine.id not in {store.id for store in api.vector_stores.list()}
        for call in (api.vector_stores.retrieve, api.vector_stores.delete):
            with pytest.raises(openai.NotFoundError):
                call(mine.id)
        client.patch(f"/collections/{mine.id}", {"is_served": True}, Collection)
        assert mine.id in {store.id for store in api.vector_stores.list()}
        for change in (
            lambda: api.vector_stores.delete(mine.id),
            lambda: api.vector_stores.update(mine.id, name="Theirs"),
        ):
            with pytest.raises(openai.PermissionDeniedError):
                change()
    finally:
        client.delete(f"/collections/{mine.id}")
    assert (folder / "note.txt").exists()


def test_what_is_not_as_expected_is_refused_with_a_sentence(api: OpenAI) -> None:
    store = api.vector_stores.create(name="../../etc")
    assert "/" not in store.name
    for call in (
        lambda: api.vector_stores.search(store.id, query=" "),
        lambda: api.vector_stores.search(store.id, query="a", max_num_results=1000),
        lambda: api.vector_stores.search(store.id, query="a", filters={"type": "like", "key": "a", "value": 1}),  # type: ignore[arg-type]
        lambda: api.vector_stores.create(name="a" * 500),
        lambda: api.files.create(file=("a.txt", b"a"), purpose="mischief"),  # type: ignore[arg-type]
    ):
        with pytest.raises(openai.BadRequestError) as refusal:
            call()
        assert refusal.value.message
    for missing_id in ("file-none", "../../../etc/passwd", "file-" + "0" * 24):
        with pytest.raises(openai.NotFoundError):
            api.vector_stores.files.create(file_id=missing_id, vector_store_id=store.id)
    with pytest.raises(openai.NotFoundError):
        api.files.retrieve("..%2F..%2Fkeys.json")


def test_names_of_files_are_only_names(api: OpenAI) -> None:
    file = api.files.create(file=("../../../evil.txt", b"An ibex."), purpose="assistants")
    assert file.filename == "evil.txt"
    store = api.vector_stores.create(name="Ibex", file_ids=[file.id])
    assert api.vector_stores.files.poll(file.id, vector_store_id=store.id).status == "completed"
    assert api.vector_stores.search(store.id, query="ibex").data[0].filename == "evil.txt"
