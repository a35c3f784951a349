"""How many tokens a question with files is, in the terminal."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import chat, main
from app.core.engines import EngineStatus
from app.core.tokens import estimate_text_tokens
from tests.gateway.admin.real_gateway import RealGateway


@pytest.fixture
def note(tmp_path: Path) -> Path:
    file = tmp_path / "note.txt"
    file.write_text("The boiler has 16 bar. " * 100)
    return file


@pytest.fixture(autouse=True)
def client(service: RealGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "connect_gateway", lambda: service.client)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main.roundhouse, ["run", *arguments])


def test_a_question_is_counted_with_its_files_and_nobody_is_asked(service: RealGateway, note: Path) -> None:
    result = run("heavy", "--file", str(note), "--system", "Be brief.", "--count", "--json", "How high?")
    assert result.exit_code == 0, result.output
    count = json.loads(result.stdout)["count"]
    assert count["is_estimate"]
    assert count["model"] == "heavy"
    assert 575 < count["tokens"] < 700
    assert count["tokens"] > estimate_text_tokens(note.read_text())
    assert "note.txt: about" in result.stderr
    assert "heavy" not in {status.model for status in service.client.get("/running", list[EngineStatus])}


def test_the_count_is_a_sentence_and_a_question_with_files_says_it_first(note: Path) -> None:
    result = run("quick", "--count", "How high?")
    assert result.stdout.startswith("The question is about 3 tokens")
    result = run("quick", "--file", str(note), "How high?")
    assert result.exit_code == 0, result.output
    assert "The question is " in result.stderr
    assert " tokens" in result.stderr
    assert "The question is" not in result.stdout


def test_what_cannot_be_counted_is_told() -> None:
    result = run("no-such-model", "--count", "How high?")
    assert result.exit_code != 0
    assert "no-such-model" in result.output
