"""Which machine answers: the one expected first, one that was lost only when there is no other."""

import msgspec
import pytest

from app.core.errors import Unavailable
from app.core.machines import ModelLoad
from app.gateway.machines.listener import MOST_MODELS, MachineState
from app.gateway.machines.pairing_calls import decode_reply
from app.gateway.machines.routing import AWAY_S, MachineModel, MachineRoutes, expected_s

HERE = MachineModel("qwen", "", is_loaded=True, tokens_per_s=10.0)
DESK = MachineModel("qwen@desk", "desk", is_loaded=True, tokens_per_s=50.0)
LAP = MachineModel("qwen@lap", "lap", is_loaded=True, tokens_per_s=40.0)


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def routes(*models: MachineModel, clock: Clock | None = None) -> MachineRoutes:
    machine_routes = MachineRoutes(clock or Clock())
    machine_routes.put_models([("qwen", model) for model in models])
    return machine_routes


def test_what_is_here_means_what_is_here_unless_the_person_wants_the_first_answer() -> None:
    assert routes(HERE, DESK).choose_name("qwen", {}, balances=False) == "qwen"
    assert routes(HERE, DESK).choose_name("Qwen:latest", {}, balances=True) == "qwen@desk"


def test_what_is_only_elsewhere_is_asked_there() -> None:
    assert routes(LAP, DESK).choose_name("qwen", {}, balances=False) == "qwen@desk"


def test_who_names_a_machine_gets_that_machine() -> None:
    assert routes(LAP, DESK).choose_name("qwen@lap", {}, balances=True) == "qwen@lap"


def test_load_and_requests_on_their_way_count() -> None:
    assert expected_s(DESK._replace(is_loaded=False)) > expected_s(DESK._replace(in_flight=1)) > expected_s(DESK)
    assert routes(LAP, DESK).choose_name("qwen", {"qwen@desk": 1}, balances=False) == "qwen@lap"


def test_a_lost_machine_is_passed_over_for_a_while_and_everybody_lost_ends() -> None:
    clock = Clock()
    table = routes(LAP, DESK, clock=clock)
    assert table.note_loss("qwen@desk")
    assert table.choose_name("qwen", {}, balances=False) == "qwen@lap"
    assert not table.note_loss("qwen@lap")
    clock.now_s += AWAY_S
    assert table.choose_name("qwen", {}, balances=False) == "qwen@desk"


def test_a_machine_that_answers_again_is_back_at_once() -> None:
    table = routes(LAP, DESK)
    table.note_loss("qwen@desk")
    table.note_return("desk")
    assert table.choose_name("qwen", {}, balances=False) == "qwen@desk"


def test_a_machine_that_is_not_listed_any_more_has_a_stand_in_all_the_same() -> None:
    table = routes(LAP, DESK)
    table.put_models([("qwen", LAP)])
    assert table.note_loss("qwen@desk")


def test_what_is_no_machines_model_has_no_stand_in() -> None:
    assert not routes(HERE, DESK).note_loss("qwen")
    assert not routes(HERE, DESK).note_loss("other")


def test_a_machine_is_woken_only_for_what_no_other_has() -> None:
    table = routes(HERE)
    table.put_sleeping("box", {"qwen@box": "qwen", "large@box": "large:latest"})
    assert table.find_sleeping("Large") == table.find_sleeping("large@box") == table.find_sleeping("qwen@box") == "box"
    assert table.find_sleeping("qwen") == table.find_sleeping("auto") == table.find_sleeping("small") == ""
    table.put_models([("large", MachineModel("large@desk", "desk"))])
    assert table.find_sleeping("large") == ""
    table.note_return("box")
    assert table.find_sleeping("qwen@box") == ""


async def test_waking_is_asked_for_once_and_by_the_machines_name() -> None:
    table, woken = routes(HERE), list[str]()

    async def wake(machine: str) -> None:
        woken.append(machine)

    table.wake = wake
    table.put_sleeping("box", {"large@box": "large"})
    await table.wake_for("qwen")
    await table.wake_for("large")
    table.forget_sleeping("box")
    await table.wake_for("large")
    assert woken == ["box"]


def test_a_list_longer_than_any_is_not_taken() -> None:
    loads = [ModelLoad(name=f"model-{number}") for number in range(MOST_MODELS + 1)]
    longest, longer = (msgspec.json.encode({"name": "desk", "models": models}) for models in (loads[1:], loads))
    assert len(decode_reply(200, longest, MachineState).models) == MOST_MODELS
    with pytest.raises(Unavailable):
        decode_reply(200, longer, MachineState)
