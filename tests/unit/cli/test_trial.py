"""`roundhouse trial` as a person uses it: both sides, each request, words only when wanted, the switch and back."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.cli import trial as command
from app.cli.main import roundhouse
from app.core.benchmarks import BenchmarkTarget, Figure
from app.core.events import TrialChanged
from app.core.trials import (
    StartTrial,
    TrialAnswer,
    TrialComparison,
    TrialResult,
    TrialSide,
    TrialSwitch,
    TrialWords,
)

RESULT = TrialResult(
    at=1.0,
    roundhouse="0",
    model="m",
    first=TrialSide(target=BenchmarkTarget(model="m", quantization="Q8_0"), answered=2, valid_calls=1.0),
    second=TrialSide(target=BenchmarkTarget(model="o", quantization="Q4_K_M"), answered=1, valid_calls=0.5),
    requests=[
        TrialComparison(
            id="r1",
            prompt_sha256="f",
            prompt_length=40,
            first=TrialAnswer(tokens=9, calls=1, valid_calls=1),
            second=TrialAnswer(tokens=8, is_valid_json=False),
            is_equal=False,
            diverges_at=4,
            diverges_at_token=1,
        ),
        TrialComparison(
            id="r2",
            prompt_sha256="f",
            prompt_length=41,
            first=TrialAnswer(),
            second=TrialAnswer(error="It was refused."),
        ),
    ],
    e2e_ratio=Figure(value=0.5, low=0.4, high=0.6),
    can_switch=True,
    sentence="0 of 1 answers are equal.",
)


class PlayedService:
    """Answers as the gateway does, and remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[StartTrial] = []
        self.paths: list[str] = []

    def get(self, path: str, _kind: Any, **_: object) -> list[TrialWords]:  # noqa: ANN401 -- of every type
        self.paths.append(path)
        return [TrialWords(id="r1", first="The sky", second="The sea")]

    def post(self, path: str, body: StartTrial | None, _kind: Any, **_: object) -> object:  # noqa: ANN401 -- as above
        self.paths.append(path)
        if body is None:
            return TrialSwitch(sentence="It is switched.", changed=["models.default"])
        self.requests.append(body)
        return TrialChanged(model=body.model, stage="Getting ready")

    def stream_events(self, *_: object, **__: object) -> Iterator[TrialChanged]:
        yield TrialChanged(model="m", stage="m: Request 1 of 2")
        yield TrialChanged(model="m", stage="Done", done=True, result=RESULT)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> PlayedService:
    played_service = PlayedService()
    monkeypatch.setattr(command, "connect_gateway", lambda: played_service)
    return played_service


def call(*args: str) -> Result:
    return CliRunner().invoke(roundhouse, ["trial", *args])


def test_both_sides_and_each_request_are_shown_without_words(service: PlayedService) -> None:
    result = call("m", "--against", "o", "--requests", "2")
    assert result.exit_code == 0
    assert "Q8_0" in result.stdout
    assert "100%" in result.stdout
    assert "character 5, token 2" in result.stdout
    assert "1 of 1 calls valid" in result.stdout
    assert "not as its schema" in result.stdout
    assert "It was refused." in result.stdout
    assert "0.50 (0.40 to 0.60) times" in result.stdout
    assert "roundhouse trial --keep" in result.stderr
    assert service.requests == [StartTrial(model="m", against="o", requests=2)]
    assert service.paths == ["/trials"]


def test_words_are_fetched_only_when_wanted(service: PlayedService) -> None:
    assert "The sea" in call("m", "--engine", "e", "--words").stdout
    document = json.loads(call("m", "--engine", "e", "--json").stdout)["trial"]
    assert document["words"] == []
    assert document["result"]["second"]["valid_calls"] == 0.5
    assert service.paths == ["/trials", "/trials/words", "/trials"]


def test_the_switch_and_the_way_back(service: PlayedService) -> None:
    keep_result = call("--keep")
    assert "It is switched." in keep_result.stdout
    assert "--undo" in keep_result.stderr
    assert json.loads(call("--undo", "--json").stdout)["trial_switch"]["changed"] == ["models.default"]
    assert service.paths == ["/trials/switch", "/trials/undo"]
    both = call("m", "--against", "o", "--keep", "--json")
    document = json.loads(both.stdout)["trial"]
    assert document["switch"]["changed"] == ["models.default"]
    assert document["result"]["equal"] is None
    assert service.paths[2:] == ["/trials", "/trials/switch"]


def test_a_model_or_a_choice_is_needed(service: PlayedService) -> None:
    assert call().exit_code == 2
    assert service.paths == []
