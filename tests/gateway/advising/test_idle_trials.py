"""Drafts tried by themselves: only while nobody uses anything, once for each model, and ended when somebody comes."""

import dataclasses
import time
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest

from app.core.engines import EngineState, EngineStatus
from app.gateway.advising.idle_trials import IDLE_S, IdleTrials
from app.gateway.services import Services
from engines.api import Failure

IDLE = EngineStatus(
    model="mine", engine="llama.cpp", state=EngineState.READY, last_used_at=time.time() - 2 * IDLE_S, loaded_at=1.0
)


@pytest.fixture
async def parts(services: Services) -> AsyncIterator[Services]:
    """The parts of a gateway that is not opened, and so does not close them."""
    yield services
    await services.http.close()
    await services.chats.close()


class _PlayedSupervisor:
    is_paused = False

    def __init__(self, *statuses: EngineStatus) -> None:
        self.statuses = list(statuses)

    def list_statuses(self) -> list[EngineStatus]:
        return self.statuses

    async def unload_model(self, _model: str, *, force: bool = False) -> None:
        """Nothing here is spread over machines, which is what unloads by itself."""

    def fail_model(self, _model: str, _failure: Failure) -> None:
        """Nor does it lose one of them."""


class _PlayedJob:
    is_busy = False


class _PlayedTrials:
    def __init__(self) -> None:
        self.job, self.started_models, self.stop_count = _PlayedJob(), list[str](), 0

    async def start(self, name: str) -> None:
        self.started_models.append(name)
        self.job.is_busy = True

    async def stop(self) -> None:
        self.stop_count += 1
        self.job.is_busy = False


class _Watch(IdleTrials):
    """All models are untried, and fit."""

    async def _can_be_tried(self, _name: str) -> bool:
        return True


def watch_over(services: Services, *statuses: EngineStatus) -> tuple[IdleTrials, _PlayedTrials, _PlayedSupervisor]:
    trials, supervisor = _PlayedTrials(), _PlayedSupervisor(*statuses)
    wired_services = dataclasses.replace(services, supervisor=cast("Any", supervisor))
    return _Watch(wired_services, cast("Any", trials)), trials, supervisor


async def test_an_idle_model_is_tried_once(parts: Services) -> None:
    watch, trials, _ = watch_over(parts, IDLE)
    await watch.look()
    trials.job.is_busy = False
    await watch.look()
    assert trials.started_models == ["mine"]


@pytest.mark.parametrize(
    "change",
    [
        {"in_flight": 1},
        {"queued": 1},
        {"state": EngineState.LOADING},
        {"state": EngineState.STOPPED},
        {"last_used_at": time.time() + 86400},
        {"model": "mine (benchmark)"},
    ],
    ids=lambda change: next(iter(change)),  # without the time, which differs between the tests' processes
)
async def test_nothing_is_tried_while_a_model_is_used_or_was_a_moment_ago(
    parts: Services, change: dict[str, Any]
) -> None:
    watch, trials, _ = watch_over(parts, msgspec.structs.replace(IDLE, **change))
    await watch.look()
    assert trials.started_models == []


async def test_it_can_be_switched_off(parts: Services) -> None:
    parts.settings.change_values({"models.try_drafts": False})
    watch, trials, _ = watch_over(parts, IDLE)
    await watch.look()
    assert trials.started_models == []


async def test_it_ends_when_somebody_comes_but_a_persons_own_trial_does_not(parts: Services) -> None:
    watch, trials, supervisor = watch_over(parts, IDLE)
    await watch.look()
    supervisor.statuses = [IDLE, msgspec.structs.replace(IDLE, model="mine (trial)", in_flight=1)]
    await watch.look()
    assert trials.stop_count == 0, "what it asks itself is not somebody"
    supervisor.statuses = [msgspec.structs.replace(IDLE, in_flight=1)]
    await watch.look()
    assert trials.stop_count == 1
    other, theirs, _ = watch_over(parts, msgspec.structs.replace(IDLE, in_flight=1))
    theirs.job.is_busy = True
    await other.look()
    assert theirs.stop_count == 0
