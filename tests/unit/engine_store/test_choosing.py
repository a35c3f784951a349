"""Which version is used, and who is blamed when a load fails."""

import msgspec
import pytest

from app.core.engine_store import BUNDLED, Proof
from app.engine_store.version_store import (
    CERTAIN,
    LIKELY,
    PROVEN_LOADS,
    VersionState,
    alternative_version,
    is_on_probation,
    is_to_blame,
    record_load,
    record_proof,
    roll_back,
    switch_version,
)
from engines.api import FailureKind

GOOD = Proof(at=1.0, model="the Guide", text="x")
FRESH = VersionState(current="2-cpu", previous="1-cpu")
PROVEN = VersionState(current="2-cpu", previous="1-cpu", loads=PROVEN_LOADS)
MODEL_FAULTS = (FailureKind.MODEL_CORRUPT, FailureKind.MODEL_UNSUPPORTED, FailureKind.OUT_OF_MEMORY, FailureKind.KILLED)


def test_a_switch_keeps_what_was_used_and_begins_a_probation() -> None:
    state = switch_version(VersionState(current="1-cpu", loads=3, bad={"2-cpu": "it failed"}), "2-cpu")
    assert (state.current, state.previous, state.loads) == ("2-cpu", "1-cpu", 0)
    assert state.bad == {"2-cpu": "it failed"}, "using it shows nothing"
    assert record_load(state).bad == {}
    assert is_on_probation(state)
    assert switch_version(state, "2-cpu") is state


def test_three_good_loads_end_a_probation() -> None:
    state = FRESH
    for _ in range(PROVEN_LOADS + 2):
        state = record_load(state)
    assert state.loads == PROVEN_LOADS
    assert not is_on_probation(state)


def test_nothing_is_on_probation_that_has_nothing_to_go_back_to() -> None:
    assert not is_on_probation(VersionState(current="2-cpu"))


@pytest.mark.parametrize("kind", sorted(LIKELY))
def test_a_new_version_is_blamed_for_what_looks_like_its_fault(kind: FailureKind) -> None:
    assert is_to_blame(FRESH, kind.value, was_ready=False)


@pytest.mark.parametrize("kind", sorted(LIKELY - CERTAIN))
def test_one_that_has_shown_that_it_can_load_is_believed(kind: FailureKind) -> None:
    assert not is_to_blame(PROVEN, kind.value, was_ready=False)


@pytest.mark.parametrize("kind", sorted(CERTAIN))
def test_a_broken_installation_is_blamed_at_any_time(kind: FailureKind) -> None:
    assert is_to_blame(PROVEN, kind.value, was_ready=False)
    assert not is_to_blame(PROVEN, kind.value, was_ready=True)


@pytest.mark.parametrize("kind", MODEL_FAULTS)
def test_a_model_that_is_at_fault_changes_no_engine(kind: FailureKind) -> None:
    assert not is_to_blame(FRESH, kind.value, was_ready=False)


def test_nobody_is_blamed_where_there_is_nothing_better() -> None:
    assert not is_to_blame(VersionState(current="2-cpu"), FailureKind.CRASHED, was_ready=False)
    spoiled_state = VersionState(current="2-cpu", previous="1-cpu", bad={"1-cpu": "it failed too"})
    assert not is_to_blame(spoiled_state, FailureKind.CRASHED, was_ready=False)
    assert not is_to_blame(FRESH, "no_such_kind", was_ready=False)


def test_a_roll_back_returns_to_the_version_before_and_marks_the_other() -> None:
    state = roll_back(FRESH, "It crashed.")
    assert (state.current, state.previous, state.bad) == ("1-cpu", "", {"2-cpu": "It crashed."})
    assert roll_back(VersionState(current="2-cpu"), "x").current == BUNDLED


def test_a_test_marks_a_version_or_takes_the_mark_away() -> None:
    bad = record_proof(FRESH, "3-cpu", Proof(at=1.0, code="gibberish", problem="It wrote nonsense."))
    assert bad.bad == {"3-cpu": "It wrote nonsense."}
    good = record_proof(bad, "3-cpu", Proof(at=2.0, text="Hello"))
    assert good.bad == {}
    assert good.proofs["3-cpu"].is_good


def test_elsewhere_is_what_worked_before_then_what_was_proved_last_and_never_what_is_bad() -> None:
    proofs = {name: msgspec.structs.replace(GOOD, at=at) for name, at in (("a", 1.0), ("b", 3.0), ("c", 2.0))}
    state = VersionState(current="now", previous="a", proofs=proofs, bad={"d": "it crashed"})
    names = ["a", "b", "c", "d", "unproved", BUNDLED, "now"]
    tried_versions: list[str] = []
    while to := alternative_version(state, names, tried_versions):
        tried_versions.append(to)
    assert tried_versions == ["a", "b", "c", BUNDLED]
    assert alternative_version(VersionState(current="now"), ["now"], []) == ""
