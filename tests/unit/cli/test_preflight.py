"""`roundhouse preflight` as a person uses it: one tool in a sentence, all in a table, and a measurement."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.cli import preflight as command
from app.cli.main import roundhouse
from app.core.benchmarks import BenchmarkReceipt, StartBenchmark, Workload
from app.core.events import BenchmarkChanged
from tests.demo.tools import PREFLIGHTS
from tests.unit.benchmark.receipts import make_receipt


class PlayedService:
    """Answers as the gateway does, and remembers what it was asked."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.requests: list[StartBenchmark] = []

    def get(self, path: str, kind: Any, **_: object) -> Any:  # noqa: ANN401 -- of every type
        self.paths.append(path)
        return make_receipt([0.1] * 3) if kind is BenchmarkReceipt else PREFLIGHTS

    def post(self, _path: str, body: StartBenchmark, _kind: Any, **_: object) -> BenchmarkChanged:  # noqa: ANN401 -- as above
        self.requests.append(body)
        return BenchmarkChanged(model=body.model, stage="Getting ready")

    def stream_events(self, *_: object, **__: object) -> Iterator[BenchmarkChanged]:
        yield BenchmarkChanged(model="m", stage="Done", done=True, receipt="abc")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> PlayedService:
    played_service = PlayedService()
    monkeypatch.setattr(command, "connect_gateway", lambda: played_service)
    return played_service


def run_preflight(*arguments: str) -> Result:
    return CliRunner().invoke(roundhouse, ["preflight", *arguments])


def test_one_tool_is_a_sentence_and_all_are_a_table(service: PlayedService) -> None:
    assert run_preflight("claude-code", "org/m:q4").stdout.startswith("Claude Code begins with")
    assert service.paths == ["/preflights?tool=claude-code&model=org%2Fm%3Aq4"]
    table = run_preflight().stdout
    assert table.startswith(f"Model: {PREFLIGHTS[0].model}\n")
    assert "FIRST ANSWER" in table
    assert "set to 16384" in table
    assert "97 of 100 calls valid" in table
    assert "measured" in table
    assert "predicted" in table


def test_measuring_sends_a_prompt_of_that_tools_size_and_asks_again(service: PlayedService) -> None:
    assert run_preflight("claude-code", "m", "--measure", "--keep-disturbed").exit_code == 0
    (request,) = service.requests
    assert (request.settings.workload, request.settings.tool) == (Workload.TOOL, "claude-code")
    assert request.keeps_disturbed
    assert len([path for path in service.paths if path.startswith("/preflights")]) == 2
    assert run_preflight("--measure").exit_code != 0


@pytest.mark.usefixtures("service")
def test_json_has_every_figure() -> None:
    document = json.loads(run_preflight("--json").stdout)
    assert document["preflights"][0]["prompt_tokens"] == PREFLIGHTS[0].prompt_tokens
