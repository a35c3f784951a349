"""A gateway on a real socket, in front of an engine that the test plays itself (see `played.py`)."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiohttp import web, web_app

from app.config.paths import Paths
from app.gateway.services import Limits, Services
from tests.gateway.far import far, near  # noqa: F401 -- fixtures
from tests.gateway.played import Gateway, Upstream, played_services, serve_gateway


@pytest.fixture(autouse=True)
def unreachable_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test asks the real hub for anything, whatever it pulls."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")


@pytest.fixture(autouse=True)
def gateways_released() -> Iterator[None]:
    """Let go of a test's gateway: aiohttp remembers a thousand handlers with their middlewares, and so 2 MB of each."""
    yield
    web_app._cached_build_middleware.cache_clear()


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    played_upstream = Upstream()
    app = web.Application(client_max_size=0)
    app.router.add_route("*", "/{path:.*}", played_upstream.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    played_upstream.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield played_upstream
    await runner.cleanup()


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
def environ() -> dict[str, str]:
    return {"ROUNDHOUSE_GATEWAY_MAX_BODY_MIB": "1"}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    test_paths = Paths(config=tmp_path, data=tmp_path / "data", state=tmp_path / "state", logs=tmp_path / "logs")
    test_paths.create_folders()
    return test_paths


@pytest.fixture
async def services(paths: Paths, environ: dict[str, str], limits: Limits, upstream: Upstream) -> Services:
    return await played_services(paths, environ, limits, upstream)


@pytest.fixture
async def gateway(services: Services, upstream: Upstream, unused_port: int) -> AsyncIterator[Gateway]:
    async with serve_gateway(services, upstream, unused_port) as gateway:
        yield gateway
