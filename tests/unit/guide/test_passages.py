"""Which passage of the manual answers a question, and when none does."""

import pytest

from app.core.documents import Passage
from app.guide.passages import PassageScorer

TEXTS = {
    "Fleets": "A router decides which replica of a model answers.",
    "Keys": "A key is revoked on the Server page.",
    "Projectors": "A projector lets a model see images. It is loaded with the model.",
    "Drafts": "A draft model speeds a model up.",
}


def passage(heading: str) -> Passage:
    text = TEXTS[heading]
    return Passage(collection="", file="", path="guide/x.md", text=text, start=0, end=len(text), heading=heading)


@pytest.fixture(name="scorer")
def fixture_scorer() -> PassageScorer:
    return PassageScorer([f"{heading}\n{text}" for heading, text in TEXTS.items()] * 20)


def heading_of(scorer: PassageScorer, question: str) -> str:
    best = scorer.choose(question, [passage(heading) for heading in TEXTS])
    return best.heading if best else ""


def test_the_passage_with_most_of_a_question_is_chosen(scorer: PassageScorer) -> None:
    assert heading_of(scorer, "which replica of a fleet does the router take") == "Fleets"
    assert heading_of(scorer, "so which images does the projector take pls") == "Projectors"


@pytest.mark.parametrize(
    "question",
    ["", "?", "how is it", "fleets of trucks in norway", "a model of a router", "projector for gmail", "bake a cake"],
)
def test_a_question_of_which_little_is_in_any_passage_has_none(scorer: PassageScorer, question: str) -> None:
    assert heading_of(scorer, question) == ""


def test_no_passage_answers_nothing(scorer: PassageScorer) -> None:
    assert scorer.choose("which replica of a fleet", []) is None
