"""What a hub said before is still there, and knows its age."""

import time
from pathlib import Path

import pytest

from app.core.hub import HubFound
from app.hub.repositories import answers
from app.hub.repositories.answers import FRESH_S, Answers

ONE = HubFound(repository="a/b", formats=["gguf"])


def test_an_answer_outlives_the_program(tmp_path: Path) -> None:
    Answers(tmp_path / "kept", HubFound).keep("what?", ONE)
    found = Answers(tmp_path / "kept", HubFound).find("what?")
    assert found is not None
    assert found.value == ONE
    assert found.is_fresh


def test_nothing_is_known_of_another_question(tmp_path: Path) -> None:
    kept = Answers(tmp_path, HubFound)
    kept.keep("what?", ONE)
    assert kept.find("who?") is None


def test_an_answer_grows_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Answers(tmp_path, HubFound)
    told = kept.keep("what?", ONE)
    monkeypatch.setattr(time, "time", lambda: told.at + FRESH_S + 1)
    found = kept.find("what?")
    assert found is not None
    assert not found.is_fresh
    assert found.age_s == pytest.approx(FRESH_S + 1)


def test_what_cannot_be_read_is_as_good_as_none(tmp_path: Path) -> None:
    Answers(tmp_path, HubFound).keep("what?", ONE)
    next(tmp_path.iterdir()).write_bytes(b"{")
    assert Answers(tmp_path, HubFound).find("what?") is None


def test_a_disk_that_refuses_costs_nothing_now(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    kept = Answers(tmp_path / "file" / "below", HubFound)
    kept.keep("what?", ONE)
    assert kept.find("what?") is not None


def test_the_oldest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST", 3)
    kept = Answers(tmp_path, HubFound)
    for number in range(6):
        kept.keep(str(number), ONE)
    assert len(list(tmp_path.iterdir())) == 3
