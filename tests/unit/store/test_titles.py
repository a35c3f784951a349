import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.store.rows import MAX_TITLE, UNTITLED, title_from


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("Why is it slow?", "Why is it slow?"),
        ("\n\n  # Heading  here\nrest", "Heading here"),
        ("", UNTITLED),
        (" \n\t\n", UNTITLED),
        ("word " * 20, "word " * 11 + "word…"),
        ("x" * 100, "x" * 59 + "…"),
        ("I " + "x" * 100, "I…"),
        ("x" * 60, "x" * 60),
        ("x" * 59 + " y", "x" * 59 + "…"),
        ("Ünïcödé 🎉\u2028second line", "Ünïcödé 🎉"),
    ],
)
def test_the_title_is_the_first_line_cut_at_a_word(question: str, title: str) -> None:
    assert title_from(question) == title


@given(st.text(max_size=300))
def test_a_title_is_one_short_line_with_something_on_it(question: str) -> None:
    title = title_from(question)
    assert 0 < len(title) <= MAX_TITLE
    assert len(title.splitlines()) == 1
