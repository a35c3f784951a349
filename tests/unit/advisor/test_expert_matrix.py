"""An expert's first engine for machine, use and model, with the reason: the decision guide, and what people measure.

The answers were written down from the guide and from published recipes per card, not from what the advisor says. Where
the engine that is meant cannot be had on that machine, the plan names it as better, says what is missing, and begins
with the one that stands in `meanwhile`.
"""

import csv
import json
from functools import cache
from pathlib import Path

import msgspec
import pytest

from app.advisor.plans.ranking import PlanInputs, build_advice
from app.core.advice import Advice, Intent
from app.core.model_facts import ModelFacts
from app.gateway.advising.advice import forms_of
from app.gateway.advising.model_facts import find_well_known
from app.hardware.description import machine_from
from tests.unit.advisor.engines import engines_on

DATA = Path(__file__).parents[2] / "data"
MACHINES: dict[str, object] = json.loads((DATA / "expert-machines.json").read_text(encoding="utf-8"))
SEVERAL = 8
"""People whom a team or an API serves where the row does not say."""


class Answer(msgspec.Struct, frozen=True):
    """One row. Any of the engines in `first` is right; the guide often names two to be measured against each other."""

    machine: str
    use: Intent
    users: str
    model: str
    first: str
    meanwhile: str
    reason: str

    def advice(self) -> Advice:
        """Return what the advisor says."""
        machine = machine_from(msgspec.json.encode(MACHINES[self.machine]))
        return build_advice(
            PlanInputs(
                traits=engines_on(machine),
                machine=machine,
                candidates=list(candidates(self.model)),
                model=self.model,
                intent=self.use,
                users=int(self.users or (SEVERAL if self.use in {Intent.TEAM, Intent.API} else 1)),
            )
        )


@cache
def candidates(model: str) -> tuple[ModelFacts, ...]:
    known_model = find_well_known(model) if model else None
    return forms_of(known_model.name, native=known_model.native) if known_model else ()


def answers() -> list[Answer]:
    with (DATA / "expert-matrix.csv").open(encoding="utf-8", newline="") as file:
        return [msgspec.convert(row, Answer) for row in csv.DictReader(file)]


ANSWERS = answers()


@pytest.mark.slow(cases=26)
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer.machine}, {answer.use} {answer.model}".strip())
def test_the_first_plan_is_an_expert_s(answer: Answer) -> None:
    advice = answer.advice()
    usable = [plan for plan in advice.plans if not plan.refused]
    first, accepted_engines = usable[0].engine, set(answer.first.split())
    if not answer.meanwhile:
        assert first in accepted_engines, answer.reason
        return
    better = [plan for plan in advice.plans if plan.is_preferred and plan.engine in accepted_engines]
    assert first == answer.meanwhile, answer.reason
    assert better, answer.reason
    assert all(plan.missing and plan.steps and not plan.obtainable for plan in better)


def test_there_are_as_many_answers_as_are_promised() -> None:
    assert len({(answer.machine, answer.use, answer.model) for answer in ANSWERS}) >= 150
    assert {answer.machine for answer in ANSWERS} == set(MACHINES)
    assert all(answer.reason.endswith(".") for answer in ANSWERS)
    assert all(find_well_known(answer.model) for answer in ANSWERS if answer.model)
