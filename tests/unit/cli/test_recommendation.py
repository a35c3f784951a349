"""What the terminal says of the model to run where none was named: how to get it, or that it is here."""

import msgspec

from app.cli.advice import recommendation_lines
from app.core.advice import PlanRequest
from tests.demo.advice import workstation_advice
from tests.demo.hub import PICKS


def commands_for(installed_name: str) -> list[str]:
    best = msgspec.structs.replace(PICKS[0], installed=installed_name)
    advice = msgspec.structs.replace(workstation_advice(PlanRequest()), recommended=[best, *PICKS[1:]])
    return [" ".join(line.split()) for line in recommendation_lines(advice)]


def test_a_model_that_is_here_is_run_and_not_fetched_again() -> None:
    assert f"Get it roundhouse pull {PICKS[0].pull}" in commands_for("")
    lines = commands_for("Qwen3.8-27B-Q5_K_M")
    assert "Run it roundhouse run Qwen3.8-27B-Q5_K_M" in lines
    assert not any(line.startswith("Get it") for line in lines)
