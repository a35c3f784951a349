"""`roundhouse race` as a person uses it: the plan, the question before an install, the table, the way back."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from app.cli import race as command
from app.cli.main import roundhouse
from app.core.benchmarks import Figure, RaceCandidate, RaceEntry, RacePlan, RaceResult, StartRace
from app.core.events import RaceChanged
from app.core.models import ModelSettings

PLAN = RacePlan(
    model="m",
    candidates=[
        RaceCandidate(engine="a", name="A", version="1", is_installed=True, is_current=True),
        RaceCandidate(engine="b", name="B", download_bytes=80 << 20),
    ],
)
RESULT = RaceResult(
    model="m",
    engine_before="a",
    settings_before=ModelSettings(),
    settings=ModelSettings(engine="b"),
    winner="b",
    is_change=True,
    sentence="B is used from now on.",
    entries=[
        RaceEntry(engine="a", receipt="r1", e2e_s=1.0, ratio=Figure(value=1, low=1, high=1)),
        RaceEntry(engine="b", receipt="r2", e2e_s=0.5, ratio=Figure(value=0.5, low=0.4, high=0.6)),
        RaceEntry(engine="c", problem="It died."),
    ],
)


class PlayedService:
    """Answers as the gateway does, and remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[StartRace] = []
        self.result = RESULT

    def get(self, _path: str, _kind: Any, **_: object) -> RacePlan:  # noqa: ANN401 -- of every type
        return PLAN

    def post(self, _path: str, body: StartRace, _kind: Any, **_: object) -> RaceChanged:  # noqa: ANN401 -- as above
        self.requests.append(body)
        return RaceChanged(model=body.model, stage="Getting ready")

    def stream_events(self, *_: object, **__: object) -> Iterator[RaceChanged]:
        yield RaceChanged(model="m", stage="a: Warming up")
        yield RaceChanged(model="m", stage="Done", done=True, result=self.result)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> PlayedService:
    played_service = PlayedService()
    monkeypatch.setattr(command, "connect_gateway", lambda: played_service)
    return played_service


def call(*args: str, stdin: str = "") -> Result:
    return CliRunner().invoke(roundhouse, ["race", *args], input=stdin)


def test_the_table_the_sentence_and_the_way_back_are_shown(service: PlayedService) -> None:
    result = call("m")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()[1:4]] == ["a", "b", "c"]
    assert "0.50 (0.40 to 0.60)" in result.stdout
    assert "B is used from now on." in result.stdout
    assert "roundhouse tune m --unset engine" in result.stderr
    assert service.requests == [StartRace(model="m")]


def test_an_engine_that_cannot_run_the_model_is_refused_by_name(service: PlayedService) -> None:
    result = call("m", "--install", "b", "--install", "nope", "--yes")
    assert result.exit_code != 0
    assert "nope" in result.stderr
    assert "a, b" in result.stderr
    assert service.requests == []


def test_the_way_back_is_the_engine_that_was_set(service: PlayedService) -> None:
    before = ModelSettings(engine="a", flash_attention="off")
    service.result = msgspec.structs.replace(RESULT, settings_before=before)
    assert "roundhouse tune m --flash-attention off --engine a" in call("m").stderr
    service.result = msgspec.structs.replace(RESULT, is_change=False)
    assert "undo" not in call("m").stderr


def test_nothing_is_installed_before_a_person_agrees(service: PlayedService) -> None:
    refusal = call("m", "--install", "b", stdin="n\n")
    assert refusal.exit_code == 1
    assert "80.0 MiB" in refusal.stderr
    assert service.requests == []
    call("m", "--install", "b", stdin="y\n")
    call("m", "--install", "b", "--yes")
    assert [request.installs for request in service.requests] == [["b"], ["b"]]


def test_the_plan_alone_starts_nothing(service: PlayedService) -> None:
    result = call("m", "--plan")
    assert "not installed" in result.stdout
    assert json.loads(call("m", "--plan", "--json").stdout)["race_plan"]["model"] == "m"
    assert service.requests == []
