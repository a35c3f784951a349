"""Texts in passages: whole together, short enough, cut at the best places."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.documents.splitting import PASSAGE_SIZES, split_text

TEXTS = st.lists(
    st.one_of(
        st.text(alphabet="ab é日。.!? \t", max_size=400),
        st.sampled_from(["# Heading", "## Second", "", "", "[Page 3]", "x" * 2000, "word " * 300]),
    ),
    max_size=30,
).map("\n".join)


@given(text=TEXTS, is_marked_up=st.booleans())
def test_every_character_is_in_a_passage_and_none_is_too_long(text: str, *, is_marked_up: bool) -> None:
    chunks = split_text(text, is_marked_up=is_marked_up)

    inside = set()
    for chunk in chunks:
        assert 0 < chunk.end - chunk.start <= PASSAGE_SIZES.most
        inside |= set(range(chunk.start, chunk.end))
    assert all(at in inside or character.isspace() for at, character in enumerate(text))
    assert [chunk.start for chunk in chunks] == sorted({chunk.start for chunk in chunks})
    assert [chunk.end for chunk in chunks] == sorted({chunk.end for chunk in chunks})


def test_a_short_text_is_one_passage() -> None:
    assert [(chunk.start, chunk.end) for chunk in split_text("One line.\n\nAnother.")] == [(0, 19)]


def test_cuts_are_between_paragraphs() -> None:
    paragraphs = [f"{number}. " + "Some words of it. " * 20 for number in range(12)]
    text = "\n\n".join(paragraphs)

    chunks = split_text(text)

    assert len(chunks) > 3
    assert all(text.startswith("\n\n", chunk.end) or chunk.end == len(text) for chunk in chunks)


def test_a_passage_repeats_the_end_of_the_one_before() -> None:
    text = "\n".join(f"Line {number} says little." for number in range(200))

    first, second = split_text(text)[:2]

    assert first.end - PASSAGE_SIZES.overlap - 1 <= second.start < first.end


def test_headings_begin_passages_and_are_told_with_them() -> None:
    text = f"# Trains\n\n{'Steam. ' * 60}\n\n## Brakes\n\n{'Air. ' * 100}\n\n# Ships\n\nSails."

    chunks = split_text(text, is_marked_up=True)

    assert [chunk.heading for chunk in chunks] == ["Trains", "Trains > Brakes", "Ships"]
    assert text[chunks[1].start :].startswith("## Brakes")


def test_a_comment_in_a_program_is_no_heading() -> None:
    assert [chunk.heading for chunk in split_text("# set up\nx = 1")] == [""]


def test_pages_are_known_by_their_marks() -> None:
    page = "Words of a page. " * 80
    text = f"[Page 1]\n{page}\n\n[Page 2]\n{page}"

    chunks = split_text(text, is_marked_up=True)

    assert chunks[0].page == 1
    assert chunks[-1].page == 2


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("piece", ["x", "x ", "x. ", "日", "# a\n", "\n", ". "])
def test_twice_the_text_takes_about_twice_as_long(piece: str) -> None:
    def cost(length: int) -> float:
        text = piece * (length // len(piece))
        return min(_processor_time(text) for _ in range(3))

    assert cost(400_000) < 5 * cost(200_000) + 0.02


def _processor_time(text: str) -> float:
    began = time.process_time()
    split_text(text, is_marked_up=True)
    return time.process_time() - began
