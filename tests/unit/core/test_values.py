"""Values shared by every program: the transition table is closed, errors keep codes, events keep tags."""

import msgspec
import pytest

from app.core import errors, events
from app.core.engines import SETTLED, TRANSITIONS, EngineState


def test_every_state_can_be_left_and_reached() -> None:
    assert set(TRANSITIONS) == set(EngineState)
    assert set().union(*TRANSITIONS.values()) == set(EngineState)
    assert all(TRANSITIONS.values())


def test_the_table_is_what_the_docstring_says() -> None:
    rows = [line.split("->") for line in (EngineState.__doc__ or "").splitlines() if "->" in line]
    transitions = {left_column.strip(): set(right.split()) for left_column, right in rows}
    assert transitions == {state.value: {target.value for target in targets} for state, targets in TRANSITIONS.items()}


def test_settled_states_can_be_reached_from_every_state() -> None:
    for state in EngineState:
        seen_states, todo = set[EngineState](), [state]
        while todo:
            here = todo.pop()
            seen_states.add(here)
            todo += [target for target in TRANSITIONS[here] if target not in seen_states]
        assert seen_states & SETTLED


def tree(kind: type[errors.RoundhouseError]) -> list[type[errors.RoundhouseError]]:
    """Return the errors of the core; what other parts derive from them is theirs to test."""
    children = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    return [kind, *(below for child in children for below in tree(child))]


@pytest.mark.parametrize("kind", tree(errors.RoundhouseError))
def test_an_error_says_its_sentence_and_travels(kind: type[errors.RoundhouseError]) -> None:
    error = kind("It is so.", hint="Do this.", detail="why")
    assert str(error) == "It is so."
    assert error.code == kind.default_code
    assert msgspec.json.decode(msgspec.json.encode(error.body), type=errors.ErrorBody) == error.body


def test_users_errors_are_4xx_and_the_machines_are_5xx() -> None:
    for kind in tree(errors.RoundhouseError):
        assert (kind.status < 500) == issubclass(kind, errors.UserError)


def test_events_are_told_apart_by_their_tag() -> None:
    notice = events.Notice(level="warn", code="port_taken", sentence="Port 11434 is taken.")
    data = msgspec.json.encode(notice)
    assert msgspec.json.decode(data)["type"] == "notice"
    assert msgspec.json.decode(data, type=events.Event) == notice
