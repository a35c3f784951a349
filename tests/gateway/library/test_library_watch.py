"""Files that come and go are told to who listens, and to nobody else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from app.core.errors import StorageFault
from app.core.events import ModelsChanged
from app.gateway.events import EventHub, Subscription
from app.gateway.library.watch import watch_library
from app.hub.library.library import Library
from tests.gguf_files import TinyLlama
from tests.patience import PATIENCE_S


@pytest.fixture
def library(tmp_path: Path) -> Library:
    (tmp_path / "models").mkdir()
    library = Library(lambda: [tmp_path / "models"], tmp_path / "state" / "models.json", tmp_path / "none.gguf")
    library.list_models()
    return library


@asynccontextmanager
async def keep_watching(library: Library, events: EventHub) -> AsyncIterator[None]:
    task = asyncio.create_task(watch_library(library, events, every_s=0.01))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def expect_change(subscription: Subscription) -> None:
    async with asyncio.timeout(PATIENCE_S):
        assert isinstance(await anext(aiter(subscription)), ModelsChanged)


async def looks(library: Library, count: int) -> None:
    """Return once the library was looked through so many times more."""
    seen_count, enough, loop = 0, asyncio.Event(), asyncio.get_running_loop()
    models = library.list_models

    def count_look() -> object:
        nonlocal seen_count
        seen_count += 1
        if seen_count >= count:
            loop.call_soon_threadsafe(enough.set)
        return models()

    with patch.object(library, "list_models", count_look):
        async with asyncio.timeout(PATIENCE_S):
            await enough.wait()


async def test_a_file_that_comes_and_one_that_goes_are_told(library: Library, tmp_path: Path) -> None:
    events = EventHub()
    with events.subscribe() as subscription:
        async with keep_watching(library, events):
            await looks(library, 2)
            file = TinyLlama().write(tmp_path / "models" / "new.gguf")
            await expect_change(subscription)
            before = events.revision
            file.unlink()
            await expect_change(subscription)
            assert events.revision > before
    assert [model.name for model in library.list_models()] == ["guide"]


async def test_nothing_is_said_while_nothing_changes(library: Library) -> None:
    events = EventHub()
    with events.subscribe() as subscription:
        async with keep_watching(library, events):
            await looks(library, 3)
        assert events.revision == 0
        subscription.close()
        assert [event async for event in subscription] == []


async def test_a_look_that_fails_is_taken_again(library: Library, tmp_path: Path) -> None:
    events, models = EventHub(), library.list_models
    failures = [False, True, True]

    def sometimes() -> object:
        if failures and failures.pop(0):
            TinyLlama().write(tmp_path / "models" / "new.gguf")
            raise StorageFault("The drive fails.")
        return models()

    with patch.object(library, "list_models", sometimes), events.subscribe() as subscription:
        async with keep_watching(library, events):
            await expect_change(subscription)


async def test_folders_are_left_alone_while_nobody_listens(library: Library) -> None:
    events = EventHub()
    rounds, enough = 0, asyncio.Event()

    async def count_round(_seconds: float) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 5:
            enough.set()
            await asyncio.Event().wait()

    with (
        patch("app.gateway.library.watch.asyncio.sleep", count_round),
        patch.object(library, "list_models", wraps=library.list_models) as listings,
    ):
        async with keep_watching(library, events), asyncio.timeout(PATIENCE_S):
            await enough.wait()
        assert listings.call_count == 1
