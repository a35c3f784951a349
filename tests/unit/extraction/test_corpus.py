"""Three hundred and more broken and hostile files: each is read, or refused in a sentence, within the limits."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.config.programs import child_environment
from app.extraction.program import CPU_S
from tests.file_corpus import WORDS, CorpusFile, read_corpus

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="nothing forks there"),
    pytest.mark.timeout(600),  # a busy machine takes minutes for what takes a quiet one twenty seconds
]
ROOT = Path(__file__).resolve().parents[3]
MAY_DIE = frozenset({"cells far apart"})
"""What a library answers by ending its process: the service tells it as a file that takes too much."""

Outcome = Mapping[str, object]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[CorpusFile, Outcome]]:
    folder = tmp_path_factory.mktemp("corpus")
    run_module("tests.file_corpus", folder)
    return list(zip(read_corpus(folder), map(json.loads, run_module("tests.extraction_batch", folder)), strict=True))


def run_module(name: str, folder: Path) -> list[str]:
    argv = [sys.executable, "-m", name, str(folder)]
    process = subprocess.run(argv, cwd=ROOT, env=child_environment(), stdout=subprocess.PIPE, text=True, check=True)
    return process.stdout.splitlines()


def test_the_corpus_is_large_and_of_many_kinds(outcomes: list[tuple[CorpusFile, Outcome]]) -> None:
    kinds = [file.kind for file, _ in outcomes]
    assert len(kinds) - kinds.count("whole") >= 300
    assert len(set(kinds)) >= 70


def test_every_file_is_read_or_refused_in_a_sentence(outcomes: list[tuple[CorpusFile, Outcome]]) -> None:
    wrong = [
        (file.name, file.kind, outcome)
        for file, outcome in outcomes
        if not ("died" in outcome and file.kind in MAY_DIE)
        and outcome.get("type") != "extraction"
        and not (str(outcome.get("sentence", "")).endswith(".") and outcome.get("hint"))
    ]
    assert not wrong


def test_what_is_whole_is_read(outcomes: list[tuple[CorpusFile, Outcome]]) -> None:
    for file, outcome in outcomes:
        if file.kind == "whole":
            assert outcome["type"] == "extraction", (file.name, outcome)
            assert outcome["kind"] in {"picture", "sound", "pages"} or WORDS in str(outcome["text"]), file.name
        elif file.kind.endswith("by another name"):
            assert outcome["type"] == "extraction", (file.kind, outcome)


def test_known_attacks_are_refused_for_what_they_are(outcomes: list[tuple[CorpusFile, Outcome]]) -> None:
    wrong = [
        (file.name, file.kind, file.codes, outcome)
        for file, outcome in outcomes
        if file.codes and outcome.get("code") not in file.codes
    ]
    assert not wrong


def test_no_file_brings_another_files_contents_along(outcomes: list[tuple[CorpusFile, Outcome]]) -> None:
    assert not [file.kind for file, outcome in outcomes if "root:" in str(outcome.get("text", ""))]


def test_no_file_takes_more_than_a_part_of_the_time_there_is(outcomes: list[tuple[CorpusFile, Outcome]]) -> None:
    slow = [
        (file.name, file.kind, outcome["cpu_s"])
        for file, outcome in outcomes
        if float(str(outcome["cpu_s"])) > CPU_S / 2
    ]
    assert not slow
