"""What is here is held against what the hub has now, by the hashes both name content by."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.core.errors import Offline
from app.core.library import Freshness, ModelUpdate
from app.gateway.hub.model_search import updates_of_models
from app.hub.download.cache import RepositoryCache
from app.hub.library.library import Library
from app.hub.repositories.repository import RepoFile, read_repository
from app.network.egress import egress_gate
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub
from tests.gguf_files import TinyLlama

NAME, FILE = "org/Model-GGUF", "Model-Q4_K_M.gguf"
FIRST, SECOND = TinyLlama(name="First").content(), TinyLlama(name="Second", layers=3).content()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with serve_hub(FakeHub()) as served_hub:
        monkeypatch.setenv("HF_ENDPOINT", served_hub.url)
        served_hub.add(NAME, {FILE: FIRST})
        yield served_hub


@pytest.fixture
def cache(tmp_path: Path) -> RepositoryCache:
    return RepositoryCache(tmp_path / "hub", NAME)


@pytest.fixture
def services(tmp_path: Path) -> Any:  # noqa: ANN401 -- stands in for a frozen class of many parts
    return SimpleNamespace(
        library=Library(lambda: [tmp_path / "hub"], tmp_path / "models.json", tmp_path / "none.gguf"),
        hub=SimpleNamespace(token=SimpleNamespace(read_token=lambda: "")),
    )


def fetch_file(cache: RepositoryCache, hub: FakeHub, content: bytes, *, branch: str = "main") -> Path:
    """Put a file into the cache as a download of this branch does."""
    there = read_repository(hub.url, NAME, revision=branch)
    file = RepoFile(path=FILE, size=len(content), sha256=hashlib.sha256(content).hexdigest())
    cache.blob_path(file).parent.mkdir(parents=True, exist_ok=True)
    cache.blob_path(file).write_bytes(content)
    cache.link_file(there.commit, file)
    cache.remember_revision(branch, there.commit)
    return cache.snapshot_path(there.commit, FILE)


async def only(services: Any) -> ModelUpdate:  # noqa: ANN401 -- as above
    (update,) = await updates_of_models(services.library, services.hub)
    return update


async def test_what_the_hub_still_has_is_current(services: Any, hub: FakeHub, cache: RepositoryCache) -> None:  # noqa: ANN401 -- as above
    fetch_file(cache, hub, FIRST)
    update = await only(services)
    assert (update.model, update.repository, update.revision) == ("Model-Q4_K_M", NAME, "main")
    assert (update.state, update.quantization, update.files) == (Freshness.CURRENT, "Q4_K_M", [])


async def test_other_content_is_newer_and_says_what_it_weighs(
    services: Any,  # noqa: ANN401 -- as above
    hub: FakeHub,
    cache: RepositoryCache,
) -> None:
    fetch_file(cache, hub, FIRST)
    hub.add(NAME, {FILE: SECOND})
    update = await only(services)
    assert (update.state, update.files, update.download_bytes) == (Freshness.NEWER, [FILE], len(SECOND))


async def test_what_the_hub_has_no_more_is_gone(services: Any, hub: FakeHub, cache: RepositoryCache) -> None:  # noqa: ANN401 -- as above
    fetch_file(cache, hub, FIRST)
    hub.add(NAME, {"Other.gguf": SECOND})
    assert (await only(services)).state is Freshness.GONE
    del hub.repositories[NAME]
    hidden_state = await only(services)  # the hub says the same of what is private and of what never was
    assert hidden_state.state is Freshness.UNKNOWN
    assert f"There is no repository {NAME}" in hidden_state.note


async def test_a_file_that_bears_no_hash_is_compared_by_its_size(
    services: Any,  # noqa: ANN401 -- as above
    hub: FakeHub,
    cache: RepositoryCache,
) -> None:
    link = fetch_file(cache, hub, FIRST)
    link.unlink()
    link.write_bytes(FIRST)  # as on a Windows that lets nobody make links
    update = await only(services)
    assert (update.state, "size" in update.note) == (Freshness.UNKNOWN, True)
    link.write_bytes(SECOND)
    assert (await only(services)).state is Freshness.NEWER


async def test_a_hub_that_cannot_be_asked_leaves_it_open(
    services: Any,  # noqa: ANN401 -- as above
    hub: FakeHub,
    cache: RepositoryCache,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetch_file(cache, hub, FIRST)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    update = await only(services)
    assert update.state is Freshness.UNKNOWN
    assert update.note


async def test_offline_means_offline(services: Any, hub: FakeHub, cache: RepositoryCache) -> None:  # noqa: ANN401 -- as above
    fetch_file(cache, hub, FIRST)
    before = len(hub.requests)
    with egress_gate.apply_policy(is_closed=lambda: True, news=lambda: None), pytest.raises(Offline):
        await updates_of_models(services.library, services.hub)
    assert len(hub.requests) == before
