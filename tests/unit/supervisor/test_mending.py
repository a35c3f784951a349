"""A load that failed is changed and tried again within itself, if and as far as a person wants that."""

from pathlib import Path

import pytest

from app.core.engines import EngineState
from app.core.models import LoadOptions
from app.supervisor import messages as m
from app.supervisor.machine import EngineMachine
from app.supervisor.policy import APPLICABLE, TRIES, LoadRequest, SupervisorPolicy, apply_auto_remedy
from engines.api import Failure, FailureKind, LaunchOptions, ModelFormat, ModelSource, Remedy, RemedyKind

REQUEST = LoadRequest(
    engine="e",
    source=ModelSource(name="m", path=Path("m.gguf"), format=ModelFormat.GGUF),
    options=LaunchOptions(context=8192, slots=2),
)
HALVE = Remedy(kind=RemedyKind.LESS_CONTEXT, label="Load with a context of 4,096 tokens", options={"context": 4096})
ONE_SLOT = Remedy(kind=RemedyKind.FEWER_SLOTS, label="Load for one request at a time", options={"slots": 1})
BY_HAND = Remedy(kind=RemedyKind.SMALLER_MODEL, label="Choose a smaller model")
FULL = Failure(kind=FailureKind.OUT_OF_MEMORY, sentence="No room.", remedies=(HALVE, ONE_SLOT, BY_HAND))


def test_the_first_remedy_that_is_allowed_is_applied() -> None:
    better = apply_auto_remedy(REQUEST, FULL, frozenset({RemedyKind.FEWER_SLOTS}))
    assert better is not None
    assert (better.request.options.context, better.request.options.slots) == (8192, 1)
    assert better.applied.kind == "fewer_slots"
    assert better.applied.sentence == "No room. Roundhouse did this: load for one request at a time."


@pytest.mark.parametrize(
    "allowed_kinds", [frozenset(), frozenset({RemedyKind.SMALLER_MODEL}), frozenset({RemedyKind.SIGN_IN})]
)
def test_nothing_is_done_unasked_or_by_hand(allowed_kinds: frozenset[RemedyKind]) -> None:
    assert apply_auto_remedy(REQUEST, FULL, allowed_kinds) is None


def test_a_remedy_that_changes_nothing_is_none() -> None:
    same = Remedy(kind=RemedyKind.FEWER_SLOTS, label="Load", options={"slots": 2})
    assert (
        apply_auto_remedy(REQUEST, Failure(kind=FULL.kind, sentence="x.", remedies=(same,)), frozenset(APPLICABLE))
        is None
    )


def coming_up(mends: frozenset[RemedyKind]) -> EngineMachine:
    machine = EngineMachine(lambda: SupervisorPolicy(mends=mends))
    machine.step(m.ReadyRequest(ticket=1, request=REQUEST, holds=True, fingerprint=(0,)), 0.0)
    machine.step(m.RoomGranted(run=machine.run), 0.0)
    start_processes(machine)
    return machine


def start_processes(machine: EngineMachine) -> None:
    machine.step(m.ProcessesStarted(run=machine.run, stall_s=10.0, hard_s=100.0, grace_s=5.0), 0.0)


def fail(machine: EngineMachine, remedy: Remedy = HALVE) -> list[m.MachineEffect]:
    failure = Failure(kind=FailureKind.OUT_OF_MEMORY, sentence="No room.", remedies=(remedy,))
    return machine.step(m.RunEnded(run=machine.run, failure=failure), 1.0)


def test_the_waiter_hears_nothing_of_it_and_gets_what_fits() -> None:
    machine = coming_up(frozenset({RemedyKind.LESS_CONTEXT}))
    (launch_effect,) = fail(machine)
    assert isinstance(launch_effect, m.LaunchRun)
    assert launch_effect.request.options.context == 4096
    assert machine.state is EngineState.LOADING
    start_processes(machine)
    effects = machine.step(m.EngineReady(run=machine.run), 2.0)
    assert [effect.ticket for effect in effects if isinstance(effect, m.AnswerCaller)] == [1]
    assert [remedy.kind for remedy in machine.applied] == ["less_context"]


def test_without_leave_the_failure_is_told_with_its_remedies() -> None:
    machine = coming_up(frozenset())
    answers = [effect.outcome for effect in fail(machine) if isinstance(effect, m.AnswerCaller)]
    assert isinstance(answers[0], m.LoadRefused)
    assert machine.state is EngineState.FAILED


def test_it_gives_up_after_some_tries() -> None:
    machine = coming_up(frozenset({RemedyKind.LESS_CONTEXT}))
    for smaller in range(TRIES):
        fail(machine, Remedy(kind=RemedyKind.LESS_CONTEXT, label="Load", options={"context": 4096 - smaller}))
        start_processes(machine)
    fail(machine, Remedy(kind=RemedyKind.LESS_CONTEXT, label="Load", options={"context": 1024}))
    assert machine.state is EngineState.FAILED


def test_an_engine_that_was_ready_is_not_changed_behind_anybodys_back() -> None:
    machine = coming_up(frozenset({RemedyKind.LESS_CONTEXT}))
    machine.step(m.EngineReady(run=machine.run), 1.0)
    fail(machine)
    assert machine.effective_request is not None
    assert machine.effective_request.options.context == 8192


@pytest.mark.parametrize("explicit", [True, False])
def test_who_asks_for_the_same_again_gets_what_fits(*, explicit: bool) -> None:
    machine = coming_up(frozenset({RemedyKind.LESS_CONTEXT}))
    fail(machine)
    start_processes(machine)
    machine.step(m.EngineReady(run=machine.run), 2.0)
    effects = machine.step(
        m.ReadyRequest(ticket=2, request=REQUEST, holds=True, fingerprint=(0,), explicit=explicit), 3.0
    )
    assert [type(effect) for effect in effects] == [m.AnswerCaller]
    assert machine.state is EngineState.READY


def test_what_can_be_applied_is_what_a_load_can_choose_or_a_setting_names() -> None:
    assert {"context", "slots", "kv_type", "gpu_layers"} <= set(LoadOptions.__struct_fields__)
