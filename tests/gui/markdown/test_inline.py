"""Styled text: positions as Qt counts them, nothing interpreted that could reach outside."""

import pytest

from app.gui.markdown.pieces import (
    MarkdownPiece,
    PieceKind,
    RichText,
    StyleSpan,
    TextStyle,
    close_open_marks,
    rich_of,
    table_of,
)


def rich(source: str) -> RichText:
    return rich_of(MarkdownPiece(kind=PieceKind.TEXT, source=source))


def test_styles_nest() -> None:
    text = rich("a **b *c*** `d` ~~e~~")
    assert text.text == "a b c d e"
    assert [(span.start, span.length, span.style) for span in text.spans] == [
        (2, 2, TextStyle.BOLD),
        (4, 1, TextStyle.BOLD | TextStyle.ITALIC),
        (6, 1, TextStyle.CODE),
        (8, 1, TextStyle.STRIKE),
    ]


def test_positions_count_utf16_units() -> None:
    text = rich("𝄞🚂 **b**")
    assert text.spans == (StyleSpan(5, 1, TextStyle.BOLD),)


def test_html_is_text_and_an_image_is_a_link_to_it() -> None:
    assert rich("<script>alert(1)</script>").text == "<script>alert(1)</script>"
    text = rich("![a cat](https://example.org/cat.png)")
    assert (text.text, text.spans[0].link) == ("a cat", "https://example.org/cat.png")


def test_breaks() -> None:
    assert rich("one\ntwo  \nthree<br>four").text == "one two\u2028three\u2028four"


def test_literal_text_is_left_alone() -> None:
    assert rich_of(MarkdownPiece(kind=PieceKind.TEXT, source="*a*\nb", is_literal=True)) == RichText("*a*\u2028b")


@pytest.mark.parametrize(
    ("source", "expected_source"), [("a **b", "a **b**"), ("a `b", "a `b`"), ("a **", "a "), ("**a** b", "**a** b")]
)
def test_what_is_open_at_the_end_is_closed(source: str, expected_source: str) -> None:
    assert close_open_marks(source) == expected_source


def test_a_table_has_rows_and_alignments() -> None:
    table = table_of(MarkdownPiece(kind=PieceKind.TABLE, source="| a | b |\n|:--|--:|\n| **1** | x |\n| 2 |"))
    assert table.aligns == ("left", "right")
    assert [[cell.text for cell in row] for row in table.rows] == [["a", "b"], ["1", "x"], ["2", ""]]
