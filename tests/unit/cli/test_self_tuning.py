"""`roundhouse tune MODEL --measure` as a person uses it: what it asks for, the table, and the way back."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from app.cli import tuning as command
from app.cli.main import roundhouse
from app.core.benchmarks import StartTune, TuneResult
from app.core.events import TuneChanged
from app.core.models import ModelSettings
from tests.demo.benchmarks import TUNING_RESULT


class PlayedService:
    """Answers as the gateway does, and remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[StartTune] = []
        self.end = TuneChanged(model="m", stage="Done", done=True, result=TUNING_RESULT)

    def post(self, _path: str, body: StartTune, _kind: Any, **_: object) -> TuneChanged:  # noqa: ANN401 -- of every type
        self.requests.append(body)
        return TuneChanged(model=body.model, stage="Getting ready")

    def stream_events(self, *_: object, **__: object) -> Iterator[TuneChanged]:
        yield TuneChanged(model="m", stage="Trying threads 6")
        yield self.end


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> PlayedService:
    played_service = PlayedService()
    monkeypatch.setattr(command, "connect_gateway", lambda: played_service)
    return played_service


def run_tune(*arguments: str) -> Result:
    return CliRunner().invoke(roundhouse, ["tune", "m", "--measure", *arguments])


def test_it_asks_for_the_time_workload_and_loss_that_are_named(service: PlayedService) -> None:
    result = run_tune("--minutes", "5", "--workload", "rag", "--kv-loss", "0.01", "--keep-disturbed")
    assert result.exit_code == 0
    (request,) = service.requests
    assert (request.model, request.workload, request.duration_s) == ("m", "rag", 300)
    assert (request.most_loss, request.keeps_disturbed) == (0.01, True)
    run_tune()
    assert (service.requests[1].duration_s, service.requests[1].most_loss) == (120, None)


def test_the_table_says_what_was_tried_and_how_to_undo_it(service: PlayedService) -> None:
    result = run_tune()
    assert "threads 6" in result.stdout
    assert "0.88 (0.86 to 0.91)" in result.stdout
    assert "Whole answer: 5.80 s before, 5.10 s now" in result.stdout
    assert "used from the next load on" in result.stdout
    assert "roundhouse tune m --unset threads" in result.stderr
    settings = ModelSettings(threads=8)
    service.end = msgspec.structs.replace(
        service.end, result=msgspec.structs.replace(TUNING_RESULT, settings_before=settings)
    )
    assert "roundhouse tune m --threads 8" in run_tune().stderr


def test_a_disturbed_one_says_that_nothing_was_changed(service: PlayedService) -> None:
    disturbed_result = msgspec.structs.replace(TUNING_RESULT, is_change=False, disturbances=["Others were busy."])
    service.end = msgspec.structs.replace(service.end, result=disturbed_result)
    result = run_tune()
    assert "Others were busy. Nothing was changed." in result.stdout
    assert "To undo" not in result.stderr


def test_json_is_the_result_and_a_failure_its_sentence(service: PlayedService) -> None:
    document = json.loads(run_tune("--json").stdout)
    assert msgspec.convert(document["tuning"], TuneResult) == TUNING_RESULT
    service.end = TuneChanged(model="m", stage="Ended", done=True, error="It was disturbed.", code="x")
    failed_run = run_tune()
    assert failed_run.exit_code != 0
    assert "It was disturbed." in failed_run.output
