"""Fixtures for tests of the engine store: a folder of tiny wheels, and a gateway that installs them."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest

from app.config.paths import Paths
from app.config.store import Settings
from app.core.events import Notice
from app.engine_store.catalogue import Catalogue, came_along
from app.engine_store.recipe import Recipe
from app.engine_store.shelf import Shelf
from app.gateway.engines import smoke_tests
from app.gateway.engines.rollback import Moves, Rescuer, announce
from app.gateway.instance import bind
from app.gateway.loading.launch import model_folders, policy_from
from app.gateway.main import opened
from app.gateway.services import Limits
from app.hub.library.library import Library
from app.supervisor.pool import Folders, Supervisor
from tests.gateway.engines.versions import VERSIONS, Store, Versioned
from tests.gateway.played import Upstream, played_services
from tests.gguf_files import TinyLlama
from tests.unit.engine_store.package_index import Index


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[[str], Recipe]:
    index = Index(tmp_path / "index")
    for version in VERSIONS:
        index.add(version)
    return lambda version: index.recipe(tmp_path / "recipe", version)


@pytest.fixture
async def store(
    paths: Paths,
    limits: Limits,
    unused_port: int,
    recipe: Callable[[str], Recipe],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Store]:
    monkeypatch.setattr(smoke_tests, "STALL_S", 1.5)
    monkeypatch.setattr(smoke_tests, "_ANSWER", aiohttp.ClientTimeout(total=1.5))
    TinyLlama().write(paths.models / "model.gguf")
    TinyLlama().write(paths.models / "second.gguf")
    settings = Settings(paths.settings_file, {"ROUNDHOUSE_ENGINE_DRAIN_SECONDS": "0"})
    played = await played_services(paths, {}, limits, Upstream())
    adapter = Versioned()
    shelf = Shelf(paths.data / "engines", lambda engine: came_along({"fake": adapter}, engine))
    catalogue = Catalogue({"fake": adapter}, shelf)
    folders = Folders(records=paths.engine_records, logs=paths.logs, scratch=paths.state)
    supervisor = Supervisor(catalogue.placed, folders, policy_from(settings), played.events.publish)
    services = dataclasses.replace(
        played,
        settings=settings,
        adapters=catalogue.placed,
        supervisor=supervisor,
        library=Library(lambda: model_folders(paths, settings), paths.data / "models.json", paths.data / "none.gguf"),
        catalogue=catalogue,
    )
    announce(shelf, services.events)
    notices: list[Notice] = []
    may_move = [False]
    moves = Moves(shelf, [], lambda: may_move[-1])
    rescuer = Rescuer(shelf, lambda event: notices.append(event) if isinstance(event, Notice) else None, moves)
    supervisor.rescue = rescuer.rescue
    watching = asyncio.create_task(rescuer.watch(services.events))
    runner = await opened(services, bind("127.0.0.1", unused_port))
    async with aiohttp.ClientSession() as http:
        yield Store(f"http://127.0.0.1:{unused_port}", http, services, adapter, recipe, notices, may_move, moves)
    await runner.cleanup()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
