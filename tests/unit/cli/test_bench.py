"""`roundhouse bench` as a person uses it: what it asks the service for, and how it shows what comes of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from app.cli import bench as command
from app.cli.main import roundhouse
from app.core.benchmarks import (
    BenchmarkReceipt,
    BenchmarkSettings,
    LossResult,
    MeasureLoss,
    PredictionAccuracy,
    StartBenchmark,
    Workload,
)
from app.core.events import BenchmarkChanged
from tests.unit.benchmark.receipts import make_receipt

STEADY = (0.0100, 0.0101, 0.0099, 0.0100, 0.0102, 0.0098)
RECEIPT = make_receipt(STEADY, levels=(1, 4))


class PlayedService:
    """Answers as the gateway does, and remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[StartBenchmark] = []
        self.losses: list[MeasureLoss] = []
        self.deletions: list[str] = []
        self.end = BenchmarkChanged(model="m", stage="Done", done=True, receipt="abc")
        self.receipts = {"abc": RECEIPT}

    def get(self, path: str, _kind: Any, **_: object) -> Any:  # noqa: ANN401 -- of every type
        if path == "/benchmarks/job":
            return self.end
        if path == "/benchmarks/accuracy":
            return PredictionAccuracy(
                first_count=1, first_error=0.2, later_count=0, later_error=None, sentence="It was 20 % off."
            )
        if path.startswith("/benchmarks/"):
            return self.receipts[path.rpartition("/")[2]]
        return list(self.receipts.values())

    def post(self, _path: str, body: Any, _kind: Any, **_: object) -> Any:  # noqa: ANN401 -- as above
        if isinstance(body, MeasureLoss):
            self.losses.append(body)
            return LossResult(
                positions=48, kl_divergence=0.0123, same_likeliest=0.96, perplexity_before=8.1, perplexity=8.4
            )
        self.requests.append(body)
        return BenchmarkChanged(model=body.model, stage="Getting ready")

    def stream_events(self, *_: object, **__: object) -> Iterator[BenchmarkChanged]:
        yield BenchmarkChanged(model="m", stage="Warming up")
        yield self.end

    def delete(self, path: str) -> None:
        self.deletions.append(path)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> PlayedService:
    played_service = PlayedService()
    monkeypatch.setattr(command, "connect_gateway", lambda: played_service)
    return played_service


def call(*args: str) -> Result:
    return CliRunner().invoke(roundhouse, ["bench", *args])


def test_a_model_is_measured_and_every_level_is_a_line(service: PlayedService) -> None:
    result = call("m", "--concurrency", "4,1", "--workload", "rag", "--price", "0.3")
    assert result.exit_code == 0
    (request,) = service.requests
    assert request == StartBenchmark(
        model="m", settings=BenchmarkSettings(workload=Workload.RAG, concurrency=[1, 4], price_kwh=0.3)
    )
    assert "Warming up" in result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines() if "tok/s" in line] == ["1", "4"]
    assert "Kept as abc." in result.stdout


def test_a_sweep_ends_where_no_more_is_written(service: PlayedService) -> None:
    call("m", "--concurrency", "1,2,4,8", "--stop-saturated")
    (request,) = service.requests
    assert (request.settings.concurrency, request.settings.stops_saturated) == ([1, 2, 4, 8], True)


def test_an_address_is_measured_with_its_key_and_the_name_it_has_there(service: PlayedService) -> None:
    call("http://127.0.0.1:9", "--served-name", "theirs", "--key", "k")
    (request,) = service.requests
    assert (request.url, request.model, request.key) == ("http://127.0.0.1:9", "theirs", "k")


def test_what_json_prints_can_be_compared_and_run_again(service: PlayedService, tmp_path: Path) -> None:
    file = tmp_path / "receipt.json"
    file.write_text(call("m", "--json").stdout)
    assert json.loads(file.read_text())["benchmark"]["id"] == "abc"
    comparison = call("--compare", str(file), "abc", "--json")
    assert {part["name"] for part in json.loads(comparison.stdout)["comparison"]["figures"]} >= {"TTFT", "TPOT"}
    service.receipts["abc"] = make_receipt([part * 2 for part in STEADY], levels=(1, 4), engine="openvino")
    again = call("--replay", str(file))
    assert service.requests[-1].settings == RECEIPT.settings
    assert "engine: llama.cpp -> openvino" in again.stdout
    assert "worse" in again.stdout


def test_two_results_are_one_report_and_one_table(service: PlayedService, tmp_path: Path) -> None:
    file = tmp_path / "both.html"
    service.receipts["other"] = make_receipt(STEADY, levels=(1, 4), engine="openvino")
    assert "The report is in" in call("--compare", "abc", "other", "--html", str(file)).stderr
    page = file.read_text(encoding="utf-8")
    assert "llama.cpp" in page
    assert "openvino" in page
    rows = call("--compare", "abc", "other", "--markdown").stdout.splitlines()
    assert len(rows) == 2 + 2 * 2
    assert "cannot be written" in call("--show", "abc", "--html", str(tmp_path / "gone" / "a.html")).stderr


def test_a_run_that_is_refused_ends_with_its_sentence(service: PlayedService) -> None:
    service.end = BenchmarkChanged(
        model="m", stage="Ended", done=True, error="It was disturbed.", code="benchmark_disturbed"
    )
    result = call("m")
    assert result.exit_code == 1
    assert "It was disturbed." in result.stderr
    assert "--keep-disturbed" in result.stderr
    assert json.loads(call("m", "--json").stdout)["error"]["code"] == "benchmark_disturbed"


def test_results_are_listed_shown_forgotten_and_reported(service: PlayedService, tmp_path: Path) -> None:
    assert "abc" in call("--list", "m").stdout
    assert call("--show", "abc", "--markdown").stdout.startswith("| model |")
    page = tmp_path / "report.html"
    call("--show", "abc", "--html", str(page))
    assert "<svg" in page.read_text()
    call("--forget", "abc")
    assert service.deletions == ["/benchmarks/abc"]
    service.receipts.clear()
    assert "Nothing has been measured" in call("--list").stdout


def test_a_result_is_written_as_another_program_writes_its_own(service: PlayedService, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    result = call("--show", "abc", "--format", "vllm", "--output", str(file))
    assert result.stdout == ""
    assert [json.loads(line)["max_concurrency"] for line in file.read_text().splitlines()] == [1, 4]
    assert json.loads(call("--show", "abc", "--format", "llama-bench").stdout)[0]["n_prompt"] == 100
    assert service.requests == []


def test_a_format_holds_one_result_and_its_file_must_be_writable(service: PlayedService, tmp_path: Path) -> None:
    assert "holds one result" in call("m", "n", "--format", "vllm").stderr
    assert len(service.requests) == 2
    nowhere = str(tmp_path / "gone" / "a.json")
    assert "cannot be written" in call("--show", "abc", "--format", "vllm", "--output", nowhere).stderr
    assert call("--show", "abc", "--output", nowhere).exit_code == 2
    assert call("--show", "abc", "--format", "csv").exit_code == 2


@pytest.mark.parametrize(
    "args", [[], ["m", "--concurrency", "0"], ["m", "--concurrency", "a"], ["m", "--rounds", "1"], ["--compare", "a"]]
)
def test_mistakes_are_usage_errors(service: PlayedService, args: list[str]) -> None:
    assert call(*args).exit_code == 2
    assert service.requests == []


def test_own_prompts_are_read_from_a_file(service: PlayedService, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "Hi", "max_tokens": 7}\n\n{"messages": [{"role": "user", "content": "Ho"}]}\n')
    assert call("m", "--prompts", str(file)).exit_code == 0
    (request,) = service.requests
    assert request.settings.workload is Workload.FILE
    assert [(prompt.messages[0].content, prompt.answer_tokens) for prompt in request.prompts] == [
        ("Hi", 7),
        ("Ho", 128),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no prompts"),
        ("{", "line 1 is wrong"),
        ("[]", "line 1 is wrong"),
        ('{"prompt": "a"}\n{"text": "b"}', "line 2 has neither"),
        ('{"prompt": 5}', "line 1 is wrong"),
        ('{"prompt": "a", "max_tokens": 0}', "line 1 is wrong"),
    ],
)
def test_a_line_that_is_wrong_is_named(service: PlayedService, tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(text)
    result = call("m", "--prompts", str(file))
    assert result.exit_code == 2
    assert words in result.stderr
    assert service.requests == []


def test_a_file_without_a_receipt_is_refused(service: PlayedService, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"benchmark": 1}')
    result = call("--compare", str(file), str(file))
    assert result.exit_code == 2
    assert "holds no result" in result.stderr
    assert "cannot be read" in call("--compare", str(tmp_path / "gone.json"), "abc").stderr
    assert service.requests == []


def test_a_receipt_alone_in_a_file_is_read_too(service: PlayedService, tmp_path: Path) -> None:
    file = tmp_path / "receipt.json"
    file.write_bytes(msgspec.json.encode(RECEIPT))
    assert call("--compare", str(file), "abc").exit_code == 0
    assert msgspec.json.decode(file.read_bytes(), type=BenchmarkReceipt) == service.receipts["abc"]


def test_the_loss_of_a_quantisation_is_told_against_a_larger_one(service: PlayedService) -> None:
    result = call("small", "--loss", "large")
    assert result.exit_code == 0
    assert service.losses == [MeasureLoss(model="small", reference="large")]
    assert "KL divergence 0.0123 (mean over 48 places" in result.stdout
    assert "96 %" in result.stdout
    assert "Perplexity 8.40, of the larger 8.10" in result.stdout
    assert call("--loss", "large").exit_code != 0
    assert call("small", "--loss").exit_code == 0
    assert service.losses[-1] == MeasureLoss(model="small"), "the service chooses"
    assert json.loads(call("small", "--loss", "large", "--json").stdout)["loss"]["positions"] == 48


def test_a_list_says_how_far_predictions_were_off(service: PlayedService) -> None:
    result = call("--list")
    assert service.receipts
    assert result.exit_code == 0
    assert "It was 20 % off." in result.stderr
