"""How much context a request that names a number gets: enough, no more than fits, and the same again the next time."""

from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.engines import EngineState, EngineStatus
from app.gateway.advising.machine import with_capacity
from app.gateway.loading import memory_fit
from app.gateway.loading.launch import resolve_model
from app.gateway.loading.memory_fit import round_down, round_up, with_context
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest
from tests.gateway.played import Gateway


class Case(NamedTuple):
    """Room for so many tokens, what the model was trained for, and what a request wants and gets."""

    room: int
    trained_context: int | None
    requested_context: int
    context: int
    slots: int


class Room:
    """Stands in for `fit_load`: there is room for so many tokens, and the last to ask is remembered."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.fit_count = 0

    async def __call__(self, _services: Services, load: LoadRequest, *, is_fixed: bool = False) -> LoadRequest:
        if is_fixed:
            return load
        self.fit_count += 1
        context = min(self.tokens, load.options.context or 0)
        slots = load.options.slots if context == load.options.context else 1
        options = msgspec.structs.replace(load.options, context=context, slots=slots)
        return msgspec.structs.replace(load, options=options)


async def resolve_trained(gateway: Gateway, trained_context: int | None) -> ResolvedModel:
    """Return the Guide as if it had been trained for another context; the settings give it 4096 tokens."""
    resolution = await resolve_model(gateway.services, "guide")
    model = msgspec.structs.replace(resolution.model, trained_context=trained_context)
    options = msgspec.structs.replace(resolution.load.options, context=4096)
    return ResolvedModel(model, msgspec.structs.replace(resolution.load, options=options))


@pytest.mark.parametrize(
    "case",
    [
        Case(100_000, 131_072, 4000, 4096, 4),  # what there is suffices
        Case(100_000, 131_072, 8933, 16_384, 4),  # rounded up, so that it suffices for many turns
        Case(100_000, 131_072, 131_072, 65_536, 1),  # as much as fits, rounded down
        Case(100_000, 10_000, 131_072, 10_000, 4),  # as much as it was trained for
        Case(3_000, 131_072, 8192, 4096, 4),  # never less than without the wish
        Case(1 << 40, None, 1 << 60, 1 << 22, 4),  # nobody gets more than the settings allow
    ],
)
async def test_what_is_loaded(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    monkeypatch.setattr(memory_fit, "fit_load", Room(case.room))
    load = await with_context(
        gateway.services, await resolve_trained(gateway, case.trained_context), case.requested_context
    )
    assert (load.options.context, load.options.slots) == (case.context, case.slots)


async def test_fewer_than_asked_for_is_said(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(memory_fit, "fit_load", Room(9_000))
    await with_context(gateway.services, await resolve_trained(gateway, 131_072), 30_000)
    assert "keeps 8192 tokens of context, not the 30000 asked for" in caplog.text


async def test_what_the_running_engine_has_fits(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    room, guide = Room(1_000), await resolve_trained(gateway, 131_072)
    monkeypatch.setattr(memory_fit, "fit_load", room)
    running_status = EngineStatus(
        model="guide", engine="llama.cpp", state=EngineState.READY, context=16_384, memory_bytes=5_000
    )
    monkeypatch.setattr(gateway.supervisor, "list_statuses", lambda: [running_status])
    load = await with_context(gateway.services, guide, 9_000)
    assert (load.options.context, room.fit_count) == (16_384, 0), "it runs with as much: it need not be asked"
    await with_context(gateway.services, guide, 20_000)
    assert room.fit_count == 1


async def test_what_others_give_back_makes_room(gateway: Gateway) -> None:
    machine = await gateway.services.machine.read()
    assert with_capacity(machine, {"system": 1_000}).pools[0].free.value == 1_000
    assert with_capacity(machine, {"elsewhere": 1_000}) == machine


@given(tokens=st.integers(1, 1 << 40))
def test_powers_of_two(tokens: int) -> None:
    up, down = round_up(tokens), round_down(tokens)
    assert down <= tokens <= up
    assert up < 2 * tokens or tokens == up == 1
    assert up.bit_count() == down.bit_count() == 1
