"""Fixtures for tests of the engine store: a folder of tiny wheels, and a gateway that installs them."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest

from app.config.paths import Paths
from app.config.store import SettingsStore
from app.core.events import Notice
from app.engine_store.catalogue import EngineCatalogue, is_preinstalled
from app.engine_store.recipe import InstallRecipe
from app.engine_store.version_store import VersionStore
from app.gateway.engines import smoke_tests
from app.gateway.engines.rollback import EngineRecovery, VersionMoves, announce_changes
from app.gateway.instance import bind
from app.gateway.loading.launch import model_folders, policy_from
from app.gateway.main import open_runner
from app.gateway.services import Limits
from app.hub.library.library import Library
from app.supervisor.pool import Supervisor, SupervisorFolders
from tests.gateway.engines.versions import VERSIONS, Store, Versioned
from tests.gateway.played import Upstream, played_services
from tests.gguf_files import TinyLlama
from tests.unit.engine_store.package_index import Index


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[[str], InstallRecipe]:
    index = Index(tmp_path / "index")
    for version in VERSIONS:
        index.add(version)
    return lambda version: index.recipe(tmp_path / "recipe", version)


@pytest.fixture
async def store(
    paths: Paths,
    limits: Limits,
    unused_port: int,
    recipe: Callable[[str], InstallRecipe],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Store]:
    monkeypatch.setattr(smoke_tests, "STALL_S", 1.5)
    monkeypatch.setattr(smoke_tests, "_ANSWER", aiohttp.ClientTimeout(total=1.5))
    TinyLlama().write(paths.models / "model.gguf")
    TinyLlama().write(paths.models / "second.gguf")
    settings = SettingsStore(paths.settings_file, {"ROUNDHOUSE_ENGINE_DRAIN_SECONDS": "0"})
    base_services = await played_services(paths, {}, limits, Upstream())
    adapter = Versioned()
    shelf = VersionStore(paths.data / "engines", lambda engine: is_preinstalled({"fake": adapter}, engine))
    catalogue = EngineCatalogue({"fake": adapter}, shelf)
    folders = SupervisorFolders(records=paths.engine_records, logs=paths.logs, scratch=paths.state)
    supervisor = Supervisor(catalogue.versioned, folders, policy_from(settings), base_services.events.publish)
    services = dataclasses.replace(
        base_services,
        settings=settings,
        adapters=catalogue.versioned,
        supervisor=supervisor,
        library=Library(lambda: model_folders(paths, settings), paths.data / "models.json", paths.data / "none.gguf"),
        catalogue=catalogue,
    )
    announce_changes(shelf, services.events)
    notices: list[Notice] = []
    may_move = [False]
    moves = VersionMoves(shelf, [], lambda: may_move[-1])
    rescuer = EngineRecovery(shelf, lambda event: notices.append(event) if isinstance(event, Notice) else None, moves)
    supervisor.rescue = rescuer.recover_load
    watch_task = asyncio.create_task(rescuer.watch(services.events))
    runner = await open_runner(services, bind("127.0.0.1", unused_port))
    async with aiohttp.ClientSession() as http:
        yield Store(f"http://127.0.0.1:{unused_port}", http, services, adapter, recipe, notices, may_move, moves)
    await runner.cleanup()
    watch_task.cancel()
    await asyncio.gather(watch_task, return_exceptions=True)
