"""Loads against their prediction: by the model's own name, and only where it was loaded as it is set."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from app.core.advice import EstimateAccuracy, EstimateRequest
from app.core.engines import EngineState, EngineStatus
from app.core.events import EngineChanged
from app.gateway.advising import advice
from app.gateway.services import Services
from tests.patience import PATIENCE_S

AMOUNT = SimpleNamespace(bytes=1 << 30)
ESTIMATE = SimpleNamespace(**dict.fromkeys(advice._PREDICTED, AMOUNT))


@pytest.fixture
async def parts(services: Services, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Services]:
    """The parts of a gateway that is not opened, and so does not close them."""
    monkeypatch.setattr(advice, "SETTLES_S", 0.0)
    yield services
    await services.http.close()
    await services.chats.close()


def make_status(name: str) -> EngineStatus:
    return EngineStatus(model=name, engine="llama.cpp", state=EngineState.READY, loaded_at=1.0, slots=2, context=4096)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected_models"),
    [
        ("guide", ["last", "guide"]),
        ("guide (benchmark)", ["last", "guide"]),
        ("guide (other settings)", ["last"]),
        ("guide (trial)", ["last"]),
    ],
)
async def test_a_load_is_compared_by_what_the_model_is_called_and_set_to(
    parts: Services, monkeypatch: pytest.MonkeyPatch, name: str, expected_models: list[str]
) -> None:
    estimates: list[EstimateRequest] = []

    async def estimate(_services: Services, request: EstimateRequest) -> SimpleNamespace:
        estimates.append(request)
        return ESTIMATE

    add_load, stored_loads, is_whole = parts.chats.add_load, list[EstimateAccuracy](), asyncio.Event()

    async def store_load(load: EstimateAccuracy) -> None:
        await add_load(load)
        stored_loads.append(load)
        if len(stored_loads) == len(expected_models):
            is_whole.set()

    monkeypatch.setattr(advice, "estimate_model", estimate)
    monkeypatch.setattr(parts.chats, "add_load", store_load)
    monkeypatch.setattr(parts.supervisor, "list_statuses", lambda: [make_status(name)])
    watcher = asyncio.create_task(advice.watch_loads(parts))
    try:
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.sleep(0)
            parts.events.publish(EngineChanged(status=make_status("last")))
            await is_whole.wait()
    finally:
        watcher.cancel()
    assert sorted(load.model for load in await parts.chats.list_loads()) == sorted(expected_models)
    assert sorted(request.model for request in estimates) == sorted(expected_models)
    assert {(request.context, request.slots) for request in estimates} == {(4096, 2)}
