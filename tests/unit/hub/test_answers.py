"""What a hub said before is still there, and knows its age."""

import time
from pathlib import Path

import pytest

from app.core.hub import HubSearchHit
from app.hub.repositories import answers
from app.hub.repositories.answers import FRESH_S, HubAnswerCache

ONE = HubSearchHit(repository="a/b", formats=["gguf"])


def test_an_answer_outlives_the_program(tmp_path: Path) -> None:
    HubAnswerCache(tmp_path / "kept", HubSearchHit).keep_answer("what?", ONE)
    answer = HubAnswerCache(tmp_path / "kept", HubSearchHit).find_answer("what?")
    assert answer is not None
    assert answer.value == ONE
    assert answer.is_fresh


def test_nothing_is_known_of_another_question(tmp_path: Path) -> None:
    cache = HubAnswerCache(tmp_path, HubSearchHit)
    cache.keep_answer("what?", ONE)
    assert cache.find_answer("who?") is None


def test_an_answer_grows_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = HubAnswerCache(tmp_path, HubSearchHit)
    kept_answer = cache.keep_answer("what?", ONE)
    monkeypatch.setattr(time, "time", lambda: kept_answer.at + FRESH_S + 1)
    answer = cache.find_answer("what?")
    assert answer is not None
    assert not answer.is_fresh
    assert answer.age_s == pytest.approx(FRESH_S + 1)


def test_what_cannot_be_read_is_as_good_as_none(tmp_path: Path) -> None:
    HubAnswerCache(tmp_path, HubSearchHit).keep_answer("what?", ONE)
    next(tmp_path.iterdir()).write_bytes(b"{")
    assert HubAnswerCache(tmp_path, HubSearchHit).find_answer("what?") is None


def test_a_disk_that_refuses_costs_nothing_now(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = HubAnswerCache(tmp_path / "file" / "below", HubSearchHit)
    cache.keep_answer("what?", ONE)
    assert cache.find_answer("what?") is not None


def test_the_oldest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST", 3)
    cache = HubAnswerCache(tmp_path, HubSearchHit)
    for number in range(6):
        cache.keep_answer(str(number), ONE)
    assert len(list(tmp_path.iterdir())) == 3
