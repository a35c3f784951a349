"""The network that says which entry a question means."""

import msgspec
import pytest

from app.guide.entries import load_entries
from app.guide.recogniser import BUCKETS, Recogniser, RecogniserHead, list_features, read_recogniser
from tests.unit.test_layout import ROOT

GUIDE = ROOT / "resources" / "guide"
MOST_BYTES = 8_000_000


def make_file(entries: list[str], learnt: bytes) -> bytes:
    """Return a file of one learnt figure, one hidden one and no word of a known meaning."""
    head = RecogniserHead(entries=entries, words=["slow"], learnt=1, meaning=1, hidden=1, scales=[1.0, 1.0, 1.0, 1.0])
    text = msgspec.json.encode(head)
    weights = learnt + bytes([0]) + bytes([1, 0]) + bytes([1, 0][: len(entries)]) + bytes([255])
    return len(text).to_bytes(4, "little") + text + weights + bytes(4 * (1 + len(entries)))


def test_what_was_learnt_of_a_word_leads_to_its_entry() -> None:
    ((bucket, _), *_) = list_features(["memory"])
    learnt = bytearray(BUCKETS)
    learnt[bucket] = 100
    recogniser = Recogniser(make_file(["memory", "other"], bytes(learnt)))
    likely = recogniser.judge("Memory?")
    assert likely["memory"] > 0.99
    assert sum(likely.values()) == pytest.approx(1)
    assert recogniser.judge("")["memory"] == pytest.approx(0.5)


def test_a_file_that_is_cut_off_is_refused() -> None:
    with pytest.raises(ValueError, match="cut off"):
        Recogniser(make_file(["a", "b"], bytes(BUCKETS))[:-1000])
    with pytest.raises(ValueError, match=r".+"):
        Recogniser(b"")


def test_the_shares_of_a_question_are_of_length_one_whatever_it_says() -> None:
    for words in (["slow"], ["{model}", "slow"], ["a"], ["x" * 4000]):
        assert sum(share * share for _, share in list_features(words)) == pytest.approx(1)
    assert list_features([]) == []


def test_the_file_that_comes_along_is_of_the_entries_and_small() -> None:
    assert (GUIDE / "recogniser.bin").stat().st_size <= MOST_BYTES
    known_judgement = read_recogniser(GUIDE).judge("how do i attach a pdf")
    assert set(known_judgement) == {entry.id for entry in load_entries(GUIDE)}
    assert max(known_judgement, key=known_judgement.__getitem__) == "attach-file"
